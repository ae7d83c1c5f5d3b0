#include "run/identity.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "base/units.h"
#include "data/mixed_source.h"
#include "device/device.h"
#include "io/weight_files.h"
#include "ir/op.h"
#include "run/run_options.h"

static const char WEIGHTS[] = "weights", PACK[] = "pack", PARTS[] = "parts", AUGMENT[] = "augment",
                  UNIT[] = "unit";

/* ---- facts ---- */

void identity_add(identity *i, identity_kind kind, const char *name, double number, const char *words) {
    i->overflows |= i->count == IDENTITY_FACTS;
    if (i->overflows) return;
    identity_fact *f = &i->facts[i->count++];
    *f = (identity_fact){ .kind = kind, .number = number };
    snprintf(f->name, sizeof f->name, "%s", name);
    snprintf(f->text, sizeof f->text, "%s", words);
}

static void add_number(identity *i, identity_kind kind, const char *name, double number) {
    identity_add(i, kind, name, number, "");
}

static void add_text(identity *i, identity_kind kind, const char *name, const char *words) {
    identity_add(i, kind, name, 0, words);
}

static void add_sum(identity *i, identity_kind kind, const char *name, const digest *d) {
    char digits[DIGEST_TEXT_BYTES];
    add_text(i, kind, name, digest_text_of(digest_value(d), digits));
}

static void add_option(identity *i, const setup_options *o, const run_option *row) {
    const char *at = (const char *)o + row->offset;
    switch (row->kind) {
    case RUN_OPTION_INTEGER: add_number(i, IDENTITY_OPTION, row->name, (double)*(const int64_t *)at); return;
    case RUN_OPTION_NUMBER: add_number(i, IDENTITY_OPTION, row->name, *(const double *)at); return;
    case RUN_OPTION_BYTES: add_number(i, IDENTITY_OPTION, row->name, (double)*(const uint64_t *)at); return;
    case RUN_OPTION_FLAG: add_number(i, IDENTITY_OPTION, row->name, *(const bool *)at); return;
    case RUN_OPTION_CHOICE: add_text(i, IDENTITY_OPTION, row->name, row->word(*(const int *)at)); return;
    case RUN_OPTION_POINTER: assert(false && "what is pointed at is known by a digest"); return;
    }
}

/* Every one that the run can't go on with another value of. A constant rate does not depend on when it ends.
 */
static void add_options(identity *i, const setup_options *o) {
    bool falls = o->schedule != SCHEDULE_CONSTANT;
    for (const run_option *row = run_options; row->name; row++)
        if (row->part == RUN_OPTION_FIXED || (row->part == RUN_OPTION_FALLING && falls))
            add_option(i, o, row);
    if (o->unit) add_number(i, IDENTITY_OPTION, UNIT, (double)o->unit); /* none: as before there were such */
}

/* ---- the model ---- */

static void add_gpt2(identity *i, const gpt2_config *c) {
    add_number(i, IDENTITY_MODEL, "n_layer", (double)c->layers);
    add_number(i, IDENTITY_MODEL, "n_head", (double)c->heads);
    add_number(i, IDENTITY_MODEL, "n_embd", (double)c->channels);
    add_number(i, IDENTITY_MODEL, "n_inner", (double)c->inner);
    add_number(i, IDENTITY_MODEL, "n_positions", (double)c->context);
    add_number(i, IDENTITY_MODEL, "vocab_size", (double)c->vocabulary);
    add_number(i, IDENTITY_MODEL, "embd_pdrop", c->dropout_embedding);
    add_number(i, IDENTITY_MODEL, "attn_pdrop", c->dropout_attention);
    add_number(i, IDENTITY_MODEL, "resid_pdrop", c->dropout_residual);
    add_number(i, IDENTITY_MODEL, "layer_norm_epsilon", c->epsilon);
    add_text(i, IDENTITY_MODEL, "tie_word_embeddings", c->tied ? "true" : "false");
    add_text(i, IDENTITY_MODEL, "activation_function", c->tanh ? "gelu_new" : "gelu");
}

