/* snug admit: what is read of scripts in the ways that people write them, what is refused and what never is,
 * scripts that hide their command, and sbatch's own line. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "io/scratch.h"

#define TOP "#!/bin/bash\n#SBATCH --gres=gpu:a100_80:1\n"
#define TRAINS                                                                                               \
    "python run_clm.py --do_train --model_name_or_path llama-3-8b --output_dir out --block_size 2048 "
#define FAT "--per_device_train_batch_size 4 --torch_dtype float32 --bf16"

/* Runs `snug admit LINE` with the script as job.sh. */
static void expect(const char *script, const char *line, int code, const char *words) {
    char all[400];
    scratch_write("job.sh", script, strlen(script));
    snprintf(all, sizeof all, "admit %s", line);
    if (!command_says(all, code, words)) fail_msg("of this script:\n%s", script);
}

static void scripts_are_read_as_people_write_them(void **state) {
    (void)state;
    static const char *const same[] = {
        TOP TRAINS FAT "\n",
        TOP "srun \\\n  " TRAINS "\\\n  " FAT "\n",
        TOP "M=llama-3-8b; N=4\nsrun python3 -u run_clm.py --do_train --model_name_or_path=$M --block_size "
            "$((1024 * 2)) "
            "--per_device_train_batch_size ${N:-9} --torch_dtype float32 --bf16 True --output_dir "
            "\"$SCRATCH/x\"\n",
        TOP "ARGS=(--block_size 2048 # a comment\n  " FAT ")\n"
            "python run_clm.py --do_train --model_name_or_path llama-3-8b \"${ARGS[@]}\"\n",
        TOP "ARGS=\"--block_size 2048\"\nARGS+=\" " FAT "\"\n"
            "exec python run_clm.py --do_train --model_name_or_path llama-3-8b $ARGS\n",
        TOP "set -e\ncd work && srun bash -c 'echo x; " TRAINS FAT "'\n",
        TOP "cat >notes <<'END'\n" TRAINS "--per_device_train_batch_size 999\nEND\n" TRAINS FAT "\n",
        TOP "export CUDA_VISIBLE_DEVICES=0\nA=1 env B=2 timeout 3600 nice -n 5 " TRAINS FAT
            " 2>&1 | tee log\n",
        TOP "torchrun --standalone --nproc_per_node=1 run_clm.py --do_train --model_name_or_path llama-3-8b "
            "--block_size 2048 " FAT " &\nwait\n",
        TOP "singularity exec --nv --bind /data image.sif " TRAINS FAT "\n",
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        expect(same[i], "job.sh", 3,
               "--framework hf --batch 4 --context 2048 --dtype autocast --gpu a100-80");
}

#define FATTER "--torch_dtype float32 --bf16 --per_device_train_batch_size "

/* What bash does with them is certain, so they are refused. */
static void shells_are_followed(void **state) {
    (void)state;
    static const char *const same[] = {
        TOP "for seed in 1 2 3; do\n" TRAINS FAT " --seed $seed\ndone\n",
        TOP "for b in 1 2 4; do " TRAINS FATTER "$b; done",
        TOP "for b in {3..4}; do\n  for s in $(seq 2); do " TRAINS FATTER "$b; done\ndone | tee log\n",
        TOP "L=(1 2 4)\nfor b in \"${L[@]}\"; do " TRAINS FATTER "$b & done; wait\n",
        TOP "go() {\n  local b=$1\n" TRAINS FATTER "$b\n}\ngo 4\n",
        TOP "function go {\n" TRAINS FATTER "$2 \"$@\"\n}\nB=4\ngo --seed \"$B\"\n",
        TOP "go() { if [ -f x ]; then echo; return; fi; }\ngo\n" TRAINS FAT "\n",
        TOP "B=4\ngo() { local B=1; echo $B; }\ngo\n" TRAINS FATTER "$B\n",
        TOP "CMD=\"" TRAINS FAT "\"\neval $CMD\n",
        TOP "eval \"$(conda shell.bash hook)\"\nconda activate x\n" TRAINS FAT "\n",
        TOP "L=(1 4)\ni=1\n" TRAINS FATTER "${L[$i]}\n",
        TOP "L=(1 4)\n" TRAINS FATTER "$((${#L[@]} * 2))\n",
        TOP "RESUME=\nif ! " TRAINS FAT " ${RESUME:+--resume \"$RESUME\"}; then exit 1; fi\n",
        TOP "X=4\n" TRAINS FATTER "${X:-${Y:-2}}\n",
        TOP "P=$(which python)\n$P -u $DIR/run_clm.py --do_train --model_name_or_path llama-3-8b "
            "--block_size 2048 " FAT "\n",
        TOP "$HOME/venv/bin/" TRAINS FAT "\n",
        TOP "set -- 1 4\nshift\n" TRAINS FATTER "$1\n",
        TOP "ARGS=()\n" TRAINS FAT " \"${ARGS[@]}\" \"$@\"\n",
        TOP "enroot start --rw --mount a:b image " TRAINS FAT "\n",
        TOP "podman-hpc run --rm --gpu -v a:b image " TRAINS FAT "\n",
        TOP "shifter --image=docker:x " TRAINS FAT "\n",
        TOP "N=4\n" TRAINS FATTER "$((${N} * 2 / 2))\n",
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        expect(same[i], "job.sh", 3, "--batch 4 --context 2048 --dtype autocast --gpu a100-80");
    expect(TOP "for i in $(seq 60); do for j in $(seq 60); do " TRAINS FAT "; done; done\n", "job.sh", 0, "");
}

/* What the script says of a value that may be another is the likely one: the user is warned, and no more. */
static void what_is_likely_is_said(void **state) {
    (void)state;
    static const char *const likely[] = {
        TRAINS FATTER "${B:-4}\n",
        "B=4\nsource venv/bin/activate\n" TRAINS FATTER "$B\n",
        "L=(1 4 2)\n" TRAINS FATTER "${L[$SLURM_ARRAY_TASK_ID]}\n",
        "case $SLURM_ARRAY_TASK_ID in\n 1) B=1;;\n 2) B=4;;\nesac\n" TRAINS FATTER "$B\n",
        "for b in 1 4 $MORE; do\n" TRAINS FATTER "$b\ndone\n",
        "go() {\n" TRAINS FATTER "4\n}\nexport -f go\n",
        "B=4\nbash -c '" TRAINS FATTER "${B:-1}'\n",
    };
    char script[1200];
    for (size_t i = 0; i < sizeof likely / sizeof *likely; i++) {
        snprintf(script, sizeof script, TOP "%s", likely[i]);
        expect(script, "job.sh", 0, "likely does not fit");
        expect(script, "job.sh", 0, "--batch 4 --context 2048");
    }
    expect(TOP TRAINS FATTER "${B:-4}\n", "job.sh", 0, "per_device_train_batch_size is taken as 4");
    expect(TOP "python run_clm.py --do_train --block_size 2048 --model_name_or_path "
               "$SCRATCH/models/Meta-Llama-3-8B " FAT "\n",
           "job.sh", 0, "Meta-Llama-3-8B --framework hf --batch 4 --context 2048");
    expect("#!/bin/bash\n#SBATCH --gpus=a100_80:4\ntorchrun --nproc_per_node=${N:-2} run_clm.py --do_train "
           "--model_name_or_path llama-3-8b --block_size 2048 --fsdp full_shard " FAT "\n",
           "job.sh", 0, "nproc_per_node is taken as 2");
    expect("#!/bin/bash\n#SBATCH --gpus=a100_80:4\ntorchrun --nproc_per_node=${N:-2} run_clm.py --do_train "
           "--model_name_or_path llama-3-8b --block_size 2048 --fsdp full_shard " FAT "\n",
           "job.sh", 0, "--gpus 2 --shard fsdp");
}

/* A file that the script writes is read as it stands there. */
static void files_of_the_script_are_read(void **state) {
    (void)state;
    static const char yaml[] =
        "model_name_or_path: llama-3-8b\nper_device_train_batch_size: $B\nmax_length: 2048\n"
        "packing: true\ntorch_dtype: float32\ngradient_checkpointing: false\nbf16: true\nEND\n";
    static const char zero[] = "{\"zero_optimization\": {\"stage\": 3, \"off"
                               "load_param\": {\"device\": \"cpu\"}}}\nEND\n";
    char script[1200];
    snprintf(script, sizeof script, TOP "B=4\nF=x.yaml\ncat <<END > $F\n%strl sft --config ./x.yaml\n", yaml);
    expect(script, "--script-only job.sh", 0,
           "llama-3-8b --framework hf --batch 4 --context 2048 --dtype autocast");
    expect(script, "--script-only job.sh", 0, "x.yaml is taken as the script writes it");
    snprintf(script, sizeof script, TOP "cat > x.yaml << 'END'\n%strl sft --config x.yaml\n", yaml);
    expect(script, "--script-only job.sh", 0, "per_device_train_batch_size is '$B'");
    snprintf(script, sizeof script, TOP "tee z.json >/dev/null <<END\n%s" TRAINS FAT " --deepspeed z.json\n",
             zero);
    expect(script, "--script-only job.sh", 0, "--gpus 1 --shard zero3 --host-keeps all");
    expect("#!/bin/bash\n#SBATCH --gpus=a100_80:4\naccelerate launch --num_processes 4 --use_deepspeed "
           "--zero_stage 2 "
           "--off"
           "load_optimizer_device cpu run_clm.py --do_train --model_name_or_path llama-3-8b " FAT "\n",
           "job.sh", 0, "--gpus 4 --shard zero2 --host-keeps optimizer");
    expect("#!/bin/bash\n#SBATCH --gpus=a100_80:4\ntorchrun --nproc_per_node 4 run_clm.py --do_train "
           "--model_name_or_path llama-3-8b --deepspeed ds_z3_config.json " FAT "\n",
           "--script-only job.sh", 0, "--gpus 4 --shard zero3");
    expect(TOP TRAINS FAT
           " --gradient_checkpointing --gradient_checkpointing_kwargs '{\"use_reentrant\": true}'\n",
           "job.sh", 3, "--gradient-checkpointing --reentrant");
    expect(TOP "llamafactory-cli train --stage sft --model_name_or_path llama-3-8b --finetuning_type lora "
               "--lora_rank 16 "
               "--lora_target all --quantization_bit 4 --cutoff_len 2048 --per_device_train_batch_size 2 "
               "--bf16 true "
               "--template llama3 --dataset x --output_dir out --plot_loss true\n",
           "job.sh", 0,
           "--batch 2 --context 2048 --dtype autocast --gradient-checkpointing --adapter-rank 16 --base-bits "
           "4 --gpu");
}

/* sbatch's own environment counts more than the script, and less than its line. */
static void sbatchs_environment_counts(void **state) {
    (void)state;
    static const char script[] =
        TOP "python run_clm.py --do_train --model_name_or_path gpt2 --torch_dtype float32 "
            "--block_size 1024 --per_device_train_batch_size 32\n";
    setenv("SBATCH_GRES", "gpu:t4:1", 1);
    expect(script, "job.sh", 3, "NVIDIA T4");
    expect(script, "job.sh --gres=gpu:h100_80:1", 0, "h100-80");
    unsetenv("SBATCH_GRES");
    expect(script, "job.sh", 0, "a100-80");
}

/* Whatever is not known keeps the job from being refused, and is said. */
static void what_is_not_seen_is_admitted(void **state) {
    (void)state;
    static const struct {
        const char *script, *said;
    } hides[] = {
        { TOP "python run_clm.py --do_train --model_name_or_path llama-3-8b --block_size $(cat n) " FAT "\n",
          "not known" },
        { TOP "if [ -f x ]; then\n" TRAINS FAT "\nfi\n", "runs only if something holds" },
        { TOP "[ -f x ] && " TRAINS FAT "\n", "runs only if something holds" },
        { TOP "go() {\n" TRAINS FAT "\n}\n", "runs only if something holds" },
        { TOP TRAINS FAT " --optim_target_modules attn\n", "optim_target_modules" },
        { TOP TRAINS FAT " --use_new_trick\n", "use_new_trick" },
        { TOP TRAINS FAT " --deepspeed none.json\n", "none.json could not be read" },
        { TOP "python my_train.py --model_name_or_path llama-3-8b " FAT "\n", "my_train.py does itself" },
        { TOP "accelerate launch run_clm.py --do_train --model_name_or_path llama-3-8b " FAT "\n",
          "of the user's own" },
        { "#!/bin/bash\n" TRAINS FAT "\n", "which device the job gets is not known" },
        { "#!/bin/bash\n#SBATCH --gres=gpu:fast:1\n" TRAINS FAT "\n", "by the type 'fast'" },
        { TOP "python run_clm.py --do_train --model_name_or_path somebody/private " FAT "\n",
          "can't be estimated" },
        { TOP "./train.sh\n", "admitted" },
        { TOP "echo hello\n", "admitted" },
        { "", "it does not begin with #!" },
        { "\x7f"
          "ELF",
          "it does not begin with #!" },
        { "#!/usr/bin/env python3\nprint(1)\n", "in another language" },
        { TOP "python - <<E\nimport torch\nE\n", "admitted" },
        { TOP "bash other.sh\n", "other.sh" },
        { TOP "exit 0\n" TRAINS FAT "\n", "admitted" },
    };
    for (size_t i = 0; i < sizeof hides / sizeof *hides; i++)
        expect(hides[i].script, "job.sh", 0, hides[i].said);
    assert_true(command_says("admit none.sh", 2, "none.sh"));
    assert_true(command_says("admit", 2, "no script named"));
    assert_true(command_says("admit --cluster none.yaml job.sh", 2, "none.yaml"));
}

/* Before each of these the batch is not surely what the script says of it. */
static const char *const batches[] = {
    "",
    "B=4\neval B=$(cat x)\n",
    "B=4\nB=1 | cat\n",
    "B=4\nB=1 &\n",
    "B=4\n{ B=1; } | cat\n",
    "B=4\necho | { B=1; }\n",
    "B=4\nL[0]=1\nB=${L[0]}\n",
    "B=4\nfor B in $(cat x); do :; done\n",
    "B=4\nfor i in 1 2; do [ -f x ] && break; B=1; done\n",
    "f() { B=1; [ -f x ] && return; B=4; }\nf\n",
    "f() { local B=1; }\nif [ -f x ]; then f() { B=4; }; fi\nB=4\nf\n",
    "local B=4\n",
    "if ((B = 4)); then :; fi\n",
    "B=4\nsource env.sh\neval \"$B\"\n",
    "B=1\nexport B\nbash -c 'B=4'\n",
    "B=4\nsource env.sh\n",
    "B=4\n. ./env.sh\n",
    "B=4\nread B < file\n",
    "B=4\nlet B/=4\n",
    "B=4\n((B /= 4))\n",
    "B=4\nunset B\n",
    "B=4\nprintf -v B 1\n",
    "B=1\n(B=4)\n",
    "bash -c 'B=4'\n",
    "B=4\nexport $(cat env)\n",
    "set -- 4\nshift\nB=$1\n",
    "bash -c 'echo $0' x 4\nB=$1\n",
    "set -- $(cat args)\nB=$1\n",
};

/* Of each the device has too little for what it says at first sight, and enough for what it may do. */
static void what_may_be_otherwise_is_admitted(void **state) {
    (void)state;
    static const char *const before[] = {
        "test -f x &&\n",
        "test -f x && { echo a; ",
        "test -f x && ( echo a; ",
        "[ -f x ] && exit 0\n",
        "[ $# -ge 9 ] || { echo usage; exit 1; }\n",
        "CUDA_VISIBLE_DEVICES= ",
        "(test -f x) && ",
        "alias python=true\n",
        "go() { exit 0; }\n[ -f x ] && go\n",
        "while [ -f x ]; do ",
        "env CUDA_VISIBLE_DEVICES= ",
        "export CUDA_VISIBLE_DEVICES=\n",
        "exec python ok.py\n",
        "cat <<A <<B <<C <<D <<E <<F <<G <<H <<I\nA\nB\nC\nD\nE\nF\nG\nH\n",
        "cat <<AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n",
    };
    static const char *const behind[] = { "--max_train_samples 2", "--line_by_line", "args.json",
                                          "\"$(cat x)\"",          "--max_length 0", "--do_train False" };
    char script[1200];
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        snprintf(script, sizeof script, TOP "%s" TRAINS FAT "%s\n", before[i],
                 strstr(before[i], "while")      ? "; done"
                 : strstr(before[i], "{ echo a") ? "; }"
                 : strchr(before[i], '(')        ? " )"
                                                 : "");
        expect(script, "job.sh", 0, "");
    }
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        snprintf(script, sizeof script, TOP "%s" TRAINS FAT " --per_device_train_batch_size ${B:-4}\n",
                 batches[i]);
        expect(script, "job.sh", 0, "Not seen: per_device_train_batch_size");
    }
    for (size_t i = 0; i < sizeof behind / sizeof *behind; i++) {
        snprintf(script, sizeof script, TOP TRAINS FAT " %s\n", behind[i]);
        expect(script, "job.sh", 0, "Not seen");
    }
    expect(TOP "B=4\nB=1 bash -c '" TRAINS FAT " --per_device_train_batch_size $B'\n", "job.sh", 0,
           "Not seen: per_device_train_batch_size");
    expect(TOP "unset B\nbash -c \"" TRAINS FATTER "${B:+4}\"\n", "job.sh", 0, "taken as 4");
    expect(TOP "unset B\neval " TRAINS FATTER "${B:+4}\n", "job.sh", 0, "taken as 4");
    expect(TOP "bash -c ${B:+'" TRAINS FAT "'}\n", "job.sh", 0, "");
    expect(TOP "python run_clm.py --model_name_or_path llama-3-8b " FAT "\n", "job.sh", 0,
           "only with --do_train");
}

