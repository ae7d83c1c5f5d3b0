#include "cli/estimate/cluster_answer.h"

#include <stdio.h>
#include <string.h>

#include "cli/cluster_links.h"
#include "cli/estimate/cluster_switches.h"
#include "estimate/clusters/slurm.h"
#include "estimate/emit/emit.h"

/* ---- choosing ---- */

static bool is_snug(const options *o) { return o->estimate.framework == FRAMEWORK_SNUG; }

/* Of several devices; 1: as few as do. */
static int64_t asked_for(const options *o) {
    if (!is_snug(o)) return o->estimate.gpus;
    return o->run.ranks > 1 ? o->run.ranks : 1;
}

/* Each of snug's ranks has a device, and a node has as many as it has devices. */
static options options_on(const options *o, const cluster_nodes *k, int64_t gpus) {
    options with = ask_with(o, FRAMEWORK_GPUS, gpus);
    with.estimate.device = k->device;
    if (is_snug(o)) with.run.of_host = gpus < k->gpus ? gpus : k->gpus;
    return with;
}

static status counts_on(const void *context, const cluster_nodes *k, device_counts *out) {
    options with = options_on(context, k, ask_least_devices(context));
    return ask_counts(&with, out);
}

static status fits_on(const void *context, const cluster_nodes *k, int64_t gpus, bool *fits) {
    options with = options_on(context, k, gpus);
    ask_answer a;
    status result = ask(&with, NULL, false, &a);
    text_close(&a.notes);
    *fits = result == STATUS_OK && a.fits;
    return result;
}

static int64_t devices_of(const choose_answer *n) { return n->kind ? n->nodes * n->gpus : 0; }

/* With those switches: 0 devices where there are not enough of any kind. */
static status choose_with(const options *o, unsigned switches, choose_answer *out) {
    options with = *o;
    cluster_switches_apply(switches, &with);
    const choose_question q = { .device = o->estimate.device,
                                .gpus = asked_for(o),
                                .option = is_snug(o) ? "--ranks" : "--gpus",
                                .counts = counts_on,
                                .fits = fits_on,
                                .context = &with };
    out->kind = NULL, out->nodes = out->gpus = 0;
    return choose_nodes(&q, out);
}

/* Leaves out what is not needed for so few devices to hold it, the upper end of the interval as well: what
 * costs most is left out first. Where all switches together are not enough for that, all stay on. */
static unsigned least_of(const options *o, unsigned on, int64_t devices, choose_answer *trial) {
    options surely = *o;
    surely.estimate.strict = true;
    for (unsigned i = CLUSTER_SWITCHES; i-- > 0;) {
        unsigned without = on & ~(1u << i);
        if (without != on && choose_with(&surely, without, trial) == STATUS_OK &&
            devices_of(trial) == devices)
            on = without;
    }
    return on;
}

/* Those that change nothing of this model. */
static status harmless(const options *o, unsigned *switches) {
    estimate_question e;
    options least = ask_with(o, FRAMEWORK_GPUS, ask_least_devices(o));
    status result = estimate_open(&least, o->subject, &e);
    *switches = (1u << CLUSTER_SWITCHES) - 1;
    if (result == STATUS_OK && e.config.family == FAMILY_RESNET) *switches &= ~(unsigned)CLUSTER_CUT_BATCH;
    estimate_close(&e);
    return result;
}

/* The fewest devices with any switches, into `fewest`, and the switches that this takes. */
static status switch_on(const options *o, choose_answer *trial, unsigned *switches, int64_t *fewest) {
    unsigned on = 0, may;
    *fewest = 0;
    TRY(harmless(o, &may));
    for (unsigned i = 0; i < CLUSTER_SWITCHES; i++) { /* a model without blocks has none to compute again */
        options with = *o;
        if (cluster_switches_apply(may & 1u << i, &with) &&
            choose_with(o, on | 1u << i, trial) != STATUS_INVALID)
            on |= 1u << i;
    }
    if (!on) return STATUS_OK;
    status result = choose_with(o, on, trial);
    if (result != STATUS_OK) return result == STATUS_NO_FIT ? STATUS_OK : result;
    *fewest = devices_of(trial);
    *switches = least_of(o, on, *fewest, trial);
    return STATUS_OK;
}

