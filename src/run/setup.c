#include "run/setup.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "base/threads.h"
#include "base/units.h"
#include "data/documents/files.h"
#include "data/loader.h"
#include "device/device_file.h"
#include "exec/judged.h"
#include "io/expert_files.h"
#include "io/file.h"
#include "io/model_config.h"
#include "io/published.h"
#include "io/quantized_files.h"
#include "io/tokenizer_files.h"
#include "io/trained_context.h"
#include "io/weight_files.h"
#include "passes/storing.h"
#include "run/coupled.h"
#include "run/course.h"
#include "run/heads.h"
#include "run/labelled.h"
#include "run/links.h"
#include "run/loader_plan.h"
#include "run/pictures.h"
#include "run/texts.h"
#include "run/weights.h"
#include "search/advise.h"

setup_options setup_defaults(void) {
    return (setup_options){ .batch = 8,
                            .rank_timeout = 600,
                            .eval_samples = 64,
                            .save_every = 1000,
                            .keep = 2,
                            .seed = 1337,
                            .workers = 1,
                            .rates = RATES_KNOWN,
                            .steps = COURSE_UNSAID,
                            .learning_rate = COURSE_UNSAID,
                            .minimum_rate = 0.1,
                            .dropout = -1,
                            .schedule = SCHEDULE_COSINE,
                            .warmup = COURSE_UNSAID,
                            .optimizer = { .kind = OPTIMIZER_ADAMW,
                                           .beta1 = OPTIMIZER_OWN,
                                           .beta2 = OPTIMIZER_OWN,
                                           .eps = 1e-8,
                                           .weight_decay = 0.1,
                                           .clip = 1.0 } };
}

/* ---- the model ---- */

static bool exists(const char *path) {
    struct stat s;
    return stat(path, &s) == 0;
}

/* Where tokens are added. */
static status check_adding(const setup *s) {
    const setup_options *o = &s->options;
    if (o->eval_only)
        return status_set(STATUS_INVALID,
                          "--add-token is of training, and --eval-only trains nothing: the model knows none "
                          "of such tokens; leave one of the two out");
    if (o->data_kind == DATA_KIND_BYTES)
        return status_set(STATUS_INVALID,
                          "--add-token adds to a tokenizer, and with --data-kind bytes none is used; leave "
                          "one of the two out");
    if (o->out && io_is_same(o->out, o->model))
        return status_set(
            STATUS_INVALID,
            "--add-token: --out %s is the model's own folder, whose tokenizer would change before "
            "its weights; name another one",
            o->out);
    return STATUS_OK;
}

/* Tokens beyond the vocabulary make it larger; where it has room behind the tokenizer's (padding up to a
 * round number) they take of that. */
static status add_tokens(setup *s) {
    const setup_options *o = &s->options;
    if (!o->add_tokens.count) return STATUS_OK;
    TRY(wanted_tokens_find(s->tokenizer, &o->add_tokens, &s->wanted));
    TRY(check_adding(s));
    int64_t was = families_vocabulary(&s->config);
    if (!was)
        return status_set(STATUS_INVALID,
                          "--add-token: %s has no vocabulary to which tokens can be added; leave it out",
                          o->model);
    if (s->wanted.size <= was) return STATUS_OK;
    families_grow_vocabulary(&s->config, s->wanted.size);
    if (s->weights) s->vocabulary_was = was;
    return STATUS_OK;
}

/* What hides tokens of a model that fills gaps is its tokenizer's, unless config.json names another one than
 * is usual. */
static status find_mask(setup *s) {
    int64_t *mask = families_mask(&s->config);
    const setup_options *o = &s->options;
    int64_t id = -1;
    if (!mask || *mask != families_usual_mask(&s->config)) return STATUS_OK;
    if (s->tokenizer && o->language && o->data_kind != DATA_KIND_BYTES)
        TRY(o->language->mask(s->tokenizer, &id));
    if (id >= 0) *mask = id;
    return STATUS_OK;
}

