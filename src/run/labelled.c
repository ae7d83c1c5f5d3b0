#include "run/labelled.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "data/labelled_source.h"
#include "device/device.h"
#include "io/file.h"
#include "io/json_file.h"
#include "io/model_config.h"
#include "io/tokenizer_files.h"
#include "run/run_options.h"

/* ---- memory ---- */

/* What --memory leaves for reading beside the program and what is held already. Of a budget without room for
 * `LEAST` the search speaks, and says what would help. A device apart has a budget of its own. */
static status room(const setup *s, uint64_t *bytes) {
    enum { LEAST = 1 << 20 };
    const setup_options *o = &s->options;
    const device *on;
    uint64_t held = device_runtime_reserve(0).code + s->names.held_bytes + s->wanted.bytes;
    TRY(setup_budget(o, bytes));
    TRY(setup_device(o, &on));
    if (on->apart) *bytes = UINT64_MAX;
    if (*bytes == UINT64_MAX) return STATUS_OK;
    if (s->records) held += labelled_held(s->records);
    *bytes = *bytes > held + LEAST ? *bytes - held : LEAST;
    return STATUS_OK;
}

/* ---- names ---- */

static const char *label_column(const setup_options *o) {
    return o->label_column ? o->label_column : "label";
}
static const char *text_column(const setup_options *o) { return o->text_column ? o->text_column : "text"; }

static status names_of_data(setup *s) {
    const setup_options *o = &s->options;
    model_head *h = &s->config.head;
    const char *path = o->data ? o->data : o->eval_data;
    uint64_t most;
    if (!path && h->outputs) return STATUS_OK; /* a plan without data */
    if (!path)
        return status_set(STATUS_INVALID, "--head classes: there is no data to count them in; say how many, "
                                          "as classes:3");
    TRY(room(s, &most));
    TRY(labelled_names(path, label_column(o), most, &s->names));
    label_names_sort(&s->names);
    if (s->names.count < 2)
        return status_set(STATUS_INVALID, "%s: '%s' says %u label%s; a head of classes wants two or more",
                          path, label_column(o), s->names.count, s->names.count == 1 ? "" : "s");
    if (h->outputs && h->outputs != s->names.count)
        return status_set(STATUS_INVALID, "--head %s: %s has %u labels; say classes:%u, or classes alone",
                          o->head, path, s->names.count, s->names.count);
    h->outputs = s->names.count;
    return STATUS_OK;
}

static status check_alone(const setup_options *o) {
    if (!o->part_count) return STATUS_OK;
    return status_set(STATUS_INVALID,
                      "--data %s and %llu more: records with labels are not mixed; put them into one folder "
                      "and name that",
                      o->data, (unsigned long long)o->part_count - 1);
}

status labelled_settle_names(setup *s) {
    if (s->config.head.kind != HEAD_CLASSES) return STATUS_OK;
    TRY(check_alone(&s->options));
    if (s->new_head || !s->tokenizer)
        TRY(names_of_data(s));
    else
        TRY(model_config_labels(s->tokenizer, &s->config, &s->names));
    if (s->names.count) s->config.label_names = s->names.name;
    return STATUS_OK;
}

/* ---- text to ids ---- */

typedef struct {
    const labelled_language *language; /* NULL: bytes are ids */
    void *words;                       /* the language's */
} reader;

/* The model's tokenizer, or bytes where it has none. */
static status open_reader(setup *s, reader *r, labelled_tokens *t) {
    char path[4096];
    bool bytes =
        !s->tokenizer || s->options.data_kind == DATA_KIND_BYTES || !tokenizer_files_find(s->tokenizer);
    *t = (labelled_tokens){ .padding = (int32_t)families_padding(&s->config) };
    if (bytes) {
        s->tokenizer = NULL; /* what learns bytes is no longer a model of that tokenizer */
        return STATUS_OK;
    }
    int length = snprintf(path, sizeof path, "%s/tokenizer.json", s->tokenizer);
    if (!s->options.language || length >= (int)sizeof path || access(path, F_OK) != 0)
        return tokenizer_files_refuse(s->tokenizer, s->options.data ? s->options.data : s->options.eval_data);
    r->language = s->options.language;
    return r->language->open(s->tokenizer, &s->wanted, &r->words, t);
}

static void close_reader(reader *r) {
    if (r->language) r->language->close(r->words);
}

