#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs what needs a GPU, from the root of the repository, on a machine that has one:
#   OUT=folder BUNDLE=archive LIMIT_S=seconds tools/gpu/check.sh [conformance] [controls] [model] [speculate] [program] [bench]
#     [decode] [million] [peer] [sanitize]
# controls: planted faults that conformance must notice. speculate: answers with drafts are those without. million: 1,048,576
# tokens. peer: transformers in BF16 over the same items, where python3 has it. By default all but speculate, million, peer and
# sanitize, of build/cuda-portable/inkstone-bundle.tar.xz (tools/bundle.sh). Every part has a time limit; full logs go to
# $OUT (a few files), a short summary is printed last. No sanitizer is started after LIMIT_S (480).
set -uo pipefail
cd "$(dirname "$0")/../.."

out=${OUT:-build/gpu-results}
mkdir -p "$out"
home=$(mktemp -d)
tar -C "$home" -xJf "${BUNDLE:-build/cuda-portable/inkstone-bundle.tar.xz}" || exit 1
export LD_LIBRARY_PATH=$home/lib
# Kernels are loaded at once: the first replay of a graph must not wait for one.
export CUDA_MODULE_LOADING=EAGER
parts=${*:-conformance controls model program bench decode}
suites="RowOps Linear GatedLinear ShortConv Route Moe Attention Sample EndBranch PrepareHeads Mixture"
summary=$out/summary.txt
: >"$summary"
rm -f "$out"/{conformance,model,speculate,program,sanitize}.txt
export INKSTONE_SOURCE_DIR=$PWD

note() { echo "$*" >>"$summary"; }

