#include "chain/sketch.h"

#include <math.h>
#include <stdio.h>

#include "chain/compose_graphs.h"
#include "chain/known.h"

/* ---- depths ---- */

/* How many layers there are before the place where a choice divides them, and behind it. Undivided: none
 * before. */
typedef struct {
    int64_t before, behind;
} depth;

/* The shallow models of a sketch: `far`, and before it on each way to the model's depth another one, from
 * which `far` is one step and the model's `steps` more. Of two ways one changes the layers before the place,
 * the other those behind it. */
enum { WAYS = 2 };
typedef struct {
    depth far;
    uint32_t ways;
    struct {
        depth near;
        int64_t steps;
    } way[WAYS];
} shallows;

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

/* Two models on a line with the model's: those with the fewest layers, at most `most`. How many they have; 0:
 * there are none. */
static int64_t find_line(depth to, int64_t most, shallows *found) {
    int64_t fewest = most + 1, least_before = least_part(to.before, to.behind),
            least_behind = least_part(to.behind, to.before);
    for (int64_t b = least_before; 2 * b < fewest && b <= to.before; b++)
        for (int64_t h = least_behind; 2 * (b + h) < fewest && h <= to.behind; h++) {
            int64_t steps = common_divisor(to.before - b, to.behind - h);
            if (steps < 2) continue;
            depth step = { (to.before - b) / steps, (to.behind - h) / steps };
            if (2 * (b + h) + layers_of(step) >= fewest) continue;
            fewest = 2 * (b + h) + layers_of(step);
            *found = (shallows){ { b + step.before, h + step.behind }, 1, { { { b, h }, steps - 1 } } };
        }
    return fewest <= most ? fewest : 0;
}

/* Three models, from which it is a way of its own to more layers before the place and behind it. They are the
 * same wherever that is, so that their graphs are of use to many choices. */
static int64_t find_corner(depth to, int64_t most, shallows *found) {
    int64_t b = least_part(to.before, to.behind), h = least_part(to.behind, to.before),
            layers = 3 * (b + h) + 4;
    if (!to.before || to.before <= b || to.behind <= h || layers > most) return 0;
    *found = (shallows){ { b + 1, h + 1 },
                         2,
                         { { { b, h + 1 }, to.before - b - 1 }, { { b + 1, h }, to.behind - h - 1 } } };
    return layers;
}

/* False: all have more than half of the model's layers. */
static bool find_shallows(depth to, shallows *found) {
    const int64_t most = layers_of(to) / 2;
    return find_corner(to, most, found) || find_line(to, most, found);
}

/* How many layers pass number i treats otherwise than those behind them. */
static int64_t divided_by(const compose_choice *c, int i) {
    return pass_table[i]->divides && c->settings[i].text[0] ? pass_table[i]->divides(&c->settings[i]) : 0;
}

/* Where two passes divide the layers nothing is looked for: there are no layers. */
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
    shallows x;
    if (!r->model->alike || r->ranks > 1 || !find_shallows((depth){ .behind = r->model->layers }, &x))
        return false;
    uint64_t near = elements_at(r, layers_of(x.way[0].near)), far = elements_at(r, layers_of(x.far));
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

/* The model with so many layers. */
static sketch_form *form_at(sketcher *s, const compose_run *r, const compose_choice *c) {
    uint32_t at = 0;
    while (at < s->count && s->forms[at].layers != r->layers) at++;
    sketch_form *f = &s->forms[at];
    if (at < s->count) return f;
    if (at == SKETCH_FORMS) {
        f = &s->forms[s->next++ % SKETCH_FORMS];
        close_form(f);
    } else {
        s->count++;
    }
    *f = (sketch_form){ .layers = r->layers };
    f->stem.made = compose_stem_open(r, c, &f->stem);
    f->trunk = (compose_trunk){ .stem = &f->stem, .most = s->most };
    return f;
}

/* The outline of the choice, of a model with so many layers. */
static status bound_at(sketcher *s, const compose_run *r, const compose_choice *c, const compose_reach *reach,
                       compose_least *out) {
    return compose_bound(r, c, &form_at(s, r, c)->trunk, reach, out);
}

/* ---- extending ---- */

/* What pieces pass through. There are no more slots than some, so that their bytes are concave: they count as
 * at the shallower depth. */
