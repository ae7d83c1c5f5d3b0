"""Job scripts as people write them, for bench/admit.py: the same run said in many ways.

The shapes are those of public repositories' scripts, and were written down without a look at how `snug admit` reads
them: loops over seeds and sizes, arrays of jobs, functions, a line kept in a variable, files that the script writes
itself, branches that change nothing, containers, launchers. Each says the run that it is given and no other; of a loop
or an array the run is the largest of several."""

PRELUDES = [
    "module purge\nmodule load cuda/12.1 gcc",
    "source ~/.bashrc\nconda activate train",
    'eval "$(conda shell.bash hook)"\nconda activate train',
    "source $HOME/venv/bin/activate",
    "set -euo pipefail",
    "set -x -e",
    "cd $SLURM_SUBMIT_DIR",
    "cd /scratch/$USER/project || exit 1",
    "mkdir -p logs out",
    'export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)\nexport MASTER_PORT=29500',
    "export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK",
    "export HF_HOME=${HF_HOME:-/scratch/hf}\nexport TOKENIZERS_PARALLELISM=false",
    'echo "job $SLURM_JOB_ID on $(hostname), $(date)"',
    "nvidia-smi",
    "ulimit -n 4096",
    "trap 'cp -r out $HOME/' EXIT",
    "nvidia-smi --query-gpu=memory.used --format=csv -l 60 > gpu.log &",
    "rsync -a data/ $TMPDIR/data/",
    'if [ -z "$HF_TOKEN" ]; then\n    echo "no token" >&2\nfi',
    "[ -d logs ] || mkdir logs",
    "export PYTHONPATH=$PWD:${PYTHONPATH:-}",
    "START=$(date +%s)",
    "cat <<'END'\nThis job trains a model.\nEND",
]

CONTAINERS = [
    "apptainer exec --nv image.sif {}",
    "singularity exec --nv -B /scratch:/scratch image.sif {}",
    "singularity run --nv --bind $PWD image.sif {}",
    "srun --container-image=nvcr.io#nvidia/pytorch:24.01-py3 --container-mounts=$PWD:/workspace {}",
    "enroot start --rw --mount $PWD:/workspace image {}",
    "conda run -n train --no-capture-output {}",
    "uv run {}",
    "shifter --image=docker:nvcr.io/nvidia/pytorch:24.01-py3 {}",
    "podman-hpc run --rm --gpu -v $PWD:/w image:1 {}",
    "nohup {}",
    "stdbuf -oL {}",
    "time {}",
    "srun --unbuffered --cpu-bind=none {}",
    "srun -n 1 -c 8 {}",
]


def quoted(word):
    return f'"{word}"' if " " in word else f"'{word}'" if '"' in word else word


class Job:
    """A script that grows. `words`: the command as it runs; `size`: where the batch stands in it, or None."""

    def __init__(self, draw, words, gpus):
        self.draw, self.words, self.gpus = draw, list(words), gpus
        sizes = ("--per_device_train_batch_size", "-b")
        self.size = next((i + 1 for i, word in enumerate(words) if word in sizes), None)
        self.asks, self.lines, self.arguments = [], [], []
        self.said = [quoted(word) for word in words]
        self.launched = words[0] in ("torchrun", "deepspeed", "accelerate")

    def line(self, said=None):
        said = said or self.said
        return " \\\n    ".join(said) if self.draw.random() < 0.5 else " ".join(said)

    def trains(self):
        """It is a program with the Trainer's options, to which more of them may be added."""
        return self.size is not None and self.words[self.size - 1].startswith("--per")


# ---- each a way to say the run: it changes the job and gives its last lines ----

def plainly(job):
    return [job.line()]


def by_variables(job):
    for i, word in enumerate(job.words):
        if i and job.words[i - 1] in ("--model_name_or_path", "--block_size", "--max_length", "--optim"):
            name = job.words[i - 1].strip("-").upper()
            job.lines.append(f'{name}="{word}"' if job.draw.random() < 0.5 else f"export {name}={word}")
            job.said[i] = f'"${name}"' if job.draw.random() < 0.5 else f"${{{name}}}"
    if job.size:
        job.lines.append(f"BS={job.words[job.size]}")
        job.said[job.size] = "$BS"
    return [job.line()]


