#include "estimate/oom/oom.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

/* ---- finding words and sizes ---- */

typedef struct {
    const char *at, *end;
} span;

/* Behind the next `word` in s; at NULL: there is none. */
static span behind(span s, const char *word) {
    size_t n = strlen(word);
    for (const char *p = s.at; p && n <= (size_t)(s.end - p); p++) {
        p = memchr(p, *word, (size_t)(s.end - p) - n + 1);
        if (!p) break;
        if (memcmp(p, word, n) == 0) return (span){ p + n, s.end };
    }
    return (span){ NULL, s.end };
}

/* A number at the beginning, after blanks; false: there is none. */
static bool number(span *s, double *out) {
    double value = 0, place = 1;
    bool any = false, point = false;
    while (s->at < s->end && (*s->at == ' ' || *s->at == '(')) s->at++;
    for (; s->at < s->end; s->at++) {
        if (*s->at == '.' && !point && s->at + 1 < s->end && isdigit((unsigned char)s->at[1])) {
            point = true;
            continue;
        }
        if (!isdigit((unsigned char)*s->at)) break;
        any = true;
        if (point)
            value += (*s->at - '0') * (place /= 10);
        else if (value < 1e18)
            value = value * 10 + (*s->at - '0');
    }
    *out = value;
    return any;
}

static uint64_t size(span s) {
    static const struct {
        const char *name;
        double bytes;
    } units[] = {
        { "bytes", 1 }, { "KiB", 1024 }, { "MiB", 1048576 }, { "GiB", 1073741824 }, { "TiB", 1099511627776.0 }
    };
    double value;
    if (!s.at || !number(&s, &value)) return 0;
    while (s.at < s.end && *s.at == ' ') s.at++;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        size_t n = strlen(units[i].name);
        double bytes = value * units[i].bytes;
        if ((size_t)(s.end - s.at) >= n && memcmp(s.at, units[i].name, n) == 0)
            return bytes < 1e18 ? (uint64_t)bytes : (uint64_t)1e18;
    }
    return 0;
}

static int64_t count(span s, int64_t absent) {
    double value;
    return s.at && number(&s, &value) && value < 1e15 ? (int64_t)value : absent;
}

/* The size that stands right before `word`, as in "98.12 MiB free". */
static uint64_t size_before(span s, const char *word) {
    span after = behind(s, word);
    if (!after.at) return 0;
    const char *end = after.at - strlen(word), *p = end;
    while (p > s.at && p[-1] == ' ') p--;
    while (p > s.at && isalpha((unsigned char)p[-1])) p--;
    while (p > s.at && p[-1] == ' ') p--;
    while (p > s.at && (isdigit((unsigned char)p[-1]) || p[-1] == '.')) p--;
    return size((span){ p, end });
}

/* ---- PyTorch ---- */

/* Of the versions before 2.1: (GPU 0; 15.78 GiB total capacity; 14.25 GiB already allocated; 183.50 MiB
 * free; 14.34 GiB reserved in total by PyTorch). The oldest say "cached" of what is reserved and in no
 * tensor. */
static void read_old(span s, oom *o) {
    o->total = size_before(s, " total capacity");
    o->allocated = size_before(s, " already allocated");
    o->free = size_before(s, " free");
    uint64_t reserved = size_before(s, " reserved in total");
    if (reserved > o->allocated) o->unallocated = reserved - o->allocated;
    if (!reserved) o->unallocated = size_before(s, " cached");
}

