#include "estimate/torch/torch_host.h"

#include "estimate/torch/torch_versions.h"

static const double mib = 1 << 20;

/* Files of a checkpoint: transformers writes, and reads, as many bytes at a time. 50 GB since 5, before 5 GB,
 * and 10 GB of files that are not safetensors (max_shard_size of save_pretrained). */
static const double file_today = 50e9, file_before = 5e9, file_pickled = 10e9;

static interval of(double low, double likely, double high) {
    return (interval){ (uint64_t)low, (uint64_t)likely, (uint64_t)high };
}

static interval sum(interval a, interval b) {
    return (interval){ a.low + b.low, a.likely + b.likely, a.high + b.high };
}

static interval times(interval a, int64_t n) {
    uint64_t k = (uint64_t)n;
    return (interval){ a.low * k, a.likely * k, a.high * k };
}

static uint64_t more(uint64_t a, uint64_t b) { return a > b ? a : b; }

static interval most(interval a, interval b) {
    return (interval){ more(a.low, b.low), more(a.likely, b.likely), more(a.high, b.high) };
}

static double lesser(double a, double b) { return a < b ? a : b; }

/* Of a node. */
static int64_t processes(const torch_settings *s) {
    int64_t all = s->gpus > 1 ? s->gpus : 1;
    return s->node_gpus && s->node_gpus < all ? s->node_gpus : all;
}

static bool is_fsdp(const torch_settings *s) { return torch_is_shared(s) && s->shard == TORCH_FSDP; }
static bool is_zero3(const torch_settings *s) { return torch_is_shared(s) && s->shard == TORCH_ZERO3; }

/* ---- processes ---- */

/* Before a GPU is used 322 MB with torch alone (pytorch#113326), 926 MiB with transformers and accelerate
 * (transformers#25107). A context adds 116 MB or 1.7 GB (pytorch#113326, without and with a question for the
 * number of devices before), before lazy loading, with a convolution, 1.7 (pytorch#12873). A worker of vLLM
 * has 3 GB (vllm#48436). */
static interval process_of(const torch_settings *s) {
    if (!s->cuda) return of(320 * mib, 800 * mib, 1280 * mib);
    bool at_once = torch_loads_at_once(s);
    return of(420 * mib, (at_once ? 2560 : 2048) * mib, (at_once ? 4096 : 3072) * mib);
}

/* A loader asks each worker for two batches ahead (prefetch_factor), which lie in shared memory, and pins one
 * or two, rounded up to powers of two. What a worker has for itself alone: 3 MB where it is a fork of its
 * process, as usual until Python 3.14, 68 where it comes from a server that forks, 161 where it is started
 * anew (logs of ppwwyyxx/RAM-multiprocess-dataloader). To that Python adds the data set as it counts
 * references, which is not known here. */
enum { AHEAD = 2, PINNED = 2 };

static void add_loader(const torch_host_of *h, torch_host *r) {
    double ahead = (double)(h->workers * AHEAD) * h->batch, workers = (double)h->workers;
    r->shared = of(0, ahead, ahead);
    r->loader = of(h->batch + workers * 3 * mib, PINNED * h->batch + ahead + workers * 68 * mib,
                   2 * PINNED * h->batch + ahead + workers * 161 * mib);
}

/* DeepSpeed's masters and moments are in `state`, and gradients of f32 beside them; of 7B in the first
 * process of one, 24.7 GB were counted for the masters and 73.9 for the rest (nebuly-ai/optimate#242): 4 and
 * 12 bytes a number. Least: without gradients. Most: pinned tensors are rounded up to powers of two;
 * DeepSpeed's own estimate (estimate_zero3_model_states_mem_needs) has half as much again. FSDP keeps
 * weights, gradients and state in the type of its shares. */
static interval kept(const torch_host_of *h) {
    const torch_settings *s = h->s;
    double shares = 1.0 / (double)(s->gpus > 1 ? s->gpus : 1);
    if (!s->host_keeps) return of(0, 0, 0);
    double weights = s->host_keeps == TORCH_KEEPS_ALL ? (s->shard == TORCH_FSDP ? h->weights : h->narrow) : 0,
           least = (h->state + weights) * shares, likely = least + h->gradients * shares;
    return of(least, likely, 1.5 * likely);
}

/* ---- loading ---- */

/* Weights that are asked for in the type of the file stay in its pages. */
static bool stays_mapped(const torch_host_of *h) {
    return h->s->transformers && !h->s->older && !(h->coded > 0) && h->weights <= h->narrow;
}

