#include "run/texts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "data/mixed_source.h"
#include "run/run_options.h"

/* Parts of the data in their order, and what validates: what is held out of each, or --eval-data. */
typedef struct texts {
    data_source train[MIXTURE_PARTS], validation[MIXTURE_PARTS];
    uint32_t trains, validations;
} texts;

/* ---- opening ---- */

static uint32_t parts_of(const setup_options *o) { return o->part_count ? (uint32_t)o->part_count : 1; }
static const char *path_of(const setup_options *o, uint32_t i) {
    return o->part_count ? o->parts[i].path : o->data;
}

/* Nothing but --eval-data is looked at. */
static bool evaluates_alone(const setup_options *o) { return o->eval_only && o->eval_data; }

static status open_text(setup *s, const char *path, bool hold_out, data_source *source) {
    TRY(setup_check_records(s, path));
    TRY(text_source_open(&(text_source_options){ .path = path,
                                                 .kind = s->options.data_kind,
                                                 .hold_out = hold_out,
                                                 .gaps = s->model.masks,
                                                 .context = (uint32_t)s->request.run.context,
                                                 .vocabulary = (uint32_t)s->model.vocabulary },
                         source));
    if (!s->tokenizer || !text_source_is_text(source)) return STATUS_OK;
    return setup_check_text(source, &s->options, s->tokenizer);
}

static status open_validation(setup *s, texts *t) {
    TRY(open_text(s, s->options.eval_data, false, &t->validation[0]));
    t->validations = 1;
    return STATUS_OK;
}

static status open_parts(setup *s, texts *t) {
    const setup_options *o = &s->options;
    for (uint32_t i = 0; i < parts_of(o); i++) {
        TRY(open_text(s, path_of(o, i), !o->eval_data, &t->train[i]));
        t->trains++;
        if (o->eval_data) continue;
        TRY(text_source_held_out(&t->train[i], &t->validation[i]));
        t->validations++;
    }
    return o->eval_data ? open_validation(s, t) : STATUS_OK;
}

/* Some are mixed by weights and others by nothing: that has no meaning. */
static status check_all_or_none(const setup_options *o) {
    for (uint64_t i = 1; i < o->part_count; i++) {
        const setup_part *a = &o->parts[0], *b = &o->parts[i];
        if ((a->weight > 0) != (b->weight > 0))
            return status_set(STATUS_INVALID,
                              "--data: %s has a weight and %s has none; give each of them one, or none",
                              a->weight > 0 ? a->path : b->path, a->weight > 0 ? b->path : a->path);
    }
    return STATUS_OK;
}

/* Can each part have its share? */
static status check_shares(const setup_options *o) {
    double weights[MIXTURE_PARTS];
    mixture turns;
    uint32_t part;
    char why[STATUS_SENTENCE];
    for (uint32_t i = 0; i < o->part_count; i++) weights[i] = o->parts[i].weight;
    status result = mixture_open(weights, (uint32_t)o->part_count, &turns, &part);
    mixture_close(&turns);
    if (result != STATUS_INVALID) return result;
    snprintf(why, sizeof why, "%s", status_message());
    return status_set(STATUS_INVALID, "--data: %s: %s", o->parts[part].path, why);
}

status texts_check(const setup_options *o) {
    struct stat about;
    if (!o->part_count) return STATUS_OK;
    if (o->part_count > MIXTURE_PARTS)
        return status_set(STATUS_INVALID, "--data: %llu parts are more than the %d that can be mixed",
                          (unsigned long long)o->part_count, MIXTURE_PARTS);
    for (uint64_t i = 0; i < o->part_count; i++)
        if (stat(o->parts[i].path, &about) != 0)
            return status_set(STATUS_INVALID, "cannot open the data %s: %s", o->parts[i].path,
                              strerror(errno));
    TRY(check_all_or_none(o));
    return o->parts[0].weight > 0 ? check_shares(o) : STATUS_OK;
}

/* What learns bytes is no longer a model of its tokenizer. */
static void settle_tokenizer(setup *s, const texts *t) {
    for (uint32_t i = 0; i < t->trains; i++)
        if (text_source_is_text(&t->train[i])) s->tokenizer = NULL;
    for (uint32_t i = 0; i < t->validations; i++)
        if (text_source_is_text(&t->validation[i])) s->tokenizer = NULL;
}

