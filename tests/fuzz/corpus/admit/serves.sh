#!/bin/bash
#SBATCH --gres=gpu:rtx_4090:1
srun vllm serve meta-llama/Meta-Llama-3-8B --max-model-len 4096
vllm serve meta-llama/Llama-3.1-70B --max-model-len 4096
