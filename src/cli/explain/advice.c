/* What to try next. What is said of a cause stands in one table, `steps`. */
#include <stdio.h>
#include <string.h>

#include "cli/explain/explain.h"

static const explain_backend backends[OOM_BACKENDS] = {
    [OOM_ON_CUDA] = { "cuda", "nvidia-smi", "CUDA_VISIBLE_DEVICES", "PYTORCH_CUDA_ALLOC_CONF" },
    [OOM_ON_HIP] = { "hip", "rocm-smi", "HIP_VISIBLE_DEVICES", "PYTORCH_HIP_ALLOC_CONF" },
    [OOM_ON_XPU] = { "xpu", "xpu-smi", "ZE_AFFINITY_MASK", "PYTORCH_ALLOC_CONF" },
    [OOM_ON_NPU] = { "npu", "npu-smi info", "ASCEND_RT_VISIBLE_DEVICES", "PYTORCH_NPU_ALLOC_CONF" },
    [OOM_ON_MPS] = { "mps", "Activity Monitor", "", "" },
    [OOM_ON_TPU] = { "tpu", "tpu-info", "TPU_VISIBLE_CHIPS", "" },
    [OOM_ON_HOST] = { "host", "free -h", "", "" },
};

const explain_backend *explain_backend_of(const oom *m) { return &backends[m->backend]; }

/* Of the variables that a message may name, that one. */
static const char *conf_of(const oom *m) {
    static const char *const named[] = { [OOM_NO_CONF] = "",
                                         [OOM_CUDA_CONF] = "PYTORCH_CUDA_ALLOC_CONF",
                                         [OOM_HIP_CONF] = "PYTORCH_HIP_ALLOC_CONF",
                                         [OOM_PLAIN_CONF] = "PYTORCH_ALLOC_CONF" };
    return m->conf ? named[m->conf] : backends[m->backend].conf;
}

/* Expandable segments are in versions that offer them; NPU's have them too. */
static const char *setting_of(const oom *m) {
    bool has = m->expandable || m->backend == OOM_ON_NPU;
    return has ? "expandable_segments:True" : "max_split_size_mb:512";
}

/* ---- what is said of a cause ---- */

/* {conf}, {set}, {shows}, {chooses} are those of the backend and the message. */
typedef struct {
    oom_cause cause;
    oom_kind kind; /* OOM_NONE: any */
    const char *words[EXPLAIN_TRIES];
} step;

#define HALF_BATCH                                                                                           \
    "half the micro-batch with twice the gradient accumulation (per_device_train_batch_size, "               \
    "gradient_accumulation_steps): activations and logits halve, the run is the same"
#define CHECKPOINTING                                                                                        \
    "gradient checkpointing (gradient_checkpointing=True): of the activations only the blocks' inputs "      \
    "stay, a "                                                                                               \
    "third more time"
#define FUSED_LOSS "a fused loss (use_liger_kernel=True): no logits of the whole batch"
#define LOOK "look with {shows} for what else holds the device, an earlier run perhaps, and end it"