status texts_open(setup *s) {
    const setup_options *o = &s->options;
    bool alone = evaluates_alone(o);
    if (!alone && !o->data && o->eval_data)
        return status_set(STATUS_INVALID, "--eval-data %s is given without --data to train on", o->eval_data);
    if (!alone && (!o->data || o->source)) return STATUS_OK;
    TRY(texts_check(o));
    if (!alone && !s->model.vocabulary) TRY(model_computes(&s->model)); /* files hold tokens */
    s->texts = memory_new(1, sizeof *s->texts);
    if (!s->texts) return status_set(STATUS_FAILED, "no memory to open the data");
    TRY(alone ? open_validation(s, s->texts) : open_parts(s, s->texts));
    settle_tokenizer(s, s->texts);
    return STATUS_OK;
}

void texts_close(setup *s) {
    texts *t = s->texts;
    for (uint32_t i = 0; t && i < MIXTURE_PARTS; i++) {
        data_source_close(&t->train[i]);
        data_source_close(&t->validation[i]);
    }
    memory_free(t);
    s->texts = NULL;
}

/* ---- documents ---- */

/* What all that is trained on says of its documents; or what validates, where nothing trains. */
typedef struct {
    uint32_t count;
    uint64_t fewest, most;     /* documents of one: 0: it doesn't say */
    const char *mute;          /* a path that doesn't */
    uint64_t longest, unknown; /* document, in tokens; how many don't say */
    bool learns_some;
} documents;

static void look(documents *d, const data_source *source) {
    uint64_t count = text_source_documents(source), longest = text_source_longest(source);
    if (!d->count++ || count < d->fewest) d->fewest = count;
    if (count > d->most) d->most = count;
    if (!count && !d->mute) d->mute = text_source_path(source);
    if (longest > d->longest) d->longest = longest;
    d->unknown += !longest;
    d->learns_some = d->learns_some || text_source_learns_some(source);
}

static documents look_at(const texts *t) {
    documents d = { 0 };
    for (uint32_t i = 0; t && i < t->trains; i++) look(&d, &t->train[i]);
    for (uint32_t i = 0; t && !t->trains && i < t->validations; i++) look(&d, &t->validation[i]);
    return d;
}

/* What is learned of in parts is not cut: an answer would lose its question. */
static pack_kind usual_packing(const setup *s, const documents *d) {
    if (!s->model.packs || !d->count) return PACK_CROSS;
    if (d->learns_some) return PACK_WHOLE;
    return d->fewest && d->most > 1 ? PACK_DOCUMENTS : PACK_CROSS;
}

/* Why documents can't be told apart, where that was asked for. */
static status check_packing(const setup *s, const documents *d) {
    const char *asked = run_options_pack_word((int)s->pack);
    if (!s->model.packs)
        return status_set(STATUS_INVALID, "--pack %s: %s can't tell documents apart; leave it out", asked,
                          s->model.name);
    if (d->count && !d->fewest)
        return status_set(STATUS_INVALID,
                          "--pack %s: %s doesn't say where its documents end; give files of text, or "
                          "JSON lines",
                          asked, d->mute);
    if (!d->count && (s->options.source || s->options.eval_source))
        return status_set(STATUS_INVALID,
                          "--pack %s: samples of a program's own have no documents; leave it out", asked);
    return STATUS_OK; /* a plan without data is as if there were documents */
}

/* Of one document alone there is nothing to tell apart, unless padding stands behind it. */
static status decide_packing(setup *s, const documents *d) {
    s->pack = s->options.pack;
    if (s->pack == PACK_AUTO) s->pack = usual_packing(s, d);
    if (s->pack != PACK_CROSS) TRY(check_packing(s, d));
    if (s->pack == PACK_DOCUMENTS && d->count && d->most == 1) s->pack = PACK_CROSS;
    s->model.packed = s->pack != PACK_CROSS;
    return STATUS_OK;
}

/* Training and validation are told apart alike, whatever the latter's files hold. */
static status pack(const setup *s, texts *t) {
    static const text_source_way ways[] = {
        [PACK_WHOLE] = TEXT_SOURCE_WHOLE, [PACK_PAD] = TEXT_SOURCE_ALONE
    };
    text_source_packing p = { .positions = s->model.learned_positions,
                              .first_position = s->model.first_position };
    if (!s->model.packed && !s->model.answers) return STATUS_OK;
    if (s->model.answers)
        p.way = TEXT_SOURCE_ANSWERS, p.start = s->model.start;
    else if (s->pack != PACK_DOCUMENTS)
        p.way = ways[s->pack];
    for (uint32_t i = 0; i < t->trains; i++) TRY(text_source_pack(&t->train[i], &p));
    for (uint32_t i = 0; i < t->validations; i++) TRY(text_source_pack(&t->validation[i], &p));
    return STATUS_OK;
}

/* ---- the sources ---- */

/* Whole documents need no more: the first begins where the data do. */
static status check_trains(const texts *t) {
    for (uint32_t i = 0; i < t->trains; i++) TRY(text_source_enough(&t->train[i]));
    return STATUS_OK;
}

