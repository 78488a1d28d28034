#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs what needs a GPU, from the root of the repository, on a machine that has one:
#   OUT=folder BUNDLE=archive LIMIT_S=seconds tools/gpu/check.sh [PART...]
# Parts, run in the order given; all but those with a star by default:
#   conformance   every operation against the reference
#   controls      planted faults that conformance must notice
#   model         goldens, transcripts, towers, the numeric contract
#   program       what a user runs
#   bench         products, mixtures, attention
#   decode        a step of one rank of the full-size model: 1, 8 and 32 sequences, and eager
#   million*      1,048,576 tokens
#   peer*         transformers in BF16 over the same items, where python3 has it
#   speculate*    answers with drafts are those without; minutes
#   sanitize*     memcheck, initcheck and racecheck over conformance
#   sanitize_rest*  the pairs of tool and suite that SANITIZE names ("racecheck:Linear initcheck:Sample"), a test a process
# The programs are those of build/cuda-portable/inkstone-bundle.tar.xz (tools/bundle.sh), or of BUNDLE. Every command has a time
# limit of its own and none goes on after LIMIT_S (540); what is not run for that reason says so. Full logs go to $OUT (at most
# eight files); a summary is printed last and kept there from the beginning.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1

out=${OUT:-build/gpu-results}
mkdir -p "$out"
limit_s=${LIMIT_S:-540}
home=$(mktemp -d)
tar -C "$home" -xJf "${BUNDLE:-build/cuda-portable/inkstone-bundle.tar.xz}" || exit 1
export LD_LIBRARY_PATH=$home/lib
# Kernels are loaded at once: the first replay of a graph must not wait for one.
export CUDA_MODULE_LOADING=EAGER
export INKSTONE_SOURCE_DIR=$PWD
parts=${*:-conformance controls model program bench decode}
suites=$("$home/conformance_test" --gtest_list_tests --gtest_filter='Backends/*/cuda' | sed -n 's|^Backends/\(.*\)\.$|\1|p' |
  grep -v Controls)
model=models/inkling-mini
summary=$out/summary.txt
rm -f "$out"/{conformance,model,speculate,program,eval,peer,sanitize}.{txt,json}
: >"$summary"

note() { echo "[$SECONDS s] $*" >>"$summary"; }

# bounded SECONDS LOG COMMAND...: no longer than that, nor past the limit of all; status 99 where nothing is left.
bounded() {
  local limit=$1 log=$2 left=$((limit_s - SECONDS))
  shift 2
  if [ "$left" -lt 3 ]; then
    echo "not run, out of time" >"$log"
    return 99
  fi
  timeout -k 5 $((left < limit ? left : limit)) "$@" </dev/null >"$log" 2>&1
}

# What a status means, for the summary.
verdict() {
  case $1 in
    99) echo "not run, out of time" ;;
    124 | 137) echo "exit $1, stopped by the time limit" ;;
    *) echo "exit $1" ;;
  esac
}

passed() { grep -cE '^\[ +OK' "$1"; }

failures() {
  grep -E 'Actual|FAILED|CHECK|check failed|failed|rror' "$1" | sort | uniq -c | sort -rn | head -12 | cut -c1-200 >>"$summary"
  grep -A6 'Failure' "$1" | head -24 | cut -c1-200 >>"$summary"
}

# One process a suite: a device fault ends only its own.
run_suites() {
  local suite log status
  for suite in "$@"; do
    log=$home/conformance_$suite.txt
    bounded 90 "$log" "$home/conformance_test" --gtest_filter="Backends/$suite.*/cuda"
    status=$?
    cat "$log" >>"$out/conformance.txt"
    note "conformance $suite: $(verdict $status), $(passed "$log") passed"
    if [ "$status" -ne 0 ]; then failures "$log"; fi
  done
}

run_conformance() { run_suites $suites; }
run_controls() { run_suites AttentionControls ScaleControls; }

# Limit, file of $OUT, filters of gpu_test.
run_gpu_tests() {
  local limit=$1 file=$2 suite log=$home/gpu_test.txt status started
  shift 2
  for suite in "$@"; do
    started=$SECONDS
    bounded "$limit" "$log" "$home/gpu_test" --gtest_filter="$suite"
    status=$?
    cat "$log" >>"$out/$file"
    note "$suite: $(verdict $status), $(passed "$log") passed, in $((SECONDS - started)) s"
    grep -E '^  [a-zA-Z0-9]' "$log" | cut -c1-150 | head -60 >>"$summary"
    if [ "$status" -ne 0 ]; then failures "$log"; fi
  done
}

run_model() {
  run_gpu_tests 60 model.txt 'Cases/Golden.*' 'OnDevice.Image*' 'OnDevice.Audio*' 'OnDevice.Transcripts*' 'Towers.*' 'Contract.*'
}

run_million() { run_gpu_tests 150 model.txt 'Million.*'; }

