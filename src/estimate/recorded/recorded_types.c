#include "estimate/recorded/recorded_types.h"

#include <string.h>

#include "base/memory.h"
#include "estimate/recorded/recorded_retyping.h"
#include "estimate/recorded/recorded_widen.h"
#include "estimate/recorded/recorded_within.h"

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

static bool is_in_linear(const recorded_edit *e, uint32_t call) {
    return strstr(e->r->classes.of[e->calls[call].module], "Linear") != NULL;
}

/* What `linear` copies first, where its rows are not contiguous. */
static bool copies_rows(const recorded_edit *e, uint32_t call) {
    return edit_is_call(e, call, "clone") && is_in_linear(e, call);
}

/* The bias of `linear`, which is added behind its product where rows are not contiguous. Autocast casts what
 * `linear` is given, the bias too, and does not look within it. */
static bool adds_bias(const recorded_edit *e, uint32_t call) {
    const edit_call *c = edit_call_at(e, call);
    if (!edit_is_call(e, call, "add") && !edit_is_call(e, call, "add_")) return false;
    if (!is_in_linear(e, call) || c->reads != 2) return false;
    const uint32_t *x = edit_reads(e, call);
    uint32_t product = edit_at(e, x[0])->born;
    bool own = product && e->calls[product].module == c->module && IS_AMONG(e, product, lowering);
    return own && edit_at(e, x[1])->role == RECORDING_PARAMETER;
}