def by_argument(job):
    if job.size:
        job.arguments = [job.words[job.size]]
        job.lines.append(job.draw.choice(["BATCH=$1", "BATCH=${1:-1}", "BATCH=${1:?batch}"]))
        job.said[job.size] = "$BATCH"
    return [job.line()]


def with_default(job):
    if job.size:
        job.lines.append(f"BATCH_SIZE=${{BATCH_SIZE:-{job.words[job.size]}}}")
        job.said[job.size] = '"$BATCH_SIZE"'
    return [job.line()]


def by_sum(job):
    if job.size:
        b = int(job.words[job.size])
        job.lines += [f"GLOBAL={b * job.gpus}", f"NGPU={job.gpus}", "MICRO=$((GLOBAL / NGPU))"]
        job.said[job.size] = "$MICRO"
    return [job.line()]


def by_list(job):
    job.lines += ["ARGS=(", *[f"    {word}" for word in job.said[3:]], ")"]
    return [job.line([*job.said[:3], '"${ARGS[@]}"'])]


def by_lists(job):
    half = (3 + len(job.said)) // 2
    job.lines += [f"FIRST=({' '.join(job.said[3:half])})", f"SECOND=({' '.join(job.said[half:])})"]
    return [job.line([*job.said[:3], '"${FIRST[@]}"', "${SECOND[@]}"])]


def loop_over_seeds(job):
    seeds = job.draw.choice(["1 2 3", "$(seq 1 3)", "{1..3}", '"${SEEDS[@]}"'])
    if "SEEDS" in seeds:
        job.lines.append("SEEDS=(41 42 43)")
    more = ["--seed", "$seed", "--output_dir", "out/$seed"] if job.trains() else []
    return [f"for seed in {seeds}; do", f"    echo seed $seed\n    {job.line([*job.said, *more])}", "done"]


def loop_over_sizes(job):
    if not job.size:
        return [job.line()]
    b = int(job.words[job.size])
    job.said[job.size] = "$b"
    return [f"for b in {max(1, b // 4)} {max(1, b // 2)} {b}", "do", "    " + job.line(), "done"]


def array_of_rates(job):
    job.asks.append("--array=0-2")
    if not job.trains():
        return [job.line()]
    job.lines += ["RATES=(1e-5 2e-5 5e-5)", job.draw.choice(["LR=${RATES[$SLURM_ARRAY_TASK_ID]}",
                                                             "LR=${RATES[SLURM_ARRAY_TASK_ID]}"])]
    return [job.line([*job.said, "--learning_rate", "$LR"])]


def array_of_sizes(job):
    job.asks.append("--array=0-2%1")
    if not job.size:
        return [job.line()]
    b = int(job.words[job.size])
    job.lines.append(f"SIZES=({max(1, b // 4)} {max(1, b // 2)} {b})")
    job.said[job.size] = "${SIZES[$SLURM_ARRAY_TASK_ID]}"
    return [job.line()]


def array_by_case(job):
    job.asks.append("--array=1-2")
    if not job.size:
        return [job.line()]
    b = int(job.words[job.size])
    job.lines += ["case $SLURM_ARRAY_TASK_ID in", f"    1) B={max(1, b // 2)} ;;", f"    2) B={b} ;;", "esac"]
    job.said[job.size] = "$B"
    return [job.line()]


def in_function(job):
    name = job.draw.choice(["run", "train_model", "main"])
    if job.size and job.draw.random() < 0.6:
        call = f"{name} {job.words[job.size]}"
        job.said[job.size] = "$1"
    else:
        call = f'{name} "$@"'
    begin = job.draw.choice([f"{name}() {{", f"function {name} {{", f"{name} ()\n{{"])
    return [begin, '    echo "begins"', f"    {job.line()}", "}", "", call]


def in_function_with_locals(job):
    if not job.size:
        return in_function(job)
    b, job.said[job.size] = job.words[job.size], "${batch}"
    return ["train() {", '    local batch="$1"', "    local name=$2", f"    {job.line()}", "}", f"train {b} first"]


def kept_line(job):
    way = job.draw.choice(["eval $CMD", 'eval "$CMD"', 'bash -c "$CMD"', "$CMD", 'srun bash -c "$CMD"'])
    if way == "$CMD" and any(" " in word for word in job.words):
        way = 'eval "$CMD"'
    said = " ".join(f"'{word}'" if " " in word or '"' in word else word for word in job.words)
    if '"' in said:
        return [job.line()]
    job.lines.append(f'CMD="{said}"')
    return ["echo $CMD", way]