static const step steps[] = {
    { OOM_FULL, OOM_TORCH, { HALF_BATCH, CHECKPOINTING, FUSED_LOSS } },
    { OOM_FULL,
      OOM_VLLM_WARM_UP,
      { "--max-num-seqs 64 (vLLM) or --max-batch-prefill-tokens 2048 (text-generation-inference), or fewer: "
        "the trial run has as many at once",
        "--gpu-memory-utilization lower by 0.05: more room beside weights and cache",
        "--max-num-batched-tokens of fewer tokens: smaller activations" } },
    { OOM_FULL,
      OOM_LLAMA_CPP,
      { "--ubatch-size 128: the compute buffer grows with the micro-batch",
        "--flash-attn on: the compute buffer has no scores of attention",
        "--ctx-size N of fewer tokens, or --n-gpu-layers N with fewer layers" } },
    { OOM_FULL,
      OOM_TENSORFLOW,
      { "a smaller batch: the tensor that failed and most others shrink with it",
        "tf.keras.mixed_precision.set_global_policy(\"mixed_float16\"): half of the activations",
        "where other processes share the device, TF_FORCE_GPU_ALLOW_GROWTH=true, so that none takes all of "
        "it" } },
    { OOM_FULL,
      OOM_XLA,
      { "a smaller batch, or jax.checkpoint around each block: of the activations only its inputs stay, a "
        "third "
        "more time",
        "donate_argnums of jax.jit for parameters and optimizer state: no second copy of them in the step",
        "on GPUs XLA_PYTHON_CLIENT_MEM_FRACTION=0.95: unless told, JAX takes 75 % of the device" } },
    { OOM_BY_OPTIMIZER,
      OOM_NONE,
      { "an optimizer with less state: optim=\"adamw_bnb_8bit\" keeps 2 bytes a parameter in place of 8, and "
        "\"paged_adamw_8bit\" lends them from the host",
        "AdamW(..., fused=True) or foreach=False: no temporaries as large as the parameters",
        "optimizer state over several devices or on the host (ZeRO stage 1 or more, FSDP), or "
        "adapters "
        "(LoRA) in place of all weights" } },
    { OOM_BY_ATTENTION,
      OOM_NONE,
      { "attention without the score matrix: attn_implementation=\"sdpa\" or \"flash_attention_2\" (and no "
        "output_attentions)",
        "shorter sequences, or a smaller micro-batch: scores grow with the square of the length",
        CHECKPOINTING } },
    { OOM_BY_LOSS,
      OOM_NONE,
      { "a fused loss over pieces of the vocabulary's logits (use_liger_kernel=True, or "
        "FusedLinearCrossEntropy)",
        "half the micro-batch with twice the gradient accumulation: logits halve, the run is the same",
        "shorter sequences, or logits only where there are labels" } },
    { OOM_BY_VALIDATION,
      OOM_NONE,
      { "with torch.no_grad() (or torch.inference_mode()) and model.eval() around validation: else the graph "
        "of "
        "each batch is kept",
        "per_device_eval_batch_size=1: without it the batch of validation is a setting of its own",
        "eval_accumulation_steps=1 with preprocess_logits_for_metrics, or prediction_loss_only=True: results "
        "do not "
        "stay on the device" } },
    { OOM_BY_SAVING,
      OOM_NONE,
      { "save in pieces: FSDP's SHARDED_STATE_DICT (fsdp_state_dict_type), DeepSpeed's own checkpoint and "
        "zero_to_fp32.py afterwards",
        "where one file is wanted, FullStateDictConfig(offload_to_cpu=True, rank0_only=True): gathered on "
        "the host",
        "torch.cuda.empty_cache() before saving: what is reserved and in no tensor becomes free" } },
    { OOM_BY_LOADING,
      OOM_LLAMA_CPP,
      { "--n-gpu-layers N with fewer layers: the others stay with the CPU (snug estimate MODEL --framework "
        "llama.cpp "
        "--gpu NAME says how many fit)",
        "a file of fewer bits a weight", "--tensor-split over the devices that there are" } },
    { OOM_BY_LOADING,
      OOM_NONE,
      { "weights in their own type (torch_dtype=\"auto\"), in 4 bits (load_in_4bit=True), or over devices "
        "(device_map=\"auto\")",
        "shard before the model is moved to a device: FSDP from the meta device, deepspeed.zero.Init",
        LOOK } },
    { OOM_LEAK,
      OOM_NONE,
      { "keep numbers and no tensors from step to step: loss.item() or .detach() where losses, outputs or "
        "metrics are "
        "summed up; no retain_graph=True",
        "torch.cuda.memory._record_memory_history() and _dump_snapshot(): what grows, and which line made it",
        "where lengths differ, batches of one length: the longest of all decides, and it may come late" } },
    { OOM_TOO_LARGE,
      OOM_XLA,
      { "the program over several devices: a mesh and jax.sharding, or FSDP",
        "a smaller batch or shorter sequences", "jax.checkpoint around each block, and 16 bits" } },
    { OOM_TOO_LARGE,
      OOM_NONE,
      { "attention without the score matrix (attn_implementation=\"sdpa\" or \"flash_attention_2\"), or look "
        "for a "
        "shape that is wrong: one tensor is larger than the device",
        "smaller inputs: fewer pixels, frames or tokens at once, in tiles or pieces",
        "a smaller batch, if that tensor has one" } },
    { OOM_FRAGMENTED,
      OOM_XLA,
      { "a restart: pieces that earlier programs left between what is kept become one",
        "fewer shapes: each new one is a program of its own", "a smaller batch" } },
    { OOM_FRAGMENTED,
      OOM_NONE,
      { "{conf}={set}: what is reserved becomes usable",
        "batches of one shape, or of a few: pieces of one size are used again",
        "torch.cuda.empty_cache() between phases (training and validation)" } },
    { OOM_OTHERS,
      OOM_NONE,
      { "end the other processes on this device, or take another one ({shows}, {chooses})",
        "where they are this run's own, one process a device: each rank sets its own device before anything "
        "else",
        HALF_BATCH } },
    { OOM_LIMIT,
      OOM_NONE,
      { "look for a limit of the process: ulimit -v, the container's memory, pinned memory and paging file "
        "where "
        "Windows or WSL lends it",
        "torch.cuda.set_per_process_memory_fraction(1.0), where the program sets less",
        "the same allocation alone in a new process: it tells whether the driver refuses it" } },
    { OOM_OUTSIDE,
      OOM_NCCL,
      { "leave room beside PyTorch's allocator: torch.cuda.set_per_process_memory_fraction(0.9), or a "
        "smaller "
        "micro-batch",
        "NCCL_BUFFSIZE=1048576 or NCCL_MAX_NCHANNELS=4: smaller buffers, slower on fast links",
        "fewer process groups: each has buffers of its own" } },
    { OOM_OUTSIDE,
      OOM_NONE,
      { LOOK,
        "leave room beside the framework's pool: torch.cuda.set_per_process_memory_fraction(0.9), "
        "TF_FORCE_GPU_ALLOW_GROWTH=true, XLA_PYTHON_CLIENT_MEM_FRACTION=0.7",
        HALF_BATCH } },
    { OOM_CACHE,
      OOM_LLAMA_CPP,
      { "--ctx-size N of fewer tokens: the cache grows with it",
        "--cache-type-k q8_0 --cache-type-v q8_0 with --flash-attn on: half of its bytes",
        "--no-kv-offload: the cache stays with the host, slower" } },
    { OOM_CACHE,
      OOM_NONE,
      { "a smaller share for the server (gpu_memory_utilization, vllm_gpu_memory_utilization): its cache "
        "takes all of that share, whatever else is on the device",
        "shorter texts (max_model_len): fewer bytes of keys and values each",
        "--kv-cache-dtype fp8: half of the bytes of keys and values" } },
    { OOM_OF_HOST,
      OOM_CUDA,
      { "pin_memory=False for the data loader: WSL and containers give little memory that can be pinned",
        "fewer workers of data loaders (num_workers)",
        "ulimit -l, and more memory for WSL (.wslconfig) or the job" } },
    { OOM_OF_HOST,
      OOM_HOST,
      { "load the checkpoint in its own type and once: torch_dtype=\"auto\", low_cpu_mem_usage=True",
        "more memory for the job (sbatch --mem or --mem-per-cpu), a larger paging file on Windows, and a "
        "look at ulimit -v",
        "a smaller batch or array where the CPU computes; fewer workers of data loaders (num_workers) where "
        "it only "
        "feeds" } },
    { OOM_OF_HOST,
      OOM_TENSORFLOW,
      { "a smaller shuffle buffer and batch in the input pipeline: they are on the host",
        "more memory for the job (sbatch --mem, docker --memory)",
        "fewer parallel calls of map and interleave" } },
    { OOM_OF_HOST,
      OOM_NONE,
      { "more memory for the job: sbatch --mem=SIZE, or --mem=0 for all of the node's; qsub -l mem=SIZE (and "
        "vmem); "
        "resources.limits.memory of a pod; docker --memory (sacct -j JOB --format=JobID,MaxRSS,ReqMem says "
        "what it "
        "took)",
        "fewer workers of data loaders (num_workers, dataloader_num_workers), and pin_memory=False",
        "low_cpu_mem_usage=True where the checkpoint is loaded, so that no rank holds it twice" } },
    { OOM_SHM,
      OOM_NONE,
      { "a larger /dev/shm: docker run --shm-size=8g or --ipc=host; in Kubernetes an emptyDir of medium "
        "Memory at "
        "/dev/shm",
        "fewer workers of data loaders (num_workers; 0 takes none of it)",
        "torch.multiprocessing.set_sharing_strategy(\"file_system\"), or a smaller batch" } },
    { OOM_UNSAID,
      OOM_LLAMA_CPP,
      { "--n-gpu-layers N with fewer layers: the others stay with the CPU (snug estimate MODEL --framework "
        "llama.cpp "
        "--gpu NAME says how many fit)",
        "--ctx-size N of fewer tokens, or --cache-type-k q8_0 --cache-type-v q8_0 with --flash-attn on: "
        "fewer bytes of "
        "keys and values",
        "--ubatch-size 256: a smaller compute buffer; or a file of fewer bits a weight" } },
    { OOM_UNSAID,
      OOM_XLA,
      { LOOK,
        "XLA_PYTHON_CLIENT_MEM_FRACTION=0.95: unless told, JAX takes 75 % of the device; where processes "
        "share it "
        "XLA_PYTHON_CLIENT_PREALLOCATE=false",
        "a smaller batch, or jax.checkpoint around each block" } },
    { OOM_UNSAID,
      OOM_TENSORFLOW,
      { LOOK, "TF_FORCE_GPU_ALLOW_GROWTH=true: unless told, TensorFlow asks for all of the device at once",
        "a smaller batch" } },
    { OOM_UNSAID,
      OOM_BITSANDBYTES,
      { "look with free -h and {shows} at both while it runs: paged optimizers lend from the host",
        "more of the host's memory, or of what WSL or the container may have", HALF_BATCH } },
    { OOM_UNSAID, OOM_CUDA, { LOOK, HALF_BATCH, CHECKPOINTING } },
    { OOM_UNSAID, OOM_NONE, { HALF_BATCH, CHECKPOINTING, LOOK } },
};

