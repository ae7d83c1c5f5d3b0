#!/bin/bash
#SBATCH -N2 -n 8 --gres=gpu:v100:2,license:1 --mem=4G -p "gpu,long" # x
f() { cd $1 && python - <<'E'
import x
E
}
for i in 1 2 3; do A+=" --seed $((i * (2 + 3)))"; done
case $1 in a) B=(x "y z");; *) exit 1;; esac
set -- 1 "$@"
srun -n4 --mpi=pmix \
  bash -c "torchrun --nproc_per_node ${GPUS:-4} run_clm.py --model_name_or_path=`cat m` $A 2>&1" | tee log
[ -n "$2" ] && accelerate launch --config_file x.yaml sft.py --use_peft --lora_r=8 --load_in_4bit "${B[@]}" &
wait
