/* The configuration that an estimate found to fit, for the tool that --emit names. */
#include <stdio.h>

#include "base/units.h"
#include "cli/estimate/estimate.h"

status estimate_say_tight(text *out, const estimate_question *e, const framework_settings *s,
                          const framework_result *r) {
    framework_advice a;
    char likely[UNITS_TEXT_BYTES], high[UNITS_TEXT_BYTES], has[UNITS_TEXT_BYTES], then[UNITS_TEXT_BYTES];
    const interval *b = &r->layers[FRAMEWORK_DEVICE];
    if (framework_has_room(&e->subject, r)) return STATUS_OK;
    TRY(framework_advise_room(e->framework, &e->subject, s, &a));
    text_add(out, "fits only barely: %s, at most %s, of %s", units_bytes_text(b->likely, likely),
             units_bytes_text(b->high, high), units_bytes_text(e->hardware.memory, has));
    if (a.text[0])
        text_add(out, "; room is left with %s%s, which takes %s", a.text, estimate_altered(&a),
                 units_bytes_text(a.result.layers[FRAMEWORK_DEVICE].likely, then));
    return STATUS_OK;
}

status estimate_emit(text *t, const estimate_question *e, const framework_advice *a, text *people) {
    bool fits = e->result.fits;
    text tight = { 0 };
    if (!fits && !a->text[0]) return STATUS_OK;
    const framework_settings *s = fits ? &e->settings : &a->settings;
    const framework_result *r = fits ? &e->result : &a->result;
    status result = estimate_say_tight(&tight, e, s, r);
    if (tight.length) text_add(people, "What is written %s.\n", tight.data);
    if (result == STATUS_OK)
        result = emit_write(e->o->estimate.emit,
                            &(emit_request){ .subject = &e->subject,
                                             .framework = e->framework,
                                             .named = e->hub ? e->hub : e->model.name,
                                             .settings = s,
                                             .result = r,
                                             .tight = tight.length ? tight.data : "",
                                             .changed = fits ? "" : a->text,
                                             .alters = !fits && a->alters },
                            t);
    text_close(&tight);
    return result;
}
