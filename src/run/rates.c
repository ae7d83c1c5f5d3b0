#define _GNU_SOURCE
#include "run/rates.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/instructions.h"
#include "base/threads.h"
#include "io/file.h"
#include "io/json.h"
#include "io/lock.h"
#include "lower/measure.h"
#include "run/shapes.h"

/* ---- which file ---- */

/* Counted up when kernels or the model of time change so much that rates of before are wrong. */
enum { RATES_VERSION = 7 };
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
    const char *kind = instructions_kind();
    bool widened = strcmp(kind, "widened") == 0; /* which the key does not say, as before there was another */
    snprintf(key, KEY_BYTES, "%s; %s%s%s; %d usable; rates %d; %s", device_processor(processor),
             device_instructions(), widened ? "" : ", ", widened ? "" : kind, threads_available(),
             RATES_VERSION, BUILD);
    return key;
}

status rates_file(const char *name, const char *key, char path[RATES_PATH_BYTES]) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    bool own = cache && cache[0] == '/'; /* others are to be ignored, as the standard has it */
    if (!own && (!home || !*home))
        return status_set(STATUS_INVALID, "no folder for rates: neither XDG_CACHE_HOME nor HOME is set");
    int length = snprintf(path, RATES_PATH_BYTES, "%s%s/snug/%s-%016llx.json", own ? cache : home,
                          own ? "" : "/.cache", name, (unsigned long long)hash_name_wide(key));
    if (length >= RATES_PATH_BYTES)
        return status_set(STATUS_INVALID, "the path of the cache folder is too long");
    return STATUS_OK;
}

status rates_path(char path[RATES_PATH_BYTES]) {
    char key[KEY_BYTES];
    return rates_file("rates", key_of_machine(key), path);
}

status rates_make_folder(const char *path) {
    char folder[RATES_PATH_BYTES];
    snprintf(folder, sizeof folder, "%s", path);
    *strrchr(folder, '/') = 0;
    return io_make_folder(folder);
}

/* ---- one set of rates, as JSON ---- */

static const char *const kinds[WORK_KINDS] = { [WORK_ARITHMETIC] = "arithmetic",
                                               [WORK_FUNCTIONS] = "functions",
                                               [WORK_PRODUCTS] = "products",
                                               [WORK_ATTENTION] = "attention",
                                               [WORK_CODES] = "codes",
                                               [WORK_PRODUCTS_HALF] = "products_half",
                                               [WORK_ATTENTION_HALF] = "attention_half",
                                               [WORK_ARITHMETIC_HALF] = "arithmetic_half",
                                               [WORK_FUNCTIONS_HALF] = "functions_half" };

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

static void write_set(json_writer *w, int threads, bool brief, device_rates r) {
    json_begin_object(w, NULL);
    json_put_integer(w, "threads", threads);
    json_put_bool(w, "brief", brief);
    for (int k = 0; k < WORK_KINDS; k++) json_put_number(w, kinds[k], r.flops[k]);
    for (int i = 0; i < FIELDS; i++) json_put_number(w, fields[i].key, *at(&r, fields[i].offset));
    json_end_object(w);
}