/* T5 learns distances, of which all far ones are alike: it reads texts of any length. */
static void reach(setup *s) {
    t5_config *c = &s->config.t5;
    if (s->config.family == FAMILY_T5 && s->options.context > c->context) c->context = s->options.context;
}

static status open_model(setup *s, const model *custom) {
    const setup_options *o = &s->options;
    if (custom) {
        s->model = *custom, s->custom = true;
        return STATUS_OK;
    }
    if (!o->model)
        return status_set(STATUS_INVALID, "no model named; presets are %s", families_preset_names());
    const char *published = NULL;
    bool named = families_preset(o->model, &s->config);
    /* A folder of that name is meant where there is one: these names stand for sizes only. */
    if (!named && !exists(o->model))
        named = published_find(o->model, &s->config, &published) != PUBLISHED_NONE;
    if (!named) {
        if (!exists(o->model))
            return errno == ENOENT ? published_unknown(o->model)
                                   : status_set(STATUS_INVALID, "cannot open the model %s: %s", o->model,
                                                strerror(errno));
        TRY(model_config_read(o->model, &s->config, NULL));
        s->tokenizer = o->model;
        char path[4096];
        snprintf(path, sizeof path, "%s/model.safetensors", o->model);
        bool whole = exists(path);
        if (snprintf(path, sizeof path, "%s/model.safetensors.index.json", o->model) >= (int)sizeof path)
            return status_set(STATUS_INVALID, "the path '%.60s...' is too long", o->model);
        if (whole || exists(path)) s->weights = o->model;
    }
    TRY(heads_choose(s));
    if (s->config.other_task[0])
        return status_set(STATUS_INVALID,
                          "%s is made for %s, and snug has no such head: it would be trained as a language "
                          "model; take 'architectures' out of its config.json where that is meant",
                          o->model, s->config.other_task);
    TRY(families_images(&s->config) ? pictures_settle(s) : labelled_settle_names(s));
    if (o->dropout >= 0) families_set_dropout(&s->config, o->dropout);
    TRY(find_mask(s));
    TRY(add_tokens(s));
    reach(s);
    TRY(families_check(&s->config));
    families_model(&s->config, published ? published : o->model, &s->model);
    s->model.typed = o->pair_column && s->model.types && s->model.head.kind != HEAD_LANGUAGE;
    if (published && !s->model.untrained)
        s->model.untrained = "this name stands for its sizes only; give a config.json, or a model directory";
    return STATUS_OK;
}

/* ---- the data ---- */

status setup_check_text(const data_source *source, const setup_options *options, const char *directory) {
    if (!text_source_is_text(source) || options->data_kind == DATA_KIND_BYTES) return STATUS_OK;
    return tokenizer_files_refuse(directory, text_source_path(source));
}

/* Of a folder the first file tells. */
static bool holds_records(const char *path) {
    document_files files = { 0 };
    struct stat about;
    if (stat(path, &about) != 0) return false;
    if (!S_ISDIR(about.st_mode))
        return document_format_of(path) != DOCUMENT_TEXT || document_packing_of(path) != DOCUMENT_UNPACKED;
    bool yes = document_files_open(path, DOCUMENT_AUTO, &files) == STATUS_OK && holds_records(files.paths[0]);
    document_files_close(&files);
    return yes;
}

status setup_check_records(const setup *s, const char *path) {
    data_kind kind = s->options.data_kind;
    if (!s->tokenizer || (kind != DATA_KIND_AUTO && kind != DATA_KIND_JSONL)) return STATUS_OK;
    bool yes = kind == DATA_KIND_JSONL ? exists(path) : holds_records(path);
    return yes ? tokenizer_files_refuse(s->tokenizer, path) : STATUS_OK;
}

dtype setup_save_dtype(const setup_options *o) {
    static const dtype types[] = { [SAVE_AS_TRAINED] = DTYPE_NONE,
                                   [SAVE_F32] = DTYPE_F32,
                                   [SAVE_BF16] = DTYPE_BF16,
                                   [SAVE_F16] = DTYPE_F16 };
    return types[o->save_dtype];
}