/* Names and numbers that stay what they are, whatever becomes of the keys of config.json. */
static void add_decoder(identity *i, const decoder_config *c) {
    const rotary_angles_attributes *r = &c->rotary;
    const struct {
        const char *name;
        double number;
    } facts[] = { { "layers", (double)c->layers },
                  { "heads", (double)c->heads },
                  { "kv_heads", (double)c->kv_heads },
                  { "head_size", (double)c->head_size },
                  { "channels", (double)c->channels },
                  { "inner", (double)c->inner },
                  { "context", (double)c->context },
                  { "vocabulary", (double)c->vocabulary },
                  { "window", (double)c->window },
                  { "activation", (double)c->activation },
                  { "order", (double)c->order },
                  { "biases", c->bias_qkv + 2.0 * c->bias_o + 4.0 * c->bias_feed + 8.0 * c->bias_head },
                  { "tied", c->tied },
                  { "theta", r->theta },
                  { "near_theta", c->near_theta },
                  { "turned", (double)r->turned },
                  { "stretch", (double)r->stretch },
                  { "factor", r->factor },
                  { "low", r->low },
                  { "high", r->high },
                  { "original", r->original },
                  { "attention_scale", c->attention_scale },
                  { "dropout_embedding", c->dropout_embedding },
                  { "dropout_attention", c->dropout_attention },
                  { "dropout_residual", c->dropout_residual },
                  { "epsilon", c->epsilon } },
      rare[] = { { "cap_scores", c->cap_scores },
                 { "cap_logits", c->cap_logits },
                 { "bound_qkv", c->bound_qkv },
                 { "balance", c->experts.balanced ? c->experts.balance : 0 },
                 { "gain", r->gain },
                 { "unrounded", (double)r->unrounded } };
    digest far = digest_begin();
    digest_add(&far, c->far, sizeof c->far);
    add_text(i, IDENTITY_MODEL, "model_type", c->kind->type);
    for (size_t f = 0; f < sizeof facts / sizeof *facts; f++)
        add_number(i, IDENTITY_MODEL, facts[f].name, facts[f].number);
    for (size_t f = 0; f < sizeof rare / sizeof *rare; f++) /* none: as before there was such a thing */
        if (rare[f].number != 0) add_number(i, IDENTITY_MODEL, rare[f].name, rare[f].number);
    add_sum(i, IDENTITY_MODEL, "far", &far);
    if (r->stretch != ROTARY_LONG) return;
    digest pairs = digest_begin();
    digest_add(&pairs, r->near, sizeof r->near);
    digest_add(&pairs, r->far, sizeof r->far);
    add_sum(i, IDENTITY_MODEL, "pairs", &pairs);
}

static void add_encoder(identity *i, const encoder_config *c) {
    const struct {
        const char *name;
        double number;
    } facts[] = { { "layers", (double)c->layers },
                  { "heads", (double)c->heads },
                  { "channels", (double)c->channels },
                  { "inner", (double)c->inner },
                  { "positions", (double)c->positions },
                  { "first_position", (double)encoder_first_position(c) },
                  { "vocabulary", (double)c->vocabulary },
                  { "types", (double)c->types },
                  { "mask", (double)c->mask },
                  { "tanh", c->tanh },
                  { "dropout", c->dropout },
                  { "dropout_attention", c->dropout_attention },
                  { "epsilon", c->epsilon } };
    add_text(i, IDENTITY_MODEL, "model_type", c->kind->type);
    for (size_t f = 0; f < sizeof facts / sizeof *facts; f++)
        add_number(i, IDENTITY_MODEL, facts[f].name, facts[f].number);
}

/* Sizes, biases and what is tied the graph says. */
static void add_modernbert(identity *i, const modernbert_config *c) {
    const struct {
        const char *name;
        double number;
    } facts[] = { { "heads", (double)c->heads },
                  { "context", (double)c->context },
                  { "local", (double)c->local },
                  { "theta", c->theta },
                  { "near_theta", c->near_theta },
                  { "activation", (double)c->activation },
                  { "judgment", (double)c->judgment },
                  { "mask", (double)c->mask },
                  { "dropout_embedding", c->dropout_embedding },
                  { "dropout_attention", c->dropout_attention },
                  { "dropout_feed", c->dropout_feed },
                  { "dropout_head", c->dropout_head },
                  { "epsilon", c->epsilon } };
    digest far = digest_begin();
    digest_add(&far, c->far, sizeof c->far);
    add_text(i, IDENTITY_MODEL, "model_type", "modernbert");
    for (size_t f = 0; f < sizeof facts / sizeof *facts; f++)
        add_number(i, IDENTITY_MODEL, facts[f].name, facts[f].number);
    add_sum(i, IDENTITY_MODEL, "far", &far);
}

