#include "estimate/recorded/recorded_adapters.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "estimate/recorded/recorded_course.h"
#include "estimate/recorded/recorded_types.h"
#include "estimate/torch/torch_adapters.h"

static const char wide[] = "float32", narrow[] = "bfloat16";

typedef struct {
    recorded_edit *e;
    const torch_settings *s;
    uint32_t *block_of;  /* by module */
    uint32_t *weight;    /* by module: its matrix; 0: it is not linear */
    uint32_t *of_weight; /* by storage: the weight that it is, or is a copy of; 0: none */
    uint32_t
        *trained; /* by module: the first of its adapter's two weights, 0: none yet; made: their gradients */
    uint32_t *gradient;
    uint32_t *node; /* by call of forward: the first call that differentiates it */
    uint32_t *end;  /* by call of forward: the last call of the adapter behind it; 0: it has none */
    uint32_t found, known;
    bool autocast;
} adapting;

/* The weight that a storage is, or is a copy of; 0: none. Others were put in. */
static uint32_t weight_of(const adapting *a, uint32_t storage) {
    return storage <= a->known ? a->of_weight[storage] : 0;
}

/* ---- which modules ---- */

static bool is_linear(const char *class) { return strstr(class, "Linear") || strcmp(class, "Conv1D") == 0; }

/* 0: it is none of a linear module. */
static uint32_t module_of_weight(const recording *r, const char *name) {
    size_t length = strlen(name);
    if (length < 8 || strcmp(name + length - 7, ".weight") != 0) return 0;
    for (uint32_t m = 1; m < r->modules.count; m++) {
        const char *module = r->modules.of[m];
        if (strlen(module) == length - 7 && strncmp(module, name, length - 7) == 0)
            return is_linear(r->classes.of[m]) ? m : 0;
    }
    return 0;
}

static void note_weights(adapting *a) {
    recorded_edit *e = a->e;
    for (uint32_t i = 1; i <= e->storage_count; i++) {
        if (edit_at(e, i)->role != RECORDING_PARAMETER) continue;
        uint32_t m = module_of_weight(e->r, edit_name(e, i));
        if (m && edit_dim(e, i, 1) > 1) a->weight[m] = i;
        a->of_weight[i] = i;
    }
    for (uint32_t call = edit_first(e); call; call = edit_next(e, call)) {
        const edit_call *c = edit_call_at(e, call);
        bool copies = c->phase == RECORDING_FORWARD && c->reads == 1 && c->makes == 1;
        if (copies && edit_is_call(e, call, "_to_copy"))
            a->of_weight[edit_makes(e, call)[0]] = a->of_weight[edit_reads(e, call)[0]];
        if (c->phase == RECORDING_BACKWARD && c->of && !a->node[c->of]) a->node[c->of] = call;
    }
}

static bool is_target(const adapting *a, uint32_t module) {
    uint32_t weight = a->weight[module];
    return weight && torch_is_target(a->s, edit_name(a->e, weight), a->block_of[module] > 0);
}

/* The product with the module's weight. */
static bool is_product(const adapting *a, uint32_t call, uint32_t *weight, uint32_t *x) {
    const recorded_edit *e = a->e;
    const edit_call *c = edit_call_at(e, call);
    bool product = edit_is_call(e, call, "mm") || edit_is_call(e, call, "addmm");
    *weight = *x = 0;
    if (c->phase != RECORDING_FORWARD || !product || c->makes != 1) return false;
    for (uint32_t k = 0; k < c->reads; k++) {
        uint32_t r = edit_reads(e, call)[k], w = weight_of(a, r);
        if (w && w == a->weight[c->module]) *weight = r;
        if (!w) *x = r;
    }
    return *weight && *x;
}

/* ---- the adapter of one call ---- */

typedef struct {
    uint32_t call, module, x, y, node; /* node: the first call of the product's backward */
    uint32_t down, up;                 /* its weights as they are multiplied */
    double rows, in, out, rank;
    const char *type, *own;          /* of what it computes, and of its weights */
    uint32_t mask, read, hidden;     /* made in forward: of dropout; what `down` multiplies; and its result */
    uint32_t dropped, first, second; /* calls of forward: dropout, the products */
    uint32_t at;                     /* the last call that was put in */
} adapter;

