#include "run/lab.h"

#include <assert.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/philox.h"
#include "base/threads.h"
#include "exec/runner.h"
#include "ops/codes.h"
#include "ops/matmul_coded/matmul_coded.h"
#include "ops/nf4.h"
#include "oracle/reach.h"

#undef NDEBUG
#define must(call)                                                                                           \
    do {                                                                                                     \
        if ((call) != STATUS_OK) {                                                                           \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, status_message());                            \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

/* As config.json would have it with all else left to its kind; no dropout. */
static void make_decoder(lab *l, const lab_sizes *s) {
    const decoder_kind *k = decoder_kind_find(s->decoder);
    assert(k);
    int64_t size = s->channels / s->heads;
    l->decoder = (decoder_config){ .kind = k,
                                   .layers = s->layers,
                                   .heads = s->heads,
                                   .kv_heads = s->kv_heads ? s->kv_heads : s->heads,
                                   .head_size = size,
                                   .channels = s->channels,
                                   .inner = 2 * s->channels,
                                   .context = s->context,
                                   .vocabulary = s->vocabulary,
                                   .tied = !s->untied,
                                   .epsilon = 1e-5,
                                   .deviation = 0.1,
                                   .rotary = { .theta = 1e4, .turned = (int32_t)size },
                                   .activation = k->activation,
                                   .order = k->order,
                                   .bias_qkv = k->bias_qkv,
                                   .bias_o = k->bias_o,
                                   .bias_feed = k->bias_feed,
                                   .bias_head = k->bias_head };
    must(decoder_check(&l->decoder));
    decoder_model(&l->decoder, "lab", &l->model);
}

void lab_open(lab *l, const lab_sizes *s) {
    *l = (lab){ .config = gpt2_default(), .seed = 7, .rate = 1e-2f };
    gpt2_config *c = &l->config;
    c->layers = s->layers, c->heads = s->heads, c->channels = s->channels, c->context = s->context;
    c->vocabulary = s->vocabulary, c->inner = 4 * s->channels, c->tied = !s->untied, c->deviation = 0.1;
    c->dropout_attention = c->dropout_embedding = c->dropout_residual = s->dropout;
    must(gpt2_check(c));
    gpt2_model(c, "lab", &l->model);
    if (s->decoder) make_decoder(l, s);
    if (s->head.kind == HEAD_LANGUAGE) lab_pack(l, s->documents);
    lab_judge(l, &s->head);
    l->run = (compose_run){ .model = &l->model,
                            .batch = s->batch,
                            .unit = s->unit,
                            .context = s->context,
                            .eval_samples = 3,
                            .training = true,
                            .folder = ".",
                            .optimizer = optimizer_settle((optimizer_options){ .kind = s->optimizer,
                                                                               .beta1 = OPTIMIZER_OWN,
                                                                               .beta2 = OPTIMIZER_OWN,
                                                                               .eps = 1e-8,
                                                                               .momentum = 0.9,
                                                                               .weight_decay = 0.1,
                                                                               .clip = s->clip }),
                            .lower = { .threads = threads_count(), .rates = device_rates_default(1) } };
}

void lab_judge(lab *l, const model_head *h) {
    if (h->kind != HEAD_LANGUAGE) lab_pack(l, 0);
    head_attach(&l->model, h);
}

void lab_pack(lab *l, int64_t documents) {
    l->documents = documents;
    l->model.packed = documents > 0;
}

uint32_t lab_random(uint32_t *random, uint32_t below) {
    *random = *random * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)(*random >> 1) * below) >> 31);
}

compose_choice lab_choose(const lab *l, int64_t micro_batch, const char *settings) {
    compose_choice c = { .micro_batch = micro_batch ? micro_batch : compose_unit(&l->run) };
    char copy[256], *rest = copy;
    snprintf(copy, sizeof copy, "%s", settings);
    for (char *word; (word = strtok_r(rest, " ", &rest));) {
        char *value = strchr(word, '=');
        assert(value);
        *value++ = 0;
        int found = -1;
        for (int i = 0; pass_table[i]; i++)
            if (strcmp(pass_table[i]->name, word) == 0) found = i;
        assert(found >= 0);
        must(pass_table[found]->parse(value, &c.settings[found]));
    }
    return c;
}

