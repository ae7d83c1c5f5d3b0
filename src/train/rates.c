#define _GNU_SOURCE
#include "train/rates.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/threads.h"
#include "io/file.h"
#include "io/json.h"

/* ---- which file ---- */

/* Counted up when kernels or the model of time change so much that rates of before are wrong. */
enum { RATES_VERSION = 4 };
static const char BUILD[] = "gcc " __VERSION__
#if defined(__SANITIZE_ADDRESS__)
                            ", sanitized"
#elif !defined(__OPTIMIZE__)
                            ", not optimized"
#endif
    ;

enum { KEY_BYTES = 512 };
static const char *key_of_machine(char key[KEY_BYTES]) {
    char processor[DEVICE_NAME_BYTES];
    snprintf(key, KEY_BYTES, "%s; %s; %d usable; rates %d; %s", device_processor(processor),
             device_instructions(), threads_available(), RATES_VERSION, BUILD);
    return key;
}

/* FNV-1a. */
static uint64_t hash(const char *key) {
    uint64_t h = 14695981039346656037u;
    for (; *key; key++) h = (h ^ (unsigned char)*key) * 1099511628211u;
    return h;
}

status rates_path(char path[RATES_PATH_BYTES]) {
    char key[KEY_BYTES];
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    bool own = cache && cache[0] == '/'; /* others are to be ignored, as the standard has it */
    if (!own && (!home || !*home))
        return status_set(STATUS_INVALID, "no folder for rates: neither XDG_CACHE_HOME nor HOME is set");
    int length = snprintf(path, RATES_PATH_BYTES, "%s%s/snug/rates-%016llx.json", own ? cache : home,
                          own ? "" : "/.cache", (unsigned long long)hash(key_of_machine(key)));
    if (length >= RATES_PATH_BYTES)
        return status_set(STATUS_INVALID, "the path of the cache folder is too long");
    return STATUS_OK;
}

/* ---- one set of rates, as JSON ---- */

static const char *const kinds[WORK_KINDS] = { [WORK_ARITHMETIC] = "arithmetic",
                                               [WORK_FUNCTIONS] = "functions",
                                               [WORK_PRODUCTS] = "products",
                                               [WORK_ATTENTION] = "attention",
                                               [WORK_CODES] = "codes" };

typedef struct {
    const char *key;
    size_t offset;
    double low, high;
    bool optional; /* measured only where somebody asks for it */
} field;
static const field fields[] = { { "draws", offsetof(device_rates, draws), 1, 1e18, false },
                                { "moved", offsetof(device_rates, moved), 1, 1e18, false },
                                { "cached", offsetof(device_rates, cached), 1, 1e18, false },
                                { "bandwidth", offsetof(device_rates, bandwidth), 1, 1e18, false },
                                { "fetched", offsetof(device_rates, fetched), 1, 1e18, false },
                                { "cache_bytes", offsetof(device_rates, cache_bytes), 1, 1e18, false },
                                { "call_seconds", offsetof(device_rates, call_seconds), 0, 1, false },
                                { "file_read", offsetof(device_rates, file_read), 1, 1e18, true },
                                { "file_written", offsetof(device_rates, file_written), 1, 1e18, true } };
enum { FIELDS = sizeof fields / sizeof *fields };

static double *at(device_rates *r, size_t offset) { return (double *)(void *)((char *)r + offset); }

static void write_set(json_writer *w, int threads, device_rates r) {
    json_begin_object(w, NULL);
    json_put_integer(w, "threads", threads);
    for (int k = 0; k < WORK_KINDS; k++) json_put_number(w, kinds[k], r.flops[k]);
    for (int i = 0; i < FIELDS; i++) json_put_number(w, fields[i].key, *at(&r, fields[i].offset));
    json_end_object(w);
}

static status read_set(json_value v, int *threads, device_rates *r) {
    int64_t n;
    TRY(json_get_integer(v, "threads", 1, 1 << 20, &n));
    *threads = (int)n;
    *r = device_rates_default(*threads);
    for (int k = 0; k < WORK_KINDS; k++) TRY(json_get_number(v, kinds[k], 1, 1e18, &r->flops[k]));
    for (int i = 0; i < FIELDS; i++)
        if (!fields[i].optional || json_has(v, fields[i].key))
            TRY(json_get_number(v, fields[i].key, fields[i].low, fields[i].high, at(r, fields[i].offset)));
    r->scale = 1;
    return STATUS_OK;
}

/* ---- the file ---- */

typedef struct {
    rates_measured measured; /* count 0: only a scale is known */
    double scale;
} contents;