/* ---- filling in ---- */

static void put(explain_advice *a, uint64_t saves, const char *words) {
    snprintf(a->words[a->count], EXPLAIN_WORDS, "%s", words);
    a->saves[a->count++] = saves;
}

static void add(explain_advice *a, uint64_t saves, const char *words) {
    for (int i = 0; i < a->count; i++)
        if (strcmp(a->words[i], words) == 0) return;
    if (a->count < EXPLAIN_TRIES) put(a, saves, words);
}

static const char *named(const oom *m, const char *name, size_t n) {
    const explain_backend *b = explain_backend_of(m);
    if (strncmp(name, "conf", n) == 0) return conf_of(m);
    if (strncmp(name, "set", n) == 0) return setting_of(m);
    return strncmp(name, "shows", n) == 0 ? b->shows : b->chooses;
}

static void add_filled(const oom *m, explain_advice *a, uint64_t saves, const char *words) {
    text t = { 0 };
    for (const char *open; (open = strchr(words, '{')); words = strchr(open, '}') + 1) {
        const char *close = strchr(open, '}');
        text_add(&t, "%.*s%s", (int)(open - words), words, named(m, open + 1, (size_t)(close - open - 1)));
    }
    text_add(&t, "%s", words);
    if (!t.failed) add(a, saves, t.data);
    text_close(&t);
}

