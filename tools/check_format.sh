#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fails where clang-format would lay a source out differently; --fix lays them out.
# The version is pinned to Debian 12's (14): another one formats differently.
set -euo pipefail
cd "$(dirname "$0")/.."

formatter=$(command -v clang-format-14 || command -v clang-format) ||
  { echo "check_format: clang-format-14 is missing; run tools/install_deps.sh" >&2; exit 1; }
case "$("$formatter" --version)" in
  *"version 14."*) ;;
  *) echo "check_format: needs clang-format 14, found: $("$formatter" --version)" >&2; exit 1 ;;
esac

mode=(--dry-run -Werror)
if [ "${1:-}" = --fix ]; then mode=(-i); fi

python3 tools/source_tree.py .h .cc .cu .cuh |
  xargs -d '\n' -n 16 -P "$(nproc)" -r "$formatter" "${mode[@]}"
