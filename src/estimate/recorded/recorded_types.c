#include "estimate/recorded/recorded_types.h"

#include <string.h>

#include "base/memory.h"

static const char wide[] = "float32", narrow[] = "bfloat16";

torch_types recorded_types_of(const recording *r) {
    const recording_program *p = &r->programs[0];
    double of_16 = 0, of_32 = 0;
    if (*r->autocast) return TORCH_AUTOCAST;
    for (uint32_t i = 0; i < recording_storages(p); i++) {
        double width = edit_width(p->strings.of[p->dtype.of[i]]);
        if (p->role.of[i] != RECORDING_PARAMETER) continue;
        of_16 += width < 4 ? (double)p->bytes[0].of[i] : 0;
        of_32 += width < 4 ? 0 : (double)p->bytes[0].of[i];
    }
    return of_16 > of_32 ? TORCH_HALF : TORCH_F32;
}

/* ---- to f32 ---- */

static bool is_narrow(const recorded_edit *e, uint32_t storage) {
    return edit_is_float(edit_dtype(e, storage)) && edit_width(edit_dtype(e, storage)) == 2;
}
static bool is_wide(const recorded_edit *e, uint32_t storage) {
    return strcmp(edit_dtype(e, storage), wide) == 0;
}

/* Between the types that become one. */
static bool casts_nothing(const recorded_edit *e, uint32_t call) {
    const edit_call *c = edit_call_at(e, call);
    if (!edit_is_call(e, call, "_to_copy") || c->reads != 1 || c->makes != 1) return false;
    uint32_t x = edit_reads(e, call)[0], y = edit_makes(e, call)[0];
    bool floats = edit_is_float(edit_dtype(e, x)) && edit_is_float(edit_dtype(e, y));
    return x != y && floats && is_narrow(e, x) != is_narrow(e, y);
}

/* What a cast made is what it read; then the cast goes. In this order, since what goes with its call is no
 * gradient any more. `widened`: of storages, moves with what is replaced. */
static void widen(recorded_edit *e, bool *widened) {
    uint32_t *by = memory_new((size_t)e->storage_count + 1, sizeof *by), next;
    bool *is_cast = memory_new((size_t)e->call_count + 1, sizeof *is_cast);
    bool there = by && is_cast;
    for (uint32_t i = 0; there && i <= e->storage_count; i++) by[i] = i;
    for (uint32_t call = there ? edit_first(e) : 0; call; call = edit_next(e, call)) {
        is_cast[call] = casts_nothing(e, call);
        if (is_cast[call]) by[edit_makes(e, call)[0]] = by[edit_reads(e, call)[0]];
    }
    for (uint32_t i = 1; there && i <= e->storage_count; i++) {
        if (is_narrow(e, i)) edit_retype(e, i, wide);
        widened[by[i]] |= widened[i];
    }
    if (there)
        edit_replace(e, by);
    else
        e->failed = true;
    for (uint32_t call = there ? edit_first(e) : 0; call; call = next) {
        next = edit_next(e, call);
        if (is_cast[call]) edit_remove(e, call);
    }
    memory_free(by);
    memory_free(is_cast);
}

/* By storage: does it come and go within a call, so that none has it as an operand? */
static bool *find_within(recorded_edit *e) {
    bool *within = memory_new((size_t)e->storage_count + 1, sizeof *within);
    if (!within) e->failed = true;
    for (uint32_t i = 1; within && i <= e->storage_count; i++) {
        const edit_storage *s = edit_at(e, i);
        within[i] = s->role == RECORDING_MADE && s->born && s->died == s->born;
    }
    for (uint32_t i = 0; within && i < e->operand_count; i++) within[e->operands[i]] = false;
    return within;
}

/* On a CPU products of 16 bits copy what they read within themselves; those of f32 do not. */
static void forget_copies_within(recorded_edit *e) {
    bool *within = find_within(e);
    for (uint32_t i = 1; within && i <= e->storage_count; i++)
        if (within[i] && strstr(edit_call_name(e, edit_at(e, i)->born), "mm")) edit_drop(e, i);
    memory_free(within);
}

/* A copy that a call makes within itself has the type of what it reads first. */
static void lower_within(recorded_edit *e) {
    bool *within = find_within(e);
    for (uint32_t i = 1; within && i <= e->storage_count; i++) {
        uint32_t call = edit_at(e, i)->born;
        bool copies = within[i] && is_wide(e, i) && e->calls[call].reads;
        if (copies && is_narrow(e, edit_reads(e, call)[0])) edit_retype(e, i, narrow);
    }
    memory_free(within);
}