# One process a suite: a device fault ends only its own.
run_suites() {
  for suite in "$@"; do
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

run_conformance() { run_suites $suites; }
run_controls() { run_suites AttentionControls ScaleControls; }

# The whole model: goldens, transcripts, the numeric contract; a process each, as above.
run_model() {
  run_gpu_tests 'Cases/Golden.*' 'OnDevice.Image*' 'OnDevice.Audio*' 'OnDevice.Transcripts*' 'Towers.Vision*' 'Towers.Audio*' \
    'Contract.*'
}
run_million() { run_gpu_tests 'Million.*'; }

run_gpu_tests() {
  for suite in "$@"; do
    log=$home/model.txt
    timeout 200 "$home/gpu_test" --gtest_filter="$suite" >"$log" 2>&1
    status=$?
    cat "$log" >>"$out/model.txt"
    note "model $suite: exit $status, $(grep -cE '^\[ +OK' "$log") passed, after $SECONDS s"
    grep -E '^  [a-zA-Z0-9]' "$log" | cut -c1-150 | head -100 >>"$summary"
    if [ "$status" -ne 0 ]; then
      grep -E 'Actual|FAILED|CHECK|ailure|failed|rror' "$log" | sort | uniq -c | sort -rn | head -30 | cut -c1-200 >>"$summary"
    fi
  done
}

# Drafts change nothing, bit for bit: N = 0, 1, 3, 8 and auto, alone and eight together. 500 sampled runs first.
run_speculate() {
  for suite in OfSampledAnswers OfEveryDepth OfThirtyTurnsOfOneConversation OfRecordedConversations OfAnswersUnderAGrammar \
    OfTwoEnginesOnOneBackend OfQuestionsAboutMedia OfLongConversations; do
    log=$home/speculate.txt
    started=$SECONDS
    timeout 150 "$home/gpu_test" --gtest_filter="Equality.$suite" >"$log" 2>&1
    status=$?
    cat "$log" >>"$out/speculate.txt"
    note "speculate $suite: exit $status, $(grep -cE '^\[ +OK' "$log") passed, in $((SECONDS - started)) s"
    if [ "$status" -ne 0 ]; then grep -A4 'Failure' "$log" | head -24 | cut -c1-200 >>"$summary"; fi
  done
  timeout 60 "$home/inkstone" bench decode --backend cuda --speculate all >"$home/bench.txt" 2>&1
  note "inkstone bench decode --speculate all: exit $?"
  cat "$home/bench.txt" >>"$summary"
}

# What a user runs.
run_program() {
  local program=$home/inkstone model=models/inkling-mini log=$out/program.txt ids=$home/ids.txt
  try() {
    echo "\$ inkstone $*" >>"$log"
    timeout 60 "$program" "$@" >>"$log" 2>&1
    note "inkstone $1: exit $?"
  }
  seq -s, 1 40 >"$ids"
  try doctor --model "$model"
  try logits --backend cuda --model "$model" --ids-file "$ids" --out "$home/l.safetensors" --hidden --mtp
  try logits --backend cuda --model models/inkling-mini-nvfp4 --ids-file "$ids" --out "$home/l.safetensors" --nvfp4-activations
  try generate --backend cuda --model "$model" --ids-file "$ids" --max-tokens 16 --logprobs 2 --json
  try generate --model models/inkling-mini-nvfp4 --prompt 'The capital of' --max-tokens 16
  try chat --backend cuda --model "$model" 'What is the capital of France?'
  cut -c1-300 "$log" | head -60 >>"$summary"
}

# Items that our backend and transformers, both in BF16, answer otherwise than the fp32 reference.
run_peer() {
  local sets="copying facts reading reasoning tool_answers tool_calls needle_1k needle_2k needle_4k needle_8k needle_16k"
  # shellcheck disable=SC2086
  timeout 90 "$home/inkstone" eval tests/data/evals $sets --model models/inkling-mini --backend cuda \
    --compare tests/data/evals/reference.json >"$out/eval.txt" 2>&1
  note "inkstone eval: exit $?"
  cut -c1-180 "$out/eval.txt" | head -60 >>"$summary"
  run_gpu_tests 'OnDevice.Transcripts*'
  for dtype in float32 bfloat16; do
    timeout 90 env -u LD_LIBRARY_PATH python3 tools/gpu/peer.py --inkstone "$home/inkstone" --dtype $dtype >"$out/peer_$dtype.txt" 2>&1
    note "transformers $dtype: exit $?"
    grep '^transformers' "$out/peer_$dtype.txt" >>"$summary"
  done
}

run_bench() {
  for family in linear moe attention; do
    timeout 120 "$home/ops_bench" $family >"$home/bench.txt" 2>&1
    note "bench $family: exit $?"
    cat "$home/bench.txt" >>"$summary"
  done
}

# One rank of the full-size model.
run_decode() {
  timeout 200 "$home/decode_bench" --sequences 1 8 32 >"$home/bench.txt" 2>&1
  note "bench decode: exit $?"
  cat "$home/bench.txt" >>"$summary"
  timeout 100 "$home/decode_bench" --eager --steps 20 >"$home/bench.txt" 2>&1
  note "bench decode --eager: exit $?"
  grep -v '^  ' "$home/bench.txt" >>"$summary"
}

sanitize() {
  local tool=$1 suite=$2 log=$home/sanitize.txt status
  if [ "$SECONDS" -gt "${LIMIT_S:-480}" ]; then
    note "$tool $suite: not run, out of time"
    return
  fi
  timeout 60 compute-sanitizer --tool "$tool" "$home/conformance_test" \
    --gtest_filter="Backends/$suite.*/cuda" >"$log" 2>&1
  status=$?
  cat "$log" >>"$out/sanitize.txt"
  note "$tool $suite: exit $status, $(grep -E 'SUMMARY' "$log" | tail -1), after $SECONDS s"
}

run_sanitize() {
  for suite in $suites; do sanitize memcheck "$suite"; done
  for suite in $suites; do sanitize initcheck "$suite"; done
  for suite in Route Moe GatedLinear Sample EndBranch PrepareHeads Linear RowOps ShortConv Mixture Attention; do
    sanitize racecheck "$suite"
  done
}

date -u '+%F %T' | tee -a "$summary"
nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm --format=csv,noheader | tee -a "$summary"
for part in $parts; do "run_$part"; done
rm -rf "$home"
cat "$summary"
