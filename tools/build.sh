#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Configures a preset and builds one of its targets: tools/build.sh PRESET TARGET
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
target=$2

started=$SECONDS
if ! configuration=$(cmake --preset "$preset" 2>&1); then
  echo "$configuration"
  exit 1
fi
cmake --build "build/$preset" --target "$target"
echo "build: $preset/$target took $((SECONDS - started)) s"
