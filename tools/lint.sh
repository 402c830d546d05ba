#!/usr/bin/env bash
# clang-tidy 14 over src/, headers included, or over the files that match the patterns given.
# A test file takes some nine seconds, nearly all of it in the headers of GoogleTest, so tests/ are linted only when
# asked for: `tools/lint.sh tests/`. Kernels are linted once, as the portable instruction set.
# usage: lint.sh [PATTERN...]      needs build/release configured
set -euo pipefail
cd "$(dirname "$0")/.."
patterns=("${@:-^$PWD/src/}")
database=build/lint
mkdir -p $database
python3 - build/release/compile_commands.json $database/compile_commands.json <<'PYTHON'
import json
import sys

entries = {}
for entry in json.load(open(sys.argv[1])):
    entries.setdefault(entry["file"], entry)  # portable comes first
json.dump(list(entries.values()), open(sys.argv[2], "w"))
PYTHON
log=$database/log
if ! run-clang-tidy -quiet -j "$(nproc)" -p $database -extra-arg=-Wno-unknown-warning-option \
  -extra-arg=-fno-color-diagnostics "${patterns[@]}" >$log 2>&1; then
  grep -E '(error|warning): ' $log | sort -u
  exit 1
fi