/* What can be pinned and is never offered: by technique, so that each of them can be drawn. */
static const struct {
    const char *pass, *text;
} pinnable[] = { { "lora", "rank=2" },
                 { "lora", "rank=4,target=c_attn,dropout=0.1" },
                 { "lora", "rank=4,target=q_proj+down_proj,dropout=0.1" },
                 { "lora", "rank=3,base=bf16" },
                 { "lora", "rank=2,base=int8" },
                 { "lora", "rank=4,base=nf4" },
                 { "offload", "gradients" },
                 { "offload", "master" },
                 { "precision", "mixed-f16:2" },
                 { "precision", "bf16:nearest" },
                 { "chunk_loss", "100" },
                 { "quantize_state", "8bit:all" },
                 { "recompute", "block:1+cheap" },
                 { "qat", "int8" } };

/* The settings of pass i that are possible on g, at most of this class. */
static uint32_t list_settings(const graph *g, const pass_context *context, int i, pass_class allowed,
                              pass_setting *out, uint32_t room, pass_without *without) {
    pass_setting list[64];
    uint32_t n = pass_table[i]->settings(g, context, list, 64, without), count = 0;
    for (size_t k = 0; k < sizeof pinnable / sizeof *pinnable && n < 64; k++) {
        if (strcmp(pinnable[k].pass, pass_table[i]->name) != 0) continue;
        must(pass_table[i]->parse(pinnable[k].text, &list[n]));
        if (!pass_table[i]->check || pass_table[i]->check(g, &list[n], context) == STATUS_OK) n++;
    }
    for (uint32_t k = 0; k < n && count < room; k++)
        if (list[k].class <= allowed) out[count++] = list[k];
    return count;
}

/* The graph of the choices so far; where they contradict each other, the last of them is let go. */
static void compose_what_can_be(const lab *l, compose_choice *c, pass_stage stage, graph *g) {
    int last = PASS_MAX;
    while (compose_graph(&l->run, c, stage, g) != STATUS_OK) {
        graph_close(g);
        do assert(last > 0);
        while (!c->settings[--last].text[0]);
        c->settings[last] = (pass_setting){ 0 };
    }
}

compose_choice lab_choose_randomly(const lab *l, uint32_t *random, pass_class allowed) {
    compose_choice c = { .micro_batch = compose_unit(&l->run) };
    int64_t parts = 1 + (int64_t)lab_random(random, 3);
    if (compose_unit(&l->run) % parts == 0) c.micro_batch = compose_unit(&l->run) / parts;
    if (allowed == PASS_EXACT && c.micro_batch * compose_least_rows(&l->run) % 256)
        c.micro_batch = compose_unit(&l->run);
    pass_context context = compose_context(&l->run, &c);
    for (int stage = PASS_FORWARD; stage <= PASS_STEP; stage++) {
        graph g;
        compose_what_can_be(l, &c, (pass_stage)stage, &g);
        for (int i = 0; pass_table[i]; i++) {
            if ((int)pass_table[i]->stage != stage) continue;
            if (strcmp(pass_table[i]->name, "sharding") == 0) continue; /* there is one process */
            pass_setting usable[64];
            pass_without without = PASS_OPTIONAL;
            uint32_t count = list_settings(&g, &context, i, allowed, usable, 64, &without);
            uint32_t pick = lab_random(random, count + (without == PASS_NEEDED ? 0 : 1));
            if (pick < count) c.settings[i] = usable[pick];
        }
        graph_close(&g);
    }
    return c;
}

const char *lab_choice_text(const compose_choice *c, char out[256]) {
    int n = snprintf(out, 256, "micro-batch %lld", (long long)c->micro_batch);
    for (int i = 0; pass_table[i]; i++)
        if (c->settings[i].text[0] && n < 256)
            n += snprintf(out + n, (size_t)(256 - n), " %s=%s", pass_table[i]->name, c->settings[i].text);
    return out;
}

/* ---- running ---- */

/* Of codes: their scales, which are made with them; NULL: w holds no codes. */
static float *scales_of(const exec *e, const model_weight *w) {
    char name[CODES_NAME_BYTES];
    bool coded = w->type == DTYPE_I8 || w->type == DTYPE_U8;
    return coded ? exec_persistent(e, codes_scales_name(w->name, name)) : NULL;
}

static bool is_scale(const model_weight *w) { return codes_scales_of(w->name) != 0; }