status setup_copy_tokenizer(const setup *s, const char *directory) {
    TRY(pictures_save(s, directory));
    if (!s->tokenizer) return STATUS_OK;
    return tokenizer_files_copy_changed(s->tokenizer, directory, s->wanted.files, s->wanted.file_count);
}

static bool judges(const setup *s) { return s->model.head.kind != HEAD_LANGUAGE; }

static status open_data(setup *s) {
    const setup_options *o = &s->options;
    if (s->model.sees && !s->custom && !o->source) return pictures_open_data(s);
    if (o->augment != AUGMENT_ON)
        return status_set(STATUS_INVALID, "--augment is of pictures, and %s reads texts; leave it out",
                          s->model.name);
    if (o->image_column)
        return status_set(STATUS_INVALID, "--image-column is of pictures, and %s reads texts; leave it out",
                          s->model.name);
    if (judges(s)) return labelled_open_data(s);
    const char *column = o->text_column ? "text" : o->label_column ? "label" : o->pair_column ? "pair" : NULL;
    if (column)
        return status_set(STATUS_INVALID,
                          "--%s-column is of data for a head that judges texts, and %s continues or fills "
                          "them; say --head, or leave it out",
                          column, s->model.name);
    if (o->source) s->train = *o->source, s->train.close = NULL; /* closing is up to who made them */
    if (o->eval_source) s->validation = *o->eval_source, s->validation.close = NULL;
    return texts_open(s);
}

/* ---- the request ---- */

static status check_sizes(const setup *s) {
    const setup_options *o = &s->options;
    if (!s->custom && !s->model.context && o->context)
        return status_set(STATUS_INVALID,
                          "--context %lld: %s sees images, which have no length; leave it out",
                          (long long)o->context, s->model.name);
    if (s->model.context && o->context > s->model.context)
        return status_set(STATUS_INVALID,
                          "--context %lld is longer than the %lld positions that %s has learned",
                          (long long)o->context, (long long)s->model.context, s->model.name);
    if (o->micro_batch > o->batch)
        return status_set(STATUS_INVALID, "--micro-batch %lld is larger than --batch %lld",
                          (long long)o->micro_batch, (long long)o->batch);
    if (o->accumulate > o->batch)
        return status_set(STATUS_INVALID,
                          "--accumulate %lld: a batch of %lld cannot be cut into so many micro-batches",
                          (long long)o->accumulate, (long long)o->batch);
    if (o->accumulate && o->micro_batch && (o->batch + o->micro_batch - 1) / o->micro_batch != o->accumulate)
        return status_set(STATUS_INVALID,
                          "--micro-batch %lld and --accumulate %lld do not make a batch of %lld",
                          (long long)o->micro_batch, (long long)o->accumulate, (long long)o->batch);
    return STATUS_OK;
}

/* Samples that a micro-batch is asked to have; 0: nobody asks. */
static int64_t micro_batch_of(const setup_options *o) {
    if (o->eval_only || o->micro_batch || !o->accumulate) return o->eval_only ? 0 : o->micro_batch;
    return (o->batch + o->accumulate - 1) / o->accumulate;
}

/* A unit is whole, and so are the micro-batches in it. */
static status check_unit(const setup_options *o) {
    int64_t micro = micro_batch_of(o);
    if (!o->unit) return STATUS_OK;
    if (!o->eval_only && (o->unit > o->batch || o->batch % o->unit))
        return status_set(STATUS_INVALID, "--unit %lld: a batch of %lld is no whole number of such units",
                          (long long)o->unit, (long long)o->batch);
    if (micro && (micro > o->unit || o->unit % micro))
        return status_set(STATUS_INVALID,
                          "micro-batches of %lld do not divide a unit of %lld samples; a unit is computed in "
                          "one or more of them",
                          (long long)micro, (long long)o->unit);
    if (o->eval_batch && o->unit % o->eval_batch)
        return status_set(STATUS_INVALID,
                          "--eval-batch %lld does not divide a unit of %lld samples, whose losses are added "
                          "together",
                          (long long)o->eval_batch, (long long)o->unit);
    return STATUS_OK;
}

