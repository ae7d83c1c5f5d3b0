#include "api/network.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/text.h"

_Static_assert((int)SNUG_MAX_FIELDS == (int)MODEL_MAX_FIELDS && (int)SNUG_MAX_RANK == (int)SHAPE_MAX_RANK,
               "the public limits are those of models");

/* ---- the description ---- */

bool network_reserves(const char *name) {
    static const char *const reserved[] = { "key",       "loss",         "loss_scale", "learning_rate",
                                            "first_row", "position",     "loader",     "sample",
                                            "logits",    "gradient_norm" };
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        if (strcmp(name, reserved[i]) == 0) return true;
    return false;
}

/* What programs call outputs. */
static bool names_an_output(const char *name) { return strncmp(name, "output ", 7) == 0; }

/* "tokens.batch" is what programs call the whole batch of a field "tokens". */
static bool names_a_batch(const char *name) { return text_ends_with(name, ".batch"); }

static status check_field(const network *n, uint32_t index) {
    const snug_field *f = &n->description.fields[index];
    if (!*f->name || strlen(f->name) >= NETWORK_NAME_BYTES || network_reserves(f->name) ||
        names_a_batch(f->name) || names_an_output(f->name))
        return status_set(STATUS_INVALID, "a field cannot have the name '%.80s'", f->name);
    for (uint32_t i = 0; i < index; i++)
        if (strcmp(n->description.fields[i].name, f->name) == 0)
            return status_set(STATUS_INVALID, "two fields have the name '%s'", f->name);
    if (f->type != SNUG_F32 && f->type != SNUG_I32)
        return status_set(STATUS_INVALID, "field '%s' has the unknown type %d", f->name, (int)f->type);
    if (f->shape.rank >= SNUG_MAX_RANK)
        return status_set(STATUS_INVALID, "field '%s' has rank %u; the most is %d", f->name, f->shape.rank,
                          SNUG_MAX_RANK - 1);
    shape s = { .rank = f->shape.rank };
    memcpy(s.dim, f->shape.dim, sizeof s.dim);
    char sizes[SHAPE_TEXT_BYTES];
    if (s.rank && !shape_valid(&s, sizeof(float)))
        return status_set(STATUS_INVALID, "field '%s' has the impossible shape %s", f->name,
                          shape_text(&s, sizes));
    return STATUS_OK;
}

static status check_description(network *n) {
    const snug_network *d = &n->description;
    if (!d->build) return status_set(STATUS_INVALID, "a network needs a function that builds it");
    for (; n->field_count < SNUG_MAX_FIELDS && d->fields[n->field_count].name; n->field_count++)
        TRY(check_field(n, n->field_count));
    if (!n->field_count) return status_set(STATUS_INVALID, "a network needs fields that make up a sample");
    n->label_field = -1;
    if (!d->labels) return STATUS_OK;
    for (uint32_t i = 0; i < n->field_count; i++)
        if (strcmp(d->fields[i].name, d->labels) == 0) n->label_field = (int)i;
    if (n->label_field < 0)
        return status_set(STATUS_INVALID, "the labels '%.80s' are not among the fields", d->labels);
    if (d->fields[n->label_field].type != SNUG_I32)
        return status_set(STATUS_INVALID, "the labels '%s' must be of type SNUG_I32", d->labels);
    return STATUS_OK;
}

/* ---- as a model ---- */

const char *network_output_symbol(uint32_t index) {
    static const char *const symbols[SNUG_MAX_OUTPUTS] = { "logits",   "output 1", "output 2", "output 3",
                                                           "output 4", "output 5", "output 6", "output 7" };
    return symbols[index];
}

/* What is predicted is kept; of the first output the caller does so. */
static void keep_outputs(graph *g, const snug_graph *s) {
    for (uint32_t i = 1; i < s->output_count; i++)
        graph_keep(g, s->outputs[i].value, network_output_symbol(i));
}

static void build_with(snug_graph *s, model_ports *ports) {
    const network *n = s->network;
    graph *g = s->graph;
    g->phase = PHASE_FORWARD;
    g->site = SITE_NONE;
    n->description.build(n->description.context, s);
    g->site = SITE_NONE;
    *ports = (model_ports){ .loss = s->loss, .logits = s->outputs[0].value };
    if (s->mode != MODEL_PREDICT && !s->loss)
        graph_fail(g, "the network has no loss: call snug_cross_entropy or another");
    if (s->mode == MODEL_PREDICT && !s->output_count)
        graph_fail(g, "the network has no output: call snug_output");
    if (s->mode == MODEL_PREDICT) keep_outputs(g, s);
    if (s->probe) s->probe->has_loss = s->loss != 0, s->probe->has_output = s->output_count != 0;
}

static void build(const model *m, graph *g, const model_run *run, model_ports *ports) {
    snug_graph s = { .graph = g, .network = m->config, .mode = run->mode, .batch = run->batch, .weight = 1 };
    build_with(&s, ports);
}

static void initial(const model *m, const char *parameter, const shape *s, model_initial *out) {
    const network *n = m->config;
    (void)s;
    *out = (model_initial){ .stream = hash_name(parameter) }; /* a stream of its own for each */
    for (uint32_t i = 0; i < n->parameter_count; i++)
        if (strcmp(n->parameters[i].name, parameter) == 0)
            out->mean = n->parameters[i].mean, out->deviation = n->parameters[i].deviation;
}