/* ---- samples ---- */

static status open_file(const setup *s, const labelled_tokens *t, const char *path, labelled **l) {
    uint64_t most;
    TRY(room(s, &most));
    return labelled_open(&(labelled_options){ .path = path,
                                              .text = text_column(&s->options),
                                              .label = label_column(&s->options),
                                              .pair = s->options.pair_column,
                                              .types = s->model.typed,
                                              .context = (uint32_t)s->request.run.context,
                                              .vocabulary = (uint32_t)s->model.vocabulary,
                                              .names = s->config.head.kind == HEAD_CLASSES ? &s->names : NULL,
                                              .segments = s->model.judged_first,
                                              .most = most },
                         t, l);
}

static status open_files(setup *s, const labelled_tokens *t) {
    const setup_options *o = &s->options;
    if (o->data && !(o->eval_only && o->eval_data)) TRY(open_file(s, t, o->data, &s->records));
    if (o->eval_data) TRY(open_file(s, t, o->eval_data, &s->eval_records));
    if (s->eval_records) labelled_source(s->eval_records, LABELLED_ALL, &s->validation);
    if (!s->records) return STATUS_OK;
    labelled_source(s->records, s->eval_records ? LABELLED_ALL : LABELLED_TRAINED, &s->train);
    if (!s->eval_records) labelled_source(s->records, LABELLED_HELD_OUT, &s->validation);
    if (!s->validation.samples) s->validation = (data_source){ 0 };
    return STATUS_OK;
}

static status check_options(const setup_options *o) {
    if (o->data_kind != DATA_KIND_AUTO && o->data_kind != DATA_KIND_BYTES)
        return status_set(STATUS_INVALID,
                          "--data-kind %s is of tokens without labels; leave it out, or say "
                          "bytes",
                          data_kind_name(o->data_kind));
    if (o->pack != PACK_AUTO && o->pack != PACK_CROSS)
        return status_set(STATUS_INVALID,
                          "--pack %s: a head that judges texts has one in each sample; leave it out",
                          run_options_pack_word((int)o->pack));
    TRY(check_alone(o));
    if (o->data || !o->eval_data || o->eval_only) return STATUS_OK;
    return status_set(STATUS_INVALID, "--eval-data %s is given without --data to train on", o->eval_data);
}

/* Two texts need a tokenizer that says how they stand together, and a model that knows its types. */
static status check_pair(const setup *s, const labelled_tokens *t) {
    const labelled_around *runs[] = { &t->first, &t->between, &t->last };
    const char *column = s->options.pair_column;
    int32_t most = t->type[0] > t->type[1] ? t->type[0] : t->type[1];
    if (!column) return STATUS_OK;
    if (!t->encode)
        return status_set(
            STATUS_INVALID,
            "--pair-column %s: bytes have nothing to stand between two texts; take a model with a "
            "tokenizer.json",
            column);
    if (!t->encode_one)
        return status_set(
            STATUS_INVALID,
            "--pair-column %s: the tokenizer.json of %s says nothing of the kind 'first text, second "
            "text' for two texts",
            column, s->tokenizer);
    for (int k = 0; k < 3; k++)
        for (uint32_t i = 0; i < runs[k]->count; i++)
            if (runs[k]->type[i] > most) most = runs[k]->type[i];
    if (!s->model.typed || most < s->model.types) return STATUS_OK;
    return status_set(
        STATUS_INVALID,
        "--pair-column %s: the tokenizer.json of %s gives tokens the type %d, and type_vocab_size is %lld",
        column, s->tokenizer, most, (long long)s->model.types);
}

status labelled_open_data(setup *s) {
    reader r = { 0 };
    labelled_tokens t;
    TRY(check_options(&s->options));
    if (!s->options.data && !s->options.eval_data) return STATUS_OK;
    status result = open_reader(s, &r, &t);
    if (result == STATUS_OK) result = check_pair(s, &t);
    if (result == STATUS_OK) result = open_files(s, &t);
    close_reader(&r);
    return result;
}

/* A setup that fails to open closes itself, and its caller closes it again. */
void labelled_close_data(setup *s) {
    data_source_close(&s->train);
    data_source_close(&s->validation);
    labelled_close(s->records);
    labelled_close(s->eval_records);
    s->records = s->eval_records = NULL;
    label_names_close(&s->names);
}
