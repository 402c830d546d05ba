#!/usr/bin/env bash
# The clients that people use, against the built server: installs them as package-lock.json has them, with the Node that
# they need (Debian's is too old for them, and does to run npm), then runs the tests.
set -euo pipefail
cd "$(dirname "$0")"
if ! command -v npm >/dev/null; then
  echo "npm is missing: tools/install_packages.sh npm" >&2
  exit 1
fi
[ node_modules/.package-lock.json -nt package-lock.json ] || npm ci --no-audit --no-fund
node=(node_modules/node-linux-*/bin/node)  # of the one architecture that npm has chosen
"${node[0]}" --test --test-concurrency=1 --test-reporter=spec
