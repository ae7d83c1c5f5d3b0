/* snug serve: the plan first, then answers until it is asked to stop. */
#include <stdio.h>
#include <string.h>

#include "base/threads.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/language.h"
#include "cli/signals.h"
#include "language/chat.h"
#include "ops/cache_write/cache_write.h"
#include "run/unconfirmed.h"
#include "server/serve.h"

static volatile sig_atomic_t stops; /* how often it was asked to */

static void asked_to_stop(int signal) {
    (void)signal;
    stops = stops + 1;
}

/* ---- what people read ---- */

static void add_line(output *out, const char *what, uint64_t bytes, const char *remark) {
    char size[UNITS_TEXT_BYTES];
    output_add(out, "  %-16s %12s   %s\n", what, units_bytes_text(bytes, size), remark);
}

static void print_plan(output *out, const serve_plan *p) {
    char remark[128], size[UNITS_TEXT_BYTES], said[UNCONFIRMED_BYTES];
    const plan *all = p->plan;
    const engine_sizes *s = p->sizes;
    const serve_held *h = p->held;
    uint64_t served = h->queue + h->pages + h->connections + h->reading + h->tokenizer + h->templates +
                      h->answers + h->formats;
    output_add(out, "Planned: %s (%llu bytes)\n", units_bytes_text(all->peak_bytes, size),
               (unsigned long long)all->peak_bytes);
    add_line(out, "weights", all->by_category[CATEGORY_WEIGHTS], "");
    snprintf(remark, sizeof remark, "%lld blocks of %d positions; %lld texts of %lld at once",
             (long long)s->blocks, CACHE_BLOCK, (long long)serve_plan_texts(s), (long long)s->text_length);
    add_line(out, "cache", all->by_category[CATEGORY_CACHE], remark);
    snprintf(remark, sizeof remark, "steps of up to %lld rows", (long long)s->rows);
    if (s->source_length)
        snprintf(remark, sizeof remark, "steps of up to %lld rows, and of %lld of prompts",
                 (long long)s->rows, (long long)s->source_length);
    uint64_t rest = all->peak_bytes - all->by_category[CATEGORY_WEIGHTS] - all->by_category[CATEGORY_CACHE] -
                    all->by_category[CATEGORY_RUNTIME];
    add_line(out, "a step", rest, remark);
    int host = plan_host_pool(all); /* it holds what is not the engine's */
    if (host != POOL_MEMORY) {
        add_line(out, "runtime", all->by_category[CATEGORY_RUNTIME], "code, tables");
        output_add(out, "In the host's memory: %s (%llu bytes)\n",
                   units_bytes_text(plan_taken(all, host), size), (unsigned long long)plan_taken(all, host));
        add_line(out, "copies", plan_allocated(all, host), "between it and the device");
    }
    snprintf(remark, sizeof remark, "%lld that are written or wait: prompts, answers on their way",
             (long long)(s->texts + p->options->queue));
    add_line(out, "requests", h->queue, remark);
    snprintf(remark, sizeof remark, "%lld at once, and pages that their bodies share",
             (long long)p->options->connections);
    add_line(out, "connections", h->connections + h->pages, remark);
    add_line(out, "text", h->reading + h->tokenizer + h->templates + h->answers + h->formats,
             "tokenizer, templates, schemas, reading and writing");
    add_line(out, "runtime", all->pools[host].runtime_bytes - served, "code, threads, tables");
    if (*unconfirmed_text(unconfirmed_of(all), all->device->capability, said)) output_add(out, "%s\n", said);
    output_flush(out);
}

typedef struct {
    cli_streams *streams;
    const char *host, *name;
    bool json;
} listener;

static void heard(void *context, int64_t port) {
    listener *l = context;
    output *out = &l->streams->people;
    if (strncmp(l->host, "unix:", 5) == 0)
        output_add(out, "Serving '%s' at the socket %s, path /v1; Ctrl-C ends it\n", l->name, l->host + 5);
    else
        output_add(out, "Serving '%s' at http://%s:%lld/v1; Ctrl-C ends it\n", l->name, l->host,
                   (long long)port);
    output_flush(out);
}

static void was_planned(void *context, const serve_plan *p) {
    listener *l = context;
    text t = { 0 };
    print_plan(&l->streams->people, p);
    if (p->options->solve == SERVE_SOLVE_MEMORY) {
        output_add(&l->streams->people, "--memory %llu is the least for %lld texts of %lld at once\n",
                   (unsigned long long)p->plan->peak_bytes, (long long)p->sizes->texts,
                   (long long)p->sizes->text_length);
        output_flush(&l->streams->people);
    }
    if (!l->json) return;
    serve_plan_json(&t, p);
    output_text(&l->streams->result, &t);
    output_flush(&l->streams->result);
}