/* Of the cause's own the first is what gives back a known size. */
static uint64_t gives_back(const oom *m, oom_cause cause) {
    if (cause == OOM_FRAGMENTED) return m->unallocated;
    if (cause == OOM_OTHERS) return m->others ? m->others : oom_unaccounted(m);
    return cause == OOM_TOO_LARGE ? m->tried : 0;
}

static const step *step_for(const oom *m, oom_cause cause) {
    size_t n = sizeof steps / sizeof *steps;
    for (size_t i = 0; i < n; i++)
        if (steps[i].cause == cause && steps[i].kind == m->kind) return &steps[i];
    for (size_t i = 0; i < n; i++)
        if (steps[i].cause == cause && steps[i].kind == OOM_NONE) return &steps[i];
    return NULL;
}

static void add_steps(const oom *m, oom_cause cause, int most, explain_advice *a) {
    const step *s = step_for(m, cause);
    for (int i = 0; s && i < most; i++) add_filled(m, a, i ? 0 : gives_back(m, cause), s->words[i]);
}

/* ---- what depends on numbers or the backend ---- */

static void advise_vllm(const oom *m, explain_advice *a) {
    char words[EXPLAIN_WORDS];
    if (m->kind == OOM_VLLM_LENGTH && m->room > 0) {
        snprintf(words, sizeof words, "--max-model-len %lld: as long as the cache that there is",
                 (long long)m->room);
        add(a, m->needed > m->available ? m->needed - m->available : 0, words);
    }
    if (m->kind == OOM_VLLM_NOT_FREE) {
        add_filled(m, a, 0,
                   "look with {shows} for what else runs there, an earlier vLLM perhaps, and end it");
        double share = m->total ? (double)m->free / (double)m->total : 0;
        snprintf(words, sizeof words, "--gpu-memory-utilization %.2f: of what is free now", share * 0.98);
        if (share > 0) add(a, 0, words);
    } else {
        add(a, 0,
            "--gpu-memory-utilization 0.95 (SGLang: --mem-fraction-static): more of the device for the "
            "cache");
    }
    add(a, m->needed / 2, "--kv-cache-dtype fp8: half of the bytes of keys and values");
    add(a, 0, "--enforce-eager: no CUDA graphs, one to some GiB, and slower");
    add(a, 0, "--tensor-parallel-size 2: weights and cache over two devices");
}

