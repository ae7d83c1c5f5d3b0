/* Traces and memory timelines of PyTorch's profiler: whatever is read agrees with itself, and all that is
 * told of it can be told. */
#include <string.h>

#include "cli/look/look.h"
#include "fuzz/fuzz.h"
#include "snapshot/times.h"

static void look(const look_file *f, const look_device *d) {
    const snapshot_trace *t = d->trace;
    alive a;
    FUZZ_EXPECT(t->top >= 0 && t->top >= t->net && t->top_at <= t->events);
    FUZZ_EXPECT(d->alive.bytes == alive_peak(t));
    FUZZ_EXPECT(alive_at(t, t->events, &a) == STATUS_OK);
    FUZZ_EXPECT(a.bytes == alive_end(t));
    alive_close(&a);
    FUZZ_EXPECT(times_of(t, t->events) == t->last);
    FUZZ_EXPECT(levels_run(&d->levels, &(levels_play){ .each = NULL }).bytes == alive_peak(t));
    FUZZ_EXPECT(d->gaps.free <= d->gaps.reserved && d->gaps.segment_count == 0);
    uint64_t bytes = 0;
    for (int i = 0; i < ROLES_COUNT; i++) bytes += d->by_role[i];
    FUZZ_EXPECT(bytes == d->alive.bytes);
    if (f->snapshot.form == SNAPSHOT_TIMELINE) FUZZ_EXPECT(d->by_evidence[BY_FILE] == bytes);
    for (uint32_t i = 0; i < d->alive.count; i++)
        FUZZ_EXPECT(stacks_depth(&f->snapshot.stacks, d->alive.pieces[i]->stack) <= 512);
    FUZZ_EXPECT(t->backwards == 0 || f->snapshot.form == SNAPSHOT_TIMELINE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    text t = { 0 };
    options o = options_defaults();
    snapshot_words words = { .at = -1, .each = true, .anonymous = size % 2, .memory = 1 << 20 };
    look_file f = { .path = fuzz_file("x.json", data, size), .number = 1, .words = &words, .options = &o };
    if (fuzz_said(look_open(&f)) != STATUS_OK) return 0;
    if (f.snapshot.form == SNAPSHOT_PICKLE) {
        look_close(&f);
        return 0;
    }
    for (uint32_t i = 0; i < f.count; i++) look(&f, &f.devices[i]);
    look_say(&t, &f);
    FUZZ_EXPECT(t.length > 0 && !memchr(t.data, 27, t.length));
    json_writer w = { .out = &t };
    look_json(&w, &f);
    text_close(&t);
    look_close(&f);
    return 0;
}
