/* PyTorch's messages, of each version and backend. */
#include <string.h>

#include "estimate/oom/readers.h"

/* Of the versions before 2.1, and of NPU's: (GPU 0; 15.78 GiB total capacity; 14.25 GiB already allocated;
 * 183.50 MiB free; 14.34 GiB reserved in total by PyTorch). The oldest say "cached" of what is reserved and
 * in no tensor. */
static void read_old(span s, oom *o) {
    o->total = span_size_before(s, " total capacity");
    o->allocated = span_size_before(s, " already");
    o->free = span_size_before(s, " free");
    o->free_said = span_behind(s, " free;").at != NULL;
    uint64_t reserved = span_size_before(s, " reserved in total");
    bool cached = span_behind(s, " cached").at != NULL;
    if (reserved > o->allocated) o->unallocated = reserved - o->allocated;
    if (!reserved) o->unallocated = span_size_before(s, " cached");
    o->held_said = reserved || cached;
}

/* "Process 2635308 has 62.69 GiB memory in use": the bytes of the next in *s; false: there is none. */
static bool next_process(span *s, uint64_t *bytes) {
    double id;
    while ((*s = span_behind(*s, "Process ")).at) {
        span has = *s;
        if (!span_number(&has, &id) || (size_t)(has.end - has.at) <= 5 || memcmp(has.at, " has ", 5) != 0)
            continue;
        *bytes = span_size((span){ has.at + 5, has.end });
        return true;
    }
    return false;
}

/* In a container the driver's number of a process is not the one that it knows itself by, and its own is
 * among the others. It is so where there is no room for it beside them: what PyTorch has, and a context that
 * is never smaller than this. Its own is then the smallest that can hold what PyTorch has. */
enum { LEAST_CONTEXT = 96 << 20 };
static void find_own(span s, oom *o) {
    uint64_t own = o->allocated + o->unallocated, best = 0, one;
    double held = (double)o->others + (double)own + LEAST_CONTEXT + (double)o->free;
    if (o->process || !o->others || !o->total || held <= (double)o->total) return;
    while (next_process(&s, &one))
        if (one > own && (!best || one < best)) best = one;
    o->process = best;
    o->unclear = best ? 0 : o->others;
    o->others = best ? o->others - best : 0;
}

static void read_new(span s, oom *o) {
    uint64_t one;
    o->total = span_size(span_behind(s, "total capac")); /* it was misspelt for a while */
    span capacity = span_behind(s, "total capac"), of = span_behind(capacity, " of ");
    if (!o->total) o->total = span_size(of);
    o->free = span_size(span_behind(s, "of which "));
    o->free_said = span_behind(s, " is free").at != NULL;
    o->process = span_size(span_behind(s, "this process has "));
    if (o->process > o->total) o->process = 0; /* as drivers of WSL have it: 17179869184.00 GiB */
    for (span p = s; next_process(&p, &one);) o->others += one;
    o->allocated = span_size(span_behind(s, "Of the allocated memory "));
    o->pools = span_size(span_behind(s, "allocated by PyTorch, with "));
    o->unallocated = span_size_before(s, " is reserved by PyTorch but unallocated");
    o->held_said = span_behind(s, " is reserved by PyTorch but unallocated").at != NULL;
    o->allowed = span_size_before(s, " allowed;");
    find_own(s, o);
}

static oom_backend backend_of(span all) {
    static const struct {
        const char *words;
        oom_backend backend;
    } names[] = { { "HIP out of memory", OOM_ON_HIP },
                  { "PYTORCH_HIP_ALLOC_CONF", OOM_ON_HIP },
                  { "NPU out of memory", OOM_ON_NPU },
                  { "XPU out of memory", OOM_ON_XPU } };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (span_behind(all, names[i].words).at) return names[i].backend;
    return OOM_ON_CUDA;
}

static void read_conf(span s, oom *o) {
    o->expandable = span_behind(s, "expandable_segments").at != NULL;
    if (span_behind(s, "PYTORCH_ALLOC_CONF").at) o->conf = OOM_PLAIN_CONF;
    if (span_behind(s, "PYTORCH_CUDA_ALLOC_CONF").at) o->conf = OOM_CUDA_CONF;
    if (span_behind(s, "PYTORCH_HIP_ALLOC_CONF").at) o->conf = OOM_HIP_CONF;
}

static bool read_torch(span s, span all, oom *o) {
    o->tried = span_size(s);
    if (!o->tried && span_behind(s, "more than 1EB").at) o->tried = (uint64_t)1e18;
    o->backend = backend_of(all);
    o->gpu = span_count(span_behind(s, o->backend == OOM_ON_NPU ? "NPU " : "GPU "), -1);
    if (o->gpu < 0) o->gpu = span_count(span_behind(s, "GPU"), -1);
    if (span_behind(s, "total capacity;").at || span_behind(s, " already allocated").at)
        read_old(s, o);
    else
        read_new(s, o);
    read_conf(s, o);
    return o->tried > 0;
}

/* (MPS allocated: 5.56 GB, other allocations: 1.10 GB, max allowed: 6.80 GB). Tried to allocate 768.00 MB on
 * private pool. GB of older versions are 2^30 bytes as well. */
static bool read_mps(span s, span all, oom *o) {
    (void)all;
    o->backend = OOM_ON_MPS;
    o->tried = span_size(span_behind(s, "Tried to allocate "));
    o->allocated = span_size(span_behind(s, "MPS allocated: "));
    o->others = span_size(span_behind(s, "other allocations: "));
    o->allowed = span_size(span_behind(s, "max allowed: "));
    o->units = span_behind(s, " GB").at || span_behind(s, " MB").at ? OOM_GB : OOM_GIB;
    o->held_said = o->allocated > 0;
    return o->allowed > 0;
}

/* Metal's limits of one buffer: of PyTorch "Invalid buffer size: 24.00 GB", of MLX "Attempting to allocate
 * 34359738368 bytes which is greater than the maximum allowed buffer size of 22906503168 bytes". */
static bool read_buffer(span s, span all, oom *o) {
    o->backend = OOM_ON_MPS;
    o->units = OOM_GB;
    o->tried = span_size(s);
    (void)all;
    return o->tried > 0;
}

static bool read_mlx(span s, span all, oom *o) {
    o->allowed = span_size(s);
    o->backend = OOM_ON_MPS;
    o->tried = span_size_before(all, " which is greater than the maximum allowed buffer size of ");
    return o->tried > o->allowed;
}

const oom_message oom_messages_torch[] = { { OOM_TORCH, "MPS backend out of memory", read_mps },
                                           { OOM_TORCH, "Tried to allocate ", read_torch },
                                           { OOM_TORCH, "Invalid buffer size: ", read_buffer },
                                           { OOM_TORCH, "greater than the maximum allowed buffer size of ",
                                             read_mlx },
                                           { 0 } };