static status read_set(json_value v, int *threads, bool *brief, device_rates *r) {
    int64_t n;
    TRY(json_get_integer(v, "threads", 1, 1 << 20, &n));
    TRY(json_get_bool(v, "brief", brief));
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

static const double QUARTER_MORE = 1.25; /* and its inverse is a quarter less */

typedef struct {
    rates_measured measured; /* count 0: only a scale is known */
    double scale;            /* on all of them */
    bool doubted;            /* a run was off by more than a quarter */
} contents;

static status read_sets(json_value root, rates_measured *m) {
    json_value sets;
    size_t count;
    TRY(json_get(root, "measured", &sets));
    TRY(json_as_array(sets, &count));
    if (count > RATES_MOST) return json_wrong(sets, "has %zu sets of rates; at most %d", count, RATES_MOST);
    for (size_t i = 0; i < count; i++) {
        TRY(read_set(json_item(sets, i), &m->threads[i], &m->brief[i], &m->rates[i]));
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
    TRY(json_get_number(root, "scale", 1 / QUARTER_MORE, QUARTER_MORE, &c->scale));
    TRY(json_get_bool(root, "doubted", &c->doubted));
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

/* The path, in a folder that is there. */
static status place_for_file(char path[RATES_PATH_BYTES]) {
    TRY(rates_path(path));
    return rates_make_folder(path);
}

static status write_file(const contents *c) {
    char path[RATES_PATH_BYTES], key[KEY_BYTES];
    text t = { 0 };
    json_writer w = { .out = &t, .lines = true };
    TRY(place_for_file(path));
    json_begin_object(&w, NULL);
    json_put_string(&w, "machine", key_of_machine(key));
    json_put_number(&w, "scale", c->scale);
    json_put_bool(&w, "doubted", c->doubted);
    json_begin_array(&w, "measured");
    for (int i = 0; i < c->measured.count; i++)
        write_set(&w, c->measured.threads[i], c->measured.brief[i], c->measured.rates[i]);
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

static void add_source(device_rates *r, const char *format, ...) {
    size_t length = strlen(r->source);
    va_list list;
    va_start(list, format);
    vsnprintf(r->source + length, sizeof r->source - length, format, list);
    va_end(list);
}

/* Which of the sets is the nearest to a number of threads. */
static int nearest(const rates_measured *m, int threads) {
    int best = 0;
    for (int i = 1; i < m->count; i++)
        if (abs(m->threads[i] - threads) < abs(m->threads[best] - threads)) best = i;
    return best;
}

static device_rates rates_of(const contents *c, int threads) {
    device_rates r = device_rates_default(threads);
    if (c->measured.count) {
        r = interpolate(&c->measured, threads);
        bool brief = c->measured.brief[nearest(&c->measured, threads)];
        snprintf(r.source, sizeof r.source, "%smeasurement of this machine", brief ? "short " : "");
    }
    r.scale = c->scale;
    if (c->scale != 1) add_source(&r, ", times %.2f as a run took here", c->scale);
    return r;
}

/* Are rates for so many threads known? More threads than processors are as good as all of them. */
static bool covers(const contents *c, int threads) {
    const rates_measured *m = &c->measured;
    if (c->doubted || !m->count) return false;
    int most = m->threads[m->count - 1], available = threads_available();
    if (threads > most) return most >= available;
    return threads >= m->threads[0];
}

static device_rates known(int threads, bool *covered) {
    char path[RATES_PATH_BYTES];
    contents c;
    bool there = false;
    *covered = false;
    if (rates_path(path) != STATUS_OK) return device_rates_default(threads);
    if (read_file(path, &c, &there) == STATUS_OK) {
        *covered = covers(&c, threads);
        return rates_of(&c, threads);
    }
    device_rates r = device_rates_default(threads);
    if (there) add_source(&r, " (measured ones are passed over: %.160s)", status_message());
    return r;
}

/* ---- measuring what is not known ---- */

static const double BRIEF_SECONDS = 0.4; /* with all around it less than half a second */

/* Do these say the same within a quarter, in what decides most? */
static bool agree(const device_rates *a, const device_rates *b) {
    const double pairs[][2] = { { a->flops[WORK_PRODUCTS], b->flops[WORK_PRODUCTS] },
                                { a->flops[WORK_ARITHMETIC], b->flops[WORK_ARITHMETIC] },
                                { a->flops[WORK_FUNCTIONS], b->flops[WORK_FUNCTIONS] },
                                { a->flops[WORK_ATTENTION], b->flops[WORK_ATTENTION] },
                                { a->cached, b->cached } };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (pairs[i][0] > QUARTER_MORE * pairs[i][1] || pairs[i][1] > QUARTER_MORE * pairs[i][0])
            return false;
    return true;
}

/* Takes the place of the set for so many threads, or of the nearest where there is no room. What was measured
 * at length stays where this confirms it, and so does what is known of a disk. */
static void put_set(rates_measured *m, int threads, const device_rates *r) {
    int i = m->count ? nearest(m, threads) : 0;
    bool same = m->count && m->threads[i] == threads;
    if (same && !m->brief[i] && agree(&m->rates[i], r)) return;
    device_rates new = *r;
    if (m->count) new.file_read = m->rates[i].file_read, new.file_written = m->rates[i].file_written;
    if (!same && m->count < RATES_MOST) {
        for (i = m->count++; i > 0 && m->threads[i - 1] > threads; i--) {
            m->threads[i] = m->threads[i - 1], m->brief[i] = m->brief[i - 1];
            m->rates[i] = m->rates[i - 1];
        }
    }
    m->threads[i] = threads, m->brief[i] = true, m->rates[i] = new;
}

/* Sets that a doubt is about go, but for careful ones, which the new one may confirm. */
static void begin_anew(contents *c) {
    rates_measured kept = { 0 };
    for (int i = 0; c->doubted && i < c->measured.count; i++) {
        if (c->measured.brief[i]) continue;
        kept.threads[kept.count] = c->measured.threads[i];
        kept.rates[kept.count++] = c->measured.rates[i];
    }
    if (c->doubted) *c = (contents){ .measured = kept, .scale = 1 };
}

/* Measures and, unless other work disturbed it, keeps. */
static device_rates measure_now(int threads, bool keep, const char *why_not) {
    char path[RATES_PATH_BYTES];
    measure_result told;
    device_rates r;
    contents c;
    bool there;
    if (measure_rates_briefly(threads, BRIEF_SECONDS, &r, &told) != STATUS_OK) {
        r = device_rates_default(threads);
        add_source(&r, " (it could not be measured: %.160s)", status_message());
        return r;
    }
    snprintf(r.source, sizeof r.source, "short measurement of this machine, taken now");
    if (told.samples == 0 || 4 * told.disturbed > told.samples) {
        add_source(&r, " beside other work, and not kept");
        return r;
    }
    status stored = STATUS_INVALID;
    if (keep && rates_path(path) == STATUS_OK) {
        if (read_file(path, &c, &there) != STATUS_OK) c = (contents){ .scale = 1 };
        begin_anew(&c);
        put_set(&c.measured, threads, &r);
        stored = write_file(&c);
        why_not = status_message();
    }
    if (stored != STATUS_OK) add_source(&r, " and not kept: %.120s", why_not);
    return r;
}

static void wait_a_little(void) { nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL); }

/* Can nothing be made beside this path? */
static bool is_closed(const char *path) {
    char folder[RATES_PATH_BYTES];
    snprintf(folder, sizeof folder, "%s", path);
    *strrchr(folder, '/') = 0;
    return access(folder, W_OK) != 0;
}

/* One process at a time writes the file. false: another does, for all of `seconds`. Where there can be no
 * lock there can be no file: `*why_not` says so. */
static bool hold(double seconds, lock *l, const char **why_not) {
    static _Thread_local char sentence[160];
    char path[RATES_PATH_BYTES], lock_path[RATES_PATH_BYTES + 8];
    double end = clock_seconds() + seconds;
    *l = (lock){ .file = -1 };
    *why_not = NULL;
    status placed = place_for_file(path);
    if (placed == STATUS_OK) snprintf(lock_path, sizeof lock_path, "%s.lock", path);
    while (placed == STATUS_OK && lock_open(lock_path, l) != STATUS_OK) {
        if (is_closed(path)) placed = STATUS_INVALID;
        if (clock_seconds() > end) return false;
        wait_a_little();
    }
    if (placed == STATUS_OK) return true;
    snprintf(sentence, sizeof sentence, "%s", status_message());
    *why_not = sentence;
    return true;
}

static device_rates measure_missing(int threads) {
    lock l;
    const char *why_not;
    bool covered;
    bool held = hold(1.25 * BRIEF_SECONDS, &l, &why_not);
    device_rates r = known(threads, &covered); /* by now another process may have measured */
    if (!covered && held) r = measure_now(threads, !why_not, why_not);
    if (!covered && !held) add_source(&r, " (another process is measuring this machine)");
    lock_close(&l);
    return r;
}

device_rates rates_find(rates_choice choice, const device *d, int threads) {
    static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
    static int measured; /* by this process, for so many threads */
    static device_rates here;
    bool covered;
    if (choice == RATES_BUILT_IN || d->apart) {
        device_rates own = d->rates(d, threads);
        if (choice != RATES_BUILT_IN) shapes_join(d, &own);
        return own;
    }
    device_rates r = known(threads, &covered);
    if (covered || choice == RATES_KNOWN) return r;
    pthread_mutex_lock(&one);
    if (measured != threads) here = measure_missing(threads), measured = threads;
    r = here;
    pthread_mutex_unlock(&one);
    return r;
}

device_rates rates_of_rank(rates_choice choice, const device *d, int threads, int64_t ranks) {
    if (ranks < 2 || d->apart) return rates_find(choice, d, threads);
    int64_t all = threads * ranks, most = threads_available();
    device_rates r = rates_find(choice, d, (int)(all < most || most < threads ? all : most)),
                 own = rates_find(choice == RATES_AUTO ? RATES_KNOWN : choice, d, threads);
    double part = 1.0 / (double)ranks;
    for (int k = 0; k < WORK_KINDS; k++) r.flops[k] *= part;
    double *const shared[] = { &r.draws,   &r.moved,       &r.cached,    &r.bandwidth,
                               &r.fetched, &r.cache_bytes, &r.file_read, &r.file_written };
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) *shared[i] *= part;
    r.call_seconds = own.call_seconds;
    return r;
}

/* ---- storing ---- */

status rates_store(const rates_measured *m) { return write_file(&(contents){ .measured = *m, .scale = 1 }); }

static bool is_far(double factor) { return factor > QUARTER_MORE || factor < 1 / QUARTER_MORE; }

static status note(double factor, bool doubted) {
    char path[RATES_PATH_BYTES];
    contents c;
    bool there;
    TRY(rates_path(path));
    if (read_file(path, &c, &there) != STATUS_OK) c = (contents){ .scale = 1 };
    if (doubted)
        c.doubted = true;
    else
        c.scale = factor > c.scale ? c.scale + (factor - c.scale) / 4 : factor;
    return write_file(&c);
}

status rates_learn(const device *d, double took, double predicted, const device_rates *used, bool *doubted) {
    const double patience = 0.1;
    *doubted = false;
    if (d->apart || took <= 0 || predicted <= 0) return STATUS_OK;
    double ratio = took / predicted, factor = used->scale * ratio;
    *doubted = is_far(ratio) || is_far(factor);
    lock l;
    const char *why_not;
    if (!hold(patience, &l, &why_not)) return STATUS_OK; /* what one run tells, the next will tell again */
    status result = why_not ? status_set(STATUS_FAILED, "%s", why_not) : note(factor, *doubted);
    lock_close(&l);
    return result;
}