/* What codes stand for. */
static shape shape_of(const model_weight *w) {
    return w->type == DTYPE_U8 ? matmul_coded_shape(w->type, &w->shape) : w->shape;
}

static void fill_codes(const exec *e, const model_weight *w, const shape *s, const float *x) {
    codes_matrix m = { shape_rows(s), shape_last(s), w->by_rows, scales_of(e, w) };
    if (w->type == DTYPE_U8) {
        int64_t columns = shape_last(s);
        for (int64_t r = 0; r < shape_rows(s); r++)
            nf4_encode_row(x + r * columns, columns, (uint8_t *)exec_persistent(e, w->name) + r * columns / 2,
                           scales_of(e, w) + r * nf4_blocks(columns));
        return;
    }
    codes_matrix_look(&m, x, 0, shape_elements(s));
    codes_matrix_scale(&m);
    codes_matrix_encode(&m, x, 0, shape_elements(s), exec_persistent(e, w->name));
}

/* By its name, or by its place in the plan. */
static void fill_weight(const lab *l, const exec *e, const model_weight *w, uint32_t place) {
    shape s = shape_of(w);
    int64_t all = shape_elements(&s);
    float *numbers = malloc((size_t)all * sizeof *numbers);
    model_initial initial = { .stream = 7u * place };
    if (l->weight) {
        l->weight(w->name, &s, numbers);
    } else {
        if (!pass_of_parameter(w->name, &s, &initial.deviation))
            l->model.initial(&l->model, w->name, &s, &initial);
        philox_normal_list list = { l->seed, initial.stream, initial.mean, initial.deviation };
        philox_normal(&list, 0, all, numbers);
    }
    if (scales_of(e, w)) fill_codes(e, w, &s, numbers);
    for (int64_t k = 0; k < all && !scales_of(e, w); k += WEIGHT_PART)
        must(weight_put(w, k, numbers + k, all - k < WEIGHT_PART ? all - k : WEIGHT_PART));
    free(numbers);
}

void lab_fill_weights(const lab *l, const plan *p, exec *e) {
    model_weight *weights;
    uint32_t count;
    must(exec_weights(e, &weights, &count));
    for (uint32_t i = 0; i < count; i++)
        if (!is_scale(&weights[i]))
            fill_weight(l, e, &weights[i], (uint32_t)(plan_find(p, weights[i].name) - p->persistent));
    memory_free(weights);
}

int32_t lab_token(const lab *l, int step, int64_t sample, int64_t time) {
    if (l->token) return l->token(step, sample, time);
    philox_block b =
        philox_draw(l->seed, (philox_block){ { (uint32_t)time, (uint32_t)sample, (uint32_t)step, 99 } });
    return (int32_t)(b.word[0] % (uint32_t)l->config.vocabulary);
}

/* Of one document. */
static int64_t length_of(const lab *l) {
    return l->documents ? l->run.context / l->documents : l->run.context;
}

int32_t lab_label(const lab *l, int step, int64_t sample, int64_t time) {
    if (l->documents && (time + 1) % length_of(l) == 0) return -100;
    return l->label ? l->label(step, sample, time) : lab_token(l, step, sample, time + 1);
}

static bool judges(const lab *l) { return l->model.head.kind != HEAD_LANGUAGE && !l->model.sees; }

/* Of a sample's text, where a head judges samples: at least a token. */
static int64_t text_length(const lab *l, int step, int64_t sample) {
    if (l->length) return l->length(step, sample);
    philox_block b = philox_draw(l->seed, (philox_block){ { 0, (uint32_t)sample, (uint32_t)step, 98 } });
    return 1 + (int64_t)(b.word[0] % (uint32_t)l->run.context);
}

static int32_t class_of(const lab *l, int step, int64_t sample) {
    if (l->label) return l->label(step, sample, 0);
    return lab_token(l, step, sample, 0) % (int32_t)l->model.head.outputs;
}

/* What is told of a sample depends on its first token, so that there is something to learn. */
static float score_of(const lab *l, int step, int64_t sample) {
    if (l->score) return l->score(step, sample);
    return (float)lab_token(l, step, sample, 0) / (float)l->config.vocabulary - 0.5f;
}