static status read_sets(json_value root, rates_measured *m) {
    json_value sets;
    size_t count;
    TRY(json_get(root, "measured", &sets));
    TRY(json_as_array(sets, &count));
    if (count > RATES_MOST) return json_wrong(sets, "has %zu sets of rates; at most %d", count, RATES_MOST);
    for (size_t i = 0; i < count; i++) {
        TRY(read_set(json_item(sets, i), &m->threads[i], &m->rates[i]));
        if (i && m->threads[i] <= m->threads[i - 1])
            return json_wrong(sets, "must have its sets in the order of their threads");
        m->count++;
    }
    return STATUS_OK;
}

static status read_contents(json_value root, contents *c) {
    char key[KEY_BYTES];
    const char *machine;
    TRY(json_get_string(root, "machine", &machine));
    if (strcmp(machine, key_of_machine(key)) != 0) return json_wrong(root, "is of another machine or build");
    TRY(json_get_number(root, "scale", 1e-3, 1e3, &c->scale));
    return read_sets(root, &c->measured);
}

/* `*there`: there is a file, whether it can be used or not. */
static status read_file(const char *path, contents *c, bool *there) {
    *c = (contents){ .scale = 1 };
    json_document d;
    *there = access(path, F_OK) == 0;
    if (!*there) return STATUS_INVALID;
    TRY(json_open(path, &d));
    status result = read_contents(d.root, c);
    json_close(&d);
    return result;
}

static status write_file(const contents *c) {
    char path[RATES_PATH_BYTES], folder[RATES_PATH_BYTES], key[KEY_BYTES];
    text t = { 0 };
    json_writer w = { .out = &t, .lines = true };
    TRY(rates_path(path));
    snprintf(folder, sizeof folder, "%s", path);
    *strrchr(folder, '/') = 0;
    TRY(io_make_folder(folder));
    json_begin_object(&w, NULL);
    json_put_string(&w, "machine", key_of_machine(key));
    json_put_number(&w, "scale", c->scale);
    json_begin_array(&w, "measured");
    for (int i = 0; i < c->measured.count; i++) write_set(&w, c->measured.threads[i], c->measured.rates[i]);
    json_end_array(&w);
    json_end_object(&w);
    status result =
        t.failed ? status_set(STATUS_FAILED, "no memory for rates") : io_write_file(path, t.data, t.length);
    text_close(&t);
    return result;
}

/* ---- finding ---- */

static double between(double a, double b, double part) { return a + part * (b - a); }

/* For a number of threads that was not measured: on the line between its neighbours, or the nearest. */
static device_rates interpolate(const rates_measured *m, int threads) {
    int i = 0;
    while (i + 1 < m->count && m->threads[i + 1] <= threads) i++;
    device_rates r = m->rates[i];
    if (i + 1 == m->count || threads <= m->threads[i]) return r;
    device_rates next = m->rates[i + 1];
    double part = (double)(threads - m->threads[i]) / (double)(m->threads[i + 1] - m->threads[i]);
    for (int k = 0; k < WORK_KINDS; k++) r.flops[k] = between(r.flops[k], next.flops[k], part);
    for (int f = 0; f < FIELDS; f++) {
        size_t o = fields[f].offset;
        *at(&r, o) = between(*at(&r, o), *at(&next, o), part);
    }
    return r;
}

device_rates rates_find(int threads) {
    char path[RATES_PATH_BYTES];
    contents c;
    bool there = false;
    device_rates r = device_rates_default(threads);
    if (rates_path(path) != STATUS_OK) return r;
    if (read_file(path, &c, &there) != STATUS_OK) {
        if (there)
            snprintf(r.source + strlen(r.source), sizeof r.source - strlen(r.source),
                     " (measured ones are passed over: %.160s)", status_message());
        return r;
    }
    if (c.measured.count) {
        r = interpolate(&c.measured, threads);
        snprintf(r.source, sizeof r.source, "measurement of this machine");
    } else if (c.scale > 0 && c.scale != 1) {
        r.scale = c.scale;
        snprintf(r.source + strlen(r.source), sizeof r.source - strlen(r.source),
                 ", times %.2f as a run took here", c.scale);
    }
    return r;
}

/* ---- storing ---- */

status rates_store(const rates_measured *m) { return write_file(&(contents){ .measured = *m, .scale = 1 }); }

status rates_store_scale(double measured_seconds, double predicted_seconds, const device_rates *used) {
    char path[RATES_PATH_BYTES];
    contents c;
    bool there, noted;
    TRY(rates_path(path));
    noted = read_file(path, &c, &there) == STATUS_OK;
    if (noted && c.measured.count) return STATUS_OK;
    if (measured_seconds <= 0 || predicted_seconds <= 0) return STATUS_OK;
    double scale = used->scale * measured_seconds / predicted_seconds;
    if (noted && scale > c.scale) scale = c.scale + (scale - c.scale) / 4;
    scale = scale < 1e-3 ? 1e-3 : scale > 1e3 ? 1e3 : scale;
    return write_file(&(contents){ .scale = scale });
}