/* ---- which calls cast ---- */

typedef enum { PROMOTES, LOWERS, WIDENS } policy;

/* By ATen's autocast_mode.h: lower_precision_fp and fp32 of a GPU; of a CPU only what stands there too. Of
 * those with backward below autograd the names are the ones that are called there. */
static const char *const lowering[] = { "mm",
                                        "addmm",
                                        "bmm",
                                        "baddbmm",
                                        "addbmm",
                                        "addmv",
                                        "mv",
                                        "convolution",
                                        "linear",
                                        "matmul",
                                        "einsum",
                                        "_scaled_dot_product_flash_attention_for_cpu",
                                        "_scaled_dot_product_flash_attention",
                                        "_scaled_dot_product_efficient_attention",
                                        "_scaled_dot_product_cudnn_attention" };
static const char *const widening[] = { "native_layer_norm",
                                        "native_group_norm",
                                        "_softmax",
                                        "_log_softmax",
                                        "exp",
                                        "expm1",
                                        "log",
                                        "log10",
                                        "log2",
                                        "log1p",
                                        "pow",
                                        "rsqrt",
                                        "reciprocal",
                                        "prod",
                                        "sum",
                                        "cumsum",
                                        "cumprod",
                                        "softplus",
                                        "cosh",
                                        "sinh",
                                        "tan",
                                        "acos",
                                        "asin",
                                        "erfinv",
                                        "norm",
                                        "linalg_vector_norm",
                                        "dist",
                                        "renorm",
                                        "nll_loss_forward",
                                        "nll_loss2d_forward",
                                        "mse_loss",
                                        "l1_loss",
                                        "smooth_l1_loss",
                                        "huber_loss",
                                        "soft_margin_loss",
                                        "binary_cross_entropy_with_logits" };
static const char *const widening_cpu[] = { "prod",    "nll_loss_forward", "nll_loss2d_forward", "mse_loss",
                                            "l1_loss", "smooth_l1_loss",   "huber_loss" };

static const char *const norms[] = { "native_layer_norm", "native_group_norm", "native_batch_norm" };

static bool is_among(const recorded_edit *e, uint32_t call, const char *const *names, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (edit_is_call(e, call, names[i])) return true;
    return false;
}
#define IS_AMONG(e, call, names) is_among(e, call, names, sizeof names / sizeof *names)

typedef struct {
    recorded_edit *e;
    torch_types to;
    bool cuda, own_casts;
    bool *widened;      /* by storage: code casts it to f32 */
    bool *writes_norm;  /* by module: it makes a norm of several calls ... */
    bool *is_of_narrow; /* ... of what has 16 bits, in f32 */
    bool *attends;      /* by module: it has attention of several calls, which PyTorch does in f32 */
    uint32_t module;    /* that the last call of forward was in ... */
    bool weighed, over; /* ... in whose attention the softmax is done; or all of it */
    uint32_t *casts;    /* by call: the first of its casts; 0: none */
    struct cast {
        uint32_t of, made, next;
    } * cast;                              /* from 1 */
    uint32_t cast_count, cast_room, known; /* known: storages that were there */
    uint32_t *copy;                        /* by storage: a copy that serves all calls of forward */
    bool *varies;                          /* by storage: it depends on a weight */
} retyping;

static bool reads_parameter(const recorded_edit *e, uint32_t call) {
    for (uint32_t k = 0; k < e->calls[call].reads; k++)
        if (edit_at(e, edit_reads(e, call)[k])->role == RECORDING_PARAMETER) return true;
    return false;
}

enum { MOST_COPIES = 16 }; /* between a product and a loss */

/* Does code widen the logits of that log_softmax, between it and a product? Where the recording does not say
 * it is taken to. */
static bool is_widened(const retyping *t, uint32_t call) {
    const recorded_edit *e = t->e;
    if (!t->own_casts || !e->from->tells_widened) return t->own_casts;
    for (int copies = 0; call && e->calls[call].reads && copies < MOST_COPIES; copies++) {
        uint32_t x = edit_reads(e, call)[0];
        if (x <= t->known && t->widened[x]) return true;
        call = edit_at(e, x)->born;
        if (call && IS_AMONG(e, call, lowering)) return false;
    }
    return false;
}

