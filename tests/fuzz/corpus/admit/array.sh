#!/bin/bash
#SBATCH --job-name=x
#SBATCH --nodes=1
#SBATCH --gres=gpu:a100:1  # one
#SBATCH --mem=64G
module load cuda
MODEL=meta-llama/Meta-Llama-3-8B
ARGS=(--bf16 --do_train --output_dir out)
srun python run_clm.py \
   --model_name_or_path $MODEL \
   --dataset_name wikitext \
   --per_device_train_batch_size ${BS:-4} \
   --block_size 2048 "${ARGS[@]}" --torch_dtype float32