/* What is certain stays so beside all that. */
static void what_is_certain_is_refused(void **state) {
    (void)state;
    static const char *const before[] = {
        "",
        "cd work || exit 1\n",
        "(cd x; ls)\n",
        "{ echo a; }\n",
        "echo a |\n  cat\n",
        "(( 1 ))\n",
        "case x in\n (x) echo;;\n y) echo;;\nesac\n",
        "[ -f x ] && { echo a; }\n",
        "time -p ",
        "/usr/bin/time -v ",
        "srun --label -u --exact ",
        "exec > log 2>&1\n",
        "set -euo pipefail\n",
    };
    char script[1000];
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        snprintf(script, sizeof script, TOP "%s" TRAINS FAT "\n", before[i]);
        expect(script, "job.sh", 3, "does not fit");
    }
    expect(TOP TRAINS FAT "\n", "job.sh --gpus=1", 3, "A100 80 GB");
}

/* Options of `snug train` that name files, and names that would move a terminal. */
static void scripts_are_others(void **state) {
    (void)state;
    scratch_write("secret.yaml", "root: x\n", 8);
    expect(TOP "snug train gpt2 --batch 8 --config secret.yaml\n", "--script-only job.sh", 0,
           "what config does to memory is not known");
    expect(TOP "snug train gpt2 --batch 8 --config secret.yaml\n", "--script-only job.sh", 0, "may fit");
    expect(TOP "snug train gpt2 --batch 8\n", "job.sh", 0, "--batch 8");
    expect(TOP "python run_clm.py --do_train --model_name_or_path 'x\033[31m' " FAT "\n", "job.sh", 0,
           "x?[31m");
    expect(TOP "python run_clm.py --do_train --model_name_or_path gpt2 --per_device_train_batch_size 1\n"
               "python run_clm.py --do_train --model_name_or_path my/model --per_device_train_batch_size 1\n",
           "job.sh --json", 0, "\"answer\": \"unknown\"");
}

