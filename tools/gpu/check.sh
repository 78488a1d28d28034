#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs what needs a GPU, from the root of the repository, on a machine that has one: conformance, sanitizers, benches.
#   OUT=folder tools/gpu/check.sh [conformance] [bench] [sanitize]     default: conformance bench
# Needs build/cuda-portable/inkstone-bundle.tar.xz (tools/bundle.sh). Every part has a time limit; full logs go to
# $OUT (four files), a short summary is printed last.
set -uo pipefail
cd "$(dirname "$0")/../.."

out=${OUT:-build/gpu-results}
mkdir -p "$out"
home=$(mktemp -d)
tar -C "$home" -xJf build/cuda-portable/inkstone-bundle.tar.xz || exit 1
export LD_LIBRARY_PATH=$home/lib
# Kernels are loaded at once: the first replay of a graph must not wait for one.
export CUDA_MODULE_LOADING=EAGER
parts=${*:-conformance bench}
suites="RowOps Linear GatedLinear ShortConv Route Moe Attention Sample"
summary=$out/summary.txt
: >"$summary"
rm -f "$out/conformance.txt" "$out/sanitize.txt"

note() { echo "$*" >>"$summary"; }

# One process a suite: a device fault ends only its own.
run_conformance() {
  for suite in $suites; do
    log=$home/conformance_$suite.txt
    timeout 150 "$home/conformance_test" --gtest_filter="Backends/$suite.*/cuda" >"$log" 2>&1
    status=$?
    cat "$log" >>"$out/conformance.txt"
    note "conformance $suite: exit $status, $(grep -cE '^\[ +OK' "$log") passed, $(grep -E '^\[ +FAILED' "$log" | sort -u | grep -c ' in ' || true) failed"
    if [ "$status" -ne 0 ]; then
      grep -E 'Actual|FAILED|CHECK|failed|rror' "$log" | sort | uniq -c | sort -rn | head -12 | cut -c1-200 >>"$summary"
      grep -A6 'Failure' "$log" | head -24 | cut -c1-200 >>"$summary"
    fi
  done
}

run_bench() {
  for family in linear moe attention; do
    timeout 120 "$home/ops_bench" $family >"$home/bench.txt" 2>&1
    note "bench $family: exit $?"
    cat "$home/bench.txt" >>"$summary"
  done
}

# Until eight minutes of the run are over.
sanitize() {
  local tool=$1 suite=$2 log=$home/sanitize.txt status
  if [ "$SECONDS" -gt 480 ]; then
    note "$tool $suite: not run, out of time"
    return
  fi
  timeout 60 compute-sanitizer --tool "$tool" "$home/conformance_test" \
    --gtest_filter="Backends/$suite.*/cuda" >"$log" 2>&1
  status=$?
  cat "$log" >>"$out/sanitize.txt"
  note "$tool $suite: exit $status, $(grep -E 'SUMMARY' "$log" | tail -1)"
}

run_sanitize() {
  for suite in RowOps ShortConv Route GatedLinear Moe Sample Linear Attention; do sanitize memcheck $suite; done
  for suite in GatedLinear Moe Sample Route; do sanitize racecheck $suite; done
  for suite in RowOps ShortConv GatedLinear Moe; do sanitize initcheck $suite; done
}

date -u '+%F %T' | tee -a "$summary"
nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm --format=csv,noheader | tee -a "$summary"
for part in $parts; do "run_$part"; done
rm -rf "$home"
cat "$summary"