/* Of 16 bits: what torch.nn has as one call stays so. */
static policy policy_of(const retyping *t, uint32_t call) {
    const recorded_edit *e = t->e;
    if (t->to == TORCH_AUTOCAST) {
        if (IS_AMONG(e, call, lowering)) return LOWERS;
        if (t->cuda ? IS_AMONG(e, call, widening) : IS_AMONG(e, call, widening_cpu)) return WIDENS;
        /* a CPU's list has cross_entropy_loss, of which this is a part */
        return t->own_casts && edit_is_call(e, call, "_log_softmax") ? WIDENS : PROMOTES;
    }
    return edit_is_call(e, call, "_log_softmax") && is_widened(t, call) ? WIDENS : PROMOTES;
}

/* ---- casts ---- */

enum { SCALAR = 8 }; /* bytes of what has no dimensions, and takes part in no promotion */

static bool is_counted(const recorded_edit *e, uint32_t storage) {
    return edit_at(e, storage)->bytes > SCALAR && edit_is_float(edit_dtype(e, storage));
}

static uint32_t cast_of(const retyping *t, uint32_t call, uint32_t storage) {
    for (uint32_t i = call <= t->e->from->call_name.count ? t->casts[call] : 0; i; i = t->cast[i].next)
        if (t->cast[i].of == storage) return t->cast[i].made;
    return 0;
}

static uint32_t make_cast(recorded_edit *e, uint32_t behind, uint32_t call, uint32_t storage,
                          const char *kind) {
    const edit_call *c = edit_call_at(e, call);
    edit_new_call cast = { .name = "_to_copy.default", .phase = c->phase, .module = c->module, .of = 0 };
    double numbers = edit_numbers(e, storage);
    cast.reads[0] = storage;
    cast.makes[0] = edit_add(e, &(edit_new){ .role = RECORDING_MADE, .dtype = kind, .rows = numbers });
    edit_insert(e, behind, &cast);
    return cast.makes[0];
}

static void note_cast(retyping *t, uint32_t call, uint32_t storage, uint32_t made) {
    if (t->cast_count + 2 > t->cast_room) {
        uint32_t more = t->cast_room ? 2 * t->cast_room : 64;
        struct cast *grown = memory_resize(t->cast, more, sizeof *grown);
        if (!grown) {
            t->e->failed = true;
            return;
        }
        t->cast = grown, t->cast_room = more;
    }
    t->cast[++t->cast_count] = (struct cast){ storage, made, t->casts[call] };
    t->casts[call] = t->cast_count;
}

/* Autocast's copies of weights serve until it ends. Where a model casts by itself, a module does it once, and
 * what depends on no weight is cast once for all. */
static uint32_t copy_for(retyping *t, uint32_t call, uint32_t storage, const char *kind) {
    recorded_edit *e = t->e;
    bool weight = edit_at(e, storage)->role == RECORDING_PARAMETER && t->to == TORCH_AUTOCAST;
    bool known = storage <= t->known, constant = t->to == TORCH_HALF && known && !t->varies[storage];
    uint32_t there = known ? t->copy[storage] : 0;
    uint32_t maker = there ? edit_at(e, there)->born : 0;
    bool once =
        there && t->writes_norm[e->calls[call].module] && e->calls[maker].module == e->calls[call].module;
    if (there && (weight || constant || once)) return there;
    uint32_t made = make_cast(e, e->calls[call].before, call, storage, kind);
    if (known) t->copy[storage] = made;
    if (weight) edit_at(e, made)->outlasts = true;
    return made;
}

static void cast_reads(retyping *t, uint32_t call, const char *kind) {
    recorded_edit *e = t->e;
    for (uint32_t k = 0; k < e->calls[call].reads && !e->failed; k++) {
        uint32_t x = edit_reads(e, call)[k];
        bool other = kind == narrow ? is_wide(e, x) : is_narrow(e, x);
        bool changed = false;
        for (uint32_t i = 0; i < e->calls[call].makes; i++) changed |= edit_makes(e, call)[i] == x;
        if (!other || changed || !is_counted(e, x)) continue;
        uint32_t made = copy_for(t, call, x, kind);
        note_cast(t, call, x, made);
        edit_read_instead(e, call, x, made);
    }
}

/* The widest of what it reads, of norms that of the first; 0: no float. */
static const char *promoted(const recorded_edit *e, uint32_t call) {
    const char *found = NULL;
    if (IS_AMONG(e, call, norms) && e->calls[call].reads)
        return is_narrow(e, edit_reads(e, call)[0]) ? narrow : wide;
    for (uint32_t k = 0; k < e->calls[call].reads; k++) {
        uint32_t x = edit_reads(e, call)[k];
        if (is_counted(e, x)) found = is_narrow(e, x) && found != wide ? narrow : wide;
    }
    return found;
}