/* Samples may be shorter than they may be at most, and weights may be loaded in 16 bits. */
static void the_least_that_it_can_mean_counts(void **state) {
    (void)state;
    expect(TOP "trl sft --model_name_or_path llama-3.2-1b --max_length 8192 --per_device_train_batch_size 64 "
               "--gradient_checkpointing False --torch_dtype bfloat16\n",
           "job.sh", 0, "likely does not fit");
    expect(TOP "trl sft --model_name_or_path llama-3.2-1b --max_length 8192 --per_device_train_batch_size 64 "
               "--gradient_checkpointing False --torch_dtype bfloat16 --packing True\n",
           "job.sh", 3, "does not fit");
    expect(TOP "python run_clm.py --do_train --model_name_or_path llama-3.2-3b --per_device_train_batch_size "
               "1 --bf16 "
               "--block_size 512 --optim adamw_torch\n",
           "job.sh --gres=gpu:a100_40:1", 0, "likely does not fit");
    expect(TOP "python run_clm.py --do_train --model_name_or_path llama-3.2-3b --per_device_train_batch_size "
               "1 --bf16 "
               "--block_size 512 --optim adamw_torch --torch_dtype float32\n",
           "job.sh --gres=gpu:a100_40:1", 3, "does not fit");
}

static void sbatchs_line_counts_more(void **state) {
    (void)state;
    static const char script[] =
        TOP "python run_clm.py --do_train --model_name_or_path gpt2 --torch_dtype float32 "
            "--block_size 1024 --per_device_train_batch_size $1\n";
    expect(script, "job.sh 8", 0, "--batch 8");
    expect(script, "job.sh 8", 0, "a100-80");
    expect(script, "job.sh --gpus=t4:1 64", 3, "NVIDIA T4");
    expect(script, "-- -p gpu --gpus=t4:1 job.sh 64", 3, "NVIDIA T4");
    expect(script, "--policy warn -- -p gpu --gpus=t4:1 job.sh 64", 0, "does not fit");
    expect(script, "--gpu t4 job.sh 64", 3, "NVIDIA T4");
    expect(script, "job.sh", 0, "not known");
    assert_true(command_says("admit -- --gres=gpu:t4:1 --wrap snug", 0, "admitted"));
    assert_true(command_says("admit -- --gres=gpu:t4:1", 0, "admitted") ||
                command_says("admit -- --gres=gpu:t4:1", 2, "no script named"));
    scratch_write("site.yaml", "policy: warn\nseconds: 30\n", 25);
    expect(script, "--config site.yaml -- --gpus=t4:1 job.sh 64", 0, "does not fit");
}

