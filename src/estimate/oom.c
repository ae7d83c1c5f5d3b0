#include "estimate/oom.h"

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
    for (const char *p = s.at; p && n <= (size_t)(s.end - p); p++)
        if (memcmp(p, word, n) == 0) return (span){ p + n, s.end };
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

/* "Process 2635308 has 62.69 GiB memory in use", of others; "this process has" is ours. `largest` gets the
 * largest of them. */
static uint64_t others_of(span s, uint64_t *largest) {
    uint64_t sum = 0;
    for (span p = behind(s, "Process "); p.at; p = behind(p, "Process ")) {
        double id;
        span has = p;
        uint64_t one = 0;
        if (!number(&has, &id)) continue;
        if ((size_t)(has.end - has.at) > 5 && memcmp(has.at, " has ", 5) == 0)
            one = size((span){ has.at + 5, has.end });
        sum += one;
        if (one > *largest) *largest = one;
    }
    return sum;
}

static void read_new(span s, oom *o) {
    uint64_t largest = 0;
    o->total = size(behind(s, "total capac")); /* it was misspelt for a while */
    span capacity = behind(s, "total capac"), of = behind(capacity, " of ");
    if (!o->total) o->total = size(of);
    o->free = size(behind(s, "of which "));
    o->process = size(behind(s, "this process has "));
    o->others = others_of(s, &largest);
    o->allocated = size(behind(s, "Of the allocated memory "));
    o->pools = size(behind(s, "allocated by PyTorch, with "));
    o->unallocated = size_before(s, " is reserved by PyTorch but unallocated");
    /* In a container the driver's number of a process is not the one that it knows itself by: of more than
     * there can be of others the largest is its own. */
    double held = (double)o->others + (double)o->allocated + (double)o->free;
    if (!o->process && o->total && held > (double)o->total) o->process = largest, o->others -= largest;
}

static bool read_torch(span s, oom *o) {
    span tried = behind(s, "Tried to allocate ");
    if (!tried.at) return false;
    for (span next = tried; next.at; next = behind(next, "Tried to allocate "))
        tried = next; /* the last one */
    if ((size_t)(tried.end - tried.at) > 2048) tried.end = tried.at + 2048;
    o->kind = OOM_TORCH;
    o->tried = size(tried);
    o->gpu = count(behind(tried, "GPU "), -1);
    if (behind(tried, "total capacity;").at || behind(tried, " already allocated").at)
        read_old(tried, o);
    else
        read_new(tried, o);
    return o->tried > 0;
}

/* ---- vLLM ---- */

static bool read_vllm(span s, oom *o) {
    span length = behind(s, "max seq len "), free = behind(s, "Free memory on device");
    o->length = count(length, 0);
    o->room = count(behind(s, "stored in KV cache "), 0);
    if (!o->room) o->room = count(behind(s, "estimated maximum model length is "), 0);
    o->needed = size_before(s, " KV cache is needed");
    o->available = size(behind(s, "available KV cache memory "));
    if (free.at) {
        span wanted = behind(free, "GPU memory utilization ");
        double value = 0;
        o->kind = OOM_VLLM_NOT_FREE;
        if (wanted.at && number(&wanted, &value)) o->utilization = value;
        span both = free;
        if (number(&both, &value)) o->free = (uint64_t)fmin(value * 1073741824, 1e18);
        if (both.at < both.end && *both.at == '/') {
            both.at++;
            o->total = size(both);
        }
        return true;
    }
    if (length.at && (o->room || o->needed)) {
        o->kind = OOM_VLLM_LENGTH;
        return true;
    }
    o->kind = behind(s, "No available memory for the cache blocks").at ? OOM_VLLM_NO_CACHE : OOM_NONE;
    return o->kind != OOM_NONE;
}

bool oom_read(const char *bytes, size_t length, oom *out) {
    span s = { bytes, bytes + length };
    *out = (oom){ .gpu = -1 };
    if (read_torch(s, out)) return true;
    *out = (oom){ .gpu = -1 };
    if (read_vllm(s, out)) return true;
    *out = (oom){ .gpu = -1 };
    return false;
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
