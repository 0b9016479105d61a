#!/usr/bin/env bash
# The embedded model, start to end: two stages, in parts of at most nine minutes. Interrupted? Run it again.
#   training/run.sh runs/tiny
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-runs/tiny}
python=${PYTHON:-python3}
part() { "$python" training/train.py --part-minutes 9 "$@" | tee -a "$out.log" | tail -n 1; }
mkdir -p "$out.base"
until [ "$(part --out "$out.base" --accuracy 0)" = finished ]; do :; done
until [ "$(part --init "$out.base" --out "$out" --accuracy 128)" = finished ]; do :; done
echo "weights in $out"