#define SITE                                                                                                 \
    "nodes: [old, new]\ndevices: [v100-16, a100-80]\ngpus: [2, 4]\ncores: [16, 64]\n"                        \
    "memory: [64GiB, 512GiB]\ncount: [4, 8]\npartitions: [debug, long]\ntypes: [volta, ampere]\n"

static void the_sites_file_names_devices(void **state) {
    (void)state;
    static const char script[] =
        "#!/bin/bash\npython run_clm.py --do_train --model_name_or_path gpt2-xl --torch_dtype "
        "float32 --block_size 1024 --per_device_train_batch_size 4\n";
    scratch_write("site.yaml", SITE, sizeof SITE - 1);
    expect(script, "--cluster site.yaml job.sh --gres=gpu:1", 0, "A100 80 GB");
    expect(script, "--cluster site.yaml job.sh --gres=gpu:1 -p debug", 3, "V100 16 GB");
    expect(script, "--cluster site.yaml job.sh --gres=gpu:volta:1", 3, "V100 16 GB");
    expect(script, "--cluster site.yaml job.sh --gres=gpu:4 -p debug,long", 0, "A100 80 GB");
}

/* Files that a command names: axolotl's and torchtune's YAML, DeepSpeed's JSON, nanoGPT's Python. */
static void files_are_read(void **state) {
    (void)state;
    static const char axolotl[] = "base_model: meta-llama/Meta-Llama-3-8B\nmicro_batch_size: 2\n"
                                  "gradient_accumulation_steps: 4\nsequence_len: 4096\nsample_packing: true\n"
                                  "adapter: qlora\nlora_r: 32\nlora_target_linear: true\nload_in_4bit: true\n"
                                  "optimizer: paged_adamw_32bit\nbf16: auto\ngradient_checkpointing: true\n"
                                  "datasets:\n  - path: x\n    type: alpaca\noutput_dir: out\n";
    static const char torchtune[] = "model:\n  _component_: torchtune.models.llama3_1.lora_llama3_1_8b\n"
                                    "  lora_rank: 16\n  lora_attn_modules: ['q_proj', 'v_proj']\n"
                                    "tokenizer:\n  max_seq_len: 2048\ndataset:\n  packed: True\n"
                                    "batch_size: 3\ndtype: bf16\nenable_activation_checkpointing: True\n"
                                    "optimizer:\n  _component_: torch.optim.AdamW\n  lr: 1e-4\n";
    static const char zero[] = "{\"zero_optimization\": {\"stage\": 3}, \"bf16\": {\"enabled\": true}}";
    static const char nano[] = "# gpt2\nbatch_size = 24 # a step\nblock_size = 512\ndtype = 'float32'\n"
                               "compile = False\n";
    scratch_write("a.yaml", axolotl, sizeof axolotl - 1);
    scratch_write("t.yaml", torchtune, sizeof torchtune - 1);
    scratch_write("z.json", zero, sizeof zero - 1);
    scratch_write("n.py", nano, sizeof nano - 1);
    expect(
        TOP "accelerate launch --multi_gpu -m axolotl.cli.train a.yaml\n", "job.sh", 0,
        "--framework hf --batch 2 --accumulate 4 --context 4096 --dtype half --optimizer paged_adamw_32bit "
        "--gradient-checkpointing --adapter-rank 32 --base-bits 4");
    expect(TOP "tune run lora_finetune_single_device --config t.yaml batch_size=5\n", "job.sh", 0,
           "llama-3.1-8b --framework pytorch --batch 5 --context 2048 --dtype half --optimizer adamw "
           "--gradient-checkpointing --adapter-rank 16 --adapter-targets q_proj,v_proj");
    expect("#!/bin/bash\n#SBATCH --gres=gpu:a100_80:4\ndeepspeed run_clm.py --do_train --model_name_or_path "
           "llama-3-8b "
           "--deepspeed z.json --bf16 --block_size 2048 --per_device_train_batch_size 1\n",
           "job.sh", 0, "--gpus 4 --shard zero3");
    expect("#!/bin/bash\n#SBATCH --gpus=a100_80:2\ntune run --nproc_per_node 2 lora_finetune_distributed "
           "--config "
           "t.yaml\n",
           "job.sh", 0, "--gpus 2 --shard fsdp");
    expect(TOP "python train.py n.py --batch_size=48\n", "job.sh", 0,
           "gpt2 --framework pytorch --batch 48 --accumulate 40 --context 512 --dtype float32 --dropout 0");
    expect(TOP "vllm serve meta-llama/Meta-Llama-3-8B --max-model-len 8192 --gpu-memory-utilization 0.9\n",
           "job.sh", 0, "--framework vllm --context 8192 --gpu-memory-utilization 0.9");
    expect(TOP "python -m sglang.launch_server --model-path meta-llama/Meta-Llama-3-8B --port 30000 "
               "--context-length 8192 --mem-fraction-static 0.85\n",
           "job.sh", 0, "--framework sglang --context 8192 --mem-fraction-static 0.85");
    expect(TOP "srun trtllm-llmapi-launch trtllm-serve meta-llama/Meta-Llama-3-8B --backend pytorch "
               "--max_seq_len 8192 --kv_cache_free_gpu_memory_fraction 0.8\n",
           "job.sh", 0, "--framework tensorrt-llm --context 8192 --free-gpu-memory-fraction 0.8");
    expect(TOP "mpirun -np 1 ./train_gpt2cu -e d24 -b 16 -t 1024 -r 2\n", "job.sh", 0,
           "gpt2-medium --framework llm.c --batch 16 --context 1024 --dtype half --gradient-checkpointing");
    expect(TOP "accelerate launch --multi_gpu -m axolotl.cli.train a.yaml\n", "--script-only job.sh", 0,
           "a.yaml was not read");
}

