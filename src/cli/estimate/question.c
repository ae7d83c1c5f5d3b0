/* What is asked: model, device, framework. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/estimate/estimate.h"
#include "estimate/hardware_files.h"
#include "estimate/heads.h"
#include "io/model_config.h"
#include "io/published.h"

static bool exists(const char *path) {
    struct stat about;
    return stat(path, &about) == 0;
}

/* A folder of that name is meant where there is one: names of published models stand for sizes only. */
static bool find_published(estimate_question *e, const char **name) {
    const char *published = NULL;
    published_match match = published_find(*name, &e->config, &published);
    if (match == PUBLISHED_NONE) return false;
    if (exists(*name)) {
        text_add(&e->notes, "%s is read from here, and not the published model of this name\n", *name);
        return false;
    }
    if (match == PUBLISHED_SIZE)
        text_add(&e->notes, "of the published models %s is nearest to %s\n", published, *name);
    if (match == PUBLISHED_VARIANT)
        text_add(&e->notes, "%s is taken for the published model %s\n", *name, published);
    if (strchr(*name, '/')) e->hub = *name;
    *name = published;
    return true;
}

static status set_labels(estimate_question *e) {
    int64_t labels = e->o->estimate.labels;
    if (labels && !families_fills(&e->config))
        return status_set(STATUS_INVALID, "--labels is of encoders such as bert-base: no other model's head "
                                          "gives way to a classifier");
    if (labels) families_set_token_labels(&e->config, labels);
    return STATUS_OK;
}

/* litgpt's models have a table and a head of their own, whatever the configuration says. */
static void untie(estimate_question *e) {
    bool tied = e->config.family == FAMILY_DECODER && e->config.decoder.tied;
    if (!tied || e->o->estimate.framework != FRAMEWORK_LITGPT) return;
    e->config.decoder.tied = false;
    text_add(&e->notes, "litgpt ties no heads: this one has weights of its own\n");
}

/* An answer that is too small in silence would be believed. */
static void note_uncounted(estimate_question *e) {
    if (e->config.family == FAMILY_DECODER && e->config.decoder.lacks_norms)
        text_add(&e->notes, "config.json asks for norms on queries and keys, which this model has no rule "
                            "of: it takes more than is said by their weights and results\n");
}

static model_config_use use_of(const estimate_question *e) {
    framework_name n = e->o->estimate.framework;
    bool serves =
        n == FRAMEWORK_VLLM || n == FRAMEWORK_SGLANG || n == FRAMEWORK_TRTLLM || n == FRAMEWORK_LLAMA_CPP;
    return serves ? MODEL_CONFIG_SERVED : MODEL_CONFIG_TRAINED;
}

static status open_model(estimate_question *e, const char *name) {
    bool known = find_published(e, &name);
    if (!known && !families_preset(name, &e->config)) {
        if (!exists(name) && errno == ENOENT) return published_unknown(name);
        TRY(model_config_read_for(use_of(e), name, &e->config, &e->notes));
        e->config.head = (model_head){ 0 }; /* estimates are of language heads, and of --labels */
    }
    TRY(set_labels(e));
    untie(e);
    note_uncounted(e);
    if (e->o->run.dropout >= 0) families_set_dropout(&e->config, e->o->run.dropout);
    TRY(families_check(&e->config));
    families_model(&e->config, name, &e->model);
    return STATUS_OK;
}

static status open_recording(estimate_question *e, const char *path) {
    TRY(recording_read(path, &e->recorded));
    e->subject.recorded = &e->recorded;
    e->framework = &framework_recorded;
    e->model = (model){ .family = "recorded", .context = e->recorded.programs[0].lengths.of[0] };
    snprintf(e->model.name, sizeof e->model.name, "%s", e->recorded.model);
    return STATUS_OK;
}

/* A model that Megatron-LM trains and snug has no builder of: sizes alone. */
static status open_shape(estimate_question *e, const char *path, bool *opened) {
    if (e->o->estimate.framework != FRAMEWORK_MEGATRON) return STATUS_OK;
    TRY(megatron_shape_read(path, &e->shape, opened));
    if (!*opened) return STATUS_OK;
    e->subject.shape = &e->shape;
    e->model = (model){ .family = "deepseek", .context = e->shape.context };
    snprintf(e->model.name, sizeof e->model.name, "%s", path);
    return STATUS_OK;
}

