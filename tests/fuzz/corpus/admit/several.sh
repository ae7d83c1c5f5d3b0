#!/bin/bash
#SBATCH --gres=gpu:a100:1
python train.py config/train_gpt2.py --batch_size=64 --n_layer=48 --n_head=25 --n_embd=1600 --compile=False
./train_gpt2cu -e d48 -b 64 -t 1024
bash -c "exec python my_train.py --model_name_or_path gpt2 --per_device_train_batch_size \$1" x 512