/* Makes a source of `count` parts, which are its own from then on. */
static status join(const setup *s, data_source *parts, const double *weights, uint32_t count, bool trains,
                   data_source *to) {
    const setup_options *o = &s->options;
    uint32_t part;
    if (!count) return STATUS_OK;
    if (count > 1)
        TRY(mixed_source_open(&(mixed_options){ .parts = parts,
                                                .count = count,
                                                .weights = o->parts[0].weight > 0 ? weights : NULL,
                                                .shuffles = trains,
                                                .seed = (uint64_t)o->seed,
                                                .most = (uint64_t)o->eval_samples },
                              to, &part));
    else
        *to = parts[0];
    for (uint32_t i = 0; i < count; i++) parts[i] = (data_source){ 0 };
    return STATUS_OK;
}

static status make_sources(setup *s, texts *t) {
    const setup_options *o = &s->options;
    double weights[MIXTURE_PARTS] = { 0 };
    uint32_t count = 0;
    for (uint32_t i = 0; i < o->part_count; i++) weights[i] = o->parts[i].weight;
    TRY(join(s, t->train, weights, t->trains, true, &s->train));
    for (uint32_t i = 0; i < t->validations; i++) { /* of a short part there may be none */
        if (!t->validation[i].samples) continue;
        data_source some = t->validation[i];
        t->validation[i] = t->validation[count]; /* an empty one, which stays behind those that are taken */
        t->validation[count] = some, weights[count++] = weights[i];
    }
    return join(s, t->validation, weights, count, false, &s->validation);
}

status texts_settle(setup *s) {
    s->pack = PACK_CROSS; /* samples of a head hold one text each: there is nothing to tell apart */
    if (s->model.head.kind != HEAD_LANGUAGE) return STATUS_OK;
    documents d = look_at(s->texts);
    TRY(decide_packing(s, &d));
    if (!s->texts) return STATUS_OK;
    TRY(pack(s, s->texts));
    TRY(check_trains(s->texts));
    TRY(make_sources(s, s->texts));
    texts_close(s);
    return STATUS_OK;
}

/* ---- the length of samples ---- */

/* Formats that never say how long documents are aren't opened for it: JSON lines would be read to the end. */
static status look_into(const setup *s, const char *path, documents *d) {
    data_source source;
    bool may;
    TRY(setup_check_records(s, path));
    TRY(text_source_may_say_longest(path, s->options.data_kind, &may));
    d->unknown += !may;
    if (!may) return STATUS_OK;
    TRY(text_source_open(&(text_source_options){ .path = path,
                                                 .kind = s->options.data_kind,
                                                 .context = 1,
                                                 .vocabulary = (uint32_t)s->model.vocabulary },
                         &source));
    look(d, &source);
    data_source_close(&source);
    return STATUS_OK;
}

/* What is cut anyway needs no more than is usual. */
status texts_context(const setup *s, int64_t most, int64_t *context) {
    enum { USUAL = 2048, STEP = 64 };
    const setup_options *o = &s->options;
    documents d = { 0 };
    bool alone = evaluates_alone(o);
    if (!alone) TRY(texts_check(o)); /* nobody has looked at them yet */
    for (uint32_t i = 0; !alone && i < parts_of(o) && !d.unknown; i++) TRY(look_into(s, path_of(o, i), &d));
    if (alone) TRY(look_into(s, o->eval_data, &d));
    if (d.unknown) return STATUS_OK;
    int64_t wanted = ((int64_t)d.longest + STEP - 1) / STEP * STEP;
    if (!(o->pack == PACK_WHOLE || o->pack == PACK_PAD || d.learns_some) && wanted > USUAL) wanted = USUAL;
    *context = wanted < most ? wanted : most;
    return STATUS_OK;
}

/* ---- telling ---- */

uint32_t texts_parts(const setup *s) {
    bool texts_train = s->model.head.kind == HEAD_LANGUAGE && s->options.data && !s->options.source;
    return texts_train && s->request.run.training ? data_source_parts(&s->train) : 0;
}

texts_part texts_part_of(const setup *s, uint32_t part) {
    const setup_options *o = &s->options;
    const data_source *source = data_source_part(&s->train, part);
    mixed_share share = mixed_source_share(&s->train, part);
    const char *name = o->parts ? o->parts[part].name : NULL;
    double of_all = (double)share.places / (double)share.of;
    return (texts_part){ .name = name ? name : path_of(o, part),
                         .share = of_all,
                         .samples = source->samples,
                         .tokens = text_source_tokens(source),
                         .times = of_all * (double)s->train.samples / (double)source->samples };
}
