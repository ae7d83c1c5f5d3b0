/* What is said to people: what held the memory, why it ran out, where, what is missing, what to try. */
#include <stdio.h>
#include <string.h>

#include "cli/explain/explain.h"

/* ---- sizes ---- */

const char *explain_bytes(const oom *m, uint64_t bytes) {
    static const char *const units[][4] = { [OOM_GIB] = { " bytes", " KiB", " MiB", " GiB" },
                                            [OOM_GB] = { " bytes", " KB", " MB", " GB" },
                                            [OOM_G] = { "B", "K", "M", "G" },
                                            [OOM_MIB] = { " bytes", " KiB", " MiB", " MiB" },
                                            [OOM_KB] = { "b", "kb", "kb", "kb" } };
    static const int largest[] = { [OOM_GIB] = 3, [OOM_GB] = 3, [OOM_G] = 3, [OOM_MIB] = 2, [OOM_KB] = 1 };
    static char texts[8][UNITS_TEXT_BYTES];
    static int next;
    next = (next + 1) % 8;
    double value = (double)bytes;
    int unit = 0;
    while (value >= 1024 && unit < largest[m->units]) value /= 1024, unit++;
    bool whole = unit == 0 || m->units == OOM_KB;
    snprintf(texts[next], sizeof texts[next], "%.*f%s", whole ? 0 : 2, value, units[m->units][unit]);
    return texts[next];
}

static void add_held(text *t, const oom *m, const char *what, uint64_t bytes, uint64_t total) {
    if (bytes)
        text_add(t, "  %-46s %12s  %5.1f %%\n", what, explain_bytes(m, bytes),
                 100.0 * (double)bytes / (double)total);
}

/* ---- who said what ---- */

static void say_held(text *t, const oom *m, uint64_t total) {
    uint64_t own = m->allocated + m->unallocated;
    text_add(t, "\nWhat held the memory");
    if (m->gpu >= 0) text_add(t, " of device %lld", (long long)m->gpu);
    text_add(t, ", of %s\n", explain_bytes(m, total));
    add_held(t, m, "tensors of this process", m->allocated - (m->pools < m->allocated ? m->pools : 0), total);
    add_held(t, m, "private pools, as of CUDA graphs", m->pools, total);
    add_held(t, m, "reserved, in no tensor", m->unallocated, total);
    add_held(t, m, "context and libraries of this process", m->process > own ? m->process - own : 0, total);
    add_held(t, m, m->backend == OOM_ON_MPS ? "other allocations" : "other processes", m->others, total);
    add_held(t, m, "processes, one of them this one", m->unclear, total);
    uint64_t rest = oom_unaccounted(m), rounding = total / 100;
    add_held(t, m, "context, libraries and others, not named", rest > rounding ? rest : 0, total);
    add_held(t, m, "free", m->free, total);
    if (m->allocated > total)
        text_add(t, "Tensors take more than the device: its driver lends from the host's memory, slowly.\n");
}

static void say_torch(text *t, const oom *m) {
    uint64_t total = m->total ? m->total : m->allowed;
    if (!total) {
        text_add(t, "PyTorch asked for %s.\n", explain_bytes(m, m->tried));
        return;
    }
    text_add(t, "PyTorch asked for %s", explain_bytes(m, m->tried));
    if (m->free_said) text_add(t, " where %s were free", explain_bytes(m, m->free));
    if (m->free_said && oom_short(m)) text_add(t, ": %s too much", explain_bytes(m, oom_short(m)));
    text_add(t, ".\n");
    if (m->allowed && m->total)
        text_add(t, "The process may have %s of the device's %s.\n", explain_bytes(m, m->allowed),
                 explain_bytes(m, m->total));
    say_held(t, m, total);
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
                 (long long)m->length, explain_bytes(m, m->needed), explain_bytes(m, m->available));
    else if (m->kind == OOM_VLLM_LENGTH)
        text_add(t, "vLLM: the cache of keys and values holds %lld tokens, and one text may have %lld.\n",
                 (long long)m->room, (long long)m->length);
    else if (m->kind == OOM_VLLM_NOT_FREE && !m->total)
        text_add(t, "vLLM measured its memory while another process on the device took or gave some.\n");
    else if (m->kind == OOM_VLLM_NOT_FREE)
        text_add(t, "vLLM was to use %.0f %% of the device, and only %s of %s are free.\n",
                 100 * m->utilization, explain_bytes(m, m->free), explain_bytes(m, m->total));
    else if (m->kind == OOM_VLLM_NO_CACHE)
        text_add(t, "Weights, activations and graphs leave the server nothing for keys and values.\n");
    else
        text_add(t, "The server's trial run before the start did not fit beside weights and cache.\n");
}