/* Sums of attention, which it makes beside its result, are f32. */
static void retype_makes(recorded_edit *e, uint32_t call, const char *kind) {
    bool statistics =
        strstr(edit_call_name(e, call), "dot_product") && e->calls[call].phase == RECORDING_FORWARD;
    for (uint32_t k = 0; kind && k < e->calls[call].makes; k++) {
        uint32_t y = edit_makes(e, call)[k];
        if (edit_at(e, y)->born == call && is_counted(e, y) && strcmp(edit_dtype(e, y), kind) != 0)
            edit_retype(e, y, kind);
        if (statistics) return;
    }
}

/* What is no weight and depends on none, as angles of positions, comes in the type of what it meets. */
static void cast_constants(retyping *t, uint32_t call) {
    const recorded_edit *e = t->e;
    bool meets = false, any = false;
    for (uint32_t k = 0; k < e->calls[call].reads; k++) {
        uint32_t x = edit_reads(e, call)[k];
        bool known = x <= t->known, varies = !known || t->varies[x];
        if (varies && is_wide(e, x) && is_counted(e, x)) return;
        meets |= varies && is_narrow(e, x);
        any |= !varies && is_wide(e, x);
    }
    if (meets && any) cast_reads(t, call, narrow);
}

/* Before any storage is added. */
static void note_varying(retyping *t) {
    const recorded_edit *e = t->e;
    for (uint32_t i = 1; i <= t->known; i++) t->varies[i] = edit_at(e, i)->role == RECORDING_PARAMETER;
    for (uint32_t call = edit_first(e); call; call = edit_next(e, call)) {
        bool varies = false;
        for (uint32_t k = 0; k < e->calls[call].reads; k++) varies |= t->varies[edit_reads(e, call)[k]];
        for (uint32_t k = 0; varies && k < e->calls[call].makes; k++)
            t->varies[edit_makes(e, call)[k]] = true;
    }
}

/* A norm that is written out widens what it reads, and comes back to its type: before it meets its weight, or
 * at its end where it widened that too. */
static void retype_norm(retyping *t, uint32_t call) {
    recorded_edit *e = t->e;
    bool *narrowed = &t->is_of_narrow[e->calls[call].module], weight = reads_parameter(e, call),
         other = false;
    for (uint32_t k = 0; k < e->calls[call].reads; k++) {
        uint32_t x = edit_reads(e, call)[k];
        bool counted = is_counted(e, x) && edit_at(e, x)->role != RECORDING_PARAMETER;
        other |= counted;
        *narrowed |= counted && is_narrow(e, x);
    }
    if (!weight || !other || !*narrowed) {
        cast_reads(t, call, wide);
        retype_makes(e, call, wide);
        return;
    }
    for (uint32_t k = 0; k < e->calls[call].reads; k++) {
        uint32_t x = edit_reads(e, call)[k];
        if (edit_at(e, x)->role == RECORDING_PARAMETER || !is_wide(e, x) || !is_counted(e, x)) continue;
        uint32_t made = make_cast(e, e->calls[call].before, call, x, narrow);
        note_cast(t, call, x, made);
        edit_read_instead(e, call, x, made);
    }
    retype_makes(e, call, promoted(e, call));
}

static void cast_norms(retyping *t, uint32_t call) {
    recorded_edit *e = t->e;
    for (uint32_t k = 0; k < e->calls[call].reads && !e->failed; k++) {
        uint32_t x = edit_reads(e, call)[k], born = edit_at(e, x)->born;
        uint32_t module = born ? e->calls[born].module : 0;
        bool comes_back =
            born && t->writes_norm[module] && t->is_of_narrow[module] && !reads_parameter(e, born);
        if (!comes_back || module == e->calls[call].module || !is_wide(e, x) || !is_counted(e, x)) continue;
        uint32_t made =
            x <= t->known && t->copy[x] ? t->copy[x] : make_cast(e, e->calls[call].before, call, x, narrow);
        if (x <= t->known) t->copy[x] = made;
        note_cast(t, call, x, made);
        edit_read_instead(e, call, x, made);
    }
}