/* Sizes, and what is tied or gated, the graph says. */
static void add_t5(identity *i, const t5_config *c) {
    add_number(i, IDENTITY_MODEL, "farthest", (double)c->farthest);
    add_number(i, IDENTITY_MODEL, "start", (double)c->start);
    add_number(i, IDENTITY_MODEL, "activation", (double)c->activation);
    add_number(i, IDENTITY_MODEL, "dropout", c->dropout);
    add_number(i, IDENTITY_MODEL, "epsilon", c->epsilon);
}

static void add_family(identity *i, const model_config *c) {
    switch (c->family) {
    case FAMILY_GPT2: add_gpt2(i, &c->gpt2); return;
    case FAMILY_DECODER: add_decoder(i, &c->decoder); return;
    case FAMILY_VIT:
        add_number(i, IDENTITY_MODEL, "dropout", c->vit.dropout_hidden);
        add_number(i, IDENTITY_MODEL, "dropout_attention", c->vit.dropout_attention);
        return;
    case FAMILY_RESNET:
    case FAMILY_CONVNEXT: return; /* their graph says all */
    case FAMILY_ENCODER: add_encoder(i, &c->encoder); return;
    case FAMILY_MODERNBERT: add_modernbert(i, &c->modernbert); return;
    case FAMILY_T5: add_t5(i, &c->t5); return;
    }
}

/* A language's head says nothing: as before there was another. */
static void add_head(identity *i, const model_head *h) {
    char words[HEAD_TEXT_BYTES];
    if (h->kind != HEAD_LANGUAGE) add_text(i, IDENTITY_MODEL, "head", head_text(h, words));
}

/* In a vocabulary with room for them nothing else tells of tokens that are added. */
static void add_tokens(identity *i, const wanted_tokens *w) {
    digest d = digest_begin();
    if (!w->changes) return;
    for (uint32_t k = 0; k < w->count; k++)
        if (w->items[k].state != WANTED_TOKEN_THERE) digest_text(&d, w->items[k].text);
    add_sum(i, IDENTITY_MODEL, "added_tokens", &d);
}

/* Attributes stay out of the digest: between their fields there may be bytes without a meaning. */
static void add_graph(digest *d, const graph *g) {
    for (tensor_id t = 1; t < g->tensors.count; t++) {
        const tensor *x = graph_tensor(g, t);
        digest_text(d, graph_name(g, t));
        digest_add(d, x->shape.dim, x->shape.rank * sizeof *x->shape.dim);
        digest_add(d, &x->dtype, sizeof x->dtype);
    }
    for (node_id id = 1; id < g->nodes.count; id++) {
        const node *n = graph_node(g, id);
        digest_text(d, n->op->name);
        digest_add(d, graph_edges(g) + n->in, n->in_count * sizeof(tensor_id));
    }
}

/* What training begins at. Checkpoints of earlier versions do not say it, and then it is not compared. */
static status add_weights(identity *i, const setup *s) {
    char digits[DIGEST_TEXT_BYTES] = "new";
    uint64_t value;
    if (s->weights) {
        TRY(weight_files_digest(s->weights, &value));
        digest_text_of(value, digits);
    }
    add_text(i, IDENTITY_MODEL, WEIGHTS, digits);
    return STATUS_OK;
}

static status add_model(identity *i, const setup *s) {
    digest d = digest_begin();
    graph g;
    model_ports ports = { 0 };
    model_run run = { .mode = MODEL_TRAIN, .batch = 1, .context = s->model.context ? s->model.context : 1 };
    model alone = s->model;
    alone.packed = false; /* of that an option tells */
    if (!s->custom) add_family(i, &s->config);
    if (!s->custom) add_head(i, &s->config.head);
    add_tokens(i, &s->wanted);
    TRY(graph_open(&g));
    alone.build(&alone, &g, &run, &ports);
    add_graph(&d, &g);
    status result = graph_status(&g);
    graph_close(&g);
    add_sum(i, IDENTITY_MODEL, "digest", &d);
    return result == STATUS_OK ? add_weights(i, s) : result;
}

