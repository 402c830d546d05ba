#!/usr/bin/env bash
# Everything that a GPU must show, in one command: no network, nothing installed, under 8 minutes on an H200. Goes on after
# a failure, so that one run shows everything; exit 1 if anything failed.
# usage: tools/gpu/check.sh [BUNDLE]   from the root of a checkout; BUNDLE holds what `cmake --build --preset cuda --target
# bundle` made (build/cuda/bundle). The report goes to stdout: receipts/gpu-check.txt is its last one.
set -uo pipefail
cd "$(dirname "$0")/../.."
bundle=${1:-build/cuda/bundle}
logs=${OUT:-$(mktemp -d)}
failed=0

step() {  # step NAME COMMAND...: runs it, prints the end of it, takes down whether it failed
  local name=$1 log=$logs/${1//[^a-z0-9]/-}.txt started=$SECONDS rc=0
  shift
  "$@" >"$log" 2>&1 || rc=$?
  printf '\n=== %s: %s, %d s\n' "$name" "$([ $rc -eq 0 ] && echo ok || echo "FAILED ($rc)")" $((SECONDS - started))
  sed "s#$PWD/##g" "$log" | grep -vE '^\[ RUN |^\[       OK|^\[-+\]|^$|^Note: ' | cut -c1-180 | tail -n "${lines:-40}"
  [ $rc -eq 0 ] || failed=1
}
tests() { timeout 200 "$bundle/nibble_gpu_check" --gtest_brief=0 "--gtest_filter=$1"; }
eval_format() {
  head -n 200 tests/golden/problems.jsonl >"$logs/problems.jsonl"
  timeout 200 "$bundle/nibble" eval -m "$1" --device cuda --require cuda --problems "$logs/problems.jsonl" --batch 64 \
    --precision exact --out "$logs/answers-$2.jsonl"
}
sanitize() { timeout 60 compute-sanitizer --tool "$1" --error-exitcode 9 --print-limit 10 "${@:2}"; }

printf 'nibble GPU check, %s, commit %s\n' "$(date -u +%F)" "${COMMIT:-$(git rev-parse --short HEAD 2>/dev/null)}"
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
"$bundle/nibble" --version
step 'certify' "$bundle/nibble" ops certify --device cuda --require cuda
step 'goldens and invariances' tests 'Formats/*:Variants/*'
step 'engine' tests 'Engine/*:ReuseTest*:SoakTest*:RequestTest*'
step 'graphs' tests '*RecordingTest*under_test'
step 'controls' tests 'GpuControls*'
step '200 problems, token by token' tests 'Gpu/ProblemsTest*'
step '200 problems, mxfp4' eval_format models/k3-tiny mxfp4
step '200 problems, nvfp4' eval_format models/k3-tiny-nvfp4 nvfp4
lines=3
step 'memcheck, every op' sanitize memcheck "$bundle/nibble" ops certify --device cuda
step 'racecheck, every op' sanitize racecheck "$bundle/nibble" ops certify --device cuda
step 'memcheck, graphs at batch 8' sanitize memcheck "$bundle/nibble_gpu_check" \
  --gtest_filter='*RecordingTest.WarmUpAtBatchEight/under_test'
printf '\n%s\n' "$([ $failed -eq 0 ] && echo 'all passed' || echo 'FAILED')"
exit $failed
