#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sums up which lines of src/ the tests of a coverage build have reached, by folder.

  tools/coverage.py build/coverage [--files]      --files lists each file, least covered first
"""
import collections
import json
import os
import subprocess
import sys


def counters(build):
    for folder, _, names in os.walk(build):
        for name in names:
            if name.endswith(".gcda"):
                yield os.path.abspath(os.path.join(folder, name))


def reached_lines(build, root):
    """{path relative to root: {line: reached}}, product sources only."""
    lines = collections.defaultdict(dict)
    for counter in counters(build):
        output = subprocess.run(["gcov", "--json-format", "--stdout", counter], capture_output=True, check=True,
                                cwd=os.path.dirname(counter)).stdout
        for document in filter(None, output.decode().split("\n")):
            for entry in json.loads(document)["files"]:
                path = os.path.relpath(os.path.join(os.path.dirname(counter), entry["file"]), root)
                if not path.startswith("src/"):
                    path = os.path.relpath(os.path.normpath(os.path.join(build, entry["file"])), root)
                if path.startswith("src/") and not path.endswith("_test.cc"):
                    for line in entry["lines"]:
                        number = line["line_number"]
                        lines[path][number] = lines[path].get(number, False) or line["count"] > 0
    return lines


def report(title, counted):
    for name, (hit, total) in counted:
        print(f"{100 * hit / total:6.1f} %  {hit:6d} of {total:6d}  {name}")
    hit, total = (sum(pair[i] for _, pair in counted) for i in (0, 1))
    print(f"{100 * hit / max(total, 1):6.1f} %  {hit:6d} of {total:6d}  {title}")


def main():
    build = os.path.abspath(sys.argv[1])
    lines = reached_lines(build, os.getcwd())
    files = {path: (sum(found.values()), len(found)) for path, found in lines.items() if found}
    if "--files" in sys.argv:
        report("all files", sorted(files.items(), key=lambda item: item[1][0] / item[1][1]))
        return
    folders = collections.defaultdict(lambda: (0, 0))
    for path, (hit, total) in files.items():
        before = folders[os.path.dirname(path)]
        folders[os.path.dirname(path)] = (before[0] + hit, before[1] + total)
    report("src", sorted(folders.items()))


if __name__ == "__main__":
    main()