/* ---- the data ---- */

enum { LOOKED_AT_BYTES = 1 << 20, LEAST_SAMPLES = 64 };

/* Reads some samples, the first and the last among them. */
static status read_samples(const data_source *source, char *memory, digest *d) {
    uint64_t bytes = 0;
    void *fields[DATA_MAX_FIELDS];
    memset(memory, 0, source->scratch_bytes);
    char *at = memory + units_align(source->scratch_bytes, LIVE_ALIGN);
    for (uint32_t f = 0; f < source->field_count; f++) {
        fields[f] = at;
        at += units_align(source->field_bytes[f], LIVE_ALIGN);
        bytes += source->field_bytes[f];
    }
    uint64_t count = LOOKED_AT_BYTES / (bytes ? bytes : 1);
    if (count < LEAST_SAMPLES) count = LEAST_SAMPLES;
    if (count > source->samples) count = source->samples;
    for (uint64_t k = 0; k < count; k++) {
        uint64_t sample = count < 2 ? 0 : (uint64_t)((__uint128_t)k * (source->samples - 1) / (count - 1));
        TRY(source->read(source, sample, memory, fields));
        for (uint32_t f = 0; f < source->field_count; f++) digest_add(d, fields[f], source->field_bytes[f]);
    }
    return STATUS_OK;
}

/* Of a mix: how many parts, and what each gives of the samples. They say more than a digest. */
static void add_shares(identity *i, const data_source *source) {
    uint32_t parts = data_source_parts(source);
    char words[sizeof i->facts[0].text] = "by size";
    size_t used = 0;
    digest d = digest_begin();
    if (parts < 2) return; /* as before there were mixes */
    add_number(i, IDENTITY_DATA, PARTS, parts);
    for (uint32_t p = 0; mixed_source_weighted(source) && p < parts; p++) {
        uint64_t places = mixed_source_share(source, p).places;
        digest_add(&d, &places, sizeof places);
        if (used < sizeof words)
            used += (size_t)snprintf(words + used, sizeof words - used, "%s%" PRIu64, p ? ":" : "", places);
    }
    if (used < sizeof words)
        add_text(i, IDENTITY_DATA, "shares", words);
    else
        add_sum(i, IDENTITY_DATA, "shares", &d);
}

static status add_data(identity *i, const data_source *source) {
    digest d = digest_begin();
    uint64_t bytes = units_align(source->scratch_bytes, LIVE_ALIGN);
    for (uint32_t f = 0; f < source->field_count; f++)
        bytes += units_align(source->field_bytes[f], LIVE_ALIGN);
    char *memory = device_block_new(bytes); /* before there is a pool: it takes from nothing */
    if (!memory) return status_set(STATUS_NO_FIT, "no memory for a sample of the data");
    status result = STATUS_OK;
    for (uint32_t p = 0; p < data_source_parts(source) && result == STATUS_OK; p++)
        result = read_samples(data_source_part(source, p), memory, &d);
    device_block_free(memory);
    add_number(i, IDENTITY_DATA, "samples", (double)source->samples);
    add_shares(i, source);
    add_sum(i, IDENTITY_DATA, "digest", &d);
    return result;
}

status identity_of(const setup *s, identity *out) {
    *out = (identity){ 0 };
    TRY(add_model(out, s));
    TRY(add_data(out, &s->train));
    setup_options settled = s->options;
    settled.context = s->request.run.context;
    settled.pack = s->pack;
    add_options(out, &settled);
    return out->overflows
               ? status_set(STATUS_FAILED, "a run has more than the %d facts that tell it from others",
                            IDENTITY_FACTS)
               : STATUS_OK;
}

/* ---- comparing ---- */

const char *identity_digest(const identity *i, char digits[IDENTITY_DIGEST_BYTES]) {
    digest d = digest_begin();
    for (uint32_t k = 0; k < i->count; k++) {
        const identity_fact *f = &i->facts[k];
        digest_text(&d, f->name);
        digest_text(&d, f->text);
        digest_add(&d, &f->number, sizeof f->number);
    }
    return digest_text_of(digest_value(&d), digits);
}