/* "Process 2635308 has 62.69 GiB memory in use": the bytes of the next in *s; false: there is none. */
static bool next_process(span *s, uint64_t *bytes) {
    double id;
    while ((*s = behind(*s, "Process ")).at) {
        span has = *s;
        if (!number(&has, &id) || (size_t)(has.end - has.at) <= 5 || memcmp(has.at, " has ", 5) != 0)
            continue;
        *bytes = size((span){ has.at + 5, has.end });
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
    o->total = size(behind(s, "total capac")); /* it was misspelt for a while */
    span capacity = behind(s, "total capac"), of = behind(capacity, " of ");
    if (!o->total) o->total = size(of);
    o->free = size(behind(s, "of which "));
    o->process = size(behind(s, "this process has "));
    for (span p = s; next_process(&p, &one);) o->others += one;
    o->allocated = size(behind(s, "Of the allocated memory "));
    o->pools = size(behind(s, "allocated by PyTorch, with "));
    o->unallocated = size_before(s, " is reserved by PyTorch but unallocated");
    find_own(s, o);
}

static bool read_torch(span s, oom *o) {
    o->tried = size(s);
    o->gpu = count(behind(s, "GPU "), -1);
    if (behind(s, "total capacity;").at || behind(s, " already allocated").at)
        read_old(s, o);
    else
        read_new(s, o);
    return o->tried > 0;
}

static bool read_torch_cpu(span s, oom *o) {
    o->tried = size(behind(s, "tried to allocate "));
    return o->tried > 0;
}

/* ---- vLLM ---- */

/* (12.50/23.64 GiB) on startup is less than desired GPU memory utilization (0.9, 21.28 GiB) */
static bool read_not_free(span s, oom *o) {
    span both = behind(s, "("), wanted = behind(s, "GPU memory utilization ");
    double value = 0;
    if (!both.at || !number(&both, &value) || both.at == both.end || *both.at != '/') return false;
    o->free = (uint64_t)fmin(value * 1073741824, 1e18);
    both.at++;
    o->total = size(both);
    if (!wanted.at || !number(&wanted, &o->utilization)) return false;
    return o->total > 0 && o->utilization > 0 && o->utilization <= 1;
}

static bool read_length(span s, oom *o) {
    o->length = count(s, 0);
    o->room = count(behind(s, "stored in KV cache "), 0);
    if (!o->room) o->room = count(behind(s, "estimated maximum model length is "), 0);
    o->needed = size_before(s, " KV cache is needed");
    o->available = size(behind(s, "available KV cache memory "));
    return o->length > 0 && (o->room || o->needed);
}

/* ---- others ---- */

/* 1234.56 MiB on device 0: cudaMalloc failed: out of memory */
static bool read_llama_cpp(span s, oom *o) {
    o->tried = size(s);
    o->gpu = count(behind(s, "on device "), -1);
    return o->tried > 0;
}

static bool read_ggml(span s, oom *o) {
    o->gpu = count(behind(s, "current device: "), -1);
    return behind(s, "ggml").at;
}

/* Also said of quotas that have nothing to do with memory. */
static bool read_jax(span s, oom *o) {
    span asked = behind(s, "llocat"); /* "Allocating", "allocate" */
    o->tried = size(behind(asked, " "));
    return asked.at || behind(s, "emory").at;
}

/* ---- the messages ---- */

/* Those that say more stand before those that say less. */
static const struct {
    oom_kind kind;
    const char *mark;
    bool (*read)(span behind_mark, oom *o); /* false: it is none after all; NULL: there is nothing to read */
} messages[] = {
    { OOM_TORCH, "Tried to allocate ", read_torch },
    { OOM_VLLM_NOT_FREE, "Free memory on device", read_not_free },
    { OOM_VLLM_LENGTH, "max seq len ", read_length },
    { OOM_VLLM_NO_CACHE, "No available memory for the cache blocks", NULL },
    { OOM_LLAMA_CPP, "_alloc_buffer: allocating ", read_llama_cpp },
    { OOM_LLAMA_CPP, "cudaMalloc failed: out of memory", NULL },
    { OOM_LLAMA_CPP, "CUDA error: out of memory", read_ggml },
    { OOM_TORCH_CPU, "DefaultCPUAllocator: ", read_torch_cpu },
    { OOM_JAX, "RESOURCE_EXHAUSTED", read_jax },
    { OOM_CUDA, "CUDA error: out of memory", NULL },
    { OOM_CUDA, "CUDA driver error: out of memory", NULL },
    { OOM_CUDA, "HIP error: out of memory", NULL },
    { OOM_CUDA, "CUBLAS_STATUS_ALLOC_FAILED", NULL },
    { OOM_CUDA, "CUDNN_STATUS_ALLOC_FAILED", NULL },
    { OOM_KILLED, "oom_kill event", NULL },
    { OOM_KILLED, "oom-kill event", NULL },
    { OOM_KILLED, "cgroup out-of-memory handler", NULL },
    { OOM_KILLED, "Memory cgroup out of memory", NULL },
};
enum { MESSAGES = sizeof messages / sizeof *messages, LONGEST = 2048, NEAR = 256 };

/* Whether the line around a mark is text: words of a program stand between zeros. */
static bool in_text(span all, const char *mark, const char *after) {
    for (const char *p = mark; p > all.at && mark - p < NEAR && p[-1] != '\n'; p--)
        if (!p[-1]) return false;
    for (const char *p = after; p < all.end && p - after < NEAR && *p != '\n'; p++)
        if (!*p) return false;
    return true;
}

/* The last message with that mark. */
static bool read_last(span all, size_t message, oom *out) {
    bool any = false;
    const char *mark = messages[message].mark;
    for (span s = behind(all, mark); s.at; s = behind(s, mark)) {
        oom one = { .kind = messages[message].kind, .gpu = -1 };
        span near = s;
        if (near.end - near.at > LONGEST) near.end = near.at + LONGEST;
        if (!in_text(all, s.at - strlen(mark), s.at)) continue;
        if (messages[message].read && !messages[message].read(near, &one)) continue;
        *out = one, any = true;
    }
    return any;
}

bool oom_read(const char *bytes, size_t length, oom *out) {
    span all = { bytes, bytes + length };
    bool killed = false;
    *out = (oom){ .gpu = -1 };
    for (size_t i = 0; i < MESSAGES; i++) {
        oom one;
        bool kills = messages[i].kind == OOM_KILLED;
        if ((out->kind && !kills) || !read_last(all, i, &one)) continue;
        if (!out->kind) *out = one;
        killed = killed || kills;
    }
    out->killed = killed;
    return out->kind != OOM_NONE;
}

/* ---- why ---- */

uint64_t oom_short(const oom *o) { return o->tried > o->free ? o->tried - o->free : 0; }

oom_cause oom_why(const oom *o) {
    if (o->total && o->tried > o->total) return OOM_TOO_LARGE;
    bool freed =
        o->others > o->unallocated && o->others >= oom_short(o); /* others hold more than pieces do */
    if (freed) return OOM_OTHERS;
    if (o->unallocated >= o->tried && o->tried > o->free) return OOM_FRAGMENTED;
    /* older versions don't say who else is there: a quarter of the device that nobody accounts for is
     * somebody's */
    uint64_t known = o->allocated + o->unallocated + o->free;
    if (!o->process && o->total && known < o->total / 4 * 3) return OOM_OTHERS;
    return OOM_FULL;
}
