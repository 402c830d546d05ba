#!/usr/bin/env bash
# Every op at K3's real shapes beside its limit, and the engine on the bundled model; no network, nothing installed, some
# minutes on an H200.
# usage: tools/gpu/bench.sh [BUNDLE]   from the root of a checkout; the table goes to stdout: receipts/gpu-bench.txt
set -euo pipefail
cd "$(dirname "$0")/../.."
bundle=${1:-build/cuda/bundle}
printf 'nibble GPU bench, %s\n' "$(date -u +%F)"
"$bundle/nibble" --version
nvidia-smi --query-gpu=name,driver_version,clocks.max.sm,clocks.max.mem --format=csv,noheader
"$bundle/nibble_gpu_bench" cuda
"$bundle/nibble" bench serve -m models/k3-tiny --device cuda --require cuda --concurrency 1,8,64 --requests 64
"$bundle/nibble" bench serve -m models/k3-tiny --device cuda --require cuda --concurrency 1,8,64 --requests 64 --enforce-eager