/* Of 16 bits: what torch.nn has as one call stays so. */
static policy policy_of(const retyping *t, uint32_t call) {
    const recorded_edit *e = t->e;
    if (t->to == TORCH_AUTOCAST) {
        if (IS_AMONG(e, call, lowering) || copies_rows(e, call) || adds_bias(e, call)) return LOWERS;
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

uint32_t recorded_cast(recorded_edit *e, uint32_t behind, uint32_t call, uint32_t storage, const char *kind) {
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
    uint32_t made = recorded_cast(e, e->calls[call].before, call, storage, kind);
    if (known) t->copy[storage] = made;
    if (weight) edit_at(e, made)->outlasts = true;
    return made;
}

/* Does the code of a norm leave it as it is for that call? */
static bool is_left(const retyping *t, uint32_t call, uint32_t x) {
    const recording_column *c = &t->e->from->widened_for;
    if (x > t->known || !t->handed[x]) return false;
    for (uint32_t i = 0; i < c->count; i += 2)
        if (c->of[i] == x && c->of[i + 1] == call) return false;
    return true;
}

static void cast_reads(retyping *t, uint32_t call, const char *kind) {
    recorded_edit *e = t->e;
    for (uint32_t k = 0; k < e->calls[call].reads && !e->failed; k++) {
        uint32_t x = edit_reads(e, call)[k];
        if (t->writes_norm[e->calls[call].module] && is_left(t, call, x)) continue;
        bool other = kind == narrow ? is_wide(e, x) : edit_is_narrow(e, x);
        bool changed = false;
        for (uint32_t i = 0; i < e->calls[call].makes; i++) changed |= edit_makes(e, call)[i] == x;
        if (!other || changed || !is_counted(e, x)) continue;
        uint32_t made = copy_for(t, call, x, kind);
        note_cast(t, call, x, made);
        edit_read_instead(e, call, x, made);
    }
}

/* The widest of what it reads, of norms that of the first, and of attention, whose sums are f32; 0: no float.
 */
static const char *promoted(const recorded_edit *e, uint32_t call) {
    const char *found = NULL;
    bool first = IS_AMONG(e, call, norms) || strstr(edit_call_name(e, call), "dot_product");
    if (first && e->calls[call].reads) return edit_is_narrow(e, edit_reads(e, call)[0]) ? narrow : wide;
    for (uint32_t k = 0; k < e->calls[call].reads; k++) {
        uint32_t x = edit_reads(e, call)[k];
        if (is_counted(e, x)) found = edit_is_narrow(e, x) && found != wide ? narrow : wide;
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
        meets |= varies && edit_is_narrow(e, x);
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
        *narrowed |= counted && edit_is_narrow(e, x);
    }
    if (!weight || !other || !*narrowed) {
        cast_reads(t, call, wide);
        retype_makes(e, call, wide);
        return;
    }
    for (uint32_t k = 0; k < e->calls[call].reads; k++) {
        uint32_t x = edit_reads(e, call)[k];
        if (edit_at(e, x)->role == RECORDING_PARAMETER || !is_wide(e, x) || !is_counted(e, x)) continue;
        uint32_t made = recorded_cast(e, e->calls[call].before, call, x, narrow);
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
        uint32_t made = x <= t->known && t->copy[x]
                            ? t->copy[x]
                            : recorded_cast(e, e->calls[call].before, call, x, narrow);
        if (x <= t->known) t->copy[x] = made;
        note_cast(t, call, x, made);
        edit_read_instead(e, call, x, made);
    }
}

/* ---- attention of several calls, which is in f32 ---- */

static uint32_t put_cast(recorded_edit *e, uint32_t behind, uint32_t storage, uint32_t made) {
    const edit_call *c = edit_call_at(e, behind);
    edit_new_call cast = { .name = "_to_copy.default", .phase = c->phase, .module = c->module };
    cast.reads[0] = storage, cast.makes[0] = made;
    return edit_insert(e, behind, &cast);
}

static void stays_until(recorded_edit *e, uint32_t storage, uint32_t call) {
    edit_storage *s = edit_at(e, storage);
    s->held = s->loose = true;
    s->died = s->left = call;
}

/* Autocast casts all that the function is given. */
static void open_mask(retyping *t, struct attending *w) {
    recorded_edit *e = t->e;
    uint32_t mask = w->a.mask;
    if (!mask || t->to != TORCH_AUTOCAST || !is_wide(e, mask) || !is_counted(e, mask)) return;
    w->mask = recorded_cast(e, e->calls[w->a.first].before, w->a.first, mask, narrow);
    edit_read_instead(e, w->a.masked, mask, w->mask);
    note_cast(t, w->a.masked, mask, w->mask);
}

static void open_attention(retyping *t, struct attending *w) {
    recorded_edit *e = t->e;
    uint32_t module = e->calls[w->a.first].module;
    open_mask(t, w);
    for (int k = 0; k < ATTENTION_GIVEN && !e->failed; k++) {
        uint32_t x = w->a.given[k], call = w->a.reader[k];
        if (!x || !edit_is_narrow(e, x)) continue;
        w->made[k] =
            edit_add(e, &(edit_new){ .role = RECORDING_MADE, .dtype = wide, .rows = w->a.numbers[k] });
        edit_new_call cast = { .name = "_to_copy.default", .phase = RECORDING_FORWARD, .module = module };
        cast.reads[0] = x, cast.makes[0] = w->made[k];
        edit_insert(e, e->calls[w->a.first].before, &cast);
        edit_read_instead(e, call, x, w->made[k]);
        note_cast(t, call, x, w->made[k]);
    }
}

/* What lived to the last product, but for what that one copied, lives until the function returns. */
static void close_attention(retyping *t, struct attending *w) {
    recorded_edit *e = t->e;
    const recorded_attention *a = &w->a;
    uint32_t y = edit_makes(e, a->last)[0], made = edit_divert(e, a->last, y, wide), copied = a->reader[2];
    uint32_t weights = edit_at(e, a->weights)->born;
    uint32_t copy = edit_add(e, &(edit_new){ RECORDING_MADE, narrow, edit_numbers(e, a->weights), 0, false });
    put_cast(e, weights, a->weights, copy);
    edit_retype(e, y, narrow);
    uint32_t end = put_cast(e, a->last, made, y);
    for (uint32_t i = 1; i <= t->known && !e->failed; i++) {
        edit_storage *s = edit_at(e, i);
        bool own = s->born < a->last && s->born != copied;
        if (own && edit_still_there(e, s->left) == a->last) s->left = end, s->loose = true;
        if (own && edit_still_there(e, s->died) == a->last)
            stays_until(e, i, end); /* where nobody says who left it */
    }
    for (int k = 0; k < ATTENTION_GIVEN; k++)
        if (w->made[k]) stays_until(e, w->made[k], end);
    if (w->mask) stays_until(e, w->mask, end);
    stays_until(e, copy, end);
    stays_until(e, made, end);
}

/* Is the call in attention? */
static bool retype_attention(retyping *t, uint32_t call) {
    recorded_edit *e = t->e;
    struct attending *w = t->attentions + t->attention;
    if (t->attention == t->attention_count || call < w->a.first || call > e->from->call_name.count)
        return false;
    if (call == w->a.first) open_attention(t, w);
    cast_reads(t, call, wide);
    retype_makes(e, call, wide);
    if (call != w->a.last) return true;
    if (w->made[0] || w->made[1] || w->made[2]) close_attention(t, w);
    t->attention++;
    return true;
}

/* The product's gradient is cast for what `linear` was given, before it copied that. */
static void note_turned(retyping *t, uint32_t call) {
    const recorded_edit *e = t->e;
    for (uint32_t k = 0; k < e->calls[call].reads; k++) {
        uint32_t copy = edit_at(e, edit_reads(e, call)[k])->born;
        bool own = copy && e->calls[copy].module == e->calls[call].module && copies_rows(e, copy);
        uint32_t cast = own && copy <= e->from->call_name.count ? t->casts[copy] : 0;
        if (cast) note_cast(t, call, t->cast[cast].of, t->cast[cast].made);
    }
}

/* What `linear` was given is there until its bias is added. */
static void hold_given(retyping *t, uint32_t call) {
    recorded_edit *e = t->e;
    uint32_t product = adds_bias(e, call) ? edit_at(e, edit_reads(e, call)[0])->born : 0;
    bool known = product && product <= e->from->call_name.count;
    for (uint32_t i = known ? t->casts[product] : 0; i; i = t->cast[i].next)
        stays_until(e, t->cast[i].made, call);
}

/* A CPU's list has cross_entropy_loss, which has what it was given until it returns. */
static void hold_logits(retyping *t, uint32_t call) {
    recorded_edit *e = t->e;
    uint32_t next = edit_next(e, call);
    bool loss =
        next && (edit_is_call(e, next, "nll_loss_forward") || edit_is_call(e, next, "nll_loss2d_forward"));
    if (!loss || !edit_is_call(e, call, "_log_softmax") || call > e->from->call_name.count) return;
    for (uint32_t i = t->casts[call]; i; i = t->cast[i].next) stays_until(e, t->cast[i].made, next);
}

static void retype_forward(retyping *t, uint32_t call) {
    recorded_edit *e = t->e;
    uint32_t module = e->calls[call].module;
    if (retype_attention(t, call)) return;
    if (t->own_casts) cast_norms(t, call);
    if (t->own_casts && t->writes_norm[module]) {
        retype_norm(t, call);
        return;
    }
    policy p = policy_of(t, call);
    if (p == LOWERS) note_turned(t, call), hold_given(t, call);
    if (p == PROMOTES && t->to == TORCH_HALF) cast_constants(t, call);
    if (p != PROMOTES) cast_reads(t, call, p == LOWERS ? narrow : wide);
    if (p == WIDENS && t->to == TORCH_AUTOCAST && !t->cuda) hold_logits(t, call);
    if (!edit_is_call(e, call, "_to_copy"))
        retype_makes(e, call, p == PROMOTES ? promoted(e, call) : p == LOWERS ? narrow : wide);
}

/* ---- backward ---- */

/* The type that the result of a call of forward has. */
static const char *result_type(const recorded_edit *e, uint32_t call) {
    for (uint32_t k = 0; k < e->calls[call].makes; k++) {
        uint32_t y = edit_makes(e, call)[k];
        if (is_counted(e, y)) return edit_is_narrow(e, y) ? narrow : wide;
    }
    return NULL;
}

static bool reads_result(const recorded_edit *e, uint32_t call, uint32_t of) {
    for (uint32_t k = 0; k < e->calls[call].reads; k++)
        for (uint32_t i = 0; i < e->calls[of].makes; i++)
            if (edit_reads(e, call)[k] == edit_makes(e, of)[i]) return true;
    return false;
}

/* By the node that makes it where that is of a call which reads what `call` is of; else by one that computes
 * nothing. */
static uint32_t cast_gradient(recorded_edit *e, uint32_t call, uint32_t g, const char *type) {
    uint32_t maker = edit_at(e, g)->born, by = e->calls[maker].of;
    if (!by || !reads_result(e, by, e->calls[call].of))
        return recorded_cast(e, e->calls[call].before, call, g, type);
    edit_new_call cast = { "_to_copy.default", RECORDING_BACKWARD, e->calls[maker].module, by, { g }, { 0 } };
    cast.makes[0] =
        edit_add(e, &(edit_new){ .role = RECORDING_MADE, .dtype = type, .rows = edit_numbers(e, g) });
    edit_insert_in_node(e, maker, &cast);
    return cast.makes[0];
}

/* Gradients come in the type of what they are of (the engine's validate_outputs). */
static void cast_gradients(retyping *t, uint32_t call, uint32_t of) {
    recorded_edit *e = t->e;
    const char *type = result_type(e, of);
    for (uint32_t k = 0; type && k < e->calls[call].reads && !e->failed; k++) {
        uint32_t g = edit_reads(e, call)[k], maker = edit_at(e, g)->born;
        if (!is_of_backward(e, g) || !is_counted(e, g) || e->calls[maker].of == of) continue;
        if (edit_is_narrow(e, g) == (type == narrow)) continue;
        uint32_t made = cast_of(t, of, g);
        if (!made) {
            made = cast_gradient(e, call, g, type);
            note_cast(t, of, g, made);
        }
        edit_read_instead(e, call, g, made);
    }
}

/* What was cast in forward gets its gradient in its own type, when its node is done (validate_outputs). */
static const char *own_type(const retyping *t, uint32_t of, uint32_t result) {
    const recorded_edit *e = t->e;
    double numbers = edit_numbers(e, result);
    for (uint32_t k = 0; of && t->writes_norm[e->calls[of].module] && k < e->calls[of].reads; k++) {
        uint32_t x = edit_reads(e, of)[k];
        if (is_left(t, of, x) && edit_is_narrow(e, x) && edit_numbers(e, x) == numbers) return narrow;
    }
    for (uint32_t i = t->casts[of]; i; i = t->cast[i].next) {
        uint32_t x = t->cast[i].of, made = t->cast[i].made;
        bool alike = edit_numbers(e, x) == numbers && !is_of_backward(e, x);
        if (alike && edit_is_narrow(e, made) == edit_is_narrow(e, result))
            return edit_is_narrow(e, x) ? narrow : wide;
    }
    return NULL;
}

/* The newest cast comes first: of rows before that of weights. */
static void place_cast(retyping *t, uint32_t call, uint32_t of, uint32_t made, uint32_t y) {
    recorded_edit *e = t->e;
    uint32_t none = 0, *last = of && of <= e->from->call_name.count ? &t->last_cast[of] : &none;
    bool weight = edit_at(e, y)->role == RECORDING_GRADIENT;
    uint32_t put = put_cast(e, weight && *last ? *last : recorded_end_of_node(e, call), made, y);
    if (weight || !*last) *last = put;
}

/* What a node computes with by itself, as powers on the way to their gradient. */
static bool stays_in_node(const recorded_edit *e, uint32_t call, uint32_t storage) {
    uint32_t end = recorded_end_of_node(e, call);
    while (call != end) {
        call = edit_next(e, call);
        for (uint32_t k = 0; k < e->calls[call].reads; k++)
            if (edit_reads(e, call)[k] == storage) return true;
    }
    return false;
}

/* The gradient of a mask that autocast has cast comes in 16 bits, and is cast again with those of what else
 * attention was given. */
static void note_mask(retyping *t, uint32_t of, uint32_t gradient) {
    for (uint32_t i = 0; of && i < t->attention_count; i++)
        if (t->attentions[i].mask && t->attentions[i].a.masked == of) t->attentions[i].of_mask = gradient;
}

static void widen_mask(retyping *t, const struct attending *w, uint32_t behind) {
    recorded_edit *e = t->e;
    if (!w->of_mask) return;
    uint32_t made = recorded_cast(e, behind, behind, w->of_mask, wide);
    recorded_replace_behind(e, edit_next(e, behind), w->of_mask, made);
}

static void cast_results(retyping *t, uint32_t call, uint32_t of) {
    recorded_edit *e = t->e;
    for (uint32_t k = 0; k < e->calls[call].makes && !e->failed; k++) {
        uint32_t y = edit_makes(e, call)[k];
        if (edit_at(e, y)->born != call || !is_counted(e, y) || stays_in_node(e, call, y)) continue;
        bool gradient = edit_at(e, y)->role == RECORDING_GRADIENT;
        const char *type = gradient ? (t->to == TORCH_HALF ? narrow : wide) : own_type(t, of, y);
        if (!gradient && recorded_waits_for_sum(t, call, y)) continue;
        if (!type || edit_is_narrow(e, y) == (type == narrow)) continue;
        uint32_t made = edit_divert(e, call, y, edit_is_narrow(e, y) ? narrow : wide);
        edit_retype(e, y, type);
        place_cast(t, call, of, made, y);
        note_mask(t, of, y);
    }
}

/* Gradients of what attention was given get its type when all are there: the casts at its beginning are older
 * than what it scales. */
static bool cast_of_attention(retyping *t, uint32_t call) {
    recorded_edit *e = t->e;
    uint32_t which = call <= e->from->call_name.count ? t->attention_of[call] : 0, last = 0;
    struct attending *w = which ? &t->attentions[which - 1] : NULL;
    for (int k = 0; which && k < ATTENTION_GIVEN; k++)
        if (w->made[k] && w->a.back[k] > last) last = w->a.back[k];
    for (int k = 0; which && k < ATTENTION_GIVEN; k++)
        if (w->made[k] && w->a.back[k] == call) w->gradient[k] = edit_makes(e, call)[0];
    if (call == last) widen_mask(t, w, edit_end_of_node(e, call));
    for (int k = 0; call == last && k < ATTENTION_GIVEN && !e->failed; k++) {
        uint32_t y = w->gradient[k];
        if (!y) continue;
        uint32_t made = edit_divert(e, w->a.back[k], y, wide);
        edit_retype(e, y, narrow);
        put_cast(e, edit_end_of_node(e, call), made, y);
    }
    return last > 0;
}

/* The gradient of attention's result is cast before it is copied. */
static void turn_wide(retyping *t, uint32_t call) {
    uint32_t which = call <= t->e->from->call_name.count ? t->attention_of[call] : 0;
    const struct attending *w = which ? &t->attentions[which - 1] : NULL;
    if (w && w->a.turned == call && (w->made[0] || w->made[1] || w->made[2])) cast_reads(t, call, wide);
}

static void retype_backward(retyping *t, uint32_t call) {
    recorded_edit *e = t->e;
    uint32_t of = e->calls[call].of;
    if (recorded_add_behind_norm(t, call)) return;
    for (uint32_t k = 0; of && k < e->calls[call].reads; k++) {
        uint32_t x = edit_reads(e, call)[k], made = cast_of(t, of, x);
        if (made && !is_of_backward(e, x)) edit_read_instead(e, call, x, made);
    }
    if (of && !recorded_is_sum(e, call)) cast_gradients(t, call, of);
    turn_wide(t, call);
    if (!edit_is_call(e, call, "_to_copy")) retype_makes(e, call, promoted(e, call));
    if (!cast_of_attention(t, call)) cast_results(t, call, of);
}

/* ---- from f32 ---- */

static bool reads_widened(const retyping *t, uint32_t call) {
    for (uint32_t k = 0; k < t->e->calls[call].reads; k++) {
        uint32_t x = edit_reads(t->e, call)[k];
        if (x <= t->known && t->widened[x]) return true;
    }
    return false;
}

/* Modules without products that take a root by themselves, and widen what they read: where the recording does
 * not say they are taken to. */
static void note_norms(retyping *t) {
    const recorded_edit *e = t->e;
    bool *root = memory_new((size_t)e->r->modules.count + 1, sizeof *root);
    if (!root) t->e->failed = true;
    for (uint32_t call = root ? edit_first(e) : 0; call; call = edit_next(e, call)) {
        uint32_t module = e->calls[call].module;
        if (e->calls[call].phase != RECORDING_FORWARD) continue;
        root[module] |= edit_is_call(e, call, "rsqrt");
        t->writes_norm[module] |= !e->from->tells_widened || reads_widened(t, call);
    }
    for (uint32_t call = root ? edit_first(e) : 0; call; call = edit_next(e, call))
        if (IS_AMONG(e, call, lowering)) root[e->calls[call].module] = false;
    for (uint32_t m = 0; root && m < e->r->modules.count; m++) t->writes_norm[m] &= root[m];
    memory_free(root);
}

static bool was_there(const recorded_edit *e, uint32_t i) {
    return edit_at(e, i)->role < RECORDING_GRADIENT && is_wide(e, i) && is_counted(e, i);
}

static void note_attentions(retyping *t) {
    uint32_t count;
    recorded_attention *found = recorded_attentions(t->e, &count);
    t->attentions = memory_new((size_t)count + 1, sizeof *t->attentions);
    if (!t->attentions) t->e->failed = true;
    for (uint32_t i = 0; t->attentions && i < count; i++) {
        t->attentions[i].a = found[i];
        for (int k = 0; k < ATTENTION_GIVEN; k++) t->attention_of[found[i].back[k]] = i + 1;
        t->attention_of[found[i].turned] = i + 1;
    }
    if (t->attentions) t->attention_count = count;
    t->attention_of[0] = 0;
    memory_free(found);
}

static void lower(retyping *t) {
    recorded_edit *e = t->e;
    note_norms(t);
    note_varying(t);
    note_attentions(t);
    for (uint32_t i = 1; t->to == TORCH_HALF && i <= e->storage_count; i++)
        if (was_there(e, i)) edit_retype(e, i, narrow);
    for (uint32_t call = edit_first(e), next; call && !e->failed; call = next) {
        next = edit_next(e, call);
        if (e->calls[call].phase == RECORDING_FORWARD) retype_forward(t, call);
        if (e->calls[call].phase == RECORDING_BACKWARD) retype_backward(t, call);
        if (e->calls[call].phase == RECORDING_UPDATE) retype_makes(e, call, promoted(e, call));
    }
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
                   .attention_of = memory_new(calls, sizeof *t.attention_of),
                   .last_cast = memory_new(calls, sizeof *t.last_cast),
                   .casts = memory_new(calls, sizeof *t.casts),
                   .copy = memory_new(storages, sizeof *t.copy),
                   .handed = memory_new(storages, sizeof *t.handed),
                   .varies = memory_new(storages, sizeof *t.varies) };
    const recording_column *c = &e->from->widened_for;
    for (uint32_t i = 0; t.handed && i < c->count; i += 2) t.handed[c->of[i]] = true;
    if (t.handed && t.writes_norm && t.is_of_narrow && t.attention_of && t.last_cast && t.casts && t.copy &&
        t.varies)
        lower(&t);
    else
        e->failed = true;
    memory_free(t.writes_norm);
    memory_free(t.is_of_narrow);
    memory_free(t.attention_of);
    memory_free(t.last_cast);
    memory_free(t.attentions);
    memory_free(t.casts);
    memory_free(t.copy);
    memory_free(t.varies);
    memory_free(t.handed);
    memory_free(t.cast);
}

void recorded_retype(recorded_edit *e, torch_types to, bool cuda, bool own_casts) {
    size_t storages = (size_t)e->storage_count + 1;
    bool *widened = memory_new(storages, sizeof *widened);
    const recording_column *said = &e->from->widened;
    for (uint32_t i = 0; widened && i < said->count; i++) widened[said->of[i]] = true;
    if (to == TORCH_F32) recorded_within_widen(e);
    if (widened) recorded_widen(e, widened);
    if (!widened) e->failed = true;
    if (to != TORCH_F32 && !e->failed) retype(e, to, cuda, own_casts, widened);
    if (!e->failed) recorded_within_retype(e, cuda);
    memory_free(widened);
}
