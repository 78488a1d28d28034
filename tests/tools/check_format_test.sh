#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/check_format.sh passes a tree that is laid out, fails one that is not, and --fix repairs it.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/tools" "$tree/src"
cp "$root/.clang-format" "$tree/"
cp "$root/tools/check_format.sh" "$root/tools/source_tree.py" "$tree/tools/"

echo "int f(int a);" >"$tree/src/good.h"
"$tree/tools/check_format.sh" || { echo "a tree that is laid out was refused"; exit 1; }
echo "int  f( int a ) ;" >"$tree/src/bad.cc"
if "$tree/tools/check_format.sh" 2>/dev/null; then echo "a misplaced space was not found"; exit 1; fi
"$tree/tools/check_format.sh" --fix
[ "$(cat "$tree/src/bad.cc")" = "int f(int a);" ] || { echo "--fix did not lay it out"; exit 1; }
"$tree/tools/check_format.sh"
