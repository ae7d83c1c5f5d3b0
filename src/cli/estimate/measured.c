/* Changes of settings of a run that was measured: estimate's terms say by how much each part changes, and the
 * parts are those that were measured. */
#include <string.h>

#include "cli/estimate/estimate.h"

static uint64_t term(const framework_result *r, const char *name) {
    for (uint32_t i = 0; i < r->term_count; i++)
        if (strcmp(r->terms[i].name, name) == 0) return r->terms[i].bytes;
    return 0;
}

/* Logits are activations of a recording. */
static void parts_of(const framework_result *r, uint64_t parts[CLI_PARTS]) {
    parts[CLI_WEIGHTS] = term(r, "weights"), parts[CLI_GRADIENTS] = term(r, "gradients");
    parts[CLI_OPTIMIZER] = term(r, "optimizer");
    parts[CLI_ACTIVATIONS] = term(r, "activations") + term(r, "logits");
    parts[CLI_TEMPORARIES] = term(r, "temporaries"), parts[CLI_INPUTS] = term(r, "inputs");
}

/* A part that the estimate has nothing of at its peak stays as it was measured, or becomes what it estimates.
 */
static uint64_t scaled(const uint64_t measured[CLI_PARTS], const uint64_t before[CLI_PARTS],
                       const uint64_t after[CLI_PARTS]) {
    double sum = 0;
    for (int i = 0; i < CLI_PARTS; i++) {
        double m = (double)measured[i], now = (double)after[i];
        sum += before[i] ? m * now / (double)before[i] : m > now ? m : now;
    }
    return (uint64_t)(sum + 0.5);
}

static status try_changes(estimate_question *e, const uint64_t measured[CLI_PARTS], cli_changes *out) {
    const framework *f = e->framework;
    uint64_t before[CLI_PARTS], after[CLI_PARTS], whole = 0;
    TRY(f->estimate(&e->subject, &e->settings, &e->result));
    parts_of(&e->result, before);
    for (int i = 0; i < CLI_PARTS; i++) whole += measured[i];
    out->framework = f->name, out->live = e->result.layers[FRAMEWORK_LIVE].likely;
    for (uint32_t i = 0; i < f->change_count && out->count < CLI_CHANGES; i++) {
        framework_settings s = e->settings;
        framework_result r;
        cli_change *x = &out->all[out->count];
        if (!f->changes[i].apply(&e->subject, &s, x->text) || f->check(&e->subject, &s) != STATUS_OK)
            continue;
        TRY(f->estimate(&e->subject, &s, &r));
        parts_of(&r, after);
        uint64_t now = scaled(measured, before, after);
        if (now >= whole) continue;
        x->saves = whole - now, x->alters = f->changes[i].alters;
        out->count++;
    }
    return STATUS_OK;
}

status cli_estimate_changes(const options *o, const char *name, const uint64_t measured[CLI_PARTS],
                            cli_changes *out) {
    estimate_question e;
    framework_name f = (framework_name)o->estimate.framework;
    *out = (cli_changes){ .count = 0 };
    if (f != FRAMEWORK_HF && f != FRAMEWORK_PYTORCH && f != FRAMEWORK_LITGPT)
        return status_set(STATUS_INVALID,
                          "--for is of training with PyTorch: --framework hf, pytorch or litgpt");
    status result = estimate_open(o, name, &e);
    out->memory = e.hardware.memory;
    if (result == STATUS_OK) result = try_changes(&e, measured, out);
    estimate_close(&e);
    return result;
}