/* Without units one sum goes on from rank to rank: each adds its part of the batch, in one micro-batch or in
 * several. */
static status check_chain(const setup *s) {
    const setup_options *o = &s->options;
    long long ranks = s->comm.world, batch = o->batch, micro = micro_batch_of(o);
    if (batch % ranks)
        return status_set(STATUS_INVALID,
                          "a batch of %lld can't be divided among %lld ranks; choose another --batch", batch,
                          ranks);
    if (!micro || batch / ranks % micro == 0) return STATUS_OK;
    return status_set(STATUS_INVALID,
                      "micro-batches of %lld do not divide the %lld samples that each of %lld ranks has of a "
                      "batch",
                      micro, batch / ranks, ranks);
}

/* Sums keep their order where what a rank adds to them at once is whole tiles of rows. */
static status check_tiles(const setup *s) {
    const compose_run *r = &s->request.run;
    long long micro = micro_batch_of(&s->options),
              rows = (micro ? micro : compose_unit(r)) * compose_least_rows(r);
    if (!compose_chained(r) || rows % THREADS_ROW_TILE == 0) return STATUS_OK;
    return status_set(
        STATUS_INVALID,
        "without --unit each of %lld ranks would have %lld rows of the batch%s; only with a multiple "
        "of %d are sums those of one process; say --unit N, or choose another --%s",
        (long long)r->ranks, rows, micro ? " at once" : "", THREADS_ROW_TILE,
        micro ? "micro-batch" : "batch");
}

/* Units go round: each rank has as many. */
static status check_ranks(const setup *s) {
    const setup_options *o = &s->options;
    long long ranks = s->comm.world, batch = o->batch;
    if (ranks < 2) return STATUS_OK;
    if (!o->unit && o->eval_only)
        return status_set(STATUS_INVALID,
                          "%lld ranks need --unit N, samples whose losses are added together: ranks validate "
                          "such units in turn",
                          ranks);
    if (o->eval_only) return STATUS_OK;
    if (!o->unit) return check_chain(s);
    if (o->batch / o->unit % ranks)
        return status_set(STATUS_INVALID,
                          "a batch of %lld has %lld unit%s of %lld samples, which %lld ranks can't divide "
                          "among themselves",
                          batch, (long long)(o->batch / o->unit), o->batch == o->unit ? "" : "s",
                          (long long)o->unit, ranks);
    return STATUS_OK;
}

static status read_pins(setup *s) {
    for (int i = 0; pass_table[i]; i++) {
        const char *said = s->options.passes[i];
        if (!said || strcmp(said, "auto") == 0) continue;
        if (strcmp(said, "off") == 0) {
            s->request.pins[i].kind = SEARCH_OFF;
            continue;
        }
        TRY(pass_table[i]->parse(said, &s->request.pins[i].setting));
        bool off = strcmp(s->request.pins[i].setting.text, "off") == 0;
        s->request.pins[i].kind = off ? SEARCH_OFF : SEARCH_PINNED;
    }
    return STATUS_OK;
}

/* What techniques need that is not snug's (pass.open). */
static status open_needed(const setup *s, const device *on) {
    const search_request *q = &s->request;
    for (int i = 0; pass_table[i]; i++) {
        if (!pass_table[i]->open || !q->run.training || q->pins[i].kind == SEARCH_OFF) continue;
        bool wanted = q->pins[i].kind == SEARCH_PINNED || q->lossy[i].named;
        if (wanted)
            TRY(pass_table[i]->open(on));
        else if (q->lossy[i].given)
            STATUS_IGNORED(pass_table[i]->open(on)); /* `all` is what there is */
    }
    return STATUS_OK;
}