static int64_t lab_counted(const lab *l, int step) {
    int64_t counted = 0;
    if (judges(l)) return l->run.batch;
    for (int64_t b = 0; b < l->run.batch; b++)
        for (int64_t t = 0; t < l->run.context; t++) counted += lab_label(l, step, b, t) >= 0;
    return counted;
}

float lab_loss_scale(const lab *l, int step) {
    int64_t counted = lab_counted(l, step);
    return 1.0f / (float)(counted ? counted : 1);
}

/* ---- data in memory, for the runner that training uses ---- */

typedef struct {
    const lab *l;
    runner run;
    void *samples[MODEL_MAX_FIELDS]; /* of the whole batch */
} lab_data;

/* What the decoder sees: the labels one place on, 0 where there is none. */
static int32_t answered(const lab *l, int step, int64_t sample, int64_t time) {
    int32_t label = time ? lab_label(l, step, sample, time - 1) : l->model.start;
    return label < 0 ? 0 : label;
}

static int32_t integer_of(const lab *l, const char *field, int step, int64_t sample, int64_t time) {
    if (judges(l)) {
        int64_t length = text_length(l, step, sample);
        if (strcmp(field, "labels") == 0) return class_of(l, step, sample);
        if (strcmp(field, "place") == 0) return (int32_t)length - 1;
        if (strcmp(field, "segments") == 0) return time >= length;
        if (strcmp(field, "types") == 0) return time < length && time > length / 3; /* two texts */
        return time < length ? lab_token(l, step, sample, time) : l->padding;
    }
    if (strcmp(field, "labels") == 0) return lab_label(l, step, sample, time);
    if (strcmp(field, "source_length") == 0) return (int32_t)text_length(l, step, sample);
    if (l->model.answers && strcmp(field, "decoder_tokens") == 0) return answered(l, step, sample, time);
    if (strcmp(field, "segments") == 0) return (int32_t)(time / length_of(l));
    if (strcmp(field, "positions") == 0) return l->model.first_position + (int32_t)(time % length_of(l));
    return lab_token(l, step, sample, time);
}

/* One sample's field, made as the lab says. */
static void make_field(const lab *l, const model_field *f, int step, int64_t sample, void *to) {
    int64_t n = shape_elements(&f->of);
    for (int64_t i = 0; i < n; i++) {
        if (f->dtype == DTYPE_F32)
            ((float *)to)[i] = judges(l) ? score_of(l, step, sample) : l->pixel(step, sample, i);
        else
            ((int32_t *)to)[i] = integer_of(l, f->name, step, sample, i);
    }
}

static void open_data(lab_data *d, const lab *l, exec *e) {
    *d = (lab_data){ .l = l };
    must(runner_open(&d->run, e, e->plan, &l->model, l->run.context, l->seed));
    d->run.unit = compose_unit(&l->run);
    for (uint32_t i = 0; i < d->run.field_count; i++)
        d->samples[i] = malloc((size_t)l->run.batch * runner_field_bytes(&d->run, i));
}

static void close_data(lab_data *d) {
    for (uint32_t i = 0; i < d->run.field_count; i++) free(d->samples[i]);
    runner_close(&d->run);
}

static runner_batch make_batch(lab_data *d, int step) {
    const lab *l = d->l;
    runner_batch b = { .samples = (uint64_t)l->run.batch, .step = step, .learning_rate = (double)l->rate };
    for (uint32_t i = 0; i < d->run.field_count; i++) {
        for (int64_t k = 0; k < l->run.batch; k++)
            make_field(l, &d->run.fields[i], step, k,
                       (char *)d->samples[i] + (uint64_t)k * runner_field_bytes(&d->run, i));
        b.fields[i] = d->samples[i];
    }
    b.counted_labels = (uint64_t)lab_counted(l, step);
    return b;
}

void lab_hand_in(const lab *l, exec *e, const char *of, int step, int64_t first, int64_t count) {
    lab_data d;
    open_data(&d, l, e);
    runner_batch b = make_batch(&d, step);
    must(runner_hand_in(&d.run, reach_program(e->plan, of), &b, first, count));
    close_data(&d);
}

static status read_sample(void *context, uint64_t sample, const void *fields[], uint64_t *counted) {
    const lab_data *d = context;
    const lab *l = d->l;
    for (uint32_t i = 0; i < d->run.field_count; i++) {
        make_field(l, &d->run.fields[i], 1000, (int64_t)sample, d->samples[i]);
        fields[i] = d->samples[i];
    }
    *counted += judges(l);
    for (int64_t t = 0; t < l->run.context && !judges(l); t++)
        *counted += lab_label(l, 1000, (int64_t)sample, t) >= 0;
    return STATUS_OK;
}

