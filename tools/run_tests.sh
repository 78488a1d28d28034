#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the tests of a built preset that carry one of the labels: tools/run_tests.sh PRESET LABEL...
# Only for labels other than "fast" may there be none.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
shift
labels=$(IFS='|'; echo "$*")

# The count comes first: a run of no test would close with ctest's own "No tests were found", which reads as a failure.
found=$(ctest --test-dir "build/$preset" -N -L "^(${labels})\$" | sed -n 's/^Total Tests: //p')
if [ "$found" = 0 ]; then
  echo "tests: no test of preset $preset is labelled $*"
  [[ " $* " != *" fast "* ]]
  exit
fi
jobs=${INKSTONE_TEST_JOBS:-$(nproc)}
exec ctest --test-dir "build/$preset" -L "^(${labels})\$" -j "$jobs" --output-on-failure --no-tests=error
