/* The tape of an estimate as bands: each storage from the call that makes it to the one that lets it go.
 *
 * A call makes some values and lets others go, perhaps several times. Its moments are cut so that in each all
 * births come before all deaths: what is there in a moment is then its highest, so the highest moment is the
 * peak that the estimate says. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "cli/estimate/page.h"

enum {
    BANDS_ALONE = 4000,
    MOST_ROUNDS = 64,
    ROUND_BYTES = 24,
    NOT_BORN = 0,
    SHOWN = TAPE_REFERENCE, /* terms of steps that have a picture */
    FREE = SHOWN            /* what is reserved and not in use, as a category */
};

typedef struct {
    page_moment *moments;
    uint64_t *held;
    page_band *bands;
    uint32_t *band_of; /* by storage: its band + 1 */
    uint32_t moment_count, moment_room, band_count, band_room, storage_room;
    page_moment now;      /* the call */
    bool begins, lets_go; /* it has had no birth yet; there were deaths since the last one */
    uint64_t live, most;
    uint32_t peak, rounds;
    const uint64_t **reserved; /* the watcher's */
    bool failed;
} film;

/* ---- watching ---- */

static bool grow(void **items, uint32_t *room, uint32_t needed, size_t size) {
    if (needed <= *room) return true;
    uint32_t more = *room ? 2 * *room : 1024;
    while (more < needed) more *= 2;
    void *data = memory_resize(*items, more, size);
    if (!data) return false;
    *items = data, *room = more;
    return true;
}

static uint64_t reserved(const film *f) { return *f->reserved ? **f->reserved : 0; }

static bool add_moment(film *f) {
    uint32_t room = f->moment_room;
    if (!grow((void **)&f->moments, &room, f->moment_count + 1, sizeof *f->moments)) return false;
    if (!grow((void **)&f->held, &f->moment_room, f->moment_count + 1, sizeof *f->held)) return false;
    f->moments[f->moment_count] = f->now;
    f->held[f->moment_count++] = reserved(f);
    return true;
}

static uint8_t phase_of(const char *now) { return *now == 'f' ? 0 : *now == 'b' ? 1 : 2; }

static void see_call(void *context, const char *what, int32_t site, const char *now, uint32_t round) {
    film *f = context;
    f->now = (page_moment){ .what = what,
                            .group = site,
                            .phase = phase_of(now),
                            .part = (uint8_t)(round < MOST_ROUNDS ? round : MOST_ROUNDS - 1) };
    f->begins = true;
    if (round + 1 > f->rounds) f->rounds = round + 1;
}

static void see_birth(void *context, uint32_t storage, uint64_t bytes, tape_term term) {
    film *f = context;
    uint32_t storages = f->storage_room;
    if (f->failed) return;
    if (f->begins || f->lets_go || !f->moment_count) f->failed = !add_moment(f);
    f->begins = f->lets_go = false;
    f->failed |= !grow((void **)&f->bands, &f->band_room, f->band_count + 1, sizeof *f->bands) ||
                 !grow((void **)&f->band_of, &storages, storage + 1, sizeof *f->band_of);
    if (f->failed) return;
    for (uint32_t i = f->storage_room; i < storages; i++) f->band_of[i] = NOT_BORN;
    f->storage_room = storages;
    uint32_t moment = f->moment_count - 1;
    f->bands[f->band_count] = (page_band){ .name = f->now.what,
                                           .category = (uint8_t)term,
                                           .phase = f->now.phase,
                                           .group = f->now.group,
                                           .first = moment,
                                           .last = UINT32_MAX,
                                           .bytes = bytes };
    f->band_of[storage] = ++f->band_count;
    f->live += bytes;
    if (reserved(f) > f->held[moment]) f->held[moment] = reserved(f);
    if (f->live > f->most) f->most = f->live, f->peak = moment;
}

static void see_death(void *context, uint32_t storage) {
    film *f = context;
    if (f->failed || storage >= f->storage_room || !f->band_of[storage]) return;
    page_band *x = &f->bands[f->band_of[storage] - 1];
    x->last = f->moment_count - 1;
    f->band_of[storage] = NOT_BORN;
    f->live -= x->bytes;
    f->lets_go = true;
}

static void close_film(film *f) {
    memory_free(f->moments), memory_free(f->held), memory_free(f->bands), memory_free(f->band_of);
}

/* ---- the picture ---- */

static const char *term_about(tape_term t) {
    static const char *const about[SHOWN] = { "a weight",     "a gradient", "state of the optimizer",
                                              "kept forward", "logits",     "for a while",
                                              "an input" };
    return about[t];
}

static void put_film(page *p, film *f) {
    static const char *const phases[] = { "forward", "backward", "update" };
    /* Colours go by place: what stays lies lowest, and what is not in use has the place of gaps. */
    static const uint8_t places[SHOWN] = { 0, 1, 2, 3, 5, 4, 6 };
    const char *categories[SHOWN + 1], *parts[MOST_ROUNDS];
    char names[MOST_ROUNDS][ROUND_BYTES];
    uint32_t rounds = f->rounds < MOST_ROUNDS ? f->rounds : MOST_ROUNDS;
    for (int t = 0; t < SHOWN; t++) categories[places[t]] = tape_term_name((tape_term)t);
    categories[FREE] = "reserved, not in use";
    for (uint32_t i = 0; i < rounds; i++) {
        snprintf(names[i], ROUND_BYTES, "step %u", i + 1);
        parts[i] = names[i];
    }
    for (uint32_t i = 0; i < f->band_count; i++) {
        page_band *x = &f->bands[i];
        if (x->last == UINT32_MAX) x->last = f->moment_count - 1;
        x->form = term_about((tape_term)x->category);
        x->category = places[x->category];
    }
    page_put_bands(p, &(page_bands){
                          .name = "Live memory, call by call",
                          .about = "Each band is a storage, from the call that makes it to the one that lets "
                                   "it go. The optimizer's state comes with the first update, so the second "
                                   "step is another one.",
                          .categories = categories,
                          .category_count = SHOWN + 1,
                          .phases = phases,
                          .phase_count = 3,
                          .parts = parts,
                          .part_count = rounds,
                          .group_word = "block",
                          .moment_word = "moment",
                          .moments = f->moments,
                          .moment_count = f->moment_count,
                          .bands = f->bands,
                          .band_count = f->band_count,
                          .held = f->held[0] ? f->held : NULL,
                          .held_varies = true,
                          .free = FREE,
                          .budget = UINT64_MAX,
                          .peak = f->peak,
                          .most = BANDS_ALONE,
                      });
}

status estimate_page_step(page *p, const estimate_question *e) {
    film f = { 0 };
    tape_watcher w = { .call = see_call, .born = see_birth, .died = see_death, .context = &f };
    if (!e->framework->watch) return STATUS_OK;
    f.reserved = &w.reserved;
    status result = e->framework->watch(&e->subject, &e->settings, &w);
    if (result == STATUS_OK && f.failed)
        result = status_set(STATUS_FAILED, "no memory for the picture of the step");
    if (result == STATUS_OK && f.moment_count) {
        page_section(p, "The step");
        put_film(p, &f);
    }
    close_film(&f);
    return result;
}
