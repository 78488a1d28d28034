#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs clang-tidy (.clang-tidy) over the product sources, with the compile commands of the release build.
#   tools/lint.sh [REGEX]     only sources whose path matches
# Left out: unit tests (the macros of GoogleTest); files that use coroutines, which clang 14 cannot read at all with GCC's
# standard library; kernels that Highway compiles once per instruction set, whose entry points it names.
set -euo pipefail
cd "$(dirname "$0")/.."

[ -f build/release/compile_commands.json ] || { echo "lint: configure first: cmake --preset release" >&2; exit 1; }
tidy=$(command -v clang-tidy-14) || { echo "lint: clang-tidy-14 is missing; run tools/install_deps.sh" >&2; exit 1; }

mapfile -t sources < <(
  python3 tools/source_tree.py .cc | grep -E '^src/' | grep -v -E '_test\.cc$' | { grep -E "${1:-.}" || true; } |
    while read -r path; do
      # Sources of a backend that this build leaves out have no compile command.
      if grep -q "/$path\"" build/release/compile_commands.json && ! grep -q -E '<(boost|coroutine|hwy/foreach_target)\b' "$path"; then
        echo "$path"
      fi
    done
)
echo "lint: ${#sources[@]} sources"
printf '%s\n' "${sources[@]}" | xargs -n 1 -P "$(nproc)" -r tools/lint_file.sh "$tidy"