static uint32_t made_of(adapting *a, const char *type, double rows, double columns) {
    return edit_add(a->e,
                    &(edit_new){ .role = RECORDING_MADE, .dtype = type, .rows = rows, .columns = columns });
}

/* Puts a call behind the one before; the result is `makes`. */
static uint32_t put(adapting *a, adapter *d, edit_new_call c) {
    c.module = d->module;
    d->at = edit_insert(a->e, d->at, &c);
    return c.makes[0];
}

static uint32_t cast(adapting *a, adapter *d, recording_phase when, uint32_t x, const char *type) {
    if (strcmp(edit_dtype(a->e, x), type) == 0) return x;
    uint32_t made = made_of(a, type, edit_numbers(a->e, x), 0);
    return put(a, d, (edit_new_call){ "_to_copy.default", when, 0, 0, { x }, { made } });
}

static uint32_t weight(adapting *a, double rows, double columns, const char *type) {
    return edit_add(a->e, &(edit_new){ RECORDING_PARAMETER, type, rows, columns, true });
}

/* Its weights, which further calls of the module share. */
static void take_weights(adapting *a, adapter *d) {
    if (!a->trained[d->module]) {
        a->trained[d->module] = weight(a, d->rank, d->in, d->own);
        weight(a, d->out, d->rank, d->own);
    }
    d->down = a->trained[d->module], d->up = d->down + 1;
}

/* A weight as it is multiplied: autocast's copies of what is trained serve to its end. */
static uint32_t multiplied(adapting *a, adapter *d, uint32_t own) {
    uint32_t w = cast(a, d, RECORDING_FORWARD, own, d->type);
    if (w != own) edit_at(a->e, w)->outlasts = true;
    return w;
}

/* PEFT's code has a name for it until then. */
static void hold_to(adapting *a, uint32_t storage, uint32_t call) {
    edit_storage *s = edit_at(a->e, storage);
    s->left = call, s->loose = true;
}

/* A GPU keeps a byte a number; a CPU multiplies by numbers of the input's type. */
static uint32_t drop(adapting *a, adapter *d, uint32_t x) {
    if (!(a->s->adapter_dropout > 0)) return x;
    const char *type = edit_dtype(a->e, x);
    uint32_t made = made_of(a, type, d->rows, d->in);
    d->mask = made_of(a, a->s->cuda ? "bool" : type, d->rows, d->in);
    put(a, d, (edit_new_call){ "native_dropout.default", RECORDING_FORWARD, 0, 0, { x }, { made, d->mask } });
    d->dropped = d->at;
    return made;
}

static void put_forward(adapting *a, adapter *d) {
    recorded_edit *e = a->e;
    const char *y_type = edit_dtype(e, d->y);
    d->at = d->call;
    uint32_t base = edit_divert(e, d->call, d->y, y_type);
    uint32_t given = cast(a, d, RECORDING_FORWARD, d->x, d->own), x = drop(a, d, given);
    take_weights(a, d);
    d->read = cast(a, d, RECORDING_FORWARD, x, d->type), d->down = multiplied(a, d, d->down);
    d->hidden = made_of(a, d->type, d->rows, d->rank);
    uint32_t added = made_of(a, d->type, d->rows, d->out), scaled = made_of(a, d->type, d->rows, d->out);
    put(a, d, (edit_new_call){ "mm.default", RECORDING_FORWARD, 0, 0, { d->read, d->down }, { d->hidden } });
    d->first = d->at;
    if (x != given && x != d->read) hold_to(a, x, d->first);
    d->up = multiplied(a, d, d->up);
    put(a, d, (edit_new_call){ "mm.default", RECORDING_FORWARD, 0, 0, { d->hidden, d->up }, { added } });
    d->second = d->at;
    put(a, d, (edit_new_call){ "mul.Tensor", RECORDING_FORWARD, 0, 0, { added }, { scaled } });
    if (edit_width(d->type) <= edit_width(y_type)) {
        put(a, d, (edit_new_call){ "add.Tensor", RECORDING_FORWARD, 0, 0, { base, scaled }, { d->y } });
    } else {
        uint32_t sum = made_of(a, d->type, d->rows, d->out);
        put(a, d, (edit_new_call){ "add.Tensor", RECORDING_FORWARD, 0, 0, { base, scaled }, { sum } });
        put(a, d, (edit_new_call){ "_to_copy.default", RECORDING_FORWARD, 0, 0, { sum }, { d->y } });
    }
    if (given != d->x) hold_to(a, given, d->at);
}