/* Is a technique pinned that begins training at weights which are stored so? */
static bool is_begun_at(const setup *s, const char *stores, const pass_setting *stored) {
    for (int i = 0; pass_table[i]; i++)
        if (s->request.pins[i].kind == SEARCH_PINNED &&
            pass_begins_at(pass_table[i], &s->request.pins[i].setting, stores, stored->text))
            return true;
    return false;
}

/* Weights that are for reading alone, unless something that goes on from them is pinned. */
static status refuse_training(const setup *s, const char *stores, const pass_setting *stored) {
    char ways[160] = "", option[PASS_OPTION_BYTES];
    for (int i = 0; pass_table[i]; i++) {
        const pass *p = pass_table[i];
        pass_setting other;
        const char *goes_on = p->storing ? p->storing->goes_on : NULL;
        if (!goes_on || p->parse(goes_on, &other) != STATUS_OK) continue;
        if (!pass_begins_at(p, &other, stores, stored->text)) continue;
        size_t used = strlen(ways);
        snprintf(ways + used, sizeof ways - used, "%s --%s %s", used ? " or" : ", or go on with",
                 pass_option(p, option), goes_on);
    }
    return status_set(
        STATUS_INVALID,
        "the weights in %s are stored as %s, for generating and --eval-only; train the model that "
        "they were made from%s",
        s->weights, stored->text, ways);
}

status setup_check_begun(const setup *s) {
    const pass *p = NULL;
    pass_setting stored;
    if (s->custom || !s->weights) return STATUS_OK;
    TRY(quantized_files_read(s->weights, &p, &stored));
    if (!p || is_begun_at(s, pass_stores_as(p, &stored), &stored)) return STATUS_OK;
    return refuse_training(s, pass_stores_as(p, &stored), &stored);
}

/* The technique that is pinned and trains an adapter; NULL: none. */
static const pass *adapting(const setup *s) {
    for (int i = 0; pass_table[i]; i++)
        if (pass_table[i]->adapting && s->request.pins[i].kind == SEARCH_PINNED) return pass_table[i];
    return NULL;
}

/* An adapter is worth nothing without the weights that it stands beside; one may be planned all the same. It
 * is small, and stays as it was trained. The embedding stays as it is beside it: a new token's row would
 * never be trained, and its files have no place for one. */
static status check_adapting(const setup *s) {
    char option[PASS_OPTION_BYTES];
    const pass *p = adapting(s);
    if (!p) return STATUS_OK;
    pass_option(p, option);
    if (s->options.save_dtype)
        return status_set(STATUS_INVALID,
                          "--save-dtype is of whole models, and --%s trains an adapter; leave it out",
                          option);
    if (s->wanted.changes || s->vocabulary_was)
        return status_set(STATUS_INVALID,
                          "--add-token with --%s: an adapter leaves the embedding as it is, so new tokens "
                          "would mean nothing; train the model as a whole, or leave one of the two out",
                          option);
    if (!s->options.out || s->custom || s->weights) return STATUS_OK;
    return status_set(STATUS_INVALID,
                      "--%s trains beside weights that stay as they are, and %s brings none; name a model "
                      "directory with weights instead",
                      option, s->model.name);
}

/* Weights that only one technique reads decide for it. */
static status pin_stored(setup *s) {
    const pass *p = NULL;
    pass_setting stored;
    char option[PASS_OPTION_BYTES];
    if (s->weights) TRY(quantized_files_read(s->weights, &p, &stored));
    if (p && !s->options.eval_only && is_begun_at(s, pass_stores_as(p, &stored), &stored)) return STATUS_OK;
    for (int i = 0; p && pass_table[i]; i++) {
        if (pass_table[i] != p) continue;
        bool other = s->request.pins[i].kind == SEARCH_OFF ||
                     (s->request.pins[i].kind == SEARCH_PINNED &&
                      strcmp(s->request.pins[i].setting.text, stored.text) != 0);
        if (other)
            return status_set(STATUS_INVALID,
                              "the weights in %s are stored as %s, so --%s can't be another; leave it out",
                              s->weights, stored.text, pass_option(p, option));
        if (s->options.resume) return STATUS_OK; /* a checkpoint knows what goes on from them */
        if (!s->options.eval_only) return refuse_training(s, pass_stores_as(p, &stored), &stored);
        s->request.pins[i].kind = SEARCH_PINNED;
        s->request.pins[i].setting = stored;
    }
    return STATUS_OK;
}