static uint32_t fields(const model *m, int64_t context, model_field out[MODEL_MAX_FIELDS]) {
    const network *n = m->config;
    (void)context;
    for (uint32_t i = 0; i < n->field_count; i++) {
        const snug_field *f = &n->description.fields[i];
        out[i] = (model_field){ .name = f->name, .dtype = f->type == SNUG_I32 ? DTYPE_I32 : DTYPE_F32 };
        out[i].of.rank = f->shape.rank;
        memcpy(out[i].of.dim, f->shape.dim, sizeof out[i].of.dim);
    }
    return n->field_count;
}

/* ---- the first building ---- */

static void find_ranges(network *n, const graph *g) {
    for (uint32_t i = 0; i < n->field_count; i++) {
        tensor_id t = graph_find(g, n->description.fields[i].name);
        if (t) n->ranges[i] = op_range_of(g, t);
    }
}

status network_check_ids(const network *n, uint32_t field, const int32_t *ids) {
    const snug_field *f = &n->description.fields[field];
    int64_t count = 1;
    for (uint32_t d = 0; d < f->shape.rank; d++) count *= f->shape.dim[d];
    for (int64_t i = 0; n->ranges[field].below && i < count; i++)
        if (ids[i] < 0 || ids[i] >= n->ranges[field].below)
            return status_set(STATUS_INVALID, "number %lld of '%s' is %d; it must be from 0 to %lld",
                              (long long)i, f->name, ids[i], (long long)n->ranges[field].below - 1);
    return STATUS_OK;
}

static status probe(network *n) {
    graph g;
    model_ports ports;
    TRY(graph_open(&g));
    snug_graph s = { .graph = &g, .network = n, .probe = n, .mode = MODEL_TRAIN, .batch = 1, .weight = 1 };
    build_with(&s, &ports);
    status result = graph_status(&g);
    if (result == STATUS_OK && !n->parameter_count)
        result = status_set(STATUS_INVALID, "the network has no parameters: there is nothing to train");
    if (result == STATUS_OK) find_ranges(n, &g);
    graph_close(&g);
    return result;
}

status network_outputs(const network *n, int64_t batch, network_output outputs[SNUG_MAX_OUTPUTS],
                       uint32_t *count) {
    graph g;
    model_ports ports;
    TRY(graph_open(&g));
    snug_graph s = { .graph = &g, .network = n, .mode = MODEL_PREDICT, .batch = batch, .weight = 1 };
    build_with(&s, &ports);
    status result = graph_status(&g);
    *count = s.output_count;
    memcpy(outputs, s.outputs, sizeof s.outputs);
    graph_close(&g);
    return result;
}

status network_open(const snug_network *description, network *n, model *m) {
    *n = (network){ .description = *description };
    status result = check_description(n);
    if (result == STATUS_OK) result = probe(n);
    const char *name = description->name ? description->name : "network";
    *m = (model){ .family = "network",
                  .config = n,
                  .layers = n->blocks,
                  .build = build,
                  .initial = initial,
                  .fields = fields };
    snprintf(m->name, sizeof m->name, "%s", name);
    if (result != STATUS_OK) {
        network_close(n);
        return status_prefix(result, "%s", m->name);
    }
    return STATUS_OK;
}

void network_close(network *n) {
    memory_free(n->parameters);
    n->parameters = NULL;
    n->parameter_count = n->parameter_room = 0;
}

/* ---- for the public functions ---- */

bool network_is_open(const snug_graph *g, const char *where) {
    if (g) return !g->graph->failed;
    return status_set(STATUS_INVALID, "%s: there is no graph, but NULL", where) == STATUS_OK;
}

bool network_has(const snug_graph *g, tensor_id x, const char *where) {
    if (!network_is_open(g, where)) return false;
    if (x && x < g->graph->tensors.count) return true;
    graph_fail(g->graph, "%s: there is no tensor %u", where, x);
    return false;
}

/* ---- what files hold ---- */

bool network_names_parameter(const char *name) {
    static const char more[] = "._-/";
    size_t length = name ? strlen(name) : 0;
    if (!length || length >= NETWORK_NAME_BYTES || network_reserves(name)) return false;
    for (const char *p = name; *p; p++) {
        bool letter = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9');
        if (!letter && !strchr(more, *p)) return false;
    }
    return true;
}

bool network_take_down(snug_graph *g, const network_parameter *p, const shape *s, bool trained) {
    network *n = g->probe;
    if (!n) return true;
    if (graph_find(g->graph, p->name)) {
        graph_fail(g->graph, "two parameters or fields have the name '%s'", p->name);
        return false;
    }
    if (n->parameter_count == n->parameter_room) {
        uint32_t room = n->parameter_room ? 2 * n->parameter_room : 64;
        network_parameter *more = memory_resize(n->parameters, room, sizeof *more);
        if (!more) {
            graph_fail(g->graph, "no memory for %u parameters", room);
            return false;
        }
        n->parameters = more;
        n->parameter_room = room;
    }
    n->parameters[n->parameter_count++] = *p;
    if (trained) n->elements += (uint64_t)shape_elements(s);
    return true;
}