static void say_killed(text *t, const oom *m) {
    if (m->kill == OOM_KILL_SIGNAL) {
        text_add(t, "A process was killed by signal 9, which leaves no reason behind.\n");
        return;
    }
    text_add(t, m->kill == OOM_KILL_SYSTEM ? "The kernel killed a process of the job"
                                           : "The system killed a process of the job at its limit of memory");
    if (m->process) text_add(t, ", which held %s", explain_bytes(m, m->process));
    if (m->tried && m->allowed)
        text_add(t, ": %s where %s were allowed", explain_bytes(m, m->tried), explain_bytes(m, m->allowed));
    text_add(t, ".\n");
}

/* Of messages that have at most the size of the request: who asked for it, and what can be said in general.
 */
static void say_plain(text *t, const oom *m) {
    static const struct {
        const char *asker, *said;
    } kinds[OOM_KINDS] = {
        [OOM_LLAMA_CPP] = { "llama.cpp",
                            "llama.cpp puts three on a device: the weights of the layers there, keys and "
                            "values, the compute buffer." },
        [OOM_HOST] = { "The host", "An allocation of the host's memory failed." },
        [OOM_TENSORFLOW] = { "TensorFlow", "TensorFlow found no room in its pool or on the device." },
        [OOM_XLA] = { "XLA", "XLA found no room for a buffer of the compiled program." },
        [OOM_NCCL] = { "NCCL", "NCCL found no room on the device for its buffers or kernels." },
        [OOM_CUDA] = { "CUDA", "CUDA found no memory on the device, and gives no numbers." },
        [OOM_BITSANDBYTES] = { "bitsandbytes", "bitsandbytes found no memory, and gives no numbers." },
        [OOM_SHARED] = { "", "Processes of this host share memory at /dev/shm, and it is full." },
        [OOM_WORDS] = { "", "Somebody says that memory ran out; the message itself is not in the text." },
    };
    if (m->tried && m->kind != OOM_TORCH) {
        text_add(t, m->kind == OOM_HOST ? "%s was asked for %s" : "%s asked for %s", kinds[m->kind].asker,
                 explain_bytes(m, m->tried));
        if (m->gpu >= 0) text_add(t, " on device %lld", (long long)m->gpu);
        if (m->free_said) text_add(t, " where %s were free", explain_bytes(m, m->free));
        text_add(t, " and got nothing.\n");
    }
    const char *no_reason = "A library of the device could not be set up, and its message does not say why.";
    text_add(t, "%s\n", m->handle ? no_reason : kinds[m->kind].said);
    if (m->program) text_add(t, "The program itself takes %s.\n", explain_bytes(m, m->program));
}

static void say_message(text *t, const oom *m) {
    switch (m->kind) {
    case OOM_TORCH: say_torch(t, m); break;
    case OOM_VLLM_LENGTH:
    case OOM_VLLM_NO_CACHE:
    case OOM_VLLM_NOT_FREE:
    case OOM_VLLM_WARM_UP: say_vllm(t, m); break;
    case OOM_KILLED: say_killed(t, m); break;
    case OOM_NONE:
    case OOM_KINDS: break;
    default: say_plain(t, m);
    }
}

/* ---- why ---- */

static const char *reason(const oom *m, oom_cause cause) {
    static const char *const reasons[OOM_CAUSES] = {
        [OOM_FULL] = "Tensors fill the device: less must be kept.",
        [OOM_FRAGMENTED] = "Fragmentation: enough is free, but in pieces that are too small.",
        [OOM_OTHERS] = "Somebody else is on this device: without them it would fit.",
        [OOM_TOO_LARGE] =
            ("One request is larger than the whole device: no other process, and no setting of the "
             "allocator, is to blame."),
        [OOM_BY_OPTIMIZER] =
            ("The update of the weights: the optimizer makes its state in the first step and keeps "
             "it beside weights and gradients, and has temporaries in each."),
        [OOM_BY_ATTENTION] =
            ("Attention with scores of all pairs of tokens: they grow with the square of the "
             "length."),
        [OOM_BY_LOSS] =
            ("The loss over the vocabulary: logits of all tokens at once, often in 32 bits beside 16."),
        [OOM_BY_VALIDATION] = "Validation, and not a step of training.",
        [OOM_BY_SAVING] = ("Saving: the state is gathered or copied on the device before it is written."),
        [OOM_BY_LOADING] = "Loading: the model or its state does not fit before any step.",
        [OOM_LEAK] = "Memory grows from step to step: something keeps what each step made.",
        [OOM_LIMIT] = "A limit lower than the device: more of it was free than was asked for.",
        [OOM_OUTSIDE] = ("A library's handle, workspace or buffers found no room: they are outside of the "
                         "framework's pool, and it left none."),
        [OOM_CACHE] = "The cache of keys and values: texts are longer than what is left for it.",
        [OOM_OF_HOST] = "It is the host's memory that ran out, or the job's limit of it, and no device's.",
        [OOM_SHM] =
            ("Shared memory: workers of data loaders hand over their batches there, and a container has "
             "64 MiB of it unless told."),
        [OOM_UNSAID] = "What filled the memory is not in the text.",
    };
    if (cause == OOM_OTHERS && m->backend == OOM_ON_MPS)
        return "Most of what counts towards the limit is in no tensor of PyTorch's: the driver's, or other "
               "programs'.";
    if (cause == OOM_OTHERS && m->kind == OOM_TORCH && !m->others)
        return "Something that the message does not name holds the device: another process mostly, or a "
               "library that "
               "PyTorch does not know of. Without it, it would fit.";
    if (cause == OOM_LIMIT && m->allowed)
        return "A limit lower than the device, and not the device, refused it.";
    if (cause == OOM_BY_LOADING && m->each_rank)
        return "Loading a file that remembers devices: unless told, every process loads it to the same one.";
    return reasons[cause];
}

