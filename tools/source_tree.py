# SPDX-License-Identifier: Apache-2.0
"""The files of the project: tracked ones and new ones that git does not ignore; without git, all but build output.

As a program: prints those with one of the given suffixes, one a line."""
import os
import subprocess
import sys

SKIPPED_FOLDERS = {"build", ".git", ".venv", "__pycache__"}


def _walk(root):
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(f for f in folders if f not in SKIPPED_FOLDERS)
        for name in sorted(names):
            yield os.path.relpath(os.path.join(folder, name), root)


def project_files(root):
    """Paths relative to `root`, sorted, existing."""
    if os.path.exists(os.path.join(root, ".git")):
        command = ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listing = subprocess.run(command, capture_output=True)
        if listing.returncode == 0:
            paths = {p for p in listing.stdout.decode().split("\0") if p}
            return sorted(p for p in paths if os.path.isfile(os.path.join(root, p)))
    return sorted(_walk(root))


def main():
    suffixes = tuple(sys.argv[1:])
    for path in project_files("."):
        if path.endswith(suffixes):
            print(path)


if __name__ == "__main__":
    main()