/* Weights are evaluated as they were trained, where their folder says how, and trained on samples as the data
 * have them. */
static status context_of(setup *s, int64_t *context) {
    const setup_options *o = &s->options;
    int64_t all = s->model.context ? s->model.context : 1, trained = 0, of_data = 0;
    bool has_data = (o->data || (o->eval_only && o->eval_data)) && !o->source && s->model.vocabulary;
    if (o->eval_only && !o->context && s->weights) TRY(trained_context(s->weights, &trained));
    if (!o->context && s->weights && !trained && has_data) TRY(texts_context(s, all, &of_data));
    *context = o->context ? o->context : trained && trained < all ? trained : of_data ? of_data : all;
    if (!o->context && of_data && *context < all)
        s->context_reason = "as the longest document of the data wants it; --context says another";
    return STATUS_OK;
}

status setup_device(const setup_options *o, const device **on) {
    *on = o->on;
    return o->on ? STATUS_OK : device_find(o->device ? o->device : "auto", on);
}

/* Ranks that take of this host's memory at the same time. */
static uint64_t ranks_here(const setup_options *o) {
    int64_t ranks = o->of_host ? o->of_host : o->ranks;
    return ranks > 1 ? (uint64_t)ranks : 1;
}

/* A plan counts what the process holds of a device apart, which is not free any more. */
static status find_budget(const setup_options *o, uint64_t *bytes, uint64_t *margin) {
    const device *on;
    *bytes = o->memory ? o->memory : UINT64_MAX, *margin = 0;
    if (!o->memory_auto) return STATUS_OK;
    TRY(setup_device(o, &on));
    uint64_t available = on->available(on), least_margin = (on->gpu && on->gpu->shows ? 512u : 128u) << 20;
    if (on->apart) {
        device_parts own = on->beside(on);
        available += device_parts_sum(&own);
    }
    if (!on->apart) available /= ranks_here(o); /* each has a GPU of its own */
    *margin = available / 16;
    if (*margin < least_margin) *margin = least_margin < available ? least_margin : 0;
    *bytes = available - *margin;
    return STATUS_OK;
}

status setup_budget(const setup_options *o, uint64_t *bytes) {
    uint64_t margin;
    return find_budget(o, bytes, &margin);
}

/* What is away waits in a file, or in the host's memory where the device has its own: "host" is that alone.
 */
static const char *folder_of(const setup_options *o, const device *on) {
    return o->folder && on->apart && strcmp(o->folder, "host") == 0 ? NULL : o->folder;
}

static status check_away(const setup_options *o, const device *on) {
    const char *folder = folder_of(o, on);
    if (o->away_limit && !o->folder && !on->apart)
        return status_set(STATUS_INVALID,
                          "--offload-limit is of what is in --offload-to; name that folder too");
    return folder ? device_file_check(folder, 0) : STATUS_OK; /* how much room it needs the plan says */
}

/* For a device that is elsewhere nobody knows what there is. */
uint64_t setup_away_limit(const setup_options *o, const device *on) {
    if (o->away_limit || !on->apart || !on->begin || !folder_of(o, on)) return o->away_limit;
    uint64_t taken = device_resident(), left = device_available() / ranks_here(o);
    return taken + left - left / 16;
}

/* All ranks are on one host where nobody said otherwise. */
static int64_t of_host(const setup *s) { return s->options.of_host ? s->options.of_host : s->comm.world; }

static device_rates rates_here(const setup *s, const device *on, int threads) {
    const setup_options *o = &s->options;
    device_rates r = rates_of_rank(o->rates, on, threads, o->sharing ? o->sharing : of_host(s));
    links_join(&r, o->rates == RATES_BUILT_IN, s->comm.world, of_host(s), threads);
    if (o->links) links_say(&r, o->links, on->apart);
    return r;
}

