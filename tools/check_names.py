#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the names of files and folders, and that every source opens with its licence.

  tools/check_names.py [ROOT]
"""
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from source_tree import project_files  # noqa: E402

# Words that say nothing about what a file holds. cache_manager is a term of the design.
FORBIDDEN = {"util", "utils", "common", "misc", "helper", "helpers", "manager", "legacy", "new", "v2", "impl"}
ALLOWED_STEMS = {"cache_manager", "cache_manager_test"}
DATA = ("models/", "tests/data/")  # names that come from elsewhere, and no sources
LICENSED = (".h", ".cc", ".cu", ".cuh", ".cmake", ".py", ".sh", "CMakeLists.txt", "Makefile", ".ci/run")
LICENCE = "SPDX-License-Identifier: Apache-2.0"


def name_errors(path):
    for part in path.split("/"):
        stem = part.split(".")[0]
        if stem in ALLOWED_STEMS:
            continue
        for word in re.split(r"[_.\-]", part.lower()):
            if word in FORBIDDEN:
                yield f"{path}: name: \"{word}\" says nothing about the contents"


def licence_errors(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as lines:
        opening = [next(lines, ""), next(lines, "")]
    # A script's first line is its interpreter.
    first = opening[1] if opening[0].startswith("#!") else opening[0]
    if LICENCE not in first:
        yield f"{path}:1: licence: the first line must hold \"{LICENCE}\""


def check(root):
    errors = []
    for path in project_files(root):
        if path.startswith(DATA):
            continue
        errors.extend(name_errors(path))
        if path.endswith(LICENSED):
            errors.extend(licence_errors(root, path))
    return errors


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    errors = check(root)
    for error in errors:
        print(error)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
