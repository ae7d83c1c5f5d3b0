#include "chain/sketch.h"

#include <math.h>

/* ---- depths ---- */

/* How many layers there are before the place where a choice divides them, and behind it. Undivided: none
 * before. */
typedef struct {
    int64_t before, behind;
} depth;

/* Two depths and the model's, near + reached * (far - near), of which `far` is reached 1. */
typedef struct {
    depth near, far;
    int64_t reached;
} line;

static int64_t layers_of(depth d) { return d.before + d.behind; }

/* So that there is a first, a last and an inner layer. Of a model in two parts each has an end in common with
 * the other, where a layer is as an inner one. */
static int64_t least_part(int64_t part, int64_t other) { return !part ? 0 : other ? 2 : 3; }

static int64_t common_divisor(int64_t a, int64_t b) {
    while (b) {
        int64_t rest = a % b;
        a = b, b = rest;
    }
    return a;
}

/* The line whose two models have the fewest layers. False: they have more than half of the model's. */
static bool find_line(depth to, line *found) {
    int64_t fewest = layers_of(to) / 2 + 1, half = fewest / 2;
    int64_t least_before = least_part(to.before, to.behind), least_behind = least_part(to.behind, to.before);
    found->reached = 0;
    for (int64_t b = least_before; b <= half && b <= to.before; b++)
        for (int64_t h = least_behind; 2 * (b + h) < fewest && h <= to.behind; h++) {
            int64_t steps = common_divisor(to.before - b, to.behind - h);
            if (!steps) continue;
            depth step = { (to.before - b) / steps, (to.behind - h) / steps };
            if (2 * (b + h) + layers_of(step) >= fewest) continue;
            fewest = 2 * (b + h) + layers_of(step);
            *found = (line){ { b, h }, { b + step.before, h + step.behind }, steps };
        }
    return found->reached > 1;
}

/* How many layers pass number i treats otherwise than those behind them. */
static int64_t divided_by(const compose_choice *c, int i) {
    return pass_table[i]->divides && c->settings[i].text[0] ? pass_table[i]->divides(&c->settings[i]) : 0;
}

/* Where two passes divide the layers no line is looked for: there are no layers. */
static depth depth_of(const compose_run *r, const compose_choice *c) {
    int64_t before = 0, layers = r->model->layers;
    for (int i = 0; pass_table[i]; i++) {
        if (!divided_by(c, i)) continue;
        if (before) return (depth){ 0 };
        before = divided_by(c, i);
    }
    if (before > layers) before = layers;
    return (depth){ before, layers - before };
}

static compose_choice choice_at(const compose_choice *c, depth d) {
    compose_choice shallow = *c;
    for (int i = 0; pass_table[i]; i++)
        if (divided_by(c, i)) shallow.settings[i] = pass_table[i]->divide(&c->settings[i], d.before);
    return shallow;
}

static uint64_t elements_at(const compose_run *r, int64_t layers) {
    compose_run shallow = *r;
    compose_choice plain = { .micro_batch = 1 };
    graph g;
    uint64_t elements = 0;
    shallow.layers = layers, shallow.eval_batch = 1;
    if (compose_graph(&shallow, &plain, PASS_FORWARD, &g) == STATUS_OK)
        for (tensor_id t = 1; t < g.tensors.count; t++)
            if (graph_tensor(&g, t)->role == ROLE_PARAMETER)
                elements += (uint64_t)shape_elements(graph_shape(&g, t));
    graph_close(&g);
    return elements;
}

bool sketch_possible(const compose_run *r) {
    enum { LEAST_ELEMENT = 2 }; /* to a byte: codes of 4 bits */
    line l;
    if (!r->model->alike || r->ranks > 1 || !find_line((depth){ .behind = r->model->layers }, &l))
        return false;
    uint64_t near = elements_at(r, layers_of(l.near)), far = elements_at(r, layers_of(l.far));
    return near && far > near && (far - near) / LEAST_ELEMENT >= (uint64_t)r->lower.rates.cache_bytes;
}

/* ---- forms ---- */

static void close_form(sketch_form *f) {
    compose_trunk_close(&f->trunk);
    compose_stem_close(&f->stem);
}

void sketch_close(sketcher *s) {
    while (s->count) close_form(&s->forms[--s->count]);
    s->next = 0;
}

/* The outline of the choice, of a model with so many layers. */
static status bound_at(sketcher *s, const compose_run *r, const compose_choice *c, const compose_reach *reach,
                       compose_least *out) {
    uint32_t at = 0;
    while (at < s->count && s->forms[at].layers != r->layers) at++;
    sketch_form *f = &s->forms[at];
    if (at == s->count) {
        if (at == SKETCH_FORMS) {
            f = &s->forms[s->next++ % SKETCH_FORMS];
            close_form(f);
        } else {
            s->count++;
        }
        *f = (sketch_form){ .layers = r->layers };
        f->stem.made = compose_stem_open(r, c, &f->stem);
        f->trunk = (compose_trunk){ .stem = &f->stem, .most = s->most };
    }
    return compose_bound(r, c, &f->trunk, reach, out);
}

