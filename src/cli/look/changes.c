/* --for MODEL: estimate's changes of settings, with what was measured in place of what it estimates. */
#include <string.h>

#include "base/units.h"
#include "cli/look/look.h"

static const roles_role of_part[CLI_PARTS] = {
    [CLI_WEIGHTS] = ROLES_WEIGHT,         [CLI_GRADIENTS] = ROLES_GRADIENT,    [CLI_OPTIMIZER] = ROLES_STATE,
    [CLI_ACTIVATIONS] = ROLES_ACTIVATION, [CLI_TEMPORARIES] = ROLES_TEMPORARY, [CLI_INPUTS] = ROLES_INPUT
};

status look_find_changes(const look_file *f, look_device *d) {
    uint64_t measured[CLI_PARTS];
    if (!f->options->for_model || d->trace->host) return STATUS_OK;
    for (int i = 0; i < CLI_PARTS; i++) measured[i] = d->by_role[of_part[i]];
    return cli_estimate_changes(f->options, f->options->for_model, measured, &d->changes);
}

/* What PyTorch reserves is as much more than what is in use as it was at most. */
static uint64_t reserved_for(const look_device *d, uint64_t peak) {
    bool known = (d->gaps.known || d->gaps.told) && d->reserved.most > d->alive.bytes;
    if (!known || !d->alive.bytes) return peak;
    return (uint64_t)((double)peak * (double)d->reserved.most / (double)d->alive.bytes);
}

uint64_t look_memory(const look_file *f, const look_device *d) {
    return f->words->memory ? f->words->memory : d->changes.memory;
}

bool look_change_fits(const look_file *f, const look_device *d, const cli_change *x) {
    return reserved_for(d, d->alive.bytes - x->saves) <= look_memory(f, d);
}

/* Sizes that differ by far are of another model, or of other settings. */
static bool is_far(const look_device *d) {
    return d->changes.live / 3 > d->alive.bytes || d->alive.bytes / 3 > d->changes.live;
}

void look_say_changes(text *t, const look_file *f, const look_device *d) {
    const cli_changes *c = &d->changes;
    char a[UNITS_TEXT_BYTES], b[UNITS_TEXT_BYTES], name[REPORT_NAME_BYTES];
    uint64_t memory = look_memory(f, d);
    if (!c->framework) return;
    text_add(t, "\nWhat estimate would change of %s (%s), each part as it was measured\n",
             f->words->anonymous ? "the model" : report_name(f->options->for_model, name), c->framework);
    for (uint32_t i = 0; i < c->count; i++) {
        const cli_change *x = &c->all[i];
        const char *fits = !memory ? "" : look_change_fits(f, d, x) ? ", which fits" : ", which does not fit";
        text_add(t, "  %-26s saves %11s, to %11s%s%s\n", x->text,
                 units_column_text(x->saves, d->alive.bytes, a),
                 units_column_text(d->alive.bytes - x->saves, d->alive.bytes, b), fits,
                 x->alters ? " (changes what is trained)" : "");
    }
    if (!c->count) text_add(t, "  nothing that would help\n");
    if (is_far(d))
        text_add(t,
                 "By these settings %s would be in use: this may be another model, or --batch, --context and "
                 "--dtype are others.\n",
                 units_bytes_text(c->live, a));
}

void look_put_changes(json_writer *w, const look_file *f, const look_device *d) {
    const cli_changes *c = &d->changes;
    if (!c->framework) return;
    json_begin_object(w, "for");
    json_put_string(w, "model", f->words->anonymous ? NULL : f->options->for_model);
    json_put_string(w, "framework", c->framework);
    json_put_unsigned(w, "estimated_bytes", c->live);
    json_begin_array(w, "changes");
    for (uint32_t i = 0; i < c->count; i++) {
        json_begin_object(w, NULL);
        json_put_string(w, "change", c->all[i].text);
        json_put_unsigned(w, "peak_bytes", d->alive.bytes - c->all[i].saves);
        json_put_unsigned(w, "saves_bytes", c->all[i].saves);
        json_put_bool(w, "changes_training", c->all[i].alters);
        if (look_memory(f, d))
            json_put_bool(w, "fits", look_change_fits(f, d, &c->all[i]));
        else
            json_put_null(w, "fits");
        json_end_object(w);
    }
    json_end_array(w);
    json_end_object(w);
}