/* Ranks of a host divide its processors. */
static int threads_of(const setup *s) {
    int64_t all = threads_available(), own = all / of_host(s);
    return s->options.threads ? (int)s->options.threads : own > 1 ? (int)own : 1;
}

/* What a search holds grows with its threads, so a plan for ranks that nobody started is looked for with
 * those that one of them would have. Of a machine that is elsewhere nobody knows that: all of this one look.
 */
static int threads_searching(const setup *s, const device *on, int threads) {
    bool elsewhere = on->apart && !on->begin, imagined = s->options.ranks > comm_world().world;
    return imagined && elsewhere && !s->options.threads ? threads_available() : threads;
}

/* GPUs are reached by NCCL, which takes of both memories. */
static status reserve_transport(const setup *s, const device *on) {
    uint64_t said = s->options.transport_memory;
    if (said && (!on->apart || s->comm.world < 2))
        return status_set(STATUS_INVALID,
                          "--transport-memory is of several processes on GPUs, and this is %s; leave it out",
                          on->apart ? "one" : "on a CPU");
    if (!on->apart) return STATUS_OK;
    comm_reserved nccl = comm_reserve_apart(s->comm.world);
    device_runtime_ranks(comm_reserve(s->comm.world) + nccl.host, said ? said : nccl.device);
    return STATUS_OK;
}

static status make_request(setup *s) {
    const setup_options *o = &s->options;
    TRY(check_sizes(s));
    TRY(check_unit(o));
    TRY(check_ranks(s));
    int threads = threads_of(s);
    compose_run *r = &s->request.run;
    int64_t context;
    const device *on;
    TRY(setup_device(o, &on));
    threads_set(threads_searching(s, on, threads));
    TRY(reserve_transport(s, on));
    TRY(check_away(o, on));
    TRY(context_of(s, &context));
    *r = (compose_run){ .model = &s->model,
                        .batch = o->batch,
                        .unit = o->unit,
                        .ranks = s->comm.world,
                        .of_host = comm_world().world > 1 ? o->of_each_host : o->of_host,
                        .eval_batch = o->eval_batch,
                        .training = !o->eval_only,
                        .context = context,
                        .optimizer = o->optimizer,
                        .folder = folder_of(o, on),
                        .away_limit = setup_away_limit(o, on),
                        .lower = { .device = on, .threads = threads, .rates = rates_here(s, on, threads) } };
    threads_set(threads_searching(s, on, threads)); /* measuring rates may have changed it */
    TRY(check_tiles(s));
    s->request.micro_batch = micro_batch_of(o);
    s->request.allowed = o->exact ? PASS_EXACT : PASS_REASSOCIATING;
    if (o->exact && o->allow)
        return status_set(STATUS_INVALID,
                          "--exact allows nothing that changes numerics, and --allow %s does; leave one of "
                          "the two out",
                          o->allow);
    if (o->allow) TRY(advise_allow(&s->request, o->allow));
    TRY(read_pins(s));
    TRY(open_needed(s, on));
    TRY(check_adapting(s));
    return pin_stored(s);
}

/* Without steps there is no batch: at most as many samples at once as there would be in one. */
static status settle_evaluation(const setup *s, compose_run *r) {
    const setup_options *o = &s->options;
    if (!r->eval_samples && judges(s))
        return status_set(STATUS_INVALID,
                          "%s has fewer than ten records, of which every tenth validates; name it as "
                          "--eval-data to validate with all of them",
                          o->data);
    if (!r->eval_samples)
        return status_set(STATUS_INVALID,
                          "%s%s has no whole sample of %lld tokens to evaluate on; take a longer text, or a "
                          "smaller --context",
                          o->eval_data ? "" : "the last tenth of ",
                          o->eval_data                ? o->eval_data
                          : o->data && !o->part_count ? o->data
                                                      : "the data",
                          (long long)r->context);
    if (r->unit) r->batch = r->unit;
    if (r->batch > r->eval_samples) r->batch = r->eval_samples;
    return STATUS_OK;
}