# Drafts change nothing, bit for bit: N = 0, 1, 3, 8 and auto, alone and eight together. 500 sampled runs first.
run_speculate() {
  run_gpu_tests 120 speculate.txt Equality.OfSampledAnswers Equality.OfEveryDepth Equality.OfTwoEnginesOnOneBackend \
    Equality.OfRecordedConversations Equality.OfAnswersUnderAGrammar Equality.OfThirtyTurnsOfOneConversation \
    Equality.OfQuestionsAboutMedia Equality.OfLongConversations
  bounded 60 "$home/bench.txt" "$home/inkstone" bench decode --model "$model" --backend cuda --speculate all
  note "inkstone bench decode --speculate all: $(verdict $?)"
  head -40 "$home/bench.txt" >>"$summary"
}

# What a user runs.
run_program() {
  local program=$home/inkstone log=$out/program.txt ids=$home/ids.txt
  try() {
    echo "\$ inkstone $*" >>"$log"
    bounded 60 "$home/program.txt" "$program" "$@"
    note "inkstone $1: $(verdict $?)"
    cat "$home/program.txt" >>"$log"
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

# Items that this engine and transformers, both in BF16, answer otherwise than the fp32 reference does: side by side, a set a line.
run_peer() {
  local sets
  sets=$(python3 tools/gpu/peer.py --sets) || sets=""
  # shellcheck disable=SC2016,SC2086
  # Standard output is one document; what else is said is the log.
  bounded 90 "$home/eval.txt" sh -c 'exec "$@" >"$0"' "$out/eval.json" "$home/inkstone" eval tests/data/evals $sets \
    --model "$model" --backend cuda --json
  note "inkstone eval: $(verdict $?), $(tail -1 "$home/eval.txt" | cut -c1-200)"
  bounded 60 "$home/transcripts.txt" "$home/gpu_test" --gtest_filter='OnDevice.Transcripts*'
  note "transcripts: $(verdict $?)"
  bounded 180 "$out/peer.txt" env -u LD_LIBRARY_PATH -u CUDA_MODULE_LOADING HF_HUB_OFFLINE=1 python3 tools/gpu/peer.py \
    --inkstone "$home/inkstone" --model "$model" --eval "$out/eval.json" --transcripts-log "$home/transcripts.txt"
  note "transformers: $(verdict $?)"
  grep -vE 'Loading weights|causal_conv1d' "$out/peer.txt" | cut -c1-400 | tail -24 >>"$summary"
}

run_bench() {
  local family
  for family in linear moe attention; do
    bounded 120 "$home/bench.txt" "$home/ops_bench" $family
    note "bench $family: $(verdict $?)"
    cat "$home/bench.txt" >>"$summary"
  done
}

# One rank of the full-size model.
run_decode() {
  bounded 150 "$home/bench.txt" "$home/decode_bench" --sequences 1 8 32
  note "bench decode: $(verdict $?)"
  cat "$home/bench.txt" >>"$summary"
  bounded 60 "$home/bench.txt" "$home/decode_bench" --eager --steps 20
  note "bench decode --eager: $(verdict $?)"
  grep -v '^  ' "$home/bench.txt" >>"$summary"
}

# Tool, name, filter.
sanitize() {
  local tool=$1 name=$2 filter=$3 log=$home/sanitize.txt status started=$SECONDS
  bounded "${SANITIZE_S:-60}" "$log" compute-sanitizer --tool "$tool" "$home/conformance_test" --gtest_filter="$filter"
  status=$?
  cat "$log" >>"$out/sanitize.txt"
  note "$tool $name: $(verdict $status), $(passed "$log") passed, $(grep -E 'SUMMARY' "$log" | tail -1), in $((SECONDS - started)) s"
}

run_sanitize() {
  local suite
  for suite in $suites; do sanitize memcheck "$suite" "Backends/$suite.*/cuda"; done
  for suite in $suites; do sanitize initcheck "$suite" "Backends/$suite.*/cuda"; done
  for suite in $suites; do sanitize racecheck "$suite" "Backends/$suite.*/cuda"; done
}

# A process a test, so that a long one costs only itself.
run_sanitize_rest() {
  local pair tool suite test
  for pair in ${SANITIZE:-initcheck:Sample racecheck:ShortConv racecheck:RowOps racecheck:Linear racecheck:Attention}; do
    tool=${pair%%:*}
    suite=${pair#*:}
    for test in $("$home/conformance_test" --gtest_list_tests --gtest_filter="Backends/$suite.*/cuda" | grep -oE '^  [A-Za-z0-9]+/cuda'); do
      sanitize "$tool" "$suite.$test" "Backends/$suite.$test"
    done
  done
}

date -u '+%F %T' | tee -a "$summary"
nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.sm --format=csv,noheader | tee -a "$summary"
for part in $parts; do "run_$part"; done
rm -rf "$home"
cat "$summary"