/* What would do that alters what is learned, for the sentence that nothing does. */
static status name_adapters(const options *o, choose_answer *trial) {
    char sentence[400];
    bool torch = o->estimate.framework == FRAMEWORK_HF || o->estimate.framework == FRAMEWORK_PYTORCH ||
                 o->estimate.framework == FRAMEWORK_LITGPT;
    unsigned all = (1u << CLUSTER_SWITCHES) - 1, on = all;
    snprintf(sentence, sizeof sentence, "%s", status_message());
    for (int64_t bits = 16; torch && !o->estimate.adapter_rank && bits >= 4; bits -= 12) {
        options with = *o;
        with.estimate.adapter_rank = 16, with.estimate.base_bits = bits;
        int64_t fewest;
        status result = switch_on(&with, trial, &on, &fewest);
        if (result == STATUS_INVALID || (result == STATUS_OK && !fewest))
            continue; /* or they have no place */
        TRY(result);
        cluster_switches_apply(on, &with);
        text given = { 0 };
        options_add_given(COMMAND_ESTIMATE, COMMAND_ESTIMATE, &with, &given);
        result =
            status_set(STATUS_NO_FIT, "%s; with adapters, which train something else, %lld would do:%.400s",
                       sentence, (long long)fewest, given.data ? given.data : "");
        text_close(&given);
        return result;
    }
    return status_set(STATUS_NO_FIT, "%s", sentence);
}

/* What the file says of links is what times are predicted with. Nodes are whole where there are several. */
static status take_links(const options *o, cluster_answer *out) {
    const choose_answer *n = &out->nodes;
    if (!is_snug(o) || devices_of(n) < 2) return STATUS_OK;
    if (o->run.of_host && o->run.of_host != n->gpus)
        return status_set(STATUS_INVALID,
                          "--ranks %lldx%lld: of nodes %s %lld devices are taken each; say --ranks %lld",
                          (long long)o->run.ranks, (long long)o->run.of_host, n->kind->name,
                          (long long)n->gpus, (long long)o->run.ranks);
    cluster_links_take(&out->with, n->kind, o->estimate.cluster, &out->links);
    return STATUS_OK;
}

status cluster_answer_find(const options *o, cluster_answer *out) {
    choose_answer trial = { 0 };
    int64_t fewest = 0;
    unsigned on = 0;
    *out = (cluster_answer){ .with = *o };
    TRY(cluster_find(o->estimate.cluster, &out->nodes.of));
    status result = choose_with(o, 0, &out->nodes);
    if (result != STATUS_OK && result != STATUS_NO_FIT) return result;
    out->as_asked = devices_of(&out->nodes), out->counted = asked_for(o) > 1;
    trial.of = out->nodes.of;
    if (out->as_asked != 1 && (asked_for(o) <= 1 || !out->as_asked)) TRY(switch_on(o, &trial, &on, &fewest));
    if (fewest && (!out->as_asked || fewest < out->as_asked)) {
        out->switched = cluster_switches_apply(on, &out->with);
        result = choose_with(o, on, &out->nodes);
    } else if (result == STATUS_NO_FIT) {
        result = choose_with(o, 0, &out->nodes); /* for its sentence */
        return result == STATUS_NO_FIT ? name_adapters(o, &trial) : result;
    }
    TRY(result);
    const choose_answer *n = &out->nodes;
    out->with = options_on(&out->with, n->kind, devices_of(n));
    out->with.estimate.node_gpus = n->gpus;
    out->with.estimate.node_memory = slurm_memory(n) << 20;
    return take_links(o, out);
}

static void add_switched(const cluster_answer *c, text *out) {
    const options *o = &c->with;
    text_add(out, ", with");
    if (c->switched & CLUSTER_FUSED_UPDATE) text_add(out, " --optimizer-kernels fused");
    if (c->switched & CLUSTER_FUSED_LOSS) text_add(out, " --loss fused");
    if (c->switched & CLUSTER_CUT_BATCH)
        text_add(out, " --micro-batch 1 --accumulate %lld", (long long)o->run.accumulate);
    if (c->switched & CLUSTER_RECOMPUTE) text_add(out, " --gradient-checkpointing");
    text_add(out, ", which %s nothing that is learned; as asked ",
             c->switched & (c->switched - 1) ? "change" : "changes");
    if (c->as_asked)
        text_add(out, "it takes %lld", (long long)c->as_asked);
    else
        text_add(out, "it fits on none");
}

