/* The configuration that an estimate found to fit, for the tool that --emit names. */
#include "cli/estimate/estimate.h"

status estimate_emit(text *t, const estimate_question *e, const framework_advice *a) {
    bool fits = e->result.fits;
    if (!fits && !a->text[0]) return STATUS_OK;
    return emit_write(e->o->estimate.emit,
                      &(emit_request){ .subject = &e->subject,
                                       .framework = e->framework,
                                       .named = e->hub ? e->hub : e->model.name,
                                       .settings = fits ? &e->settings : &a->settings,
                                       .result = fits ? &e->result : &a->result,
                                       .changed = fits ? "" : a->text },
                      t);
}
