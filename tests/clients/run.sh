#!/usr/bin/env bash
# The clients that people use, against the built server: installs them as package-lock.json has them, runs the tests.
set -euo pipefail
cd "$(dirname "$0")"
if ! command -v npm >/dev/null; then
  echo "npm is missing: install nodejs with npm, version 20 or later" >&2
  exit 1
fi
[ node_modules/.package-lock.json -nt package-lock.json ] || npm ci --no-audit --no-fund
node --test --test-concurrency=1