static void evaluate(lab_data *d, lab_result *r) {
    runner_verdict v;
    must(runner_evaluate(&d->run, &(runner_samples){ .read = read_sample, .context = d }, &v));
    assert(v.whole);
    r->evaluation = (float)v.loss, r->accuracy = v.accuracy, r->f1 = v.f1;
}

static void widen_codes(const exec *e, const model_weight *w, float *x) {
    const float *scales = scales_of(e, w);
    shape s = shape_of(w);
    int64_t columns = shape_last(&s);
    for (int64_t r = 0; r < shape_rows(&s) && w->type == DTYPE_U8; r++)
        nf4_decode((const uint8_t *)exec_persistent(e, w->name) + r * columns / 2,
                   scales + r * nf4_blocks(columns), 0, columns, x + r * columns);
    for (int64_t i = 0; i < shape_elements(&s) && w->type == DTYPE_I8; i++)
        x[i] = scales[w->by_rows ? i / columns : i % columns] *
               (float)((const int8_t *)exec_persistent(e, w->name))[i];
}

static void gather_weights(exec *e, lab_result *r) {
    model_weight *weights;
    uint32_t count;
    must(exec_weights(e, &weights, &count));
    for (int round = 0; round < 2; round++) {
        uint64_t at = 0;
        for (uint32_t i = 0; i < count; i++) {
            if (is_scale(&weights[i])) continue;
            shape s = shape_of(&weights[i]);
            if (round && scales_of(e, &weights[i]))
                widen_codes(e, &weights[i], r->weights + at);
            else if (round)
                must(weight_get(&weights[i], 0, shape_elements(&s), r->weights + at));
            at += (uint64_t)shape_elements(&s);
        }
        if (round) continue;
        r->weight_count = at;
        r->weights = malloc(at * sizeof *r->weights);
        assert(r->weights);
    }
    memory_free(weights);
}

void lab_run(const lab *l, const compose_choice *c, unsigned modes, int steps, lab_result *r) {
    *r = (lab_result){ .steps = steps };
    assert(steps <= LAB_MAX_STEPS);
    plan p;
    exec *e;
    must(compose_plan(&l->run, c, &p));
    must(exec_open(&p, modes | EXEC_OBSERVE, &e));
    lab_fill_weights(l, &p, e);
    lab_data d;
    open_data(&d, l, e);
    for (int step = 0; step < steps; step++) {
        runner_batch b = make_batch(&d, step);
        must(runner_step(&d.run, &b));
        r->losses[step] = (float)d.run.loss;
    }
    r->norm = d.run.norm.bytes ? (float)d.run.last_norm : 0;
    evaluate(&d, r);
    close_data(&d);
    gather_weights(e, r);
    exec_measured m;
    must(exec_measure(e, &m));
    memcpy(r->planned, p.by_category, sizeof r->planned);
    memcpy(r->measured, m.by_category, sizeof r->measured);
    r->planned[CATEGORY_RUNTIME] = r->measured[CATEGORY_RUNTIME] = 0; /* of the process, not of the engine */
    r->peak_bytes = p.peak_bytes, r->arena_bytes = p.pools[POOL_MEMORY].arena_bytes,
    r->lower_bound_bytes = p.lower_bound_bytes;
    r->pool_bytes = plan_pool_bytes(&p);
    exec_close(e);
    plan_close(&p);
}

void lab_result_close(lab_result *r) {
    free(r->weights);
    *r = (lab_result){ 0 };
}

void lab_assert_exact_bytes(const lab_result *r, const char *what) {
    for (int c = 0; c < CATEGORY_COUNT; c++)
        if (r->planned[c] != r->measured[c])
            fail_msg("%s: %s planned %llu, measured %llu", what, category_name((category)c),
                     (unsigned long long)r->planned[c], (unsigned long long)r->measured[c]);
}

bool lab_same(const lab_result *a, const lab_result *b) {
    return a->steps == b->steps && memcmp(a->losses, b->losses, (size_t)a->steps * sizeof(float)) == 0 &&
           memcmp(&a->evaluation, &b->evaluation, sizeof(float)) == 0 && a->weight_count == b->weight_count &&
           memcmp(a->weights, b->weights, a->weight_count * sizeof(float)) == 0;
}

