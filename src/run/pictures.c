#include "run/pictures.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "data/images/pictures.h"
#include "data/images/preprocessor.h"
#include "device/device.h"
#include "io/file.h"
#include "io/model_config.h"

static const char *label_column(const setup_options *o) {
    return o->label_column ? o->label_column : "label";
}

static const char *image_column(const setup_options *o) {
    return o->image_column ? o->image_column : "image";
}

/* What --memory leaves for lists of pictures beside the program. */
static status room(const setup *s, uint64_t *bytes) {
    enum { LEAST = 1 << 20 };
    const device *on;
    uint64_t held = device_runtime_reserve(0).code + s->names.held_bytes;
    TRY(setup_budget(&s->options, bytes));
    TRY(setup_device(&s->options, &on));
    if (on->apart) *bytes = UINT64_MAX;
    if (*bytes == UINT64_MAX) return STATUS_OK;
    if (s->images) held += pictures_held(s->images);
    *bytes = *bytes > held + LEAST ? *bytes - held : LEAST;
    return STATUS_OK;
}

/* ---- what pictures become ---- */

static status settle_size(setup *s, const images_task *t) {
    const prepare_options *p = &s->prepare;
    if (p->out_height == t->height && p->out_width == t->width) return STATUS_OK;
    if (families_takes_any_size(&s->config)) {
        families_set_images(&s->config, p->out_height, p->out_width);
        return STATUS_OK;
    }
    return status_set(
        STATUS_INVALID,
        "%s: its preprocessor_config.json makes pictures of %u x %u, and the model takes %lld x "
        "%lld",
        s->options.model, p->out_height, p->out_width, (long long)t->height, (long long)t->width);
}

/* As the timm library prepares them in validation. */
static void prepare_as_timm(const families_timm *t, prepare_options *p) {
    static const char *const filters[] = { "nearest", "lanczos", "bilinear", "bicubic", "box", "hamming" };
    uint32_t least = p->out_height < p->out_width ? p->out_height : p->out_width;
    p->height = p->width = 0, p->shortest = (uint32_t)((double)least / t->crop);
    for (int c = 0; c < 3; c++) p->mean[c] = t->mean[c], p->deviation[c] = t->deviation[c];
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
        if (strcmp(filters[i], t->interpolation) == 0) p->filter = (resample_filter)i;
}

static status settle_preparation(setup *s) {
    images_task t = *families_images(&s->config);
    bool there = false;
    s->prepare = prepare_defaults((uint32_t)t.height, (uint32_t)t.width, (uint32_t)t.channels);
    if (s->tokenizer) TRY(preprocessor_read(s->tokenizer, &s->prepare, &there));
    if (!there && s->config.timm.architecture[0]) prepare_as_timm(&s->config.timm, &s->prepare);
    return settle_size(s, &t);
}

/* ---- classes ---- */

static const char *data_of(const setup_options *o) { return o->data ? o->data : o->eval_data; }

static status names_of_data(setup *s, label_names *names) {
    const setup_options *o = &s->options;
    uint64_t most;
    TRY(room(s, &most));
    TRY(pictures_names(data_of(o), label_column(o), most, names));
    label_names_sort(names);
    return names->count > 1
               ? STATUS_OK
               : status_set(STATUS_INVALID, "%s has %u class; a model that tells classes wants two or more",
                            data_of(o), names->count);
}

/* LABEL_0, LABEL_1 ... are what a config.json says that names nothing. */
static bool names_nothing(const label_names *names) {
    char made[32];
    for (uint32_t i = 0; i < names->count; i++) {
        snprintf(made, sizeof made, "LABEL_%u", i);
        if (strcmp(names->name[i], made) != 0) return false;
    }
    return true;
}

static status other_number(const setup *s, uint32_t count) {
    const setup_options *o = &s->options;
    long long outputs = (long long)s->config.head.outputs;
    if (o->head)
        return status_set(STATUS_INVALID, "--head %s: %s has %u classes; say classes:%u, or classes alone",
                          o->head, data_of(o), count, count);
    return status_set(STATUS_INVALID,
                      "%s has %u classes, and the head of %s tells %lld; --head classes:%u begins a new one",
                      data_of(o), count, o->model, outputs, count);
}

/* Who has weights, and a head of its own, keeps the number of its classes; what CLIP's tower projects to is
 * no list of classes, of which the data may use the first ones. */
