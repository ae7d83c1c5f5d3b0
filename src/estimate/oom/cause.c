/* Why memory ran out: where it failed decides first, then the numbers; without either nothing is said. */
#include "estimate/oom/oom.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

uint64_t oom_short(const oom *o) { return o->tried > o->free ? o->tried - o->free : 0; }

static oom_verdict sure(oom_cause cause) { return (oom_verdict){ cause, true }; }
static oom_verdict likely(oom_cause cause) { return (oom_verdict){ cause, false }; }

/* ---- numbers ---- */

uint64_t oom_unaccounted(const oom *o) {
    uint64_t own = o->process ? o->process : o->allocated + o->unallocated;
    uint64_t known = own + o->others + o->unclear + o->free;
    bool all_said = o->kind == OOM_TORCH && o->backend != OOM_ON_MPS && o->held_said && o->free_said;
    return all_said && o->total > known ? o->total - known : 0;
}

/* A context, kernels and libraries' workspaces take up to this of a device that nobody else is on. */
static uint64_t usual_rest(const oom *o) {
    uint64_t share = o->total / 5, most = 2 * GIB;
    if (o->total < 4 * GIB) most = GIB, share = o->total / 4;
    return share > most ? share : most;
}

/* A driver keeps and rounds some of what it calls free, and a large request needs it in one piece. */
static bool was_free(const oom *o) {
    uint64_t kept = o->tried / 64 > 64 * MIB && o->backend != OOM_ON_XPU ? o->tried / 64 : 64 * MIB;
    return o->free_said && o->free >= o->tried + kept;
}

static bool others_hold_it(const oom *o) {
    uint64_t rest = oom_unaccounted(o);
    if (was_free(o)) return false;
    if (o->others) return o->others > o->unallocated && o->others >= oom_short(o) && o->others > 256 * MIB;
    if (o->process || o->unclear || o->allocated >= o->total) return false;
    return rest > usual_rest(o) && rest > o->unallocated;
}

/* What nobody is named for: beyond doubt only where it is more than the process's own tensors, and than what
 * a context takes with its kernels. Between that it may be a desktop's, a second library's or a driver's. */
static oom_verdict by_others(const oom *o) {
    uint64_t rest = oom_unaccounted(o);
    bool shown = o->others || (rest > o->allocated && rest > GIB / 2 * 3);
    return (oom_verdict){ OOM_OTHERS, shown };
}

/* PyTorch's allocator keeps requests of at most 1 MiB apart, in segments of this size: what lies in pieces of
 * other segments serves none of them. */
enum { SMALL_SEGMENT = 2 << 20 };

/* Sizes of a message have two digits behind the point. */
bool oom_pieces_serve(const oom *o) {
    if (o->tried <= SMALL_SEGMENT) return false;
    bool serve = o->unallocated + o->tried / 100 >= o->tried && o->tried > o->free;
    return o->held_said && serve && o->allocated < o->total;
}

/* Every run has some pieces. Where threads say what helped, less was kept wherever they were less than a
 * tenth of the device, unless they were many times what was asked for. */
static bool is_in_pieces(const oom *o) {
    bool times = o->unallocated >= 2 * GIB && o->unallocated / 8 >= o->tried;
    return oom_pieces_serve(o) && (times || o->unallocated >= o->total / 10);
}

/* A tenth of the device: this decides even where the traceback says more. */
static bool is_mostly_pieces(const oom *o) { return is_in_pieces(o) && o->unallocated >= o->total / 10; }

static bool is_limited(const oom *o) {
    uint64_t own = o->allocated + o->unallocated;
    return o->allowed && o->allowed < o->total / 50 * 49 && own + o->tried > o->allowed;
}

/* ---- the place ---- */

/* Scores and logits are large tensors: a small request there failed because all else had filled the device.
 */
static bool is_large(const oom *o) { return !o->tried || !o->total || o->tried >= o->total / 50; }