/* The gradient of a weight; a module that runs again adds to it. */
static void put_gradient(adapting *a, adapter *d, uint32_t of, uint32_t left, uint32_t right,
                         uint32_t which) {
    recorded_edit *e = a->e;
    uint32_t *there = &a->gradient[2 * d->module + which], own = a->trained[d->module] + which;
    double rows = edit_dim(e, own, 0), columns = edit_dim(e, own, 1);
    recording_role as = *there ? RECORDING_MADE : RECORDING_GRADIENT;
    bool casts = strcmp(d->type, d->own) != 0;
    uint32_t g = edit_add(e, &(edit_new){ as, d->own, rows, columns, as == RECORDING_GRADIENT });
    uint32_t made = casts ? made_of(a, d->type, rows, columns) : g;
    put(a, d, (edit_new_call){ "mm.default", RECORDING_BACKWARD, 0, of, { left, right }, { made } });
    if (casts) put(a, d, (edit_new_call){ "_to_copy.default", RECORDING_BACKWARD, 0, 0, { made }, { g } });
    if (*there)
        put(a, d, (edit_new_call){ "add_.Tensor", RECORDING_BACKWARD, 0, 0, { *there, g }, { *there } });
    if (!*there) *there = g;
}

/* What of the product's own backward reads the gradient of its result, and makes that of its input. */
static void look_at_node(const adapting *a, const adapter *d, uint32_t *g, uint32_t *dx, uint32_t *dx_call) {
    const recorded_edit *e = a->e;
    *g = *dx = *dx_call = 0;
    for (uint32_t call = d->node; call && e->calls[call].of == d->call; call = edit_next(e, call)) {
        bool reads_weight = false;
        for (uint32_t k = 0; k < e->calls[call].reads; k++) {
            uint32_t r = edit_reads(e, call)[k], born = edit_at(e, r)->born;
            reads_weight |= weight_of(a, r) > 0;
            bool backward =
                born && e->calls[born].phase == RECORDING_BACKWARD && e->calls[born].of != d->call;
            if (backward && !*g) *g = r;
        }
        if (reads_weight && e->calls[call].makes == 1) *dx = edit_makes(e, call)[0], *dx_call = call;
    }
}

/* A gradient that comes as rows of what has more dimensions is a view, to which autograd adds nothing in
 * place (InputBuffer::accumulate): what it is of has the storage too. */
static bool is_view(const recorded_edit *e, const adapter *d, uint32_t gradient) {
    uint32_t born = edit_at(e, gradient)->born, given = edit_at(e, d->x)->born;
    bool rows = edit_rank(e, d->x) > 2 || (given && edit_is_call(e, given, "mm"));
    return rows && edit_is_call(e, born, "mm");
}

/* Puts `mine` in place of `own` and adds that to it, anew where it is a view. Readers of `own` find the sum.
 */
static void add_first(adapting *a, adapter *d, uint32_t mine, uint32_t dx, uint32_t dx_call) {
    recorded_edit *e = a->e;
    uint32_t own = edit_divert(e, dx_call, dx, edit_dtype(e, dx));
    for (uint32_t call = edit_next(e, dx_call); call && e->calls[call].of == d->call;
         call = edit_next(e, call))
        edit_read_instead(e, call, dx, own);
    if (is_view(e, d, mine)) {
        edit_insert(
            e, dx_call,
            &(edit_new_call){ "add.Tensor", RECORDING_BACKWARD, d->module, 0, { mine, own }, { dx } });
        return;
    }
    uint32_t maker = edit_at(e, mine)->born;
    for (uint32_t k = 0; k < e->calls[maker].makes; k++)
        if (edit_makes(e, maker)[k] == mine) edit_makes(e, maker)[k] = dx;
    edit_at(e, dx)->gone = false, edit_at(e, dx)->born = maker;
    edit_drop(e, mine);
    edit_insert(e, dx_call,
                &(edit_new_call){ "add.Tensor", RECORDING_BACKWARD, d->module, 0, { dx, own }, { dx } });
}