double lab_distance(const lab_result *a, const lab_result *b) {
    double largest = 0, difference = 0;
    for (int i = 0; i < a->steps; i++) {
        largest = fmax(largest, fabs((double)a->losses[i]));
        difference = fmax(difference, fabs((double)a->losses[i] - (double)b->losses[i]));
    }
    for (uint64_t i = 0; i < a->weight_count; i++) {
        largest = fmax(largest, fabs((double)a->weights[i]));
        double d = fabs((double)a->weights[i] - (double)b->weights[i]);
        difference = d <= difference ? difference : d; /* NaN comes through */
    }
    return difference / largest;
}

/* The sanitizers look at memory, and a second step has met all that there is; bits and distances are those of
 * the program as it is built for people. */
#ifdef __SANITIZE_ADDRESS__
enum { COMPARED_STEPS = 2 };
#else
enum { COMPARED_STEPS = 5 };
#endif

static const lab_result *base_of(const lab_pair *pair) {
    static struct {
        lab_sizes sizes;
        int64_t micro_batch;
        char settings[256];
        lab_result result;
    } last;
    if (last.result.weights && memcmp(&last.sizes, pair->sizes, sizeof last.sizes) == 0 &&
        last.micro_batch == pair->base_micro_batch && strcmp(last.settings, pair->base) == 0)
        return &last.result;
    lab l;
    lab_open(&l, pair->sizes);
    compose_choice c = lab_choose(&l, pair->base_micro_batch, pair->base);
    lab_result_close(&last.result);
    lab_run(&l, &c, 0, COMPARED_STEPS, &last.result);
    last.sizes = *pair->sizes, last.micro_batch = pair->base_micro_batch;
    snprintf(last.settings, sizeof last.settings, "%s", pair->base);
    lab_assert_exact_bytes(&last.result, pair->base);
    if (last.result.losses[0] == last.result.losses[COMPARED_STEPS - 1])
        fail_msg("%s: nothing was learned", pair->base);
    return &last.result;
}

void lab_compare(const lab_pair *pair) {
    const lab_result *base = base_of(pair);
    lab l;
    lab_result other;
    lab_open(&l, pair->sizes);
    compose_choice c = lab_choose(&l, pair->micro_batch, pair->with);
    lab_run(&l, &c, pair->modes, COMPARED_STEPS, &other);
    char text[256];
    lab_choice_text(&c, text);
    lab_assert_exact_bytes(&other, text);
    double distance = lab_distance(base, &other);
    if (pair->distance == 0 && !lab_same(base, &other)) fail_msg("%s differs by %g", text, distance);
    if (!(distance <= pair->distance)) fail_msg("%s is %g away", text, distance);
    lab_result_close(&other);
}

void lab_run_settings(const lab *l, int64_t micro_batch, const char *settings, lab_result *r) {
    compose_choice c = lab_choose(l, micro_batch, settings);
    lab_run(l, &c, EXEC_POISON, 3, r);
    lab_assert_exact_bytes(r, settings);
}

void lab_keep_distance(const lab *l, const char *name, const lab_case *cases, size_t count) {
    lab_result plain, changed;
    lab_run_settings(l, 0, "", &plain);
    if (plain.losses[0] == plain.losses[2]) fail_msg("%s: nothing was learned", name);
    for (size_t i = 0; i < count; i++) {
        lab_run_settings(l, cases[i].micro_batch, cases[i].settings, &changed);
        double away = lab_distance(&plain, &changed);
        if (cases[i].distance > 0 ? !(away < cases[i].distance) : !lab_same(&plain, &changed))
            fail_msg("%s, %s: %g away from the plain run", name, cases[i].settings, away);
        lab_result_close(&changed);
    }
    lab_result_close(&plain);
}

encoder_config lab_encoder(const char *kind, int64_t context) {
    return (encoder_config){ .kind = encoder_kind_find(kind),
                             .layers = 2,
                             .heads = 2,
                             .channels = 24,
                             .inner = 40,
                             .positions = context + 2,
                             .vocabulary = 53,
                             .types = 1,
                             .padding = 1,
                             .mask = 52,
                             .epsilon = 1e-5,
                             .deviation = 0.1 };
}
