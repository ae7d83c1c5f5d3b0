#include "cli/estimate/cluster_answer.h"

#include <string.h>

#include "estimate/clusters/slurm.h"
#include "estimate/emit/emit.h"

/* ---- choosing ---- */

static options options_on(const options *o, const cluster_nodes *k, int64_t gpus) {
    options with = ask_with(o, FRAMEWORK_GPUS, gpus);
    with.estimate.device = k->device;
    return with;
}

static status counts_on(const void *context, const cluster_nodes *k, device_counts *out) {
    options one = options_on(context, k, 1);
    return ask_counts(&one, out);
}

static status fits_on(const void *context, const cluster_nodes *k, int64_t gpus, bool *fits) {
    options with = options_on(context, k, gpus);
    ask_answer a;
    status result = ask(&with, NULL, false, &a);
    text_close(&a.notes);
    *fits = result == STATUS_OK && a.fits;
    return result;
}

status cluster_answer_find(const options *o, cluster_answer *out) {
    *out = (cluster_answer){ .with = *o };
    const choose_question q = { .device = o->estimate.device,
                                .gpus = o->estimate.gpus,
                                .counts = counts_on,
                                .fits = fits_on,
                                .context = o };
    TRY(cluster_find(o->estimate.cluster, &out->nodes.of));
    TRY(choose_nodes(&q, &out->nodes));
    out->with = options_on(o, out->nodes.kind, out->nodes.nodes * out->nodes.gpus);
    return STATUS_OK;
}

void cluster_answer_say(const cluster_answer *c, text *out) {
    const choose_answer *n = &c->nodes;
    text_add(out, "of %s: %lld of %lld %s on %lld %s node%s\n", n->of.title, (long long)n->gpus,
             (long long)n->kind->gpus, n->kind->device, (long long)n->nodes, n->kind->name,
             n->nodes == 1 ? "" : "s");
}

/* ---- the script ---- */

/* A model's name is cut where a path is long, and what runs needs all of it. */
static const char *whole_name(const estimate_question *e) {
    if (e->hub && e->framework) return e->hub;
    return strlen(e->model.name) + 1 < sizeof e->model.name ? e->model.name : e->o->subject;
}

/* With all options that were given, from wherever: what was estimated is what runs. */
static void add_training(const estimate_question *e, text *out) {
    text_add(out, "srun snug train ");
    text_add_quoted(out, whole_name(e));
    text_add(out, " --data DATA --out \"run-$SLURM_JOB_ID\" --memory auto");
    options_add_given(COMMAND_ESTIMATE, COMMAND_TRAIN, e->o, out);
    text_add(out, "\n");
}

static void add_command(const cluster_answer *c, const estimate_question *e, text *out) {
    emit_request q = { .subject = &e->subject,
                       .framework = e->framework,
                       .named = whole_name(e),
                       .settings = &e->settings,
                       .result = &e->result,
                       .changed = "",
                       .tight = "" };
    switch (c->with.estimate.framework) {
    case FRAMEWORK_SNUG: add_training(e, out); return;
    case FRAMEWORK_VLLM:
        text_add(out, "srun ");
        emit_vllm_command(&q, whole_name(e), out);
        return;
    case FRAMEWORK_LLAMA_CPP:
        text_add(out, "srun ");
        emit_llama_cpp_command(&q, out);
        return;
    default: slurm_add_torchrun(&c->nodes, out);
    }
}

static status say_tight(estimate_question *e, text *out) {
    if (!e->framework) return STATUS_OK;
    TRY(e->framework->estimate(&e->subject, &e->settings, &e->result));
    return estimate_say_tight(out, e, &e->settings, &e->result);
}

status cluster_answer_write(const cluster_answer *c, const ask_answer *a, text *out, text *people) {
    estimate_question e;
    text tight = { 0 };
    status result = estimate_open(&c->with, c->with.subject, &e);
    if (result == STATUS_OK) result = say_tight(&e, &tight);
    if (result == STATUS_OK) {
        slurm_add_head(&c->nodes, &(slurm_job){ a->model, a->bytes, tight.data }, out);
        add_command(c, &e, out);
    }
    if (tight.length) text_add(people, "It %s.\n", tight.data);
    text_close(&tight);
    estimate_close(&e);
    return result;
}