/* Autograd adds gradients up as they come: into the sum that the product's own goes to, where that is there;
 * else the adapter's is the first. */
static void add_up(adapting *a, adapter *d, uint32_t mine, uint32_t dx, uint32_t dx_call) {
    recorded_edit *e = a->e;
    for (uint32_t call = dx_call; call; call = edit_next(e, call)) {
        const edit_call *c = edit_call_at(e, call);
        bool reads = false;
        for (uint32_t k = 0; k < c->reads; k++) reads |= edit_reads(e, call)[k] == dx;
        if (!reads) continue;
        uint32_t sum = edit_is_call(e, call, "add") && c->makes == 1 ? edit_makes(e, call)[0] : dx;
        if (c->phase != RECORDING_BACKWARD || sum == dx || edit_at(e, sum)->born == call) break;
        put(a, d, (edit_new_call){ "add.Tensor", RECORDING_BACKWARD, 0, 0, { sum, mine }, { sum } });
        return;
    }
    add_first(a, d, mine, dx, dx_call);
}

static void put_backward(adapting *a, adapter *d) {
    recorded_edit *e = a->e;
    uint32_t g, dx, dx_call;
    look_at_node(a, d, &g, &dx, &dx_call);
    if (!g) return;
    d->at = e->calls[d->node].before;
    uint32_t wider = cast(a, d, RECORDING_BACKWARD, g, d->type);
    if (wider != g) { /* the base's share of it has its own type again */
        uint32_t back = cast(a, d, RECORDING_BACKWARD, wider, edit_dtype(e, g));
        for (uint32_t call = d->node; call && e->calls[call].of == d->call; call = edit_next(e, call))
            edit_read_instead(e, call, g, back);
    }
    uint32_t scaled = made_of(a, d->type, d->rows, d->out), hidden = made_of(a, d->type, d->rows, d->rank);
    put(a, d, (edit_new_call){ "mul.Tensor", RECORDING_BACKWARD, 0, 0, { wider }, { scaled } });
    put(a, d,
        (edit_new_call){ "mm.default", RECORDING_BACKWARD, 0, d->second, { scaled, d->up }, { hidden } });
    put_gradient(a, d, d->second, scaled, d->hidden, 1);
    uint32_t x = made_of(a, d->type, d->rows, d->in);
    if (dx)
        put(a, d,
            (edit_new_call){ "mm.default", RECORDING_BACKWARD, 0, d->first, { hidden, d->down }, { x } });
    put_gradient(a, d, d->first, hidden, d->read, 0);
    if (!dx) return;
    x = cast(a, d, RECORDING_BACKWARD, x, d->own);
    if (d->mask) {
        uint32_t kept = made_of(a, edit_dtype(e, x), d->rows, d->in);
        x = put(a, d,
                (edit_new_call){ "mul.Tensor", RECORDING_BACKWARD, 0, d->dropped, { x, d->mask }, { kept } });
    }
    add_up(a, d, cast(a, d, RECORDING_BACKWARD, x, edit_dtype(e, dx)), dx, dx_call);
}

/* What the module was given, where the product was recorded under autocast and reads a cast of it. */
static uint32_t given_to(const recorded_edit *e, uint32_t call, uint32_t x) {
    uint32_t born = edit_at(e, x)->born;
    bool casts = born && edit_is_call(e, born, "_to_copy") && e->calls[born].module == e->calls[call].module;
    return casts ? edit_reads(e, born)[0] : x;
}

static void adapt_call(adapting *a, uint32_t call, uint32_t own, uint32_t x) {
    recorded_edit *e = a->e;
    uint32_t module = e->calls[call].module, w = weight_of(a, own), y = edit_makes(e, call)[0];
    bool turned = strcmp(e->r->classes.of[module], "Conv1D") == 0;
    adapter d = { .call = call, .module = module, .x = given_to(e, call, x), .y = y, .node = a->node[call] };
    d.in = edit_dim(e, w, turned ? 0 : 1), d.out = edit_dim(e, w, turned ? 1 : 0);
    d.rank = (double)a->s->adapter_rank, d.rows = edit_numbers(e, y) / d.out;
    d.own = torch_adapter_width(a->s) < 4 ? narrow : wide;
    d.type = a->autocast ? narrow : d.own;
    put_forward(a, &d);
    a->end[call] = d.at;
    if (d.node) put_backward(a, &d);
    a->found++;
}