/* A server fills what it is let to, so only what it can't start without is a reason to refuse it: weights,
 * and vLLM's cache of one of the longest texts. */
static void servers_are_refused_by_weights_and_the_least_cache(void **state) {
    (void)state;
    expect(TOP "sglang serve --model-path llama-3-70b\n", "job.sh", 3, "does not fit");
    expect(TOP "trtllm-serve serve llama-3-70b\n", "job.sh", 3, "does not fit");
    expect(TOP "stdbuf -oL vllm serve llama-3-70b --max-model-len 8192\n", "job.sh", 3, "does not fit");
    expect(TOP "sglang serve --model-path llama-3-70b --pp-size 2\n", "job.sh", 0,
           "pp_size 2 has no rule here");
    expect(TOP "trtllm-serve llama-3-70b --backend tensorrt\n", "job.sh", 0, "backend is 'tensorrt'");
    expect(TOP "sglang serve --model-path llama-3-8b --mem-fraction-static 0.1\n", "job.sh", 0,
           "likely does not fit");
    expect(TOP "vllm serve llama-3-8b --gpu-memory-utilization 0.1\n", "job.sh", 0, "likely does not fit");
    /* 16 GiB of weights, and a quarter of a MiB for each token */
    expect(TOP "vllm serve llama-2-7b --max-model-len 4096 --gpu-memory-utilization 0.1\n", "job.sh", 0,
           "likely does not fit");
    expect(TOP "vllm serve llama-2-7b --max-model-len 200000\n", "job.sh", 3, "does not fit");
    expect(TOP "sglang serve --model-path llama-2-7b --context-length 200000\n", "job.sh", 0,
           "likely does not fit");
}