static void advise_mps(const oom *m, oom_cause cause, explain_advice *a) {
    if (cause == OOM_OTHERS)
        add(a, m->others,
            "close other programs, and torch.mps.empty_cache() between phases: most of what counts is in no "
            "tensor");
    add(a, 0, "a smaller batch or fewer pixels or tokens at once, a smaller model, or 16 bits");
    add(a, 0,
        "PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 in the environment before Python starts: no limit, and the "
        "machine may "
        "stand still");
}

static void advise_limit(const oom *m, explain_advice *a) {
    if (m->allowed)
        add(a, 0,
            "torch.cuda.set_per_process_memory_fraction with a larger share (or the setting of the program "
            "that calls "
            "it), and per_process_memory_fraction in the allocator's variable");
    if (m->backend == OOM_ON_XPU)
        add(a, 0,
            "UR_L0_ENABLE_RELAXED_ALLOCATION_LIMITS=1: unless told, the driver refuses single allocations of "
            "4 GiB and "
            "more");
}

static void advise_cause(const oom *m, oom_cause cause, explain_advice *a) {
    bool serves = m->kind == OOM_VLLM_LENGTH || m->kind == OOM_VLLM_NO_CACHE || m->kind == OOM_VLLM_NOT_FREE;
    if (serves) advise_vllm(m, a);
    if (m->backend == OOM_ON_MPS) advise_mps(m, cause, a);
    if (cause == OOM_LIMIT) advise_limit(m, a);
    if (cause == OOM_BY_ATTENTION && m->fused)
        add(a, 0,
            "attn_implementation=\"flash_attention_2\", or no dense mask and 16 bits: "
            "scaled_dot_product_attention makes scores where its fused kernels do not take the mask, the "
            "type or the device");
    if (cause == OOM_BY_LOADING && m->each_rank)
        add(a, 0,
            "torch.load(..., map_location=\"cpu\"): without it every rank loads to the device that the file "
            "was saved "
            "from");
    if (m->place == OOM_GENERATION && cause == OOM_FULL) {
        add(a, 0, "fewer or shorter texts at once: the cache of keys and values grows with each token");
        add(a, 0, "weights in fewer bits (load_in_4bit=True), or over devices (device_map=\"auto\")");
    }
}

/* ---- with --for ---- */

static uint64_t held_by(const oom *m) { return m->process ? m->process : m->allocated + m->unallocated; }

/* Far more than the device has, or far less than was held when it failed. */
static bool is_far(const oom *m, const cli_savings *s) {
    return (m->total && s->device / 13 > m->total / 10) || (s->live && s->live < m->allocated / 3);
}

/* No change gives back more than the process held. */
static status advise_estimated(const options *o, const oom *m, explain_advice *a) {
    cli_saving savings[EXPLAIN_TRIES];
    a->estimate = (cli_savings){ .savings = savings, .room = EXPLAIN_TRIES };
    TRY(cli_estimate_savings(o, o->for_model, &a->estimate));
    uint64_t held = held_by(m);
    a->far = is_far(m, &a->estimate);
    for (uint32_t i = 0; i < a->estimate.count; i++)
        add(a, held && savings[i].bytes > held ? held : savings[i].bytes, savings[i].text);
    a->estimate.savings = NULL; /* they are said */
    return STATUS_OK;
}

/* Of a step that does not fit all savings count; else the cause's own come first. */
static bool is_of_step(oom_cause cause) {
    return cause == OOM_FULL || cause == OOM_UNSAID || cause == OOM_BY_OPTIMIZER;
}

status explain_advise(const options *o, const oom *m, oom_verdict why, explain_advice *a) {
    bool estimates = o->for_model && m->kind == OOM_TORCH;
    advise_cause(m, why.cause, a);
    if (estimates && !is_of_step(why.cause)) add_steps(m, why.cause, 1, a);
    if (estimates) TRY(advise_estimated(o, m, a));
    bool pieces = why.cause == OOM_FULL && m->kind == OOM_TORCH && oom_pieces_serve(m);
    add_steps(m, why.cause, pieces ? EXPLAIN_TRIES - 1 : EXPLAIN_TRIES, a);
    if (pieces)
        add_filled(m, a, m->unallocated, "{conf}={set}: what lies in pieces would have served this request");
    bool told = m->kind == OOM_KILLED || m->kind == OOM_HOST;
    if (m->killed && !told)
        put(a, 0, "more memory for the job: sbatch --mem=SIZE, or --mem=0 for all of the node's");
    return STATUS_OK;
}
