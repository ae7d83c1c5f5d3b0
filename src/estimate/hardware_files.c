#include "estimate/hardware_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "device/device_gpu.h"
#include "io/yaml.h"

static status wrong(const char *name, const yaml_entry *x, const char *why) {
    return status_set(STATUS_INVALID, "%s:%u: %s %s", name, x->line, x->key, why);
}

static status number(const char *where, const char *said, double *out) {
    char *end;
    *out = strtod(said, &end);
    if (*said && !*end && *out >= 0 && *out < 1e18) return STATUS_OK;
    return status_set(STATUS_INVALID, "%s is '%.40s'; it must be a number, as 3352e9", where, said);
}

static status read_list(const char *name, const yaml_entry *x, hardware *h) {
    if (strcmp(x->key, "context") == 0) {
        if (x->count != 3) return wrong(name, x, "wants three sizes: least, likely, most");
        for (int i = 0; i < 3; i++) TRY(units_parse_bytes(x->values[i], "context", &h->context[i]));
        if (h->context[0] > h->context[1] || h->context[1] > h->context[2])
            return wrong(name, x, "must rise: least, likely, most");
        return STATUS_OK;
    }
    for (uint32_t i = 0; i < x->count; i++) {
        const char *what = x->values[i];
        bool bf16 = strcmp(what, "bf16") == 0, flash = strcmp(what, "flash-attention") == 0,
             fused = strcmp(what, "fused-attention") == 0;
        if (!bf16 && !flash && !fused)
            return wrong(name, x, "knows bf16, flash-attention and fused-attention only");
        h->no_bf16 |= bf16, h->no_flash |= flash, h->no_fused |= fused;
    }
    return STATUS_OK;
}

static status read_memory(const char *said, hardware *h) {
    static const char about[] = "about ";
    h->memory_by_rule = strncmp(said, about, sizeof about - 1) == 0;
    return units_parse_bytes(said + (h->memory_by_rule ? sizeof about - 1 : 0), "memory", &h->memory);
}

static status read_cache(const char *said, hardware *h) {
    uint64_t bytes;
    TRY(units_parse_bytes(said, "cache", &bytes));
    h->cache = (double)bytes;
    return STATUS_OK;
}

static status read_entry(const char *name, const yaml_entry *x, hardware *h) {
    const struct {
        const char *key;
        double *value;
    } rates[] = { { "bandwidth", &h->bandwidth },
                  { "f32", &h->f32 },
                  { "f16", &h->f16 },
                  { "f8", &h->f8 },
                  { "link", &h->link },
                  { "call", &h->call },
                  { "peers", &h->peers },
                  { "network", &h->network } };
    if (strcmp(x->key, "context") == 0 || strcmp(x->key, "cannot") == 0) return read_list(name, x, h);
    if (x->count != 1) return wrong(name, x, "wants one value");
    const char *v = x->values[0];
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        if (strcmp(x->key, rates[i].key) == 0) return number(x->key, v, rates[i].value);
    if (strcmp(x->key, "multiprocessors") == 0)
        return units_parse_integer(v, "multiprocessors", 1, 4096, &h->multiprocessors);
    if (strcmp(x->key, "threads") == 0) return units_parse_integer(v, "threads", 1, 4096, &h->threads);
    if (strcmp(x->key, "memory") == 0) return read_memory(v, h);
    if (strcmp(x->key, "cache") == 0) return read_cache(v, h);
    if (strcmp(x->key, "leaves") == 0) return units_parse_bytes(v, "leaves", &h->leaves);
    if (strcmp(x->key, "workspace") == 0) return units_parse_bytes(v, "workspace", &h->workspace);
    if (strcmp(x->key, "backend") == 0) {
        h->mps = strcmp(v, "mps") == 0;
        return h->mps || strcmp(v, "cuda") == 0 ? STATUS_OK : wrong(name, x, "is cuda (also ROCm's) or mps");
    }
    if (strcmp(x->key, "title") == 0)
        snprintf(h->title, sizeof h->title, "%s", v);
    else if (strcmp(x->key, "capability") == 0)
        snprintf(h->capability, sizeof h->capability, "%s", v);
    else
        return wrong(
            name, x,
            "is no key of a device; there are title, memory, leaves, multiprocessors, threads, "
            "capability, backend, cannot, bandwidth, f32, f16, f8, cache, link, call, peers, network, "
            "context and workspace");
    return STATUS_OK;
}

