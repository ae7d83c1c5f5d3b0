/* snug estimate: what a step takes on hardware, and in frameworks, that are elsewhere. */
#include <stdio.h>

#include "base/units.h"
#include "cli/cli.h"
#include "cli/estimate/cluster_answer.h"
#include "cli/estimate/estimate.h"
#include "cli/estimate/page.h"
#include "cli/gpu.h"
#include "cli/page_file.h"

static status show(estimate_question *e, cli_streams *streams, io_writer *html) {
    framework_advice a = { .text = "" };
    TRY(e->framework->estimate(&e->subject, &e->settings, &e->result));
    if (!e->result.fits) TRY(framework_advise(e->framework, &e->subject, &e->settings, &a));
    text t = { 0 };
    if (streams->people.file) {
        estimate_say(&t, e, &a);
        output_text(&streams->people, &t);
    }
    if (e->o->json) {
        estimate_put_json(&t, e, &a);
        output_text(&streams->result, &t);
    }
    if (e->o->estimate.emit) {
        text beside = { 0 };
        status emitted = estimate_emit(&t, e, &a, &beside);
        output_text(&streams->people, &beside);
        output_text(&streams->result, &t);
        TRY(emitted);
    }
    if (e->o->html) TRY(page_file_end(e->o, streams, html, estimate_page(html, e, &a)));
    bool strict = e->o->estimate.strict;
    if (strict && e->result.fits && !e->result.surely)
        return status_set(STATUS_NO_FIT, "%s may fit %s: the upper end of the interval does not",
                          e->model.name, e->hardware.name);
    if (e->result.fits) return STATUS_OK;
    char more[UNITS_TEXT_BYTES];
    return status_set(STATUS_NO_FIT, "%s does not fit %s: %s too much", e->model.name, e->hardware.name,
                      units_column_text(e->result.beyond, e->hardware.memory + e->hardware.leaves, more));
}

static status answer(estimate_question *e, cli_streams *streams) {
    io_writer html = { 0 };
    TRY(page_file_open(e->o, &html));
    status result = show(e, streams, &html);
    io_writer_discard(&html);
    return result;
}

/* The plan itself: of a GPU that there are kernels for that of 'plan --gpu', of any other device this
 * machine's for its memory less what a process takes of it. */
static status answer_snug(const estimate_question *e, cli_streams *streams) {
    options o = *e->o;
    device_elsewhere at;
    const hardware *h = &e->hardware;
    if (e->notes.length && streams->people.file) output_add(&streams->people, "%s", e->notes.data);
    if (o.estimate.gpus > 1)
        return status_set(STATUS_INVALID, "--gpus %lld: snug trains on one device",
                          (long long)o.estimate.gpus);
    if (h->memory && !gpu_elsewhere(h, &o, &at)) {
        uint64_t beside = h->overhead ? h->overhead : h->context[2];
        o.run.memory = h->memory > beside ? h->memory - beside : 1;
        if (streams->people.file)
            output_add(
                &streams->people,
                "of %s its memory counts, and all times are of this machine's: snug has no kernels for "
                "it, or nothing is known of its rates\n",
                h->name);
    }
    if (!o.estimate.serves) return cli_plan(&o, streams);
    if (o.html) return status_set(STATUS_INVALID, "--html is of training; leave it out with --serve");
    bool folder = cli_check_directory(o.subject) == STATUS_OK;
    if (!folder && streams->people.file)
        output_add(&streams->people,
                   "no folder is named: weights are counted in 16 bits, and no tokenizer\n");
    return cli_serve_estimate(&o, folder ? NULL : &e->config, e->model.name, streams);
}

static status answer_one(const options *o, cli_streams *streams) {
    estimate_question e;
    status result = estimate_open(o, o->subject, &e);
    if (result == STATUS_OK && estimate_is_planned(&e)) {
        result = estimate_plan(&e, streams);
        estimate_close(&e);
        return result;
    }
    if (result == STATUS_OK) result = emit_check(o->estimate.emit, e.framework);
    if (result == STATUS_OK) result = e.framework ? answer(&e, streams) : answer_snug(&e, streams);
    estimate_close(&e);
    return result;
}

static status write_script(const cluster_answer *c, cli_streams *streams) {
    ask_answer a;
    text t = { 0 }, beside = { 0 };
    status result = ask(&c->with, NULL, true, &a);
    if (result == STATUS_OK && !a.fits)
        result = status_set(STATUS_NO_FIT, "%s does not fit %s, and gets no script", a.model,
                            c->nodes.kind->device);
    if (result == STATUS_OK) result = cluster_answer_write(c, &a, &t, &beside);
    output_text(&streams->people, &beside);
    if (result == STATUS_OK) output_text(&streams->result, &t);
    text_close(&a.notes);
    return result;
}

/* The device is the cluster's, and where there are not enough of the smallest, more of them or a larger one.
 */
static status answer_on_cluster(const options *o, cli_streams *streams) {
    cluster_answer c;
    text t = { 0 };
    TRY(cluster_answer_find(o, &c));
    bool script = o->estimate.emit == EMIT_SLURM;
    if (streams->people.file) {
        cluster_answer_say(&c, &t);
        output_text(&streams->people, &t);
    }
    return script ? write_script(&c, streams) : answer_one(&c.with, streams);
}