static void print_end(output *out, const serve_result *r) {
    char planned_text[UNITS_TEXT_BYTES], measured[UNITS_TEXT_BYTES];
    output_add(out,
               "%llu requests: %llu answered, %llu left by their clients, %llu refused; %lld tokens read, "
               "%lld written; "
               "memory %s, planned %s\n",
               (unsigned long long)r->requests, (unsigned long long)r->answered, (unsigned long long)r->left,
               (unsigned long long)r->refused, (long long)r->prompt_tokens, (long long)r->new_tokens,
               units_bytes_text(r->resident_peak_bytes, measured),
               units_bytes_text(r->planned_bytes, planned_text));
    output_flush(out);
}

/* ---- the command ---- */

/* The last part of the path. */
static const char *served_name(const options *o) {
    const char *path = o->subject, *slash;
    if (o->serve.name) return o->serve.name;
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--;
    for (slash = path + length; slash > path && slash[-1] != '/'; slash--) continue;
    return slash;
}

/* vLLM's word for the budget: a share of all that the device has. */
static status find_budget(const options *o, uint64_t *budget) {
    const device *on;
    TRY(setup_budget(&o->run, budget));
    if (!(o->serve.utilization > 0)) return STATUS_OK;
    if ((o->run.memory && !o->gpu) || o->run.memory_auto)
        return status_set(STATUS_INVALID,
                          "--gpu-memory-utilization and --memory both say the budget; say one of them");
    on = o->run.on;
    if (!on) TRY(device_find(o->run.device ? o->run.device : "auto", &on));
    uint64_t all = on->gpu ? on->gpu->memory : device_memory();
    *budget = (uint64_t)(o->serve.utilization * (double)all);
    return STATUS_OK;
}

/* What --adapter says; `names` has room for the names. DIR alone stands beside all texts. */
typedef struct {
    const char *alone;
    model_folder_adapter each[ADAPTERS_MOST];
    uint32_t count;
    char names[ADAPTERS_MOST][SERVE_ADAPTER_NAME];
} adapter_words;

static status read_adapter(adapter_words *w, const char *said, const char *served) {
    const char *equal = strchr(said, '=');
    char *name = w->names[w->count < ADAPTERS_MOST ? w->count : 0];
    if (!equal && w->alone) return status_set(STATUS_INVALID, "--adapter: two folders are for all requests");
    if (!equal) return w->alone = said, STATUS_OK;
    size_t length = (size_t)(equal - said);
    if (w->count == ADAPTERS_MOST)
        return status_set(STATUS_INVALID, "--adapter: there are more than %d adapters", ADAPTERS_MOST);
    if (!length || length >= SERVE_ADAPTER_NAME || !equal[1])
        return status_set(STATUS_INVALID, "--adapter: '%.60s' is no NAME=DIR, with a name of 1 to %d bytes",
                          said, SERVE_ADAPTER_NAME - 1);
    memcpy(name, said, length);
    name[length] = 0;
    if (strcmp(name, served) == 0)
        return status_set(STATUS_INVALID, "--adapter: '%s' is what the model itself is called", name);
    w->each[w->count++] = (model_folder_adapter){ name, equal + 1 };
    return STATUS_OK;
}

/* What the command line says, of a folder with these words; `b`: what is beside it. */
typedef struct {
    language *words;
    chat *chat;
    const char *name;
    const model_config *config; /* instead of a folder; and how its weights are stored */
    dtype stored;
    uint64_t within;
    serve_result *result;
} served;

/* In the order of their words. */
static dtype cache_of(const serve_words *w) {
    static const dtype caches[] = { DTYPE_NONE, DTYPE_F32, DTYPE_BF16, DTYPE_F16, DTYPE_I8 };
    return caches[w->cache];
}

static enum serve_sharing share_of(const serve_words *w) {
    return w->share == SERVE_BY_KEY   ? SERVE_SHARE_KEY
           : w->share == SERVE_BY_ALL ? SERVE_SHARE_ALL
                                      : SERVE_SHARE_OFF;
}