static status take_names(setup *s, label_names *of_data) {
    model_head *h = &s->config.head;
    bool any = (s->new_head && !h->outputs) || (!s->new_head && !s->weights && !s->options.head);
    if (families_projects(&s->config) ? of_data->count > h->outputs : !any && h->outputs != of_data->count)
        return other_number(s, of_data->count);
    if (!families_projects(&s->config)) h->outputs = of_data->count;
    label_names_close(&s->names);
    s->names = *of_data, *of_data = (label_names){ 0 };
    return STATUS_OK;
}

static status settle_names(setup *s) {
    model_head *h = &s->config.head;
    label_names of_data = { 0 };
    bool own = !s->new_head && s->tokenizer && !families_projects(&s->config);
    if (own) TRY(model_config_labels(s->tokenizer, &s->config, &s->names));
    if (!data_of(&s->options)) {
        if (h->outputs) return STATUS_OK;
        return status_set(STATUS_INVALID,
                          "--head classes: there is no data to count them in; say how many, as "
                          "classes:3");
    }
    if (own && !names_nothing(&s->names)) return STATUS_OK;
    status result = names_of_data(s, &of_data);
    if (result == STATUS_OK) result = take_names(s, &of_data);
    label_names_close(&of_data);
    return result;
}

status pictures_settle(setup *s) {
    const setup_options *o = &s->options;
    if (o->part_count && data_of(o))
        return status_set(
            STATUS_INVALID,
            "--data %s and %llu more: pictures are not mixed; put them into one folder, or list "
            "them in one table",
            o->data, (unsigned long long)o->part_count - 1);
    TRY(settle_preparation(s));
    TRY(settle_names(s));
    families_set_labels(&s->config, s->config.head.outputs);
    if (s->names.count && !families_projects(&s->config)) s->config.label_names = s->names.name;
    return STATUS_OK;
}

/* ---- samples ---- */

static status check_options(const setup *s) {
    const setup_options *o = &s->options;
    const char *column = o->text_column ? "text" : o->pair_column ? "pair" : NULL;
    if (column)
        return status_set(STATUS_INVALID, "--%s-column is of texts, and %s sees images; leave it out", column,
                          s->model.name);
    if (o->data_kind != DATA_KIND_AUTO)
        return status_set(STATUS_INVALID, "--data-kind is of texts, and %s sees images; leave it out",
                          s->model.name);
    if (o->pack != PACK_AUTO && o->pack != PACK_CROSS)
        return status_set(STATUS_INVALID, "--pack is of texts, and %s sees images; leave it out",
                          s->model.name);
    if (o->eval_data && !o->data && !o->eval_only)
        return status_set(STATUS_INVALID, "--eval-data %s is given without --data to train on", o->eval_data);
    return STATUS_OK;
}

static status check_channels(const setup *s) {
    uint32_t channels = s->prepare.channels;
    if (channels == 1 || channels == 3) return STATUS_OK;
    return status_set(STATUS_INVALID, "%s: num_channels is %u; pictures have 3, or 1 of grey", s->model.name,
                      channels);
}

static status open_list(const setup *s, const char *path, pictures **p) {
    uint64_t most;
    TRY(room(s, &most));
    return pictures_open(&(picture_options){ .path = path,
                                             .image = image_column(&s->options),
                                             .label = label_column(&s->options),
                                             .prepare = s->prepare,
                                             .still = s->options.augment == AUGMENT_OFF,
                                             .names = &s->names,
                                             .seed = (uint64_t)s->options.seed,
                                             .most = most },
                         p);
}

status pictures_open_data(setup *s) {
    const setup_options *o = &s->options;
    TRY(check_options(s));
    if (!o->data && !o->eval_data) return STATUS_OK;
    TRY(check_channels(s));
    if (o->data && !(o->eval_only && o->eval_data)) TRY(open_list(s, o->data, &s->images));
    if (o->eval_data) TRY(open_list(s, o->eval_data, &s->eval_images));
    if (s->eval_images) pictures_source(s->eval_images, PICTURES_ALL, &s->validation);
    if (!s->images) return STATUS_OK;
    pictures_source(s->images, s->eval_images ? PICTURES_DRAWN : PICTURES_TRAINED, &s->train);
    if (!s->eval_images) pictures_source(s->images, PICTURES_HELD_OUT, &s->validation);
    if (!s->validation.samples) s->validation = (data_source){ 0 };
    return STATUS_OK;
}

void pictures_close_data(setup *s) {
    pictures_close(s->images);
    pictures_close(s->eval_images);
    s->images = s->eval_images = NULL;
}

status pictures_save(const setup *s, const char *directory) {
    if (s->custom || !s->model.sees || !s->prepare.channels) return STATUS_OK;
    return preprocessor_write(directory, &s->prepare);
}