const char *identity_value(const identity_fact *f, char out[IDENTITY_VALUE_BYTES]) {
    if (f->text[0])
        snprintf(out, IDENTITY_VALUE_BYTES, "%s", f->text);
    else
        snprintf(out, IDENTITY_VALUE_BYTES, "%.10g", f->number);
    return out;
}

static const identity_fact *find(const identity *i, const identity_fact *like) {
    for (uint32_t k = 0; k < i->count; k++)
        if (i->facts[k].kind == like->kind && strcmp(i->facts[k].name, like->name) == 0) return &i->facts[k];
    return NULL;
}

static bool same(const identity_fact *a, const identity_fact *b) {
    return a && b && a->number == b->number && strcmp(a->text, b->text) == 0;
}

void identity_take_weights(identity *given, const identity *stored) {
    const identity_fact like = { .kind = IDENTITY_MODEL, .name = "weights" }, *was = find(stored, &like);
    for (uint32_t k = 0; was && k < given->count; k++)
        if (given->facts[k].kind == was->kind && strcmp(given->facts[k].name, was->name) == 0)
            given->facts[k] = *was;
}

/* What checkpoints of earlier versions do not say: weights are not compared then, documents were not told
 * apart, and parts of pictures were drawn. */
static bool is_unsaid(const identity_fact *f) {
    if (f->kind == IDENTITY_OPTION && strcmp(f->name, AUGMENT) == 0) return strcmp(f->text, "on") == 0;
    if (f->kind == IDENTITY_OPTION) return strcmp(f->name, PACK) == 0 && strcmp(f->text, "cross") == 0;
    return strcmp(f->name, WEIGHTS) == 0;
}

/* "--batch was 8 and is 16" */
static void add_difference(text *out, const identity_fact *was, const identity_fact *is) {
    const identity_fact *known = was ? was : is;
    char a[IDENTITY_VALUE_BYTES] = "absent", b[IDENTITY_VALUE_BYTES] = "absent";
    if (!was && strcmp(known->name, PACK) == 0) strcpy(a, "cross");
    if (!was && strcmp(known->name, AUGMENT) == 0) strcpy(a, "on");
    if (!was && strcmp(known->name, UNIT) == 0) strcpy(a, "off");
    if (!is && strcmp(known->name, UNIT) == 0) strcpy(b, "off");
    if (!was && strcmp(known->name, PARTS) == 0) strcpy(a, "1");
    if (!is && strcmp(known->name, PARTS) == 0) strcpy(b, "1");
    if (was) identity_value(was, a);
    if (is) identity_value(is, b);
    text_add(out, "%s%s%s was %s and is %s", out->length ? ", " : "",
             known->kind == IDENTITY_OPTION ? "--" : "", known->name, a, b);
}

/* The first kind in which something differs is told, all of it; a digest only where nothing else says it. */
static void list_differences(const identity *stored, const identity *given, identity_kind kind, text *out) {
    for (int digests = 0; digests < 2 && !out->length; digests++)
        for (uint32_t k = 0; k < stored->count + given->count; k++) {
            bool first = k < stored->count;
            const identity_fact *f = first ? &stored->facts[k] : &given->facts[k - stored->count];
            const identity_fact *was = find(stored, f), *is = find(given, f);
            bool again = !first && was;
            if (f->kind != kind || again || (!was && is_unsaid(f)) || same(was, is)) continue;
            if (digests == (strcmp(f->name, "digest") == 0)) add_difference(out, was, is);
        }
}

status identity_compare(const identity *stored, const identity *given, const char *from) {
    static const char *const said[IDENTITY_KINDS][2] = {
        [IDENTITY_OPTION] = { "other options", "the same options" },
        [IDENTITY_MODEL] = { "another model", "the same model" },
        [IDENTITY_DATA] = { "other data", "the same data" },
    };
    static const identity_kind order[] = { IDENTITY_MODEL, IDENTITY_OPTION, IDENTITY_DATA };
    for (int k = 0; k < IDENTITY_KINDS; k++) {
        text differences = { 0 };
        list_differences(stored, given, order[k], &differences);
        if (!differences.length) continue;
        status result = status_set(STATUS_INVALID,
                                   "%s is of a run with %s: %s; resume with %s, or begin anew in another "
                                   "--out",
                                   from, said[order[k]][0], differences.data, said[order[k]][1]);
        text_close(&differences);
        return result;
    }
    return STATUS_OK;
}