/* ---- codes of 4 bits ---- */

/* The weight in the type of the product, for one call. */
static void decode_for(adapting *a, uint32_t call, uint32_t w) {
    recorded_edit *e = a->e;
    for (uint32_t k = 0; k < e->calls[call].reads; k++) {
        uint32_t r = edit_reads(e, call)[k];
        if (weight_of(a, r) != w) continue;
        const char *type = edit_dtype(e, r);
        uint32_t made = made_of(a, type, edit_dim(e, w, 0), edit_dim(e, w, 1));
        edit_insert(e, e->calls[call].before,
                    &(edit_new_call){ "dequantize.default",
                                      e->calls[call].phase,
                                      e->calls[call].module,
                                      e->calls[call].of,
                                      { w },
                                      { made } });
        edit_read_instead(e, call, r, made);
    }
}

/* Linear modules of the blocks, as bitsandbytes has them. */
static void code(adapting *a) {
    recorded_edit *e = a->e;
    bool *coded = memory_new((size_t)e->storage_count + 1, sizeof *coded);
    if (!coded) e->failed = true;
    for (uint32_t m = 1; coded && m < e->r->modules.count; m++)
        if (a->weight[m] && a->block_of[m]) coded[a->weight[m]] = true;
    for (uint32_t call = edit_first(e), next; coded && call; call = next) {
        next = edit_next(e, call);
        const edit_call *c = edit_call_at(e, call);
        uint32_t w = 0;
        for (uint32_t k = 0; k < c->reads; k++) {
            uint32_t r = edit_reads(e, call)[k];
            if (weight_of(a, r) && coded[weight_of(a, r)]) w = weight_of(a, r);
        }
        if (!w || c->phase == RECORDING_UPDATE) continue;
        if (edit_is_call(e, call, "_to_copy"))
            edit_remove(e, call);
        else
            decode_for(a, call, w);
    }
    for (uint32_t i = 1; coded && i <= a->known; i++)
        if (coded[i]) {
            double bytes = edit_numbers(e, i) * torch_code_width(a->s);
            edit_retype(e, i, "uint8");
            edit_at(e, i)->bytes = (uint64_t)bytes;
        }
    memory_free(coded);
}

/* ---- the whole ---- */

static status no_target(const adapting *a) {
    text names = { 0 };
    for (uint32_t m = 1; m < a->e->r->modules.count; m++) {
        const char *name = a->e->r->modules.of[m], *last = strrchr(name, '.');
        char one[128];
        if (!a->weight[m] || !a->block_of[m]) continue;
        snprintf(one, sizeof one, " %s,", last ? last + 1 : name);
        if (!names.data || !strstr(names.data, one)) text_add(&names, "%s", one);
    }
    int length = names.data ? (int)strlen(names.data) - 1 : 0;
    status result =
        status_set(STATUS_INVALID,
                   "--adapter-rank: no product of a linear module that %s names; the blocks of %s have%.*s",
                   a->s->adapter_targets ? "--adapter-targets" : "the blocks", a->e->r->model,
                   length ? length : 5, length ? names.data : " none");
    text_close(&names);
    return result;
}

/* The last calls of forward first, whose gradients come first. */
static void adapt_calls(adapting *a) {
    recorded_edit *e = a->e;
    uint32_t own, x;
    for (uint32_t call = e->call_count; call && !e->failed; call--)
        if (!e->calls[call].gone && is_target(a, e->calls[call].module) && is_product(a, call, &own, &x))
            adapt_call(a, call, own, x);
}

/* What code let go of when the module returned it has until the adapter is done; not what the call had within
 * itself. */
static void hold_arguments(adapting *a, uint32_t calls) {
    for (uint32_t i = 1; i <= a->known; i++) {
        const edit_storage *s = edit_at(a->e, i);
        bool argument = !s->gone && s->left <= calls && s->born != s->left;
        if (argument && a->end[s->left]) hold_to(a, i, a->end[s->left]);
    }
}

/* By storage: does backward make something else of it? A batch of one sample hands a gradient on that is at
 * last that of what was added to all samples, in one storage. */
