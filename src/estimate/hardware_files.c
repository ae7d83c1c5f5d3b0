#include "estimate/hardware_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "base/text.h"
#include "base/units.h"
#include "io/yaml.h"

static status wrong(const yaml_file *f, const char *name, const yaml_entry *x, const char *why) {
    (void)f;
    return status_set(STATUS_INVALID, "%s:%u: %s %s", name, x->line, x->key, why);
}

static status number(const char *where, const char *said, double *out) {
    char *end;
    *out = strtod(said, &end);
    if (*said && !*end && *out >= 0 && *out < 1e18) return STATUS_OK;
    return status_set(STATUS_INVALID, "%s is '%.40s'; it must be a number, as 3352e9", where, said);
}

static status read_list(const yaml_file *f, const char *name, const yaml_entry *x, hardware *h) {
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

static status read_entry(const yaml_file *f, const char *name, const yaml_entry *x, hardware *h) {
    const struct {
        const char *key;
        double *value;
    } rates[] = { { "bandwidth", &h->bandwidth }, { "f32", &h->f32 }, { "f16", &h->f16 }, { "f8", &h->f8 } };
    if (strcmp(x->key, "context") == 0 || strcmp(x->key, "cannot") == 0) return read_list(f, name, x, h);
    if (x->count != 1) return wrong(f, name, x, "wants one value");
    const char *v = x->values[0];
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        if (strcmp(x->key, rates[i].key) == 0) return number(x->key, v, rates[i].value);
    if (strcmp(x->key, "multiprocessors") == 0)
        return units_parse_integer(v, "multiprocessors", 1, 4096, &h->multiprocessors);
    if (strcmp(x->key, "threads") == 0) return units_parse_integer(v, "threads", 1, 4096, &h->threads);
    if (strcmp(x->key, "memory") == 0) return units_parse_bytes(v, "memory", &h->memory);
    if (strcmp(x->key, "workspace") == 0) return units_parse_bytes(v, "workspace", &h->workspace);
    if (strcmp(x->key, "title") == 0)
        snprintf(h->title, sizeof h->title, "%s", v);
    else if (strcmp(x->key, "capability") == 0)
        snprintf(h->capability, sizeof h->capability, "%s", v);
    else
        return wrong(f, name, x,
                     "is no key of a device; there are title, memory, multiprocessors, threads, capability, "
                     "cannot, bandwidth, f32, f16, f8, context and workspace");
    return STATUS_OK;
}

static status read_all(const yaml_file *f, const char *name, hardware *h) {
    *h = (hardware){ .context = { 300u << 20, 450u << 20, 700u << 20 }, .workspace = 8u << 20 };
    snprintf(h->name, sizeof h->name, "%.60s", name);
    for (uint32_t i = 0; i < f->count; i++) TRY(read_entry(f, name, &f->entries[i], h));
    if (!h->memory)
        return status_set(STATUS_INVALID, "%s: memory is missing, the bytes that the driver reports", name);
    if (!h->title[0]) snprintf(h->title, sizeof h->title, "%.90s", name);
    return STATUS_OK;
}

/* Letters and digits alone count, in either case: "RTX 4090" is rtx-4090, and "H100-80GB" h100-80. */
static void fold(const char *name, char out[NEAREST_BYTES]) {
    size_t n = 0;
    for (; *name && n + 1 < NEAREST_BYTES; name++) {
        char c = (char)(*name >= 'A' && *name <= 'Z' ? *name - 'A' + 'a' : *name);
        if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) out[n++] = c;
    }
    if (n > 4 && strncmp(out + n - 2, "gb", 2) == 0 && out[n - 3] >= '0' && out[n - 3] <= '9') n -= 2;
    out[n] = 0;
}

static const hardware_file *find_file(const char *name) {
    char wanted[NEAREST_BYTES], has[NEAREST_BYTES];
    fold(name, wanted);
    for (const hardware_file *x = hardware_files; x->name && *wanted; x++) {
        fold(x->name, has);
        if (strcmp(has, wanted) == 0) return x;
    }
    return NULL;
}

/* Those that begin so, whole devices before parts of one: "h100-80 or h100-94" of "h100". */
static void add_beginnings(const char *name, text *out) {
    char wanted[NEAREST_BYTES], has[NEAREST_BYTES];
    fold(name, wanted);
    for (int parts = 0; parts < 2 && !out->length; parts++)
        for (const hardware_file *x = hardware_files; x->name && *wanted; x++) {
            fold(x->name, has);
            bool part = strstr(x->name, "-mig-") != NULL;
            if (part != (parts == 1) || strncmp(has, wanted, strlen(wanted)) != 0) continue;
            text_add(out, "%s%s", out->length ? " or " : "", x->name);
        }
}

static status unknown(const char *name) {
    char folded[NEAREST_BYTES], near[NEAREST_BYTES];
    text meant = { 0 };
    fold(name, folded);
    add_beginnings(name, &meant);
    nearest_listed(folded, hardware_names(), near);
    if (!meant.length && *near) text_add(&meant, "%s", near);
    status result =
        status_set(STATUS_INVALID, "there is no device '%.60s'%s%s%s %s, and files of your own (*.yaml)",
                   name, meant.length ? "; did you mean " : "", meant.length ? meant.data : "",
                   meant.length ? "? There are" : "; there are", hardware_names());
    text_close(&meant);
    return result;
}

status hardware_find(const char *name, hardware *h) {
    yaml_file f;
    size_t length = strlen(name);
    status result = STATUS_INVALID;
    if (length > 5 && strcmp(name + length - 5, ".yaml") == 0) {
        TRY(yaml_open(name, &f));
        result = read_all(&f, name, h);
        yaml_close(&f);
        return result;
    }
    const hardware_file *x = find_file(name);
    if (!x) return unknown(name);
    TRY(yaml_read(x->name, x->text, strlen(x->text), &f));
    result = read_all(&f, x->name, h);
    yaml_close(&f);
    return result;
}

const char *hardware_names(void) {
    static char names[1024];
    size_t used = 0;
    for (const hardware_file *x = hardware_files; x->name && used + 1 < sizeof names; x++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", x->name);
    return names;
}