/* Whether --shard says how devices share the work. */
static bool shards(framework_name n) {
    return n == FRAMEWORK_HF || n == FRAMEWORK_PYTORCH || n == FRAMEWORK_LITGPT || n == FRAMEWORK_LLMC ||
           n == FRAMEWORK_SNUG;
}

void cluster_answer_say(const cluster_answer *c, text *out) {
    static const char *const ways[] = { "", "ddp", "zero1", "zero2", "zero3", "fsdp" };
    const choose_answer *n = &c->nodes;
    text_add(out, "of %s: %lld of %lld %s on %lld %s node%s", n->of.title, (long long)n->gpus,
             (long long)n->kind->gpus, n->kind->device, (long long)n->nodes, n->kind->name,
             n->nodes == 1 ? "" : "s");
    if (devices_of(n) > 1 && c->with.estimate.shard > 0 && shards(c->with.estimate.framework))
        text_add(out, ", shared by %s", ways[c->with.estimate.shard]);
    if (c->switched) add_switched(c, out);
    text_add(out, "\n");
}

/* ---- the script ---- */

/* A model's name is cut where a path is long, and what runs needs all of it. */
static const char *whole_name(const estimate_question *e) {
    if (e->hub && e->framework) return e->hub;
    return strlen(e->model.name) + 1 < sizeof e->model.name ? e->model.name : e->o->subject;
}

static bool has_ranks(const cluster_answer *c) { return is_snug(&c->with) && devices_of(&c->nodes) > 1; }

/* With all options that were given, from wherever: what was estimated is what runs. */
static void add_training(const estimate_question *e, bool ranks, text *out) {
    text_add(out, "srun %ssnug train ", ranks ? "--mpi=pmix --cpus-per-task=\"$SLURM_CPUS_PER_TASK\" " : "");
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
    case FRAMEWORK_SNUG: add_training(e, has_ranks(c), out); return;
    case FRAMEWORK_VLLM:
        text_add(out, "srun ");
        emit_vllm_command(&q, whole_name(e), out);
        return;
    case FRAMEWORK_SGLANG:
        text_add(out, "srun ");
        emit_sglang_command(&q, whole_name(e), out);
        return;
    case FRAMEWORK_TRTLLM:
        text_add(out, "srun ");
        emit_trtllm_command(&q, whole_name(e), out);
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

/* What was estimated, in full, so that what runs can be held to it: links and memory are the cluster's. */
static void add_assumed(const cluster_answer *c, const ask_answer *a, text *out) {
    options with = c->with;
    with.estimate.device = NULL, with.estimate.emit = EMIT_NONE;
    text_add(out, "%sEstimated: snug estimate ", a->notes.length ? a->notes.data : "");
    text_add_quoted(out, with.subject);
    options_add_given(COMMAND_ESTIMATE, COMMAND_ESTIMATE, &with, out);
    text_add(out, " --gpu ");
    text_add_quoted(out, c->nodes.kind->device);
    text_add(out, "\n");
    cluster_answer_say(c, out);
}

status cluster_answer_write(const cluster_answer *c, const ask_answer *a, text *out, text *people) {
    estimate_question e;
    text tight = { 0 };
    status result = estimate_open(&c->with, c->with.subject, &e);
    if (result == STATUS_OK) result = say_tight(&e, &tight);
    if (result == STATUS_OK) {
        text assumed = { 0 };
        add_assumed(c, a, &assumed);
        slurm_add_head(&c->nodes,
                       &(slurm_job){ .model = a->model,
                                     .bytes = a->bytes,
                                     .tight = tight.data,
                                     .assumed = assumed.data,
                                     .ranks = has_ranks(c),
                                     .counted = c->counted },
                       out);
        text_close(&assumed);
        add_command(c, &e, out);
    }
    if (tight.length) text_add(people, "It %s.\n", tight.data);
    text_close(&tight);
    estimate_close(&e);
    return result;
}
