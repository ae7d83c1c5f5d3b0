#include "run/links.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "io/file.h"
#include "io/json.h"
#include "run/rates.h"

/* Counted up when what is measured changes so much that figures of before are wrong. */
enum { LINKS_VERSION = 1, KEY_BYTES = 256 };

/* Neither the build nor how much of the processor may be used matters. */
static const char *key_of_machine(char key[KEY_BYTES]) {
    char processor[DEVICE_NAME_BYTES];
    snprintf(key, KEY_BYTES, "%s; links %d", device_processor(processor), LINKS_VERSION);
    return key;
}

static status path_of(char path[RATES_PATH_BYTES]) {
    char key[KEY_BYTES];
    return rates_file("links", key_of_machine(key), path);
}

/* ---- as JSON ---- */

static const char *const names[LINK_COUNT] = {
    [LINK_WITHIN] = "within_a_host", [LINK_BETWEEN] = "between_hosts"
};

static void write_link(json_writer *w, const char *name, const link_rates *x) {
    if (x->rate <= 0) {
        json_put_null(w, name);
        return;
    }
    json_begin_object(w, name);
    json_put_number(w, "seconds", x->seconds);
    json_put_number(w, "rate", x->rate);
    json_put_number(w, "busy", x->busy);
    json_put_number(w, "busy_seconds", x->busy_seconds);
    json_end_object(w);
}

static status read_link(json_value v, link_rates *x) {
    TRY(json_get_number(v, "seconds", 0, 1e6, &x->seconds));
    TRY(json_get_number(v, "rate", 1, 1e18, &x->rate));
    TRY(json_get_number(v, "busy", 0, 1e6, &x->busy));
    return json_get_number(v, "busy_seconds", 0, 1, &x->busy_seconds);
}

static status read_links(json_value root, links *l) {
    char key[KEY_BYTES];
    const char *machine;
    TRY(json_get_string(root, "machine", &machine));
    if (strcmp(machine, key_of_machine(key)) != 0) return json_wrong(root, "is of another machine");
    for (int i = 0; i < LINK_COUNT; i++) {
        json_value x;
        if (json_find(root, names[i], &x)) TRY(read_link(x, &l->of[i]));
    }
    return STATUS_OK;
}

/* Links that nobody has measured have rate 0. STATUS_INVALID: there is a file, and it can't be used. */
static status read_file(links *l) {
    char path[RATES_PATH_BYTES];
    json_document d;
    *l = (links){ 0 };
    if (path_of(path) != STATUS_OK || access(path, F_OK) != 0) return STATUS_OK;
    TRY(json_open(path, &d));
    status result = read_links(d.root, l);
    json_close(&d);
    if (result != STATUS_OK) *l = (links){ 0 };
    return result;
}

void links_known(links *l, char *why) {
    links found;
    if (why) *why = 0;
    if (read_file(&found) != STATUS_OK && why) snprintf(why, DEVICE_SOURCE_BYTES, "%s", status_message());
    for (int i = 0; i < LINK_COUNT; i++)
        if (found.of[i].rate > 0) l->of[i] = found.of[i];
}

status links_store(const links *measured) {
    char path[RATES_PATH_BYTES], key[KEY_BYTES];
    text t = { 0 };
    json_writer w = { .out = &t, .lines = true };
    links all;
    TRY(path_of(path));
    TRY(rates_make_folder(path));
    if (read_file(&all) != STATUS_OK) all = (links){ 0 };
    json_begin_object(&w, NULL);
    json_put_string(&w, "machine", key_of_machine(key));
    json_put_integer(&w, "ranks", measured->ranks);
    json_put_integer(&w, "of_host", measured->of_host);
    for (int i = 0; i < LINK_COUNT; i++)
        write_link(&w, names[i], measured->of[i].rate > 0 ? &measured->of[i] : &all.of[i]);
    json_end_object(&w);
    status result =
        t.failed ? status_set(STATUS_FAILED, "no memory for links") : io_write_file(path, t.data, t.length);
    text_close(&t);
    return result;
}

/* A device apart says nothing of links: its ranks reach each other as the host's memory is reached, each by
 * a way of its own, and other hosts as processors do. */
static void fill_unknown(device_rates *r, int64_t of_host) {
    links usual = device_rates_default(1).links;
    if (r->links.of[LINK_WITHIN].rate <= 0)
        r->links.of[LINK_WITHIN] = (link_rates){ .seconds = 20e-6, .rate = r->copied * (double)of_host };
    if (r->links.of[LINK_BETWEEN].rate <= 0)
        r->links.of[LINK_BETWEEN] = (link_rates){ .seconds = 100e-6, .rate = usual.of[LINK_BETWEEN].rate };
}

void links_join(device_rates *r, bool built_in, int64_t ranks, int64_t of_host, int threads) {
    bool apart = r->links.of[LINK_WITHIN].rate <= 0;
    if (apart) fill_unknown(r, of_host);
    if (!built_in && !apart && ranks > 1) links_known(&r->links, NULL);
    r->links.ranks = ranks, r->links.of_host = of_host;
    for (int i = 0; i < LINK_COUNT; i++)
        r->links.of[i].busy /= threads, r->links.of[i].busy_seconds /= threads;
}

/* Are any two of these ranks on such a link, and is it more than the memory of their host? */
static bool is_used(const links *l, int link, bool apart) {
    return link == LINK_WITHIN ? apart && l->of_host > 1 : l->ranks > l->of_host;
}

/* A device has a way of its own to the others of its node. True: anything was said. */
static bool take(links *l, int link, const link_rates *said) {
    double sharing = link == LINK_WITHIN ? (double)l->of_host : 1;
    if (said->rate > 0) l->of[link].rate = said->rate * sharing;
    if (said->seconds > 0) l->of[link].seconds = said->seconds;
    return said->rate > 0 || said->seconds > 0;
}

void links_say(device_rates *r, const links_said *said, bool apart) {
    size_t length = strlen(r->source);
    bool any = false;
    for (int i = 0; i < LINK_COUNT; i++)
        if (is_used(&r->links, i, apart)) any |= take(&r->links, i, &said->of[i]);
    if (any) snprintf(r->source + length, sizeof r->source - length, "; links of %.60s", said->name);
}