static uint64_t slots_of(const compose_least *x) {
    return x->pieces.count ? plan_slots_bytes(x->pieces.count, x->pieces.slot_bytes) : 0;
}

static void add_bytes(uint64_t *to, int64_t steps, uint64_t near, uint64_t far) {
    if (far > near) *to += (uint64_t)steps * (far - near);
}

static void add_seconds(double *to, int64_t steps, double near, double far) {
    if (far > near) *to += (double)steps * (far - near);
}

/* So many steps, each of which adds what the one from `near` to `far` does. */
static void go_on(int64_t steps, const compose_least *near, const compose_least *far, compose_least *x) {
    add_bytes(&x->peak_bytes, steps, near->peak_bytes - slots_of(near), far->peak_bytes - slots_of(far));
    add_bytes(&x->away_bytes, steps, near->away_bytes, far->away_bytes);
    add_bytes(&x->fixed_bytes, steps, near->fixed_bytes, far->fixed_bytes);
    add_bytes(&x->held_bytes, steps, near->held_bytes, far->held_bytes);
    add_bytes(&x->table_bytes, steps, near->table_bytes, far->table_bytes);
    add_bytes(&x->pieces.count, steps, near->pieces.count, far->pieces.count);
    add_bytes(&x->pieces.updates, steps, near->pieces.updates, far->pieces.updates);
    add_bytes(&x->values.all, steps, near->values.all, far->values.all);
    add_bytes(&x->values.but_gradients, steps, near->values.but_gradients, far->values.but_gradients);
    add_seconds(&x->seconds, steps, near->seconds, far->seconds);
    add_seconds(&x->computing, steps, near->computing, far->computing);
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

/* ---- all depths ---- */

typedef struct {
    sketcher *of;
    const compose_run *run;
    const compose_choice *choice;
    const compose_reach *reach;
    shallows at;
} sketch;

/* As reach.beyond: takes the outline of one program, which is all that is wanted. */
static bool take_first(const void *context, uint32_t index, const compose_least *first) {
    (void)index;
    compose_least *const *to = context;
    **to = *first;
    return true;
}

/* The outline at one depth: of the program that a step calls most often, or of all. */
static status make_outline(const sketch *s, const compose_choice *choice, int64_t layers, bool first_alone,
                           compose_least *out) {
    compose_run shallow = *s->run;
    compose_least found;
    const compose_reach reach = { .peak_bytes = UINT64_MAX,
                                  .budget = UINT64_MAX,
                                  .seconds = HUGE_VAL,
                                  .planning_only = s->reach->planning_only,
                                  .frees = s->reach->frees,
                                  .unwaited = true,
                                  .beyond = first_alone ? take_first : NULL,
                                  .context = &out };
    shallow.layers = layers;
    TRY(bound_at(s->of, &shallow, choice, &reach, &found));
    if (!found.given_up) *out = found; /* there is no other program */
    return STATUS_OK;
}

/* The same, which is made once: shallow models are those of many choices, and of other searches too. Its
 * reach rules nothing out, so what is found does not depend on it. */
static status outline_at(const sketch *s, depth d, bool first_alone, compose_least *out) {
    const compose_choice choice = choice_at(s->choice, d);
    memo *known = known_of(s->run);
    char asked[64], key[KNOWN_KEY_BYTES];
    size_t length, bytes;
    if (!known) return make_outline(s, &choice, layers_of(d), first_alone, out);
    snprintf(asked, sizeof asked, "outline%d of %lld", first_alone, (long long)layers_of(d));
    length = known_key(asked, &choice, PASS_STEP, key);
    const compose_least *before = memo_find(known, key, length, &bytes);
    if (before) {
        *out = *before;
        return STATUS_OK;
    }
    TRY(make_outline(s, &choice, layers_of(d), first_alone, out));
    memo_keep(known, key, length, out, sizeof *out);
    return STATUS_OK;
}

/* May the choice be given up for what is alive in a model of few layers? With more of them it is no less. On
 * a device apart what persists comes to that, and no memory of planning. */
static bool is_beyond_already(const sketch *s, const compose_least *near, compose_least *out) {
    const compose_least few = { .values = near->values, .unwaited = true, .sketched = true, .shallow = true };
    if (!compose_apart(s->run) || !s->reach->beyond(s->reach->context, s->reach->index, &few)) return false;
    *out = (compose_least){ .peak_bytes = near->peak_bytes, .given_up = true, .sketched = true };
    return true;
}

/* From the outlines at all depths to the model's. */
static status extend(const sketch *s, bool first_alone, compose_least *out) {
    compose_least near[WAYS], far;
    for (uint32_t k = 0; k < s->at.ways; k++) {
        TRY(outline_at(s, s->at.way[k].near, first_alone, &near[k]));
        if (!k && first_alone && is_beyond_already(s, &near[k], out)) return STATUS_OK;
    }
    TRY(outline_at(s, s->at.far, first_alone, &far));
    *out = far;
    for (uint32_t k = 0; k < s->at.ways; k++) go_on(s->at.way[k].steps, &near[k], &far, out);
    out->unwaited = out->sketched = true;
    give_up(s->reach, out);
    return STATUS_OK;
}

/* ---- what persists ---- */

/* Bytes that persist in the graph of a stem, by role. */
typedef struct {
    uint64_t of[ROLE_RESULT + 1];
} persistent;

static status find_persistent(sketcher *s, const compose_run *r, const compose_choice *c, persistent *out) {
    compose_program list[COMPOSE_PROGRAMS];
    const sketch_form *f = form_at(s, r, c);
    compose_programs(r, c, list);
    if (f->stem.made != STATUS_OK) return f->stem.made;
    for (int k = 0; k <= ROLE_RESULT; k++)
        out->of[k] = compose_persistent_bytes(compose_root(&f->stem, list, 0), ~(UINT32_C(1) << k));
    return STATUS_OK;
}

static status persistent_at(const sketch *s, int64_t layers, persistent *out) {
    compose_run shallow = *s->run;
    memo *known = known_of(s->run);
    char asked[64], key[KNOWN_KEY_BYTES];
    size_t length = 0, bytes;
    shallow.layers = layers;
    if (!known) return find_persistent(s->of, &shallow, s->choice, out);
    snprintf(asked, sizeof asked, "persistent of %lld", (long long)layers);
    length = known_key(asked, s->choice, PASS_FORWARD, key);
    const persistent *before = memo_find(known, key, length, &bytes);
    if (before) {
        *out = *before;
        return STATUS_OK;
    }
    TRY(find_persistent(s->of, &shallow, s->choice, out));
    memo_keep(known, key, length, out, sizeof *out);
    return STATUS_OK;
}

/* As compose_bound gives up by the stem's graph, before any pass has run: where what no pass of the choice
 * may take out of memory is out of reach. No layer differs in what persists, so that any two depths tell. */
static status give_up_by_stem(const sketch *s, compose_least *out) {
    const compose_reach *reach = s->reach;
    const uint32_t freed = compose_roles_freed(s->choice) | reach->frees;
    shallows at;
    persistent near, far;
    uint64_t bytes = 0;
    if (reach->planning_only || !find_shallows((depth){ .behind = s->run->model->layers }, &at))
        return STATUS_OK;
    TRY(persistent_at(s, layers_of(at.way[0].near), &near));
    TRY(persistent_at(s, layers_of(at.far), &far));
    for (int k = 0; k <= ROLE_RESULT; k++) {
        if (freed >> k & 1) continue;
        bytes += far.of[k];
        add_bytes(&bytes, at.way[0].steps, near.of[k], far.of[k]);
    }
    if (bytes > reach->peak_bytes && bytes > reach->budget)
        *out = (compose_least){ .peak_bytes = bytes, .given_up = true, .sketched = true };
    return STATUS_OK;
}

status sketch_bound(sketcher *s, const compose_run *r, const compose_choice *c, const compose_reach *reach,
                    compose_least *out) {
    sketch x = { .of = s, .run = r, .choice = c, .reach = reach };
    if (s->count && !compose_same_stem(&s->choice, c)) sketch_close(s);
    s->choice = *c;
    if (!find_shallows(depth_of(r, c), &x.at)) return bound_at(s, r, c, reach, out);
    *out = (compose_least){ 0 };
    status result = give_up_by_stem(&x, out);
    if (result == STATUS_OK && !out->given_up && reach->beyond) result = extend(&x, true, out);
    if (result == STATUS_OK && !out->given_up) result = extend(&x, false, out);
    return result == STATUS_OK ? STATUS_OK : bound_at(s, r, c, reach, out);
}