static oom_verdict by_place(const oom *o) {
    static const oom_cause causes[OOM_PLACES] = {
        [OOM_OPTIMIZER] = OOM_BY_OPTIMIZER, [OOM_ATTENTION] = OOM_BY_ATTENTION,
        [OOM_LOSS] = OOM_BY_LOSS,           [OOM_VALIDATION] = OOM_BY_VALIDATION,
        [OOM_SAVING] = OOM_BY_SAVING,       [OOM_LOADING] = OOM_BY_LOADING,
        [OOM_CACHING] = OOM_CACHE
    };
    bool wants_large = o->place == OOM_ATTENTION || o->place == OOM_LOSS;
    if (!causes[o->place] || (wants_large && !is_large(o))) return likely(OOM_UNSAID);
    bool shown = !o->told_place && !(o->place == OOM_ATTENTION && o->fused);
    return (oom_verdict){ causes[o->place], shown };
}

static oom_verdict by_growth(const oom *o) {
    if (o->grew) return sure(OOM_LEAK);
    return likely(o->told_leak ? OOM_LEAK : OOM_UNSAID);
}

/* Saving, validating and loading tell more than growth; growth more than the rest of a step. */
static oom_verdict by_log(const oom *o) {
    oom_verdict place = by_place(o), growth = by_growth(o);
    bool apart = o->place == OOM_SAVING || o->place == OOM_VALIDATION || o->place == OOM_LOADING;
    return growth.cause != OOM_UNSAID && !apart ? growth : place;
}

/* ---- of each kind ---- */

static oom_verdict why_mps(const oom *o) {
    oom_verdict log = by_log(o);
    if (o->tried > o->allowed) return sure(OOM_TOO_LARGE);
    uint64_t rounded = o->allowed / 100; /* sizes have two digits behind the point */
    if (o->allocated + o->others + o->tried + rounded <= o->allowed) return likely(OOM_LIMIT);
    if (o->others > o->allocated) return sure(OOM_OTHERS);
    return log.cause != OOM_UNSAID ? log : sure(OOM_FULL);
}

/* Of Intel's devices the free bytes are not always told, and the driver may refuse single large requests. */
static oom_verdict why_free(const oom *o) {
    bool left = o->total > o->allocated + o->unallocated + o->tried;
    if (o->free_said) return sure(OOM_FULL);
    return likely(left ? OOM_LIMIT : OOM_FULL);
}

/* Unless told, Intel's driver refuses single requests from this size on. */
static bool refuses_large(const oom *o) {
    return o->backend == OOM_ON_XPU && !o->held_said && o->tried >= 4 * GIB && o->tried < o->total;
}

static oom_verdict why_torch(const oom *o) {
    oom_verdict log = by_log(o);
    bool huge = o->total && o->tried > o->total,
         large_place = huge && (o->place == OOM_ATTENTION || o->place == OOM_LOSS);
    if (is_limited(o)) return sure(OOM_LIMIT);
    if (huge && !large_place) return sure(OOM_TOO_LARGE);
    if (!o->total) return log;
    if (o->place == OOM_LOADING && o->each_rank) return log;
    if (others_hold_it(o)) return by_others(o);
    if (was_free(o)) return likely(OOM_LIMIT);
    if (is_mostly_pieces(o)) return sure(OOM_FRAGMENTED);
    if (log.cause != OOM_UNSAID) return log;
    if (refuses_large(o)) return likely(OOM_LIMIT);
    if (!o->held_said) return o->allocated > o->total / 5 * 4 ? sure(OOM_FULL) : likely(OOM_UNSAID);
    if (is_in_pieces(o)) return sure(OOM_FRAGMENTED);
    return why_free(o);
}

static oom_verdict why_llama_cpp(const oom *o) {
    static const oom_cause causes[] = { [OOM_PART_UNKNOWN] = OOM_UNSAID,
                                        [OOM_PART_WEIGHTS] = OOM_BY_LOADING,
                                        [OOM_PART_CACHE] = OOM_CACHE,
                                        [OOM_PART_COMPUTE] = OOM_FULL };
    return o->part ? sure(causes[o->part]) : likely(OOM_UNSAID);
}

/* A pool that TensorFlow takes at once is the whole device: what fails in it is the run's own. */
static oom_verdict why_tensorflow(const oom *o) {
    if (o->backend == OOM_ON_HOST) return sure(OOM_OF_HOST);
    if (o->total) return o->free < o->total / 2 ? sure(OOM_OTHERS) : likely(OOM_UNSAID);
    return likely(o->units == OOM_G ? OOM_UNSAID : OOM_FULL);
}

