#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the includes of src/ against the table in src/LAYERS.

  tools/check_layers.py [ROOT]

Rules, each named in the message that reports it:
  layer     a file includes a header of a folder that its own folder may not use
  table     src/LAYERS names a folder that is not in it, or lets two folders use each other
  folder    a source of src/ lies in no folder of src/LAYERS
  path      a quoted include that does not start at src/
  boost     more than four files include Boost (a Beast file costs half a minute to compile)
  cuda      a CUDA header outside backends/cuda, or in a *_tuning file, which must compile without CUDA
  json      nlohmann/json.hpp in a header (json_fwd.hpp is there for that)
Unit tests (*_test.cc) may include any header of src/, and of tests/support/. `app` may include headers of bench/: the
measurements are libraries that `inkstone bench` calls.
"""
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from source_tree import project_files  # noqa: E402

SUFFIXES = (".h", ".cc", ".cu", ".cuh")
MAX_BOOST_FILES = 4
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
CUDA_HEADER = re.compile(
    r"^(cuda|cublas|cudnn|curand|cusparse|cusolver|nccl|nvtx|nvrtc|nvml|cooperative_groups|cub/|thrust/|cute/|cutlass/"
    r"|mma\.h|device_launch_parameters|driver_types|vector_types|builtin_types|crt/)")


def read_table(path):
    """LAYERS as {folder: [allowed, ...]}, in file order."""
    table = {}
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            line = line.split("#")[0].strip()
            if not line:
                continue
            folder, _, allowed = line.partition(":")
            table[folder.strip()] = allowed.split()
    return table


def table_errors(table):
    """Unknown folders, and folders that reach themselves: layers that use each other are one layer."""
    uses = {}
    for folder, allowed in table.items():
        names = [folder_of(a, table) if a.endswith(".h") else a for a in allowed if a != "*"]
        for name, written in zip(names, (a for a in allowed if a != "*")):
            if name not in table:
                yield f"src/LAYERS: table: {folder} may use {written}, which is no folder of the table"
        uses[folder] = [name for name in names if name in table]
    for folder in table:
        if folder in reachable(folder, uses):
            yield f"src/LAYERS: table: {folder} uses itself by way of other folders"


def reachable(folder, uses):
    seen = set()
    waiting = list(uses[folder])
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting.extend(uses[name])
    return seen


def folder_of(path, table):
    """The longest folder of the table that holds `path` (relative to src/), or None."""
    holders = [f for f in table if path.startswith(f + "/")]
    return max(holders, key=len) if holders else None


def includes(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            match = INCLUDE.match(line)
            if match:
                yield number, match.group(1) == '"', match.group(2)


def may_include(folder, header, table):
    """Whether `folder` may include `header` (a path relative to src/) of the folder `target`."""
    target = folder_of(header, table)
    if target == folder:
        return True
    allowed = table[folder]
    return "*" in allowed or target in allowed or header in allowed


def quoted_error(root, where, folder, header, is_test, table):
    if is_test and header.startswith("tests/support/"):
        return None
    if folder == "app" and header.startswith("bench/") and os.path.isfile(os.path.join(root, header)):
        return None
    if not os.path.isfile(os.path.join(root, "src", header)):
        return f"{where}: path: \"{header}\" does not exist in src/, where include paths start"
    if folder_of(header, table) is None:
        return f"{where}: folder: \"{header}\" lies in no folder of src/LAYERS"
    if not is_test and not may_include(folder, header, table):
        return f"{where}: layer: {folder} may not include \"{header}\" (src/LAYERS)"
    return None


def angled_error(where, path, folder, header):
    if CUDA_HEADER.match(header):
        if folder != "backends/cuda":
            return f"{where}: cuda: <{header}> outside backends/cuda"
        if re.search(r"_tuning\.(h|cc)$", path):
            return f"{where}: cuda: <{header}> in a tuning file, which must compile without CUDA"
    if header == "nlohmann/json.hpp" and not path.endswith((".cc", ".cu")):
        return f"{where}: json: <{header}> in a header; use json_fwd.hpp"
    return None


def file_errors(root, path, table, boost_files):
    inner = path[len("src/"):]
    folder = folder_of(inner, table)
    if folder is None:
        yield f"{path}:1: folder: lies in no folder of src/LAYERS"
        return
    is_test = path.endswith("_test.cc")
    for number, quoted, header in includes(root, path):
        where = f"{path}:{number}"
        if header.startswith("boost/"):
            boost_files.setdefault(path, number)
        in_src = os.path.isfile(os.path.join(root, "src", header))
        if quoted or in_src:
            error = quoted_error(root, where, folder, header, is_test, table)
        else:
            error = angled_error(where, path, folder, header)
        if error:
            yield error


def check(root):
    table = read_table(os.path.join(root, "src", "LAYERS"))
    errors = list(table_errors(table))
    boost_files = {}
    for path in project_files(root):
        if path.startswith("src/") and path.endswith(SUFFIXES):
            errors.extend(file_errors(root, path, table, boost_files))
    if len(boost_files) > MAX_BOOST_FILES:
        for path, number in boost_files.items():
            errors.append(f"{path}:{number}: boost: {len(boost_files)} files include Boost, {MAX_BOOST_FILES} may")
    return errors


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    errors = check(root)
    for error in errors:
        print(error)
    if errors:
        print(f"check_layers: {len(errors)} violations")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