/* ---- lines ---- */

static uint64_t extend(const line *l, uint64_t near, uint64_t far) {
    return far > near ? far + (uint64_t)(l->reached - 1) * (far - near) : far;
}

static double extend_seconds(const line *l, double near, double far) {
    return far > near ? far + (double)(l->reached - 1) * (far - near) : far;
}

/* What pieces pass through. There are no more slots than some, so that their bytes are concave: they count as
 * at the shallower depth. */
static uint64_t slots_of(const compose_least *x) {
    return x->pieces.count ? plan_slots_bytes(x->pieces.count, x->pieces.slot_bytes) : 0;
}

static compose_least extend_all(const line *l, const compose_least *near, const compose_least *far) {
    compose_least x = *far;
    x.peak_bytes =
        extend(l, near->peak_bytes - slots_of(near), far->peak_bytes - slots_of(far)) + slots_of(far);
    x.away_bytes = extend(l, near->away_bytes, far->away_bytes);
    x.fixed_bytes = extend(l, near->fixed_bytes, far->fixed_bytes);
    x.held_bytes = extend(l, near->held_bytes, far->held_bytes);
    x.table_bytes = extend(l, near->table_bytes, far->table_bytes);
    x.pieces.count = extend(l, near->pieces.count, far->pieces.count);
    x.pieces.updates = extend(l, near->pieces.updates, far->pieces.updates);
    x.values.all = extend(l, near->values.all, far->values.all);
    x.values.but_gradients = extend(l, near->values.but_gradients, far->values.but_gradients);
    x.seconds = extend_seconds(l, near->seconds, far->seconds);
    x.computing = extend_seconds(l, near->computing, far->computing);
    x.unwaited = x.sketched = true;
    return x;
}

/* As compose_bound gives up: for what is held, and then also for seconds; or by reach->beyond. */
static void give_up(const compose_reach *reach, compose_least *x) {
    static const double SLACK = 0.995; /* of seconds, which are those of caches too */
    bool large = x->held_bytes > reach->peak_bytes;
    if (large && (x->held_bytes > reach->budget || SLACK * x->seconds > reach->seconds))
        *x = (compose_least){ .peak_bytes = x->held_bytes, .given_up = true, .sketched = true };
    else if (reach->beyond && reach->beyond(reach->context, reach->index, x))
        *x = (compose_least){ .peak_bytes = x->peak_bytes, .given_up = true, .sketched = true };
}

/* ---- both depths ---- */

typedef struct {
    sketcher *of;
    const compose_run *run;
    const compose_choice *choice;
    const compose_reach *reach;
    line line;
} sketch;

/* As reach.beyond: takes the outline of one program, which is all that is wanted. */
static bool take_first(const void *context, uint32_t index, const compose_least *first) {
    (void)index;
    compose_least *const *to = context;
    **to = *first;
    return true;
}

/* The line through two outlines: those of the program that a step calls most often, or of all. */
static status follow(const sketch *s, bool first_alone, compose_least *out) {
    const depth depths[2] = { s->line.near, s->line.far };
    compose_least at[2];
    for (int k = 0; k < 2; k++) {
        compose_run shallow = *s->run;
        compose_choice choice = choice_at(s->choice, depths[k]);
        compose_least found, *first = &at[k];
        const compose_reach reach = { .peak_bytes = UINT64_MAX,
                                      .budget = UINT64_MAX,
                                      .seconds = HUGE_VAL,
                                      .planning_only = s->reach->planning_only,
                                      .frees = s->reach->frees,
                                      .unwaited = true,
                                      .beyond = first_alone ? take_first : NULL,
                                      .context = &first };
        shallow.layers = layers_of(depths[k]);
        TRY(bound_at(s->of, &shallow, &choice, &reach, &found));
        if (!found.given_up) at[k] = found; /* there is no other program */
    }
    *out = extend_all(&s->line, &at[0], &at[1]);
    give_up(s->reach, out);
    return STATUS_OK;
}

status sketch_bound(sketcher *s, const compose_run *r, const compose_choice *c, const compose_reach *reach,
                    compose_least *out) {
    sketch x = { .of = s, .run = r, .choice = c, .reach = reach };
    if (s->count && !compose_same_stem(&s->choice, c)) sketch_close(s);
    s->choice = *c;
    if (!find_line(depth_of(r, c), &x.line)) return bound_at(s, r, c, reach, out);
    *out = (compose_least){ 0 };
    status result = reach->beyond ? follow(&x, true, out) : STATUS_OK;
    if (result == STATUS_OK && !out->given_up) result = follow(&x, false, out);
    return result == STATUS_OK ? STATUS_OK : bound_at(s, r, c, reach, out);
}