/* A program of less than this is not what fills a device. */
enum { LARGE_PROGRAM_GIB = 2 };

static oom_verdict why_xla(const oom *o) {
    if (o->total && o->tried > o->total) return sure(OOM_TOO_LARGE);
    if (o->free_said) return sure(o->free >= o->tried ? OOM_FRAGMENTED : OOM_FULL);
    return likely(o->program >= LARGE_PROGRAM_GIB * GIB ? OOM_FULL : OOM_UNSAID);
}

static oom_verdict why_bare(const oom *o) {
    oom_verdict log = by_log(o);
    if (o->library) return (oom_verdict){ OOM_OUTSIDE, !o->handle };
    bool words = o->kind == OOM_WORDS;
    if (words && o->told_library) return likely(OOM_OUTSIDE);
    if (words && o->told_host) return likely(o->told_leak ? OOM_LEAK : OOM_OF_HOST);
    if (o->pinned) return likely(OOM_OF_HOST);
    if (o->free_said && o->free < o->tried) return likely(OOM_FULL);
    bool in_step = o->place == OOM_ATTENTION || o->place == OOM_LOSS; /* kernels fail after their line */
    bool decides = o->kind == OOM_WORDS || !in_step;
    return likely(decides ? log.cause : OOM_UNSAID);
}

oom_verdict oom_why(const oom *o) {
    switch (o->kind) {
    case OOM_TORCH: return o->backend == OOM_ON_MPS ? why_mps(o) : why_torch(o);
    case OOM_VLLM_LENGTH:
    case OOM_VLLM_NO_CACHE: return sure(OOM_CACHE);
    case OOM_VLLM_NOT_FREE: return sure(OOM_OTHERS);
    case OOM_VLLM_WARM_UP: return sure(OOM_FULL);
    case OOM_LLAMA_CPP: return why_llama_cpp(o);
    case OOM_HOST: return sure(OOM_OF_HOST);
    case OOM_TENSORFLOW: return why_tensorflow(o);
    case OOM_XLA: return why_xla(o);
    case OOM_NCCL: return o->place == OOM_SAVING ? likely(OOM_BY_SAVING) : sure(OOM_OUTSIDE);
    case OOM_SHARED: return sure(OOM_SHM);
    case OOM_KILLED: return o->kill == OOM_KILL_SIGNAL ? likely(OOM_OF_HOST) : sure(OOM_OF_HOST);
    case OOM_CUDA:
    case OOM_WORDS: return why_bare(o);
    case OOM_BITSANDBYTES:
    case OOM_NONE:
    case OOM_KINDS: break;
    }
    return likely(OOM_UNSAID);
}

/* ---- what is missing ---- */

unsigned oom_missing(const oom *o) {
    oom_verdict v = oom_why(o);
    bool torch = o->kind == OOM_TORCH && o->backend != OOM_ON_MPS;
    bool numbered = o->total || o->allowed;
    bool step = v.cause == OOM_FULL || v.cause == OOM_UNSAID || v.cause == OOM_FRAGMENTED;
    bool framework = o->kind == OOM_TORCH || o->kind == OOM_CUDA || o->kind == OOM_WORDS;
    unsigned ask = 0;
    if (torch && (!o->total || (!o->held_said && v.cause == OOM_UNSAID))) ask |= OOM_ASK_REST;
    if (o->kind == OOM_WORDS) ask |= OOM_ASK_REST;
    if (framework && step && o->place == OOM_NOWHERE) ask |= OOM_ASK_TRACEBACK;
    bool device = o->backend != OOM_ON_HOST && o->kind != OOM_KILLED && o->kind != OOM_SHARED;
    if (device && !numbered && v.cause == OOM_UNSAID) ask |= OOM_ASK_DEVICE;
    if (v.cause == OOM_OTHERS && torch && !o->others) ask |= OOM_ASK_DEVICE;
    if ((o->kill == OOM_KILL_SIGNAL && o->kind == OOM_KILLED) || o->kind == OOM_BITSANDBYTES)
        ask |= OOM_ASK_SYSTEM;
    return ask;
}
