#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Refuses sources that have grown beyond reading.

  tools/check_sizes.py [ROOT]

A file, function or folder above its limit is split, or entered in tools/size_exceptions.txt with the reason.
"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cpp_outline import outline  # noqa: E402
from source_tree import project_files  # noqa: E402

CODE = ("src/", "tests/", "bench/", "eval/", "examples/")
SUFFIXES = (".h", ".cc", ".cu", ".cuh")
FUNCTION_LIMIT = {"host": 60, "device": 100, "global": 150}
PARAMETER_LIMIT = 6
METHOD_LIMIT = 10
FOLDER_LIMIT = 25
FOLDER_LIMITS = {"src/base": 20}
EXCEPTIONS = "tools/size_exceptions.txt"


def file_limit(path):
    if path.endswith(".cuh"):
        return 700
    # An algorithm compiled once per instruction set is a source by its nature.
    if path.endswith(".h") and not path.endswith(".inl.h"):
        return 400
    return 600


def read_exceptions(root):
    """{"path" or "path:function": limit}; each line: key, limit, reason."""
    exceptions = {}
    path = os.path.join(root, EXCEPTIONS)
    if not os.path.exists(path):
        return exceptions, []
    errors = []
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip() or line.startswith("#"):
                continue
            parts = line.split(None, 2)
            if len(parts) < 3 or not parts[1].isdigit():
                errors.append(f"{EXCEPTIONS}:{number}: needs a path, a limit and a reason")
            else:
                exceptions[parts[0]] = int(parts[1])
    return exceptions, errors


class Sizes:
    def __init__(self, exceptions):
        self.exceptions = exceptions
        self.used = set()
        self.errors = []

    def measure(self, where, key, what, size, limit):
        if size <= limit:
            return
        allowed = self.exceptions.get(key)
        if allowed is not None:
            self.used.add(key)
            limit = allowed
        if size > limit:
            self.errors.append(f"{where}: {what}: {size}, at most {limit}")

    def file(self, root, path):
        with open(os.path.join(root, path), encoding="utf-8", errors="replace") as handle:
            source = handle.read()
        self.measure(f"{path}:1", path, "lines of the file", source.count("\n"), file_limit(path))
        found = outline(source)
        for function in found.functions:
            where, key = f"{path}:{function.line}", f"{path}:{function.name}"
            self.measure(where, key, f"lines of {function.name}", function.body_lines, FUNCTION_LIMIT[function.space])
            self.measure(where, key, f"parameters of {function.name}", function.parameters, PARAMETER_LIMIT)
        for interface in found.interfaces:
            self.measure(f"{path}:{interface.line}", f"{path}:{interface.name}", f"methods of {interface.name}",
                         interface.methods, METHOD_LIMIT)


def check(root):
    exceptions, errors = read_exceptions(root)
    sizes = Sizes(exceptions)
    folders = {}
    for path in project_files(root):
        if not path.startswith(CODE) or not path.endswith(SUFFIXES):
            continue
        sizes.file(root, path)
        if path.startswith("src/") and not path.endswith("_test.cc"):
            folder = os.path.dirname(path)
            folders[folder] = folders.get(folder, 0) + 1
    for folder, count in sorted(folders.items()):
        sizes.measure(folder, folder, "files of the folder, tests not counted", count, FOLDER_LIMITS.get(folder, FOLDER_LIMIT))
    errors.extend(sizes.errors)
    for key in sorted(set(exceptions) - sizes.used):
        errors.append(f"{EXCEPTIONS}: {key} needs no exception, remove the line")
    return errors


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    errors = check(root)
    for error in errors:
        print(error)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