/* One process that loads all weights. transformers today makes the model without memory and maps
 * safetensors: what is of the type asked for stays in the file's pages, what is not is copied. Before, the
 * model was made first and the files were read beside it, one after the other; at the most the model came
 * in one file. torch.load of one's own script: the state dict beside the model, unless it is mapped or the
 * model has no memory yet (llama-int8#3: 25,310 MiB of 7B in 16 bits, and 13,405 when the copies went one by
 * one). What is coded in 4 bits goes to the device weight by weight. */
static interval loading_one(const torch_host_of *h) {
    const torch_settings *s = h->s;
    double made = h->coded > 0 ? h->narrow : h->weights, read = lesser(h->narrow, file_pickled);
    if (h->coded > 0) return of(0, lesser(h->narrow, file_before), h->narrow + read);
    if (!s->transformers) return of(made, 2 * made, 2 * made + h->narrow);
    if (s->older) return of(made, made + read, 2 * made);
    return of(stays_mapped(h) ? 0 : made, made, made + h->narrow);
}

/* How often weights are on the host. Every process loads all of them, unless somebody says otherwise: with
 * FSDP one process of a node may (cpu_ram_efficient_loading, sync_module_states; off unless asked for, on in
 * what `accelerate config` proposes). transformers 5 nevertheless gives the others weights of zeros. With
 * ZeRO-3 weights are cut as they are made, and files are read one by one. */
static interval loading(const torch_host_of *h) {
    const torch_settings *s = h->s;
    interval one = loading_one(h), all = times(one, processes(s));
    double n = (double)processes(s);
    if (is_zero3(s) && s->transformers) {
        double file = lesser(h->narrow, s->older ? file_pickled : file_before);
        return of(0, s->older ? n * file : file, n * lesser(h->narrow, file_pickled));
    }
    if (stays_mapped(h)) all.likely = one.likely; /* one page serves all processes */
    if (!is_fsdp(s)) return all;
    all.low = one.low;
    return all;
}

/* ---- checkpoints ---- */

/* The Trainer of one process reads weights and then the optimizer's state on the host; of several each reads
 * the state straight on to its device, tensor by tensor (transformers#22159, #22273). FSDP's whole state dict
 * is read by every process, the state by the first (accelerate's load_fsdp_model, load_fsdp_optimizer); at
 * the least shares are. */
static interval resuming(const torch_host_of *h) {
    const torch_settings *s = h->s;
    double file = h->adapters > 0 ? h->adapters : h->weights, n = (double)processes(s);
    double larger = file > h->state ? file : h->state;
    if (s->litgpt || is_zero3(s) || (torch_is_shared(s) && s->shard >= TORCH_ZERO1 && !is_fsdp(s)))
        return of(0, 0, 0);
    if (is_fsdp(s))
        return of(larger * n / (double)s->gpus, n * file > h->state ? n * file : h->state,
                  n * file + h->state);
    if (s->gpus > 1) return of(0, n * file, n * (file + h->state));
    return of(0, larger, file + h->state);
}

/* safetensors makes bytes of one file at a time; torch.save copies one storage after the other, and does so
 * for the optimizer's state everywhere. FSDP gathers on the first process (FullStateDictConfig with
 * offload_to_cpu and rank0_only, which loops of one's own must say, or every process has all), first weights
 * and then state, or copies each process's shares; DeepSpeed
 * gathers weights of 16 bits on the first. */
static interval saving(const torch_host_of *h) {
    const torch_settings *s = h->s;
    double file = h->adapters > 0 ? h->adapters : h->weights,
           bytes = s->transformers ? lesser(file, s->older ? file_before : file_today) : 0;
    double larger = file > h->state ? file : h->state, n = (double)processes(s);
    if (is_fsdp(s))
        return of(larger * n / (double)s->gpus, larger,
                  s->transformers ? file + h->state + bytes : n * (file + h->state));
    if (is_zero3(s)) return of(0, h->narrow, h->narrow + bytes);
    return of(0, bytes, file + bytes);
}

/* ---- the whole ---- */

void torch_host_find(const torch_host_of *h, torch_host *r) {
    *r = (torch_host){ .process = process_of(h->s) };
    int64_t n = processes(h->s);
    if (h->workers > 0) add_loader(h, r);
    r->loading = h->s->litgpt ? of(0, 0, 0) : loading(h);
    r->resuming = resuming(h);
    r->saving = h->s->litgpt ? of(0, 0, 0) : saving(h);
    r->kept = kept(h);
    interval own = times(r->process, n), steady = sum(own, times(sum(r->loader, r->kept), n));
    interval *phases[] = { &r->loading, &r->resuming };
    r->whole = most(steady, sum(steady, r->saving));
    for (int i = 0; i < 2; i++) r->whole = most(r->whole, sum(own, *phases[i]));
}
