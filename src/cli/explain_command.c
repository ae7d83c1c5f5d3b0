/* snug explain-oom: what a message on memory that ran out means, and what to try. What can be said of each
 * kind of message stands in one table, `kinds`. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/units.h"
#include "cli/cli.h"
#include "estimate/oom/oom.h"
#include "io/file.h"
#include "io/json.h"

enum { LARGEST = 4 << 20, TRIES = 3, MOST_TRIES = TRIES + 1, WORDS = 320 };

/* ---- what was pasted ---- */

/* Of a longer log the end is kept, of a file as of what comes through a pipe: the message stands there. */
static status read_stdin(char **bytes, uint64_t *count) {
    size_t room = 1 << 16, have = 0, got;
    char *all = memory_new(room, 1);
    while (all && (got = fread(all + have, 1, room - have, stdin)) > 0) {
        have += got;
        if (have < room) continue;
        if (room >= LARGEST) {
            memmove(all, all + room / 2, room / 2);
            have = room / 2;
            continue;
        }
        char *more = memory_resize(all, room *= 2, 1);
        if (!more) memory_free(all);
        all = more;
    }
    *bytes = all, *count = have;
    return all ? STATUS_OK : status_set(STATUS_FAILED, "no memory to read the message");
}

static status read_end(const char *path, char **bytes, uint64_t *count) {
    int file;
    uint64_t all;
    TRY(io_open(path, &file, &all));
    *count = all < LARGEST ? all : LARGEST;
    *bytes = memory_room((size_t)*count, 1);
    status result = *bytes ? io_read_at(file, path, all - *count, *bytes, *count)
                           : status_set(STATUS_FAILED, "no memory to read %s", path);
    close(file);
    if (result == STATUS_OK) return STATUS_OK;
    memory_free(*bytes);
    return result;
}

static status read_message(const char *path, oom *m) {
    char *bytes = NULL;
    uint64_t count = 0;
    bool given = path && strcmp(path, "-") != 0;
    TRY(given ? read_end(path, &bytes, &count) : read_stdin(&bytes, &count));
    bool found = oom_read(bytes, (size_t)count, m);
    memory_free(bytes);
    if (found) return STATUS_OK;
    return status_set(STATUS_INVALID,
                      "%s has no message of PyTorch (\"out of memory. Tried to allocate ...\"), vLLM's "
                      "start, llama.cpp, JAX, "
                      "CUDA or Slurm's oom_kill; paste all of it",
                      given ? path : "the text");
}

/* ---- what to try ---- */

typedef struct {
    char words[MOST_TRIES][WORDS];
    uint64_t saves[MOST_TRIES]; /* bytes; 0: not known */
    int count;
    cli_savings estimate; /* of what --for says; of 0 bytes without it */
    bool far;             /* that is not what the message is about */
} advice;

static void put(advice *a, uint64_t saves, const char *words) {
    snprintf(a->words[a->count], WORDS, "%s", words);
    a->saves[a->count++] = saves;
}

static void add(advice *a, uint64_t saves, const char *words) {
    if (a->count < TRIES) put(a, saves, words);
}

static void advise_vllm(const oom *m, advice *a) {
    char words[WORDS];
    if (m->kind == OOM_VLLM_LENGTH && m->room > 0) {
        snprintf(words, sizeof words, "--max-model-len %lld: as long as the cache that there is",
                 (long long)m->room);
        add(a, m->needed > m->available ? m->needed - m->available : 0, words);
    }
    if (m->kind == OOM_VLLM_NOT_FREE) {
        add(a, 0, "look with nvidia-smi for what else runs there, an earlier vLLM perhaps, and end it");
        double share = m->total ? (double)m->free / (double)m->total : 0;
        snprintf(words, sizeof words, "--gpu-memory-utilization %.2f: of what is free now", share * 0.98);
        if (share > 0) add(a, 0, words);
    } else {
        add(a, 0, "--gpu-memory-utilization 0.95: more of the device for the cache");
    }
    add(a, m->needed / 2, "--kv-cache-dtype fp8: half of the bytes of keys and values");
    add(a, 0, "--enforce-eager: no CUDA graphs, one to some GiB, and slower");
    add(a, 0, "--tensor-parallel-size 2: weights and cache over two devices");
}