/* _scaled_dot_product_attention_math: from its inputs to the product behind its softmax. */
static void retype_attention(retyping *t, uint32_t call) {
    recorded_edit *e = t->e;
    cast_reads(t, call, wide);
    retype_makes(e, call, wide);
    t->weighed |= edit_is_call(e, call, "_safe_softmax");
    if (!t->weighed || !edit_is_call(e, call, "bmm")) return;
    uint32_t y = edit_makes(e, call)[0], made = edit_divert(e, call, y, wide);
    edit_retype(e, y, narrow);
    edit_insert(e, call,
                &(edit_new_call){ .name = "_to_copy.default",
                                  .phase = RECORDING_FORWARD,
                                  .module = t->module,
                                  .reads = { made },
                                  .makes = { y } });
    t->over = true;
}

static void retype_forward(retyping *t, uint32_t call) {
    recorded_edit *e = t->e;
    uint32_t module = e->calls[call].module;
    if (module != t->module) t->weighed = t->over = false;
    t->module = module;
    if (t->attends[module] && !t->over) {
        retype_attention(t, call);
        return;
    }
    if (t->own_casts) cast_norms(t, call);
    if (t->own_casts && t->writes_norm[module]) {
        retype_norm(t, call);
        return;
    }
    policy p = policy_of(t, call);
    if (p == PROMOTES && t->to == TORCH_HALF) cast_constants(t, call);
    if (p != PROMOTES) cast_reads(t, call, p == LOWERS ? narrow : wide);
    if (!edit_is_call(e, call, "_to_copy"))
        retype_makes(e, call, p == PROMOTES ? promoted(e, call) : p == LOWERS ? narrow : wide);
}

/* ---- backward ---- */

/* The type that the result of a call of forward has. */
static const char *result_type(const recorded_edit *e, uint32_t call) {
    for (uint32_t k = 0; k < e->calls[call].makes; k++) {
        uint32_t y = edit_makes(e, call)[k];
        if (is_counted(e, y)) return is_narrow(e, y) ? narrow : wide;
    }
    return NULL;
}

static bool is_of_backward(const recorded_edit *e, uint32_t storage) {
    uint32_t born = edit_at(e, storage)->born;
    return born && e->calls[born].phase == RECORDING_BACKWARD;
}

/* Gradients come in the type of what they are of (the engine's validate_outputs). */
static void cast_gradients(retyping *t, uint32_t call, uint32_t of) {
    recorded_edit *e = t->e;
    const char *type = result_type(e, of);
    for (uint32_t k = 0; type && k < e->calls[call].reads && !e->failed; k++) {
        uint32_t g = edit_reads(e, call)[k], maker = edit_at(e, g)->born;
        if (!is_of_backward(e, g) || !is_counted(e, g) || e->calls[maker].of == of) continue;
        if (is_narrow(e, g) == (type == narrow)) continue;
        uint32_t made = cast_of(t, of, g);
        if (!made) {
            made = make_cast(e, e->calls[call].before, call, g, type);
            note_cast(t, of, g, made);
        }
        edit_read_instead(e, call, g, made);
    }
}

/* What was cast in forward gets its gradient in its own type, when its node is done (validate_outputs). */
static const char *own_type(const retyping *t, uint32_t of, uint32_t result) {
    const recorded_edit *e = t->e;
    double numbers = edit_numbers(e, result);
    for (uint32_t i = t->casts[of]; i; i = t->cast[i].next) {
        uint32_t x = t->cast[i].of, made = t->cast[i].made;
        bool alike = edit_numbers(e, x) == numbers && !is_of_backward(e, x);
        if (alike && is_narrow(e, made) == is_narrow(e, result)) return is_narrow(e, x) ? narrow : wide;
    }
    return NULL;
}

static void cast_results(retyping *t, uint32_t call, uint32_t of) {
    recorded_edit *e = t->e;
    for (uint32_t k = 0; k < e->calls[call].makes && !e->failed; k++) {
        uint32_t y = edit_makes(e, call)[k];
        if (edit_at(e, y)->born != call || !is_counted(e, y)) continue;
        bool gradient = edit_at(e, y)->role == RECORDING_GRADIENT;
        const char *type = gradient ? (t->to == TORCH_HALF ? narrow : wide) : own_type(t, of, y);
        if (!type || is_narrow(e, y) == (type == narrow)) continue;
        uint32_t made = edit_divert(e, call, y, is_narrow(e, y) ? narrow : wide);
        edit_retype(e, y, type);
        edit_insert(e, edit_end_of_node(e, call),
                    &(edit_new_call){ .name = "_to_copy.default",
                                      .phase = RECORDING_BACKWARD,
                                      .module = e->calls[call].module,
                                      .reads = { made },
                                      .makes = { y } });
    }
}