static status serve(const options *o, cli_streams *streams, const served *b) {
    const serve_words *w = &o->serve;
    listener l = { streams, w->host, b->name, o->json };
    adapter_words adapters = { 0 };
    uint64_t budget;
    TRY(find_budget(o, &budget));
    if (w->eager)
        output_add(&streams->people,
                   "--enforce-eager changes nothing: steps are not captured in graphs here\n");
    for (uint32_t i = 0; i < o->adapters.count; i++)
        TRY(read_adapter(&adapters, o->adapters.items[i], b->name));
    serve_options s = { .directory = b->config ? NULL : o->subject,
                        .config = b->config,
                        .stored = b->stored,
                        .within = b->within,
                        .adapter = adapters.alone,
                        .adapters = adapters.each,
                        .adapter_count = adapters.count,
                        .products = options_products(o),
                        .engine = { .device = o->run.device,
                                    .on = o->run.on,
                                    .threads = (int)o->run.threads,
                                    .memory = budget },
                        .name = b->name,
                        .host = w->host,
                        .port = w->port,
                        .key_file = w->key_file,
                        .text_length = w->text_length,
                        .texts = w->texts,
                        .rows = w->rows,
                        .queue = w->queue,
                        .connections = w->connections,
                        .default_tokens = w->default_tokens,
                        .stall_seconds = w->stall_seconds,
                        .expects = w->admission == SERVE_EXPECTED,
                        .guesses = w->guesses,
                        .share = share_of(w),
                        .drain_seconds = w->drain_seconds,
                        .cache = cache_of(w),
                        .language = b->words,
                        .chat = b->chat,
                        .solve = (serve_solve)w->solve,
                        .no_formats = w->no_formats,
                        .dry_run = w->dry_run,
                        .stop = &stops,
                        .planned = was_planned,
                        .heard = heard,
                        .context = &l };
    signals_call(asked_to_stop, SIGNALS_READS_GO_ON, NULL);
    status result = serve_run(&s, b->result);
    if (result != STATUS_OK || w->dry_run || w->solve) return result;
    print_end(&streams->people, b->result);
    if (o->json) {
        text t = { 0 };
        serve_plan_result_json(&t, b->result);
        output_text(&streams->result, &t);
    }
    return result;
}

static status serve_folder(const options *o, cli_streams *streams, uint64_t within, serve_result *r) {
    language words = { 0 };
    chat *c = NULL;
    bool known = false, templated = false;
    status result = cli_check_directory(o->subject);
    if (result == STATUS_OK) result = chat_open(o->subject, &c, &templated);
    if (result == STATUS_OK && o->run.data_kind != DATA_KIND_BYTES)
        result = cli_language_open(o->subject, &words, &known);
    if (result == STATUS_OK)
        result = serve(o, streams,
                       &(served){ .words = known ? &words : NULL,
                                  .chat = c,
                                  .name = served_name(o),
                                  .within = within,
                                  .result = r });
    cli_language_close(&words);
    chat_close(c);
    return result;
}

status cli_serve(const options *o, cli_streams *streams) {
    options with = *o;
    serve_result r;
    bool alone =
        o->serve.solve && o->gpu; /* the least is asked for, and --gpu says what it is compared with */
    streams->people = output_for_people(stderr);
    if (alone) with.run.memory = 0;
    return serve_folder(&with, streams, alone ? o->run.memory : 0, &r);
}

/* ---- for estimate ---- */

status cli_serve_estimate(const options *o, const model_config *c, const char *name, cli_streams *streams) {
    options with = *o;
    serve_result r = { 0 };
    const estimate_options *x = &o->estimate;
    uint64_t within = o->run.memory && !o->run.memory_auto ? o->run.memory : 0;
    char bytes[UNITS_TEXT_BYTES], most[UNITS_TEXT_BYTES];
    if (x->requests > LANGUAGE_TEXTS)
        return status_set(STATUS_INVALID, "--requests is %lld; snug writes at most %d texts at once",
                          (long long)x->requests, LANGUAGE_TEXTS);
    with.serve = options_serve;
    with.serve.solve = SERVE_SOLVE_MEMORY;
    with.serve.texts = x->requests, with.serve.text_length = o->run.context;
    if (x->batched) with.serve.rows = x->batched;
    with.run.memory = 0, with.run.memory_auto = false;
    if (c)
        TRY(serve(
            &with, streams,
            &(served){ .name = name, .config = c, .stored = DTYPE_BF16, .within = within, .result = &r }));
    else
        TRY(serve_folder(&with, streams, within, &r));
    if (!within || r.planned_bytes <= within) return STATUS_OK;
    return status_set(STATUS_NO_FIT, "serving takes %s, and %s are there",
                      units_bytes_text(r.planned_bytes, bytes), units_bytes_text(within, most));
}