/* Hours are of one answer, on a device. */
static status check_hours(const estimate_options *x, bool solving) {
    const char *asked = x->tokens > 0 ? "--tokens" : "--steps";
    if (!(x->tokens > 0) && !x->steps)
        return x->share > 0
                   ? status_set(STATUS_INVALID, "--mfu is for hours; say --tokens or --steps as well")
                   : STATUS_OK;
    if (x->tokens > 0 && x->steps)
        return status_set(STATUS_INVALID,
                          "--tokens and --steps both say how long training is; say one of them");
    if (solving)
        return status_set(STATUS_INVALID, "%s asks for hours, and --solve for something else", asked);
    if (!x->device && !x->cluster)
        return status_set(STATUS_INVALID, "%s asks for the hours of a device; say --gpu NAME", asked);
    return STATUS_OK;
}

static status check_together(const options *o) {
    const estimate_options *x = &o->estimate;
    bool solving = x->solve != SOLVE_FITS || x->family;
    if (o->html && solving)
        return status_set(STATUS_INVALID, "--html shows one answer, with what would change it; leave out %s",
                          x->family ? "--fit" : "--solve");
    if (o->html && x->emit == EMIT_SLURM)
        return status_set(STATUS_INVALID, "--emit slurm writes a script and no report; leave out --html");
    if (o->html) TRY(io_check_file(o->html));
    if (solving && o->subject && recording_is(o->subject) && (o->run.memory || o->run.memory_auto))
        return status_set(STATUS_INVALID, "--solve asks what fits a device, and --memory for a plan; leave "
                                          "--memory out, or --solve");
    TRY(check_hours(x, solving));
    if (x->emit && o->json)
        return status_set(STATUS_INVALID, "--emit and --json both write to stdout; say one of them");
    if (x->cluster && solving)
        return status_set(STATUS_INVALID,
                          "--cluster answers what of it would do; with --solve say --gpu NAME instead");
    if (x->emit == EMIT_SLURM && !x->cluster)
        return status_set(STATUS_INVALID, "--emit slurm writes for a cluster; say --cluster NAME");
    if (!o->subject && !solving) return status_set(STATUS_INVALID, "no model named; say snug estimate MODEL");
    return STATUS_OK;
}

/* What a run has shown says what a process takes beside its allocator, in all that is answered. */
static status learn_overhead(const options *o, output *people, options *with) {
    estimate_question e;
    const estimate_options *x = &o->estimate;
    char measured[UNITS_TEXT_BYTES], bytes[UNITS_TEXT_BYTES];
    if (x->overhead)
        return status_set(STATUS_INVALID, "--measured says what --overhead is; leave one of the two out");
    if (!o->subject)
        return status_set(STATUS_INVALID,
                          "--measured is of a model; say snug estimate MODEL --measured SIZE");
    status result = estimate_open(o, o->subject, &e);
    if (result == STATUS_OK) result = e.framework->estimate(&e.subject, &e.settings, &e.result);
    const interval *reserved = &e.result.layers[FRAMEWORK_RESERVED];
    if (result == STATUS_OK && x->measured <= reserved->low)
        result =
            status_set(STATUS_INVALID,
                       "--measured %s is less than what these settings reserve, at least %s; was that a run "
                       "with other settings?",
                       units_bytes_text(x->measured, measured), units_bytes_text(reserved->low, bytes));
    if (result == STATUS_OK) {
        with->estimate.overhead = x->measured > reserved->likely ? x->measured - reserved->likely : 1;
        with->estimate.measured = 0;
        if (people->file)
            output_add(people, "a process takes %s beside its allocator, by the %s that were measured\n",
                       units_bytes_text(with->estimate.overhead, bytes),
                       units_bytes_text(x->measured, measured));
    }
    estimate_close(&e);
    return result;
}

static status answer_all(const options *o, cli_streams *streams) {
    if (o->estimate.solve != SOLVE_FITS || o->estimate.family) return estimate_solve(o, streams);
    return o->estimate.cluster ? answer_on_cluster(o, streams) : answer_one(o, streams);
}

status cli_estimate(const options *o, cli_streams *streams) {
    options with = *o;
    if (o->estimate.recipe) return estimate_recipe(o, streams);
    TRY(check_together(o));
    if (o->estimate.measured) TRY(learn_overhead(o, &streams->people, &with));
    return answer_all(&with, streams);
}

/* ---- for explain-oom ---- */

static status find_savings(estimate_question *e, cli_savings *out) {
    const framework *f = e->framework;
    if (!f)
        return status_set(STATUS_INVALID, "--framework snug: it is not snug that ran out of memory there");
    TRY(f->estimate(&e->subject, &e->settings, &e->result));
    uint64_t before = e->result.layers[FRAMEWORK_DEVICE].likely;
    out->device = before;
    out->live = e->result.layers[FRAMEWORK_LIVE].likely;
    for (uint32_t i = 0; i < f->change_count && out->count < out->room; i++) {
        framework_settings s = e->settings;
        framework_result r;
        cli_saving *x = &out->savings[out->count];
        if (!f->changes[i].apply(&e->subject, &s, x->text)) continue;
        TRY(f->estimate(&e->subject, &s, &r));
        uint64_t after = r.layers[FRAMEWORK_DEVICE].likely;
        if (after + before / 64 >= before) continue;
        x->bytes = before - after;
        if (f->changes[i].own) f->changes[i].own(&s, x->text);
        out->count++;
    }
    return STATUS_OK;
}

status cli_estimate_savings(const options *o, const char *model_name, cli_savings *out) {
    estimate_question e;
    out->count = 0;
    status result = estimate_open(o, model_name, &e);
    if (result == STATUS_OK) result = find_savings(&e, out);
    estimate_close(&e);
    return result;
}