/* What a run remembers of its steps outside of the pool: their losses, and beside those their times with the
 * sorting of them, or at the end the text of the report. */
static uint64_t kept_bytes(const setup_options *o) {
    enum { NUMBER_TEXT = 32, EVALUATION_TEXT = 64 };
    uint64_t steps = o->eval_only ? 0 : (uint64_t)o->steps,
             evaluations = o->eval_every ? steps / (uint64_t)o->eval_every + 1 : 1;
    return steps * (sizeof(double) + NUMBER_TEXT) + evaluations * (2 * sizeof(double) + EVALUATION_TEXT);
}

/* What is held is known before it is taken: a budget that has no room for it is refused here. */
static status check_held(const setup *s, uint64_t listed) {
    enum { USUAL = 1 << 20 }; /* of less the search speaks, and says what would help */
    const compose_run *r = &s->request.run;
    device_runtime own = device_runtime_reserve(r->lower.threads);
    uint64_t needed = own.code + own.threads + own.tables + listed;
    char have[UNITS_TEXT_BYTES], want[UNITS_TEXT_BYTES];
    if (compose_apart(r) || listed < USUAL || needed <= s->budget) return STATUS_OK;
    return status_set(
        STATUS_NO_FIT,
        "reading the model and its data does not fit %s: lists of what is in their files, and the "
        "program itself, take %s (%llu bytes)",
        units_bytes_text(s->budget, have), units_bytes_text(needed, want), (unsigned long long)needed);
}

static status finish_request(setup *s) {
    const setup_options *o = &s->options;
    compose_run *r = &s->request.run;
    uint64_t listed = 0;
    if (s->weights && !s->custom) TRY(weight_files_held(s->weights, &listed));
    if (!s->custom) listed += (uint64_t)families_expert_tensors(&s->config) * EXPERT_FILES_BYTES;
    int64_t held = (int64_t)s->validation.samples;
    r->eval_samples = held < o->eval_samples ? held : o->eval_samples;
    if (!o->data && !s->train.samples && !s->validation.samples)
        r->eval_samples = o->eval_samples; /* a plan without data: as if there were */
    listed += s->train.held_bytes + s->validation.held_bytes + s->names.held_bytes + s->wanted.bytes;
    r->kept_bytes = kept_bytes(o) + listed;
    if (s->model.head.kind == HEAD_CLASSES)
        r->kept_bytes += judged_bytes(s->model.head.outputs, r->eval_samples) +
                         judged_share_bytes(s->model.head.outputs, s->comm.world);
    TRY(find_budget(o, &s->budget, &s->margin));
    TRY(check_held(s, listed));
    if (o->eval_only) TRY(settle_evaluation(s, r));
    uint64_t of_host = compose_apart(r) ? r->away_limit : s->budget; /* where the search is made */
    r->memory = of_host < UINT64_MAX ? of_host : 0;
    return loader_plan_buffers(s, r);
}

status setup_open(const setup_options *options, const model *custom, setup *s) {
    *s = (setup){ .options = *options, .comm = comm_world() };
    if (options->ranks > s->comm.world) s->comm.world = (int)options->ranks;
    device_runtime_ranks(comm_reserve(s->comm.world), 0);
    s->options.optimizer = optimizer_settle(options->optimizer);
    status result = STATUS_OK;
    TRY_OR(failed, open_model(s, custom));
    TRY_OR(failed, make_request(s));
    TRY_OR(failed, coupled_check(s));
    TRY_OR(failed, open_data(s));
    TRY_OR(failed, texts_settle(s));
    TRY_OR(failed, course_settle(s));
    TRY_OR(failed, finish_request(s));
    return STATUS_OK;
failed:
    setup_close(s);
    return result;
}

void setup_close(setup *s) {
    texts_close(s);
    labelled_close_data(s);
    pictures_close_data(s);
    wanted_tokens_close(&s->wanted);
}