static void say_why(text *t, const oom *m, oom_verdict why) {
    const char *form =
        why.sure || why.cause == OOM_UNSAID ? "\n%s\n" : "\nLikely, though the text does not show it: %s\n";
    text_add(t, form, reason(m, why.cause));
    if (m->allocated && m->tried && why.cause == OOM_LIMIT && !m->free_said)
        text_add(t, "How much was free is not in the message.\n");
}

static void say_where(text *t, const oom *m) {
    static const char *const places[OOM_PLACES] = {
        [OOM_FORWARD] = "forward",         [OOM_BACKWARD] = "backward",
        [OOM_OPTIMIZER] = "the optimizer", [OOM_ATTENTION] = "attention",
        [OOM_LOSS] = "the loss",           [OOM_VALIDATION] = "validation",
        [OOM_SAVING] = "saving",           [OOM_LOADING] = "loading",
        [OOM_GENERATION] = "generation",   [OOM_CACHING] = "the cache of keys and values"
    };
    if (places[m->place]) text_add(t, "The text around it is of %s.\n", places[m->place]);
}

static void say_missing(text *t, const oom *m) {
    unsigned ask = oom_missing(m);
    if (!ask) return;
    text_add(t, "\nTo know more, paste\n");
    if (ask & OOM_ASK_REST)
        text_add(t, "  - the whole message: what held the memory is missing, it goes on after the request\n");
    if (ask & OOM_ASK_TRACEBACK)
        text_add(t, "  - the traceback above it: where it failed decides what helps\n");
    if (ask & OOM_ASK_DEVICE)
        text_add(t, "  - what %s shows while it runs: who holds the device\n", explain_backend_of(m)->shows);
    if (ask & OOM_ASK_SYSTEM)
        text_add(
            t,
            "  - dmesg -T | grep -i kill, or sacct -j JOB --format=JobID,State,MaxRSS,ReqMem: whether it was "
            "memory\n");
}

static void say_far(text *t, const oom *m, const cli_savings *s) {
    bool more = m->total && s->device > m->total;
    text_add(t,
             "\nThese settings cannot be those of the run%s: with them it is estimated to take %s of the "
             "device (%s in "
             "tensors)",
             more ? ", unless it failed long before its peak" : "", explain_bytes(m, s->device),
             explain_bytes(m, s->live));
    if (m->total) text_add(t, ", and the device has %s", explain_bytes(m, m->total));
    text_add(t,
             ", of which tensors held %s. The savings below are cut to what the process held; for better "
             "ones say its "
             "batch, context and kind.\n",
             explain_bytes(m, m->allocated));
}

void explain_say(text *t, const oom *m, oom_verdict why, const explain_advice *a) {
    say_message(t, m);
    say_why(t, m, why);
    say_where(t, m);
    if (a->far) say_far(t, m, &a->estimate);
    if (m->killed && m->kind != OOM_KILLED)
        text_add(t, "\nAnd beside it: The system killed a process of the job for the host's memory.\n");
    say_missing(t, m);
    text_add(t, "\nTry next\n");
    for (int i = 0; i < a->count; i++) {
        text_add(t, "  %d. %s", i + 1, a->words[i]);
        if (a->saves[i]) text_add(t, " (up to %s)", explain_bytes(m, a->saves[i]));
        text_add(t, "\n");
    }
}
