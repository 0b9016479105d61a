# usage: bash runs_eval.sh MODEL; evaluates on one GPU in parallel, copies summaries
export TORCH_ALLOW_TF32_CUBLAS_OVERRIDE=1 PYTHONPATH=src OMP_NUM_THREADS=1
M=$1; mkdir -p runs/e
ev() { timeout ${LIM:-100} python3 -m unmask eval --model $M --task $1 --split $2 --seed $3 --limit $4 --decoders "$5" --batch-size 250 --device cuda --dtype float32 --allow-weak-sandbox --out runs/e/$6 > runs/e/$6.log 2>&1; cp runs/e/$6/summary.json $OUT/$6.json 2>/dev/null; tail -1 runs/e/$6.log; }
(
ev wordproblems test 0 1000 default w-default &
ev wordproblems test 0 1000 left-to-right w-l2r &
ev wordproblems test 0 1000 rpd w-rpd &
ev wordproblems test 0 1000 fast-dllm w-fast &
ev wordproblems test 0 1000 confidence w-conf &
ev functions test 0 1000 default f-default &
ev functions test 0 1000 rpd f-rpd &
ev functions test 0 1000 fast-dllm f-fast &
ev wordproblems validation 1 500 rpd:beta=2 v-b2 &
ev wordproblems validation 1 500 rpd:beta=4 v-b4 &
ev wordproblems validation 1 500 rpd:beta=8 v-b8 &
ev wordproblems validation 1 500 confidence+ce v-ce &
wait )
mkdir -p $OUT/s; tar czf $OUT/evals.tgz runs/e 2>/dev/null; true