static status settle(const char *name, hardware *h) {
    enum { OFF_BY = 64 }; /* a rule's memory may be this part too large: families differ by less */
    if (!h->memory)
        return status_set(STATUS_INVALID, "%s: memory is missing, the bytes that the driver reports", name);
    if (h->leaves >= h->memory)
        return status_set(STATUS_INVALID, "%s: leaves is all of its memory or more", name);
    if (!h->title[0]) snprintf(h->title, sizeof h->title, "%.90s", name);
    if (!h->context[2]) device_gpu_context(h->multiprocessors, h->threads, h->context);
    if (h->memory_by_rule) h->context[2] += h->memory / OFF_BY;
    h->memory -= h->leaves;
    return STATUS_OK;
}

static void begin(const char *name, hardware *h) {
    *h = (hardware){ .workspace = 8u << 20 };
    snprintf(h->name, sizeof h->name, "%.60s", name);
}

static status read_device(const yaml_file *f, const char *name, hardware *h) {
    begin(name, h);
    for (uint32_t i = 0; i < f->count; i++) TRY(read_entry(name, &f->entries[i], h));
    return settle(name, h);
}

/* ---- tables ---- */

bool hardware_is_row(const char *key, bool list) {
    return list && strcmp(key, "each") != 0 && strcmp(key, "cannot") != 0 && strcmp(key, "context") != 0;
}

/* A value of the row is read as though the file of the device had it under the name that `each` has for it;
 * "-" leaves it out. */
static status read_row(const char *table, const yaml_entry *columns, const yaml_entry *row, hardware *h) {
    if (!columns || row->count != columns->count)
        return wrong(table, row, "has not as many values as each says");
    for (uint32_t i = 0; i < row->count; i++) {
        yaml_entry one = {
            .key = columns->values[i], .values = &row->values[i], .count = 1, .line = row->line
        };
        if (strcmp(row->values[i], "-") != 0) TRY(read_entry(table, &one, h));
    }
    return STATUS_OK;
}

static status read_from_table(const yaml_file *f, const char *table, const char *wanted, hardware *h) {
    const yaml_entry *columns = NULL, *row = NULL;
    begin(wanted, h);
    for (uint32_t i = 0; i < f->count; i++) {
        const yaml_entry *x = &f->entries[i];
        if (strcmp(x->key, "each") == 0)
            columns = x;
        else if (!hardware_is_row(x->key, x->list))
            TRY(read_entry(table, x, h));
        else if (strcmp(x->key, wanted) == 0)
            row = x;
    }
    if (!row) return status_set(STATUS_INVALID, "%s has no device '%s'", table, wanted);
    TRY(read_row(table, columns, row, h));
    return settle(wanted, h);
}

static status find_file(const char *path, hardware *h) {
    yaml_file f;
    TRY(yaml_open(path, &f));
    status result = read_device(&f, path, h);
    yaml_close(&f);
    return result;
}

static bool is_file(const char *name) {
    size_t length = strlen(name);
    return length > 5 && strcmp(name + length - 5, ".yaml") == 0;
}

bool hardware_same(const char *a, const char *b) {
    if (is_file(a) || is_file(b)) return strcmp(a, b) == 0;
    uint32_t meant = hardware_meant(a);
    return meant < hardware_count() && hardware_meant(b) == meant;
}

status hardware_find(const char *name, hardware *h) {
    yaml_file f;
    if (is_file(name)) return find_file(name, h);
    uint32_t index = hardware_meant(name);
    if (index == hardware_count()) return hardware_unknown(name);
    const hardware_file *x = hardware_text(index);
    TRY(yaml_read(x->name, x->text, strlen(x->text), &f));
    const char *its = hardware_name(index);
    status result = hardware_in_table(index) ? read_from_table(&f, x->name, its, h) : read_device(&f, its, h);
    yaml_close(&f);
    return result;
}