def launcher_and_command(job):
    """The launcher in one variable, the program in another, and a shell of srun's that puts them together."""
    if job.words[0] != "torchrun" or any(" " in word or '"' in word for word in job.words):
        return [job.line()]
    job.lines += ['export LAUNCHER="python -u -m torch.distributed.run --nproc_per_node ' + f"{job.gpus} --nnodes 1 "
                  '--rdzv_backend c10d --rdzv_endpoint $MASTER_ADDR:$MASTER_PORT --max_restarts 0 --tee 3"',
                  f'export CMD="{" ".join(job.words[3:])}"', "echo $CMD"]
    return [job.draw.choice(["srun --jobid $SLURM_JOB_ID bash -c '$LAUNCHER $CMD' 2>&1 | tee -a log",
                             'srun bash -c "$LAUNCHER --node_rank \\$SLURM_PROCID $CMD"', "srun $LAUNCHER $CMD"])]


def other_launchers(job):
    if job.words[0] != "torchrun":
        return [job.line(["python3", "-u", *job.said[1:]] if job.said[0] == "python" else None)]
    rest, n = job.said[3:], job.gpus
    job.lines.append(f"NUM_GPUS={n}")
    mixed = "bf16" if "--bf16" in job.words else "fp16" if "--fp16" in job.words else "no"
    fronts = [["torchrun", "--nproc_per_node=$SLURM_GPUS_ON_NODE", "--nnodes=1"],
              ["torchrun", "--nproc-per-node", "$NUM_GPUS", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0"],
              ["torchrun", "--nproc_per_node=gpu"],
              ["torchrun", "--nproc_per_node", "$(nvidia-smi -L | wc -l)"],
              ["python", "-m", "torch.distributed.launch", f"--nproc_per_node={n}", "--use_env"],
              ["python3", "-m", "torch.distributed.run", "--nproc_per_node", "${NUM_GPUS}"]]
    if "--fsdp" not in job.words:
        fronts += [["accelerate", "launch", "--multi_gpu", "--num_processes", str(n), "--mixed_precision", mixed],
                   ["accelerate", "launch", "--num_processes=$NUM_GPUS", "--num_machines=1"],
                   ["deepspeed", f"--num_gpus={n}"]]
    return [job.line([*job.draw.choice(fronts), *rest])]


def written_file(job):
    """The options as a file that the script writes."""
    at = next((i for i, word in enumerate(job.words) if word.endswith("sft.py") or word == "sft"), None)
    if at is None or not job.trains():
        return [job.line()]
    pairs, name = [], None
    for word in job.words[at + 1:]:
        if word.startswith("--"):
            name = word[2:]
            pairs.append([name])
        else:
            pairs[-1].append(word)
    body = []
    for name, *values in pairs:
        value = "true" if not values else values[0] if len(values) == 1 else "[" + ", ".join(values) + "]"
        body.append(f"{name}: {value}")
    file = job.draw.choice(["config.yaml", "$CONFIG"])
    if "$" in file:
        job.lines.append("CONFIG=/tmp/sft.yaml")
    begin = job.draw.choice([f"cat > {file} <<EOF", f"cat <<EOF > {file}", f"cat << 'EOF' >{file}"])
    job.lines += [begin, *body, "EOF"]
    return [job.line([*job.said[:at + 1], "--config", file])]


def branch_of_no_weight(job):
    if not job.trains():
        return [job.line()]
    form = job.draw.randrange(4)
    if form == 0:
        job.lines += ['EXTRA=""', 'if [ "$SLURM_JOB_PARTITION" = debug ]; then', '    EXTRA="--max_steps 10"', "fi"]
        return [job.line([*job.said, "$EXTRA"])]
    if form == 1:
        job.lines += ["RESUME=", "if [ -d out/checkpoint-100 ]; then", "    RESUME=out/checkpoint-100", "fi"]
        return [job.line([*job.said, '${RESUME:+--resume_from_checkpoint "$RESUME"}'])]
    if form == 2:
        job.lines += ["if [[ $SLURM_RESTART_COUNT -gt 0 ]]; then", '    MORE="--resume_from_checkpoint True"', "else",
                      '    MORE="--overwrite_output_dir"', "fi"]
        return [job.line([*job.said, "$MORE"])]
    return [job.line([*job.said, '"$@"'])]


def in_branch(job):
    form = job.draw.randrange(4)
    if form == 0:
        return [f"if ! {job.line()}; then", "    echo failed", "    exit 1", "fi"]
    if form == 1:
        return ["if [ ! -f out/done ]; then", "    " + job.line(), "    touch out/done", "fi"]
    if form == 2:
        return [f'{job.line()} || {{ echo "failed"; exit 1; }}']
    return [f"{job.line()} && touch out/done"]


def with_neighbours(job):
    form = job.draw.randrange(5)
    if form == 0:
        return [f"{job.line()} &", "PID=$!", "wait $PID", "CODE=$?", "exit $CODE"]
    if form == 1:
        return [f"{job.line()} 2>&1 | tee logs/train.log"]
    if form == 2:
        return ["python prepare.py --data raw --out text || exit 1", f"{job.line()}", "python test.py --model out"]
    if form == 3:
        return ["python -c 'import torch; print(torch.cuda.is_available())'", f"{job.line()} > log.$SLURM_JOB_ID 2>&1",
                "if [ $? -ne 0 ]; then", "    exit 1", "fi"]
    return ["(", f"  cd work && {job.line()}", ")"]


def in_container(job):
    way = job.draw.choice(CONTAINERS)
    return [way.format(job.line())]


def with_prefix(job):
    front = job.draw.choice(["CUDA_VISIBLE_DEVICES=" + ",".join(str(i) for i in range(job.gpus)), "WANDB_MODE=offline",
                             "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:512", "NCCL_DEBUG=INFO OMP_NUM_THREADS=8"])
    return [f"{front} {job.line()}"]


def by_path(job):
    """Programs by paths that only the node knows."""
    front = job.draw.choice(["$HOME/venv/bin/", "${SCRATCH}/env/bin/", "/opt/conda/bin/"])
    said = list(job.said)
    if job.draw.random() < 0.4 and said[0] in ("python", "torchrun"):
        job.lines.append(f"TOOL=$(which {said[0]})")
        said[0] = "$TOOL"
    else:
        said[0] = front + said[0] if not said[0].startswith("./") else said[0]
    for i, word in enumerate(said):
        if word.endswith(".py"):
            said[i] = job.draw.choice(["$SLURM_SUBMIT_DIR/", "$PROJECT_DIR/src/", "examples/pytorch/"]) + word
    return [job.line(said)]


WAYS = [plainly, by_variables, by_argument, with_default, by_sum, by_list, by_lists, loop_over_seeds, loop_over_sizes,
        array_of_rates, array_of_sizes, array_by_case, in_function, in_function_with_locals, kept_line,
        launcher_and_command, other_launchers, written_file, branch_of_no_weight, in_branch, with_neighbours,
        in_container, with_prefix, by_path]


def script(draw, words, device, gpus, asked_on_line):
    """The script, sbatch's options, the script's arguments, and the way's name."""
    kind = device.replace("-", "_")
    gres = draw.choice([[f"--gres=gpu:{kind}:{gpus}"], ["--gres", f"gpu:{kind}:{gpus}"],
                        [f"--gpus-per-node={kind}:{gpus}"], [f"--gpus={kind}:{gpus}"], ["-G", f"{kind}:{gpus}"]])
    job = Job(draw, words, gpus)
    way = draw.choice(WAYS)
    preludes = draw.sample(PRELUDES, draw.randrange(2, 7))
    if way is launcher_and_command and not any("MASTER_ADDR=" in one for one in preludes):
        preludes.append("export MASTER_ADDR=localhost\nexport MASTER_PORT=$((10000 + RANDOM % 20000))")
    last = way(job)
    if way is not in_function and draw.random() < 0.3 and not job.launched and last[0].startswith(("python", "trl")):
        last[0] = "srun " + last[0]
    asks = ["--job-name=test", "--time=01:00:00 # an hour", "--output=logs/%x-%j.out", "--cpus-per-task=8", "--mem=64G"]
    asks = draw.sample(asks, 3) + job.asks + ([] if asked_on_line else [" ".join(gres)])
    lines = ["#!/bin/bash" + draw.choice(["", " -l"]), *[f"#SBATCH {one}" for one in asks], "", *preludes, ""]
    lines += [*job.lines, "", "echo begins", *last, "echo ends"]
    return "\n".join(lines) + "\n", gres if asked_on_line else [], job.arguments, way.__name__
