#include "estimate/clusters/cluster.h"

#include <stdio.h>
#include <string.h>

#include "base/nearest.h"
#include "base/text.h"
#include "base/units.h"
#include "io/yaml.h"

/* ---- values ---- */

typedef struct {
    const char *name; /* of the file, for sentences */
    const yaml_entry *entry;
} place;

static status wrong(const place *p, const char *value, const char *why) {
    return status_set(STATUS_INVALID, "%s:%u: %s: '%.60s' %s", p->name, p->entry->line, p->entry->key, value,
                      why);
}

/* Words go into scripts that a shell reads: letters, digits and what options are made of. */
static status read_word(const place *p, const char *value, char out[CLUSTER_WORD_BYTES]) {
    static const char fine[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.,:=+@/%&|*[]";
    if (strlen(value) >= CLUSTER_WORD_BYTES) return wrong(p, value, "is too long; at most 63 characters");
    if (strspn(value, fine) != strlen(value))
        return wrong(p, value,
                     "has characters that cannot stand in a script; letters, digits and -_.,:=+ can");
    snprintf(out, CLUSTER_WORD_BYTES, "%s", strcmp(value, "none") == 0 ? "" : value);
    return STATUS_OK;
}

static status read_count(const place *p, const char *value, int64_t *out) {
    return units_parse_integer(value, p->entry->key, 1, 1 << 20, out) == STATUS_OK
               ? STATUS_OK
               : wrong(p, value, "must be a whole number from 1 to 1048576");
}

/* ---- one list for all kinds of nodes ---- */

typedef status kind_body(const place *p, const char *value, cluster_nodes *out);

static status read_name(const place *p, const char *v, cluster_nodes *n) { return read_word(p, v, n->name); }
static status read_device(const place *p, const char *v, cluster_nodes *n) {
    return read_word(p, v, n->device);
}
static status read_partition(const place *p, const char *v, cluster_nodes *n) {
    return read_word(p, v, n->partition);
}
static status read_constraint(const place *p, const char *v, cluster_nodes *n) {
    return read_word(p, v, n->constraint);
}
static status read_type(const place *p, const char *v, cluster_nodes *n) { return read_word(p, v, n->type); }
static status read_gpus(const place *p, const char *v, cluster_nodes *n) {
    return read_count(p, v, &n->gpus);
}
static status read_cores(const place *p, const char *v, cluster_nodes *n) {
    return read_count(p, v, &n->cores);
}
static status read_nodes(const place *p, const char *v, cluster_nodes *n) {
    return read_count(p, v, &n->count);
}
static status read_memory(const place *p, const char *v, cluster_nodes *n) {
    TRY(units_parse_bytes(v, p->entry->key, &n->memory));
    return n->memory >> 20 ? STATUS_OK : wrong(p, v, "is less than a mebibyte");
}

static status read_above_zero(const place *p, const char *v, double least, double most, double *out) {
    *out = 0;
    if (strcmp(v, "none") == 0) return STATUS_OK;
    if (units_parse_number(v, p->entry->key, least, most, out) == STATUS_OK) return STATUS_OK;
    char why[96];
    snprintf(why, sizeof why, "is neither a number from %g to %g nor none", least, most);
    return wrong(p, v, why);
}
static status read_rate(const place *p, const char *v, link_rates *l) {
    return read_above_zero(p, v, 1e3, 1e15, &l->rate);
}
static status read_latency(const place *p, const char *v, link_rates *l) {
    return read_above_zero(p, v, 1e-9, 10, &l->seconds);
}
static status read_within(const place *p, const char *v, cluster_nodes *n) {
    return read_rate(p, v, &n->links[LINK_WITHIN]);
}
static status read_between(const place *p, const char *v, cluster_nodes *n) {
    return read_rate(p, v, &n->links[LINK_BETWEEN]);
}
static status read_latency_within(const place *p, const char *v, cluster_nodes *n) {
    return read_latency(p, v, &n->links[LINK_WITHIN]);
}
static status read_latency_between(const place *p, const char *v, cluster_nodes *n) {
    return read_latency(p, v, &n->links[LINK_BETWEEN]);
}

static const struct {
    const char *key;
    kind_body *read;
    bool needed;
} lists[] = {
    { "nodes", read_name, true },
    { "devices", read_device, true },
    { "gpus", read_gpus, true },
    { "cores", read_cores, true },
    { "memory", read_memory, true },
    { "count", read_nodes, true },
    { "partitions", read_partition, false },
    { "constraints", read_constraint, false },
    { "types", read_type, false },
    { "within", read_within, false },
    { "between", read_between, false },
    { "latency_within", read_latency_within, false },
    { "latency_between", read_latency_between, false },
};
enum { LISTS = sizeof lists / sizeof *lists };

static status read_list(const place *p, kind_body *read, cluster *c) {
    const yaml_entry *x = p->entry;
    if (x->count > CLUSTER_MOST_KINDS)
        return status_set(STATUS_INVALID, "%s:%u: %s: at most %d kinds of nodes", p->name, x->line, x->key,
                          CLUSTER_MOST_KINDS);
    if (!c->kind_count) c->kind_count = x->count;
    if (!x->count || c->kind_count != x->count)
        return status_set(STATUS_INVALID,
                          "%s:%u: %s has %u values; every list has one for each kind of nodes, here %u",
                          p->name, x->line, x->key, x->count, c->kind_count);
    for (uint32_t i = 0; i < x->count; i++) TRY(read(p, x->values[i], &c->kinds[i]));
    return STATUS_OK;
}

/* ---- the rest ---- */

static status read_flags(const place *p, cluster *c) {
    const yaml_entry *x = p->entry;
    if (x->count > CLUSTER_MOST_FLAGS)
        return status_set(STATUS_INVALID, "%s:%u: flags: at most %d", p->name, x->line, CLUSTER_MOST_FLAGS);
    for (uint32_t i = 0; i < x->count; i++) {
        if (strncmp(x->values[i], "--", 2) != 0)
            return wrong(p, x->values[i], "is no option of sbatch; they begin with two hyphens");
        TRY(read_word(p, x->values[i], c->flags[i]));
    }
    c->flag_count = x->count;
    return STATUS_OK;
}

static status read_entry(const place *p, cluster *c) {
    const yaml_entry *x = p->entry;
    for (size_t i = 0; i < LISTS; i++)
        if (strcmp(x->key, lists[i].key) == 0) return read_list(p, lists[i].read, c);
    if (strcmp(x->key, "flags") == 0) return read_flags(p, c);
    if (x->count != 1)
        return status_set(STATUS_INVALID, "%s:%u: %s wants one value", p->name, x->line, x->key);
    const char *v = x->values[0];
    if (strcmp(x->key, "hours") == 0) return read_count(p, v, &c->hours);
    if (strcmp(x->key, "title") == 0) {
        if (strpbrk(v, "\n\r")) return wrong(p, v, "is more than a line");
        snprintf(c->title, sizeof c->title, "%s", v);
        return STATUS_OK;
    }
    if (strcmp(x->key, "ask") != 0)
        return wrong(
            p, v,
            "stands under no key of a cluster; there are title, nodes, devices, gpus, cores, memory, "
            "count, partitions, constraints, types, within, between, latency_within, latency_between, ask, "
            "flags and hours");
    c->gres = strcmp(v, "gres") == 0;
    return c->gres || strcmp(v, "gpus-per-node") == 0 ? STATUS_OK
                                                      : wrong(p, v, "must be gres or gpus-per-node");
}

static status read_all(const yaml_file *f, const char *name, cluster *c) {
    *c = (cluster){ .hours = 24 };
    snprintf(c->name, sizeof c->name, "%.60s", name);
    for (uint32_t i = 0; i < f->count; i++) TRY(read_entry(&(place){ name, &f->entries[i] }, c));
    for (size_t i = 0; i < LISTS; i++) {
        bool there = !lists[i].needed;
        for (uint32_t k = 0; k < f->count; k++) there |= strcmp(f->entries[k].key, lists[i].key) == 0;
        if (!there)
            return status_set(STATUS_INVALID,
                              "%s: %s is missing, a list with one value for each kind of nodes", name,
                              lists[i].key);
    }
    if (!c->title[0]) snprintf(c->title, sizeof c->title, "%.90s", name);
    return STATUS_OK;
}

static status unknown(const char *name) {
    char near[NEAREST_BYTES];
    nearest_listed(name, cluster_names(), near);
    return status_set(STATUS_INVALID,
                      "there is no cluster '%.60s'%s%s; there are %.400s, and files of your own (*.yaml)",
                      name, *near ? ", did you mean " : "", near, cluster_names());
}

const char *cluster_names(void) {
    static char names[1024];
    size_t used = 0;
    for (const hardware_file *x = cluster_files; x->name && used + 1 < sizeof names; x++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", x->name);
    return names;
}

status cluster_find(const char *name, cluster *c) {
    yaml_file f;
    size_t length = strlen(name);
    bool own = length > 5 && strcmp(name + length - 5, ".yaml") == 0;
    const hardware_file *x = cluster_files;
    while (x->name && strcmp(x->name, name) != 0) x++;
    if (!own && !x->name) return unknown(name);
    TRY(own ? yaml_open(name, &f) : yaml_read(x->name, x->text, strlen(x->text), &f));
    status result = read_all(&f, name, c);
    yaml_close(&f);
    return result;
}
