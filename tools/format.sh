#!/usr/bin/env bash
# clang-format 14 over every C++ file. usage: format.sh [--check] [FILE...]
set -euo pipefail
cd "$(dirname "$0")/.."
mode=(-i)
if [ "${1:-}" = --check ]; then mode=(--dry-run -Werror) && shift; fi
if [ $# -eq 0 ]; then
  folders=(src tests bench)
  [ -d include ] && folders+=(include)
  mapfile -t files < <(find "${folders[@]}" -name node_modules -prune -o \( -name '*.h' -o -name '*.cc' -o -name '*.cu' \
    -o -name '*.cuh' \) -print | sort)
else
  files=("$@")
fi
clang-format "${mode[@]}" "${files[@]}"
