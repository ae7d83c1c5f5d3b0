/* The configuration that an estimate found to fit, for the tool that --emit names. */
#include "cli/estimate/estimate.h"

/* Samples of an optimizer step: --batch, which is a device's where --micro-batch doesn't cut it. */
static int64_t batch(const estimate_question *e) {
    const setup_options *run = &e->o->run;
    return run->micro_batch ? run->batch : run->batch * e->o->estimate.gpus;
}

status estimate_emit(text *t, const estimate_question *e, const framework_advice *a) {
    bool fits = e->result.fits;
    if (!fits && !a->text[0]) return STATUS_OK;
    return emit_write(e->o->estimate.emit,
                      &(emit_request){ .subject = &e->subject,
                                       .framework = e->framework,
                                       .settings = fits ? &e->settings : &a->settings,
                                       .result = fits ? &e->result : &a->result,
                                       .changed = fits ? "" : a->text,
                                       .batch = batch(e) },
                      t);
}