int64_t estimate_most_context(const estimate_question *e) {
    return e->subject.shape ? e->shape.context : families_context(&e->config);
}

static void (*const settle[FRAMEWORKS])(estimate_question *e) = {
    [FRAMEWORK_HF] = estimate_settle_torch,          [FRAMEWORK_PYTORCH] = estimate_settle_torch,
    [FRAMEWORK_VLLM] = estimate_settle_vllm,         [FRAMEWORK_LLAMA_CPP] = estimate_settle_llama_cpp,
    [FRAMEWORK_LITGPT] = estimate_settle_torch,      [FRAMEWORK_LLMC] = estimate_settle_torch,
    [FRAMEWORK_MEGATRON] = estimate_settle_megatron, [FRAMEWORK_SGLANG] = estimate_settle_sglang,
    [FRAMEWORK_TRTLLM] = estimate_settle_trtllm,     [FRAMEWORK_TITAN] = estimate_settle_titan
};

/* Keys and values of all texts, in f32: what is larger than files can be is not multiplied out. */
static status check_countable(estimate_question *e) {
    const int64_t *texts = e->framework->variable(&e->settings, FRAMEWORK_BATCH),
                  *context = e->framework->variable(&e->settings, FRAMEWORK_CONTEXT);
    heads h;
    if (e->subject.shape || !texts || !context || !heads_of(&e->config, &h)) return STATUS_OK;
    double token = 8 * (double)h.layers * (double)h.kv_heads * (double)h.head_size;
    if (token * (double)*texts * (double)*context < 0x1p62) return STATUS_OK;
    return status_set(STATUS_INVALID,
                      "keys and values of %lld texts of %lld tokens are more bytes than can be counted; ask "
                      "for fewer, or for a smaller --context",
                      (long long)*texts, (long long)*context);
}

/* What has rules for recorded steps alone. */
static status check_recorded_alone(const estimate_options *x) {
    const char *said = x->matrices           ? "--optimizer-matrices"
                       : x->in_backward      ? "--optimizer-in-backward"
                       : x->averages         ? "--average"
                       : x->checkpoint_saves ? "--checkpoint-saves"
                       : x->loss_chunks      ? "--loss-chunks"
                                             : NULL;
    if (!said) return STATUS_OK;
    return status_set(STATUS_INVALID,
                      "%s is of a recorded step; record one with the program that --recipe prints", said);
}

status estimate_settle(estimate_question *e, const options *o) {
    e->o = o;
    if (e->subject.recorded && o->estimate.trainer)
        return status_set(STATUS_INVALID,
                          "--trainer grpo is of a model that snug knows: a recorded step makes "
                          "no texts; leave it out");
    if (e->subject.recorded) {
        TRY(estimate_settle_recorded(e));
    } else {
        TRY(check_recorded_alone(&o->estimate));
        settle[o->estimate.framework](e);
        TRY(check_countable(e));
    }
    return e->framework->check(&e->subject, &e->settings);
}

status estimate_open(const options *o, const char *model_name, estimate_question *e) {
    const char *name = o->estimate.device;
    bool shaped = false;
    *e = (estimate_question){ .o = o, .framework = framework_of(o->estimate.framework) };
    e->subject = (framework_subject){ .model = &e->model, .config = &e->config, .hardware = &e->hardware };
    if (name && strcmp(name, "cpu") == 0 && o->estimate.framework == FRAMEWORK_MEGATRON)
        return status_set(STATUS_INVALID,
                          "--gpu cpu: Megatron-LM trains on GPUs; without --gpu bytes are said");
    if (name && strcmp(name, "cpu") != 0) TRY(hardware_find(name, &e->hardware));
    e->hardware.overhead = o->estimate.overhead;
    if (recording_is(model_name))
        TRY(open_recording(e, model_name));
    else
        TRY(open_shape(e, model_name, &shaped));
    if (!e->subject.recorded && !shaped) TRY(open_model(e, model_name));
    return e->framework ? estimate_settle(e, o) : STATUS_OK;
}

void estimate_close(estimate_question *e) {
    text_close(&e->notes);
    recording_close(&e->recorded);
}
