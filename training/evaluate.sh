#!/usr/bin/env bash
# Every decoder on the same 1,000 held-out problems of both tasks, then the model card from these runs. A decoder's
# decisions are the host's work, so on a GPU the decoders run beside each other. Interrupted? Run it again.
#   training/evaluate.sh runs/card 250 > card.md && mv card.md src/unmask/tiny/MODEL_CARD.md
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-runs/card} batch=${2:-8} limit=${LIMIT:-1000} python=${PYTHON:-python3}
groups=(default left-to-right fast-dllm,rpd-block,rpd rpd-paper,confidence eb-sampler,dapd lopa confidence+pp,confidence+ce)
jobs=${JOBS:-$("$python" -c 'import torch; print(8 if torch.cuda.is_available() else 1)')}
mkdir -p "$out"
folders=()
for task in wordproblems functions; do
  for group in "${groups[@]}"; do
    folder="$out/$task-${group%%,*}"
    folders+=("$folder")
    while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n || true; done  # a failed one shows in its log, and in the card
    "$python" -m unmask eval --task "$task" --decoders "$group" --limit "$limit" --batch-size "$batch" \
      --out "$folder" > "$folder.log" 2>&1 &
  done
done
wait
"$python" training/card.py "${folders[@]}"