static void json_has_it_all(void **state) {
    (void)state;
    static const char script[] = TOP TRAINS FAT "\n";
    scratch_write("job.sh", script, sizeof script - 1);
    command_result r = command_run("admit job.sh --json --quiet");
    assert_int_equal(r.exit, 3);
    json_document d;
    assert_int_equal(json_parse("admit", r.out, strlen(r.out), &d), STATUS_OK);
    assert_string_equal(command_string(&d, "answer"), "does not fit");
    assert_string_equal(command_string(&d, "device"), "a100-80");
    assert_non_null(strstr(r.out, "\"refused\": true"));
    assert_non_null(strstr(r.out, "\"change\": "));
    json_close(&d);
    command_free(&r);
}

/* Long, deep, and growing by themselves: an answer in little time and memory. */
static void hostile_scripts_end(void **state) {
    (void)state;
    char *all = calloc(1, 5 << 20);
    size_t n = (size_t)sprintf(all, TOP "A=xxxxxxxxxxxxxxxx\n");
    for (int i = 0; i < 60; i++) n += (size_t)sprintf(all + n, "A=$A$A\n");
    for (int i = 0; i < 200000; i++) n += (size_t)sprintf(all + n, "e $A $A\n");
    expect(all, "job.sh", 0, "more tangled");
    n = (size_t)sprintf(all, TOP "echo ");
    for (int i = 0; i < 1000000; i++) all[n++] = "$({\"'`"[i % 6];
    all[n] = 0;
    expect(all, "job.sh", 0, "admitted");
    n = (size_t)sprintf(all, TOP);
    for (int i = 0; i < 4000; i++) n += (size_t)sprintf(all + n, "bash -c \"");
    expect(all, "job.sh", 0, "");
    memset(all, 'x', (5 << 20) - 1);
    scratch_write("job.sh", all, (5 << 20) - 1);
    assert_true(command_says("admit job.sh", 2, "job.sh"));
    scratch_write("job.sh", "#!/bin/sh\n\0\0\0python x.py\n", 25);
    assert_true(command_says("admit job.sh", 0, "this is no script"));
    free(all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scripts_are_read_as_people_write_them),
        cmocka_unit_test(shells_are_followed),
        cmocka_unit_test(what_is_likely_is_said),
        cmocka_unit_test(files_of_the_script_are_read),
        cmocka_unit_test(sbatchs_environment_counts),
        cmocka_unit_test(what_is_not_seen_is_admitted),
        cmocka_unit_test(what_may_be_otherwise_is_admitted),
        cmocka_unit_test(what_is_certain_is_refused),
        cmocka_unit_test(scripts_are_others),
        cmocka_unit_test(the_least_that_it_can_mean_counts),
        cmocka_unit_test(sbatchs_line_counts_more),
        cmocka_unit_test(the_sites_file_names_devices),
        cmocka_unit_test(files_are_read),
        cmocka_unit_test(servers_are_refused_by_weights_and_the_least_cache),
        cmocka_unit_test(json_has_it_all),
        cmocka_unit_test(hostile_scripts_end),
    };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
