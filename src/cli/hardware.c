#include "cli/hardware.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "base/units.h"
#include "cli/config.h"

static status wrong(const config_file *f, const char *name, const config_entry *x, const char *why) {
    (void)f;
    return status_set(STATUS_INVALID, "%s:%u: %s %s", name, x->line, x->key, why);
}

static status number(const char *where, const char *text, double *out) {
    char *end;
    *out = strtod(text, &end);
    if (*text && !*end && *out >= 0 && *out < 1e18) return STATUS_OK;
    return status_set(STATUS_INVALID, "%s is '%.40s'; it must be a number, as 3352e9", where, text);
}

static status read_list(const config_file *f, const char *name, const config_entry *x, hardware *h) {
    if (strcmp(x->key, "context") == 0) {
        if (x->count != 3) return wrong(f, name, x, "wants three sizes: least, likely, most");
        for (int i = 0; i < 3; i++) TRY(units_parse_bytes(x->values[i], "context", &h->context[i]));
        if (h->context[0] > h->context[1] || h->context[1] > h->context[2])
            return wrong(f, name, x, "must rise: least, likely, most");
        return STATUS_OK;
    }
    for (uint32_t i = 0; i < x->count; i++) {
        bool bf16 = strcmp(x->values[i], "bf16") == 0, flash = strcmp(x->values[i], "flash-attention") == 0;
        if (!bf16 && !flash) return wrong(f, name, x, "knows bf16 and flash-attention only");
        h->no_bf16 |= bf16, h->no_flash |= flash;
    }
    return STATUS_OK;
}

static status read_entry(const config_file *f, const char *name, const config_entry *x, hardware *h) {
    const struct {
        const char *key;
        double *value;
    } rates[] = { { "bandwidth", &h->bandwidth }, { "f32", &h->f32 }, { "f16", &h->f16 }, { "f8", &h->f8 } };
    if (strcmp(x->key, "context") == 0 || strcmp(x->key, "cannot") == 0) return read_list(f, name, x, h);
    if (x->count != 1) return wrong(f, name, x, "wants one value");
    const char *v = x->values[0];
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        if (strcmp(x->key, rates[i].key) == 0) return number(x->key, v, rates[i].value);
    if (strcmp(x->key, "memory") == 0) return units_parse_bytes(v, "memory", &h->memory);
    if (strcmp(x->key, "workspace") == 0) return units_parse_bytes(v, "workspace", &h->workspace);
    if (strcmp(x->key, "title") == 0)
        snprintf(h->title, sizeof h->title, "%s", v);
    else if (strcmp(x->key, "capability") == 0)
        snprintf(h->capability, sizeof h->capability, "%s", v);
    else
        return wrong(f, name, x,
                     "is no key of a device; there are title, memory, capability, cannot, bandwidth, f32, "
                     "f16, f8, context and workspace");
    return STATUS_OK;
}

static status read_all(const config_file *f, const char *name, hardware *h) {
    *h = (hardware){ .context = { 300u << 20, 450u << 20, 700u << 20 }, .workspace = 8u << 20 };
    snprintf(h->name, sizeof h->name, "%.60s", name);
    for (uint32_t i = 0; i < f->count; i++) TRY(read_entry(f, name, &f->entries[i], h));
    if (!h->memory)
        return status_set(STATUS_INVALID, "%s: memory is missing, the bytes that the driver reports", name);
    if (!h->title[0]) snprintf(h->title, sizeof h->title, "%.90s", name);
    return STATUS_OK;
}

static status unknown(const char *name) {
    char near[NEAREST_BYTES];
    nearest_listed(name, hardware_names(), near);
    return status_set(STATUS_INVALID,
                      "there is no device '%.60s'%s%s; there are %s, and files of your own (*.yaml)", name,
                      *near ? ", did you mean " : "", near, hardware_names());
}

status hardware_find(const char *name, hardware *h) {
    config_file f;
    size_t length = strlen(name);
    status result = STATUS_INVALID;
    if (length > 5 && strcmp(name + length - 5, ".yaml") == 0) {
        TRY(config_open(name, &f));
        result = read_all(&f, name, h);
        config_close(&f);
        return result;
    }
    for (const hardware_file *x = hardware_files; x->name; x++) {
        if (strcmp(x->name, name) != 0) continue;
        TRY(config_read(x->name, x->text, strlen(x->text), &f));
        result = read_all(&f, x->name, h);
        config_close(&f);
        return result;
    }
    return unknown(name);
}

const char *hardware_names(void) {
    static char names[1024];
    size_t used = 0;
    for (const hardware_file *x = hardware_files; x->name && used + 1 < sizeof names; x++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", x->name);
    return names;
}