static void retype_backward(retyping *t, uint32_t call) {
    recorded_edit *e = t->e;
    uint32_t of = e->calls[call].of;
    for (uint32_t k = 0; of && k < e->calls[call].reads; k++) {
        uint32_t x = edit_reads(e, call)[k], made = cast_of(t, of, x);
        if (made && !is_of_backward(e, x)) edit_read_instead(e, call, x, made);
    }
    if (of) cast_gradients(t, call, of);
    if (!edit_is_call(e, call, "_to_copy")) retype_makes(e, call, promoted(e, call));
    cast_results(t, call, of);
}

/* ---- from f32 ---- */

/* Modules without products that take a root by themselves. */
static void note_norms(retyping *t) {
    const recorded_edit *e = t->e;
    for (uint32_t call = edit_first(e); call; call = edit_next(e, call))
        if (e->calls[call].phase == RECORDING_FORWARD && edit_is_call(e, call, "rsqrt"))
            t->writes_norm[e->calls[call].module] = true;
    for (uint32_t call = edit_first(e); call; call = edit_next(e, call))
        if (edit_is_call(e, call, "_safe_softmax")) t->attends[e->calls[call].module] = true;
    for (uint32_t call = edit_first(e); call; call = edit_next(e, call))
        if (IS_AMONG(e, call, lowering)) t->writes_norm[e->calls[call].module] = false;
}

static bool was_there(const recorded_edit *e, uint32_t i) {
    return edit_at(e, i)->role < RECORDING_GRADIENT && is_wide(e, i) && is_counted(e, i);
}

static void lower(retyping *t) {
    recorded_edit *e = t->e;
    note_norms(t);
    note_varying(t);
    for (uint32_t i = 1; t->to == TORCH_HALF && i <= e->storage_count; i++)
        if (was_there(e, i)) edit_retype(e, i, narrow);
    for (uint32_t call = edit_first(e), next; call && !e->failed; call = next) {
        next = edit_next(e, call);
        if (e->calls[call].phase == RECORDING_FORWARD) retype_forward(t, call);
        if (e->calls[call].phase == RECORDING_BACKWARD) retype_backward(t, call);
        if (e->calls[call].phase == RECORDING_UPDATE) retype_makes(e, call, promoted(e, call));
    }
    lower_within(e);
}

static void retype(recorded_edit *e, torch_types to, bool cuda, bool own_casts, bool *widened) {
    size_t calls = (size_t)e->call_count + 1, storages = (size_t)e->storage_count + 1;
    retyping t = { .e = e,
                   .to = to,
                   .cuda = cuda,
                   .own_casts = own_casts,
                   .widened = widened,
                   .known = e->storage_count,
                   .writes_norm = memory_new((size_t)e->r->modules.count + 1, sizeof *t.writes_norm),
                   .is_of_narrow = memory_new((size_t)e->r->modules.count + 1, sizeof *t.is_of_narrow),
                   .attends = memory_new((size_t)e->r->modules.count + 1, sizeof *t.attends),
                   .casts = memory_new(calls, sizeof *t.casts),
                   .copy = memory_new(storages, sizeof *t.copy),
                   .varies = memory_new(storages, sizeof *t.varies) };
    if (t.writes_norm && t.is_of_narrow && t.attends && t.casts && t.copy && t.varies)
        lower(&t);
    else
        e->failed = true;
    memory_free(t.writes_norm);
    memory_free(t.is_of_narrow);
    memory_free(t.attends);
    memory_free(t.casts);
    memory_free(t.copy);
    memory_free(t.varies);
    memory_free(t.cast);
}

void recorded_retype(recorded_edit *e, torch_types to, bool cuda, bool own_casts) {
    size_t storages = (size_t)e->storage_count + 1;
    bool *widened = memory_new(storages, sizeof *widened);
    const recording_column *said = &e->from->widened;
    for (uint32_t i = 0; widened && i < said->count; i++) widened[said->of[i]] = true;
    if (to == TORCH_F32) forget_copies_within(e);
    if (widened) widen(e, widened);
    if (!widened) e->failed = true;
    if (to != TORCH_F32 && !e->failed) retype(e, to, cuda, own_casts, widened);
    memory_free(widened);
}