static void advise_cause(const oom *m, oom_cause why, advice *a) {
    if (why == OOM_FRAGMENTED)
        add(a, m->unallocated,
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: what is reserved becomes usable");
    if (why == OOM_OTHERS)
        add(a, m->others,
            "end the other processes on this device, or take another one (nvidia-smi, "
            "CUDA_VISIBLE_DEVICES)");
    if (why == OOM_TOO_LARGE)
        add(a, m->tried,
            "attention without the score matrix (attn_implementation=\"sdpa\" or "
            "\"flash_attention_2\"), or look for a shape that is wrong: one tensor is larger than the "
            "device");
}

static uint64_t held_by(const oom *m) { return m->process ? m->process : m->allocated + m->unallocated; }

/* Far more than the device has, or far less than was held when it failed. */
static bool is_far(const oom *m, const cli_savings *s) {
    return (m->total && s->device / 13 > m->total / 10) || (s->live && s->live < m->allocated / 3);
}

/* No change gives back more than the process held. */
static status advise_estimated(const options *o, const oom *m, advice *a) {
    cli_saving savings[TRIES];
    a->estimate = (cli_savings){ .savings = savings, .room = TRIES };
    TRY(cli_estimate_savings(o, o->for_model, &a->estimate));
    uint64_t held = held_by(m);
    a->far = is_far(m, &a->estimate);
    for (uint32_t i = 0; i < a->estimate.count; i++)
        add(a, held && savings[i].bytes > held ? held : savings[i].bytes, savings[i].text);
    a->estimate.savings = NULL; /* they are said */
    return STATUS_OK;
}

static void advise_torch(const oom *m, advice *a) {
    add(a, 0,
        "half the micro-batch with twice the gradient accumulation (per_device_train_batch_size, "
        "gradient_accumulation_steps): activations and logits halve, the run is the same");
    add(a, 0,
        "gradient checkpointing (gradient_checkpointing=True): of the activations only the blocks' inputs "
        "stay, a third more time");
    if (m->unallocated > m->total / 10)
        add(a, m->unallocated,
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: what is reserved becomes usable");
    add(a, 0, "a fused loss (use_liger_kernel=True): no logits of the whole batch");
}

/* ---- what is said ---- */

static const char *bytes_text(uint64_t bytes) {
    static char texts[8][UNITS_TEXT_BYTES];
    static int next;
    next = (next + 1) % 8;
    return units_bytes_text(bytes, texts[next]);
}

static void add_held(text *t, const char *what, uint64_t bytes, uint64_t total) {
    if (bytes)
        text_add(t, "  %-46s %12s  %5.1f %%\n", what, bytes_text(bytes),
                 100.0 * (double)bytes / (double)total);
}

static void say_torch(text *t, const oom *m, oom_cause why) {
    static const char *const causes[] = {
        [OOM_FULL] = "Tensors fill the device: less must be kept.",
        [OOM_FRAGMENTED] =
            "Fragmentation: enough is reserved and in no tensor, but in pieces that are too small.",
        [OOM_OTHERS] = "Somebody else is on this device: without them it would fit.",
        [OOM_TOO_LARGE] =
            ("One request is larger than the whole device: no other process, and no setting of the "
             "allocator, is to blame."),
    };
    uint64_t own = m->allocated + m->unallocated, total = m->total ? m->total : own + m->free;
    if (!total) {
        text_add(
            t,
            "PyTorch asked for %s. What held the memory is missing: the message goes on after that, paste it "
            "whole.\n",
            bytes_text(m->tried));
        return;
    }
    text_add(t, "PyTorch asked for %s where %s were free: %s too much.\n", bytes_text(m->tried),
             bytes_text(m->free), bytes_text(oom_short(m)));
    text_add(t, "\nWhat held the memory");
    if (m->gpu >= 0) text_add(t, " of GPU %lld", (long long)m->gpu);
    text_add(t, ", of %s\n", bytes_text(total));
    add_held(t, "tensors of this process", m->allocated - (m->pools < m->allocated ? m->pools : 0), total);
    add_held(t, "private pools, as of CUDA graphs", m->pools, total);
    add_held(t, "reserved, in no tensor", m->unallocated, total);
    add_held(t, "context and libraries of this process", m->process > own ? m->process - own : 0, total);
    add_held(t, "other processes", m->others, total);
    add_held(t, "processes, one of them this one", m->unclear, total);
    add_held(t, "free", m->free, total);
    text_add(t, "\n%s\n", causes[why]);
    if (m->unclear)
        text_add(
            t,
            "Which of the processes named is this one is not known: none of them holds what PyTorch says it "
            "has.\n");
}

static void say_vllm(text *t, const oom *m) {
    if (m->kind == OOM_VLLM_LENGTH && m->needed)
        text_add(t,
                 "vLLM: one text of %lld tokens takes %s of keys and values, and %s are left for them beside "
                 "weights "
                 "and activations.\n",
                 (long long)m->length, bytes_text(m->needed), bytes_text(m->available));
    else if (m->kind == OOM_VLLM_LENGTH)
        text_add(t, "vLLM: the cache of keys and values holds %lld tokens, and one text may have %lld.\n",
                 (long long)m->room, (long long)m->length);
    else if (m->kind == OOM_VLLM_NOT_FREE)
        text_add(
            t, "vLLM was to use %.0f %% of the device, and only %s of %s are free: somebody else is there.\n",
            100 * m->utilization, bytes_text(m->free), bytes_text(m->total));
    else
        text_add(t, "vLLM: weights, activations and graphs leave nothing for keys and values.\n");
}

/* ---- the kinds ---- */

/* What is said in general, and next, of messages that have at most the size of the request. */
typedef struct {
    const char *name;  /* in JSON */
    const char *asker; /* who asked for the bytes of the message */
    const char *said;
    const char *steps[TRIES];
} kind;

static const kind kinds[OOM_KINDS] = {
    [OOM_NONE] = { .name = "none" },
    [OOM_TORCH] = { .name = "torch" },
    [OOM_VLLM_LENGTH] = { .name = "vllm-length" },
    [OOM_VLLM_NO_CACHE] = { .name = "vllm-no-cache" },
    [OOM_VLLM_NOT_FREE] = { .name = "vllm-not-free" },
    [OOM_LLAMA_CPP] = { "llama-cpp",
                        "llama.cpp",
                        "llama.cpp found no room on the device for one of its three: the weights of the "
                        "layers "
                        "put there, keys and values, the compute buffer.",
                        { "--n-gpu-layers N with fewer layers: the others stay with the CPU (snug estimate "
                          "MODEL "
                          "--framework llama.cpp --gpu NAME says how many fit)",
                          "--ctx-size N of fewer tokens, or --cache-type-k q8_0 --cache-type-v q8_0 with "
                          "--flash-attn: fewer bytes of keys and values",
                          "--ubatch-size 256: a smaller compute buffer; or a file of fewer bits a weight" } },
    [OOM_TORCH_CPU] = { "torch-cpu",
                        "PyTorch on the CPU",
                        "It is the host's memory that ran out, or the job's limit of it, and no device's.",
                        { "load the checkpoint in its own type and once: torch_dtype=\"auto\", "
                          "low_cpu_mem_usage=True",
                          "more memory for the job (sbatch --mem or --mem-per-cpu), and a look at ulimit -v",
                          "a smaller batch where the CPU computes; fewer workers of data loaders "
                          "(num_workers) "
                          "where it only feeds" } },
    [OOM_JAX] = { "jax",
                  "XLA",
                  "JAX found no room on the device for a buffer of the compiled step.",
                  { "jax.checkpoint around each block: of the activations only its inputs stay, a third more "
                    "time",
                    "donate_argnums of jax.jit for parameters and optimizer state: no second copy of them in "
                    "the "
                    "step",
                    "XLA_PYTHON_CLIENT_MEM_FRACTION=0.95: unless told, JAX takes 75 % of the device; where "
                    "processes share it XLA_PYTHON_CLIENT_PREALLOCATE=false" } },
    [OOM_CUDA] = { "cuda",
                   "CUDA",
                   "CUDA or one of its libraries found no memory on the device, outside of the framework's "
                   "allocator, and gives no numbers: for a context, a workspace (cuBLAS, cuDNN) or a kernel.",
                   { "look with nvidia-smi for what else holds the device, an earlier run perhaps, and end "
                     "it",
                     "leave room beside PyTorch's allocator: torch.cuda.set_per_process_memory_fraction(0.9)",
                     "half the micro-batch with twice the gradient accumulation; snug estimate says what the "
                     "run "
                     "takes of the whole device" } },
    [OOM_KILLED] = { "host-killed",
                     "the job",
                     "The system killed a process of the job: the host's memory, or the job's limit of it, "
                     "ran out, "
                     "and no device's. What takes it is mostly workers of data loaders, pinned memory, or a "
                     "checkpoint that every rank loads on the CPU.",
                     { "more memory for the job: sbatch --mem=SIZE, or --mem=0 for all of the node's (sacct "
                       "-j JOB "
                       "--format=JobID,MaxRSS,ReqMem says what it took)",
                       "fewer workers of data loaders (num_workers, dataloader_num_workers), and "
                       "pin_memory=False",
                       "low_cpu_mem_usage=True where the checkpoint is loaded, so that no rank holds it "
                       "twice" } },
};

static status advise(const options *o, const oom *m, oom_cause why, advice *a) {
    const kind *k = &kinds[m->kind];
    if (m->kind == OOM_TORCH) advise_cause(m, why, a);
    if (m->kind == OOM_TORCH && o->for_model) TRY(advise_estimated(o, m, a));
    if (m->kind == OOM_TORCH && !o->for_model) advise_torch(m, a);
    if (m->kind != OOM_TORCH && !k->said) advise_vllm(m, a);
    for (int i = 0; i < TRIES && k->said; i++) add(a, 0, k->steps[i]);
    bool told = m->kind == OOM_KILLED || m->kind == OOM_TORCH_CPU; /* of the host's memory */
    if (m->killed && !told) put(a, 0, kinds[OOM_KILLED].steps[0]);
    return STATUS_OK;
}

static void say_plain(text *t, const oom *m) {
    const kind *k = &kinds[m->kind];
    if (m->tried) {
        text_add(t, "%s asked for %s", k->asker, bytes_text(m->tried));
        if (m->gpu >= 0) text_add(t, " on device %lld", (long long)m->gpu);
        text_add(t, " and got nothing.\n");
    }
    text_add(t, "%s\n", k->said);
}

static void say_far(text *t, const oom *m, const cli_savings *s) {
    bool more = m->total && s->device > m->total;
    text_add(t,
             "\nThese settings cannot be those of the run%s: with them it is estimated to take %s of the "
             "device (%s in tensors)",
             more ? ", unless it failed long before its peak" : "", bytes_text(s->device),
             bytes_text(s->live));
    if (m->total) text_add(t, ", and the device has %s", bytes_text(m->total));
    text_add(t, ", of which tensors held %s. The savings below are cut to what the process held.\n",
             bytes_text(m->allocated));
}

static void say(text *t, const oom *m, oom_cause why, const advice *a) {
    if (m->kind == OOM_TORCH)
        say_torch(t, m, why);
    else if (kinds[m->kind].said)
        say_plain(t, m);
    else
        say_vllm(t, m);
    if (a->far) say_far(t, m, &a->estimate);
    if (m->killed && m->kind != OOM_KILLED) text_add(t, "\nAnd beside it: %s\n", kinds[OOM_KILLED].said);
    text_add(t, "\nTry next\n");
    for (int i = 0; i < a->count; i++) {
        text_add(t, "  %d. %s", i + 1, a->words[i]);
        if (a->saves[i]) text_add(t, " (up to %s)", bytes_text(a->saves[i]));
        text_add(t, "\n");
    }
}

static void put_json(text *t, const oom *m, oom_cause why, const advice *a) {
    static const char *const causes[] = { "full", "fragmented", "others", "too-large" };
    json_writer w = { .out = t, .lines = true };
    json_begin_object(&w, NULL);
    json_put_string(&w, "kind", kinds[m->kind].name);
    if (m->kind == OOM_TORCH) json_put_string(&w, "cause", causes[why]);
    json_put_bool(&w, "host_killed", m->killed);
    if (m->gpu >= 0) json_put_integer(&w, "gpu", m->gpu);
    const struct {
        const char *key;
        uint64_t bytes;
    } sizes[] = { { "tried_bytes", m->tried },
                  { "total_bytes", m->total },
                  { "free_bytes", m->free },
                  { "allocated_bytes", m->allocated },
                  { "unallocated_bytes", m->unallocated },
                  { "process_bytes", m->process },
                  { "other_bytes", m->others },
                  { "unclear_bytes", m->unclear },
                  { "needed_bytes", m->needed },
                  { "available_bytes", m->available } };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        json_put_unsigned(&w, sizes[i].key, sizes[i].bytes);
    if (a->estimate.device) {
        json_put_unsigned(&w, "estimated_bytes", a->estimate.device);
        json_put_bool(&w, "settings_far", a->far);
    }
    json_begin_array(&w, "try");
    for (int i = 0; i < a->count; i++) {
        json_begin_object(&w, NULL);
        json_put_string(&w, "what", a->words[i]);
        if (a->saves[i]) json_put_unsigned(&w, "saves_bytes", a->saves[i]);
        json_end_object(&w);
    }
    json_end_array(&w);
    json_end_object(&w);
    text_add(t, "\n");
}

status cli_explain(const options *o, cli_streams *streams) {
    oom m;
    advice a = { .count = 0 };
    TRY(read_message(o->subject, &m));
    oom_cause why = oom_why(&m);
    TRY(advise(o, &m, why, &a));
    text t = { 0 };
    if (streams->people.file) {
        say(&t, &m, why, &a);
        output_text(&streams->people, &t);
    }
    if (!o->json) return STATUS_OK;
    put_json(&t, &m, why, &a);
    output_text(&streams->result, &t);
    return STATUS_OK;
}