static bool *find_handed_on(const recorded_edit *e) {
    bool *on = memory_new((size_t)e->storage_count + 1, sizeof *on);
    for (uint32_t call = edit_first(e); on && call; call = edit_next(e, call)) {
        const edit_call *c = edit_call_at(e, call);
        if (c->phase != RECORDING_BACKWARD) continue;
        for (uint32_t k = 0; k < c->makes; k++)
            for (uint32_t i = 0; i < c->reads; i++)
                on[edit_reads(e, call)[i]] |= edit_makes(e, call)[k] != edit_reads(e, call)[i];
    }
    return on;
}

/* Autocast's copies serve to its end where a weight is trained: those of others are made for one call. */
static void freeze(adapting *a) {
    recorded_edit *e = a->e;
    bool *handed_on = find_handed_on(e);
    if (!handed_on) e->failed = true;
    for (uint32_t i = 1; handed_on && i <= e->storage_count; i++) {
        edit_storage *s = edit_at(e, i);
        bool copy = a->autocast && weight_of(a, i) && s->role == RECORDING_MADE;
        if (copy) s->outlasts = false, s->left = 0, s->loose = true;
        if (s->role != RECORDING_GRADIENT) continue;
        if (handed_on[i])
            s->role = RECORDING_MADE, s->left = 0, s->loose = true;
        else
            edit_drop(e, i);
    }
    memory_free(handed_on);
}

/* Weights are looked up by storages that were there before any is added. */
static bool open_adapting(adapting *a) {
    size_t modules = (size_t)a->e->r->modules.count + 1, most = a->e->storage_count + 1;
    uint32_t calls = a->e->call_count;
    a->known = a->e->storage_count;
    a->block_of = memory_new(modules, sizeof *a->block_of);
    a->weight = memory_new(modules, sizeof *a->weight);
    a->trained = memory_new(modules, sizeof *a->trained);
    a->gradient = memory_new(2 * modules, sizeof *a->gradient);
    a->of_weight = memory_new(most, sizeof *a->of_weight);
    a->node = memory_new((size_t)calls + 1, sizeof *a->node);
    a->end = memory_new((size_t)calls + 1, sizeof *a->end);
    return a->block_of && a->weight && a->trained && a->gradient && a->of_weight && a->node && a->end;
}

static void close_adapting(adapting *a) {
    void *const all[] = { a->block_of, a->weight, a->trained, a->gradient, a->of_weight, a->node, a->end };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) memory_free(all[i]);
}

status recorded_adapt(recorded_edit *e, const torch_settings *s) {
    adapting a = { .e = e, .s = s };
    if (!s->adapter_rank) return STATUS_OK;
    status result = STATUS_OK;
    a.autocast = s->types == TORCH_AUTOCAST;
    if (open_adapting(&a)) {
        recorded_blocks(e->r, a.block_of);
        note_weights(&a);
        uint32_t calls = e->call_count;
        freeze(&a);
        adapt_calls(&a);
        hold_arguments(&a, calls);
        if (s->base_bits == 4) code(&a);
        edit_prune(e);
        if (!a.found) result = no_target(&a);
    } else {
        e->failed = true;
    }
    close_adapting(&a);
    return result;
}

status recorded_adapted(const recording *r, const torch_settings *s, uint8_t *marks) {
    const recording_program *p = &r->programs[0];
    uint32_t *block_of = memory_new((size_t)r->modules.count + 1, sizeof *block_of);
    if (!block_of) return status_set(STATUS_FAILED, "no memory to estimate");
    memset(marks, 0, r->modules.count);
    recorded_blocks(r, block_of);
    for (uint32_t i = 0; i < recording_storages(p); i++) {
        int64_t which = p->shape[0].of[i];
        const char *name = p->strings.of[p->name.of[i]];
        if (p->role.of[i] != RECORDING_PARAMETER || p->shape_ranks.of[which] < 2) continue;
        uint32_t m = module_of_weight(r, name);
        bool matrix = p->shape_dims.of[p->shape_at.of[which] + 1] > 1;
        marks[m] = m && matrix && torch_is_target(s, name, block_of[m] > 0);
    }
    memory_free(block_of);
    return STATUS_OK;
}
