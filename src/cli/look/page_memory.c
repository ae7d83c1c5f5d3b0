/* Memory over a recording, as bands. A recording has millions of events and a picture some hundred places, so
 * it is looked at at so many moments: of each stretch of events the one with the most in use, so that no peak
 * is lost. At these everything is shown to the byte; what lives between two of them only is said. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cli/look/look.h"
#include "snapshot/times.h"

enum {
    MOMENTS = 2000,
    BANDS_ALONE = 4000,
    STAIRS = 30000,       /* most changes of what is gathered; above, it is gathered over all blocks */
    NAMES_BYTES = 800000, /* of those that stand alone */
    EVENT_BYTES = 20,
    STEP_BYTES = 24,
    MOST_STEPS = 200,
    MOST_BLOCKS = 256,
    FREE = ROLES_COUNT /* what is reserved and not in use, as a category */
};

const roles_role look_stacked[ROLES_COUNT] = { ROLES_WEIGHT,     ROLES_GRADIENT,  ROLES_STATE,
                                               ROLES_ACTIVATION, ROLES_TEMPORARY, ROLES_WORKSPACE,
                                               ROLES_INPUT,      ROLES_BEFORE,    ROLES_UNKNOWN };

typedef struct {
    const look_file *f;
    const look_device *d;
    uint32_t moments, length; /* how many, and of how many events each stretch is */
    uint32_t *instants;       /* by moment: the one that is looked at */
    uint64_t *levels, *held;
    page_moment *whats;
    double *times;
    char (*events)[EVENT_BYTES];
    char (*steps)[STEP_BYTES];
    const char **parts;
    uint32_t part_count, most;
    page_band *bands;
    uint32_t *stacks; /* by band */
    uint32_t band_count, share;
    int32_t *block;   /* by piece */
    uint32_t *offset; /* by stack: of its two names in `names`, from 1 */
    text names;
    uint64_t threshold, smaller; /* what gathered ones have at most; how many they are */
    uint64_t *largest;           /* a heap of the sizes of the largest ones, the least on top */
    uint32_t heap, groups;       /* of gathered ones: blocks, and one for all else */
    page_change *changes;        /* by kind and moment; then those that are any */
    uint32_t change_count;
    uint64_t unseen, unseen_count; /* allocations that live at no moment */
    uint64_t last_level;
    uint32_t last_stretch;
    uint8_t place[ROLES_COUNT]; /* of a role among the categories */
} picture;

/* ---- the moments ---- */

static uint32_t stretch_of(const picture *c, uint32_t instant) { return instant / c->length; }

static void take(picture *c, uint32_t instant, uint64_t level) {
    uint32_t s = stretch_of(c, instant);
    if (c->instants[s] != SNAPSHOT_NEVER && level <= c->levels[s]) return;
    c->instants[s] = instant;
    c->levels[s] = level;
}

/* A stretch begins with what the one before ended with. */
static void take_level(void *context, uint32_t instant, uint64_t level) {
    picture *c = context;
    uint32_t s = stretch_of(c, instant);
    while (c->last_stretch < s) {
        uint32_t first = ++c->last_stretch * c->length;
        if (first < instant) take(c, first, c->last_level);
    }
    take(c, instant, level);
    c->last_level = level;
}

static void find_moments(picture *c) {
    for (uint32_t i = 0; i < c->moments; i++) c->instants[i] = SNAPSHOT_NEVER;
    levels_run(&c->d->levels, &(levels_play){ .each = take_level, .context = c });
    while (c->last_stretch + 1 < c->moments) {
        uint32_t first = ++c->last_stretch * c->length;
        take(c, first, c->last_level);
    }
}

static void find_held(picture *c) {
    gaps_reader r = { c->d->trace, c->d->reserved.begin, 0 };
    for (uint32_t i = 0; i < c->moments; i++) c->held[i] = gaps_reserved_at(&r, c->instants[i]);
}

static uint8_t phase_of(course_phase p) { return p == COURSE_OTHER ? 3 : (uint8_t)(p - COURSE_FORWARD); }

static void describe_moments(picture *c) {
    for (uint32_t i = 0; i < c->moments; i++) {
        course_moment m = course_moment_of(&c->d->course, c->instants[i]);
        snprintf(c->events[i], EVENT_BYTES, "event %u", c->instants[i]);
        c->whats[i] = (page_moment){ .what = c->events[i],
                                     .group = -1,
                                     .phase = phase_of(m.phase),
                                     .part = c->part_count > 1 ? (uint8_t)m.step : 0 };
    }
}

static void name_steps(picture *c) {
    uint32_t last = c->d->course.count ? c->d->course.runs[c->d->course.count - 1].step : 0;
    c->part_count = last < MOST_STEPS ? last + 2 : 1;
    for (uint32_t i = 0; i < c->part_count; i++) {
        if (c->part_count > 1 && i)
            snprintf(c->steps[i], STEP_BYTES, "step %u", i);
        else
            snprintf(c->steps[i], STEP_BYTES, c->part_count > 1 ? "before" : "all steps");
        c->parts[i] = c->steps[i];
    }
}

/* Of the event that is shown, which is not always its stretch's first. */
static void find_times(picture *c) {
    times_reader r = times_begin(c->d->trace);
    uint64_t first = c->d->trace->first;
    for (uint32_t i = 0; i < c->moments; i++) {
        while (r.at < c->instants[i] && times_next(&r)) continue;
        c->times[i] = 1e-6 * (double)(r.time - first);
    }
    c->times[c->moments] = 1e-6 * (double)(c->d->trace->last - first);
}

/* ---- the bands ---- */

/* The first moment at or after the instant. */
static uint32_t moment_from(const picture *c, uint32_t instant) {
    uint32_t s = stretch_of(c, instant);
    return s < c->moments && c->instants[s] < instant ? s + 1 : s;
}

/* From the first to the last moment, or false. */
static bool lives(const picture *c, const snapshot_piece *p, uint32_t range[2]) {
    range[0] = moment_from(c, p->born);
    range[1] = p->died == SNAPSHOT_NEVER ? c->moments : moment_from(c, p->died);
    if (range[1] > c->moments) range[1] = c->moments;
    return range[1]-- > range[0];
}

static const char *name_of(const picture *c, uint32_t stack, int which) {
    const char *name = c->offset[stack] ? c->names.data + c->offset[stack] - 1 : "no frames";
    return which && c->offset[stack] ? name + strlen(name) + 1 : which ? NULL : name;
}

/* Its own frame, and the innermost one. Texts end with a 0 each. */
static void add_name(picture *c, uint32_t stack) {
    char own[LOOK_FRAME_BYTES], inner[LOOK_FRAME_BYTES];
    if (!stack || c->offset[stack]) return;
    c->offset[stack] = (uint32_t)c->names.length + 1;
    text_add(&c->names, "%s%c", look_stack_text(c->f, stack, own), 0);
    text_add(&c->names, "%s%c", look_frame_text(c->f, stacks_at(&c->f->snapshot.stacks, stack, 0), inner), 0);
}

/* Calls `take` for each allocation that lives at a moment. */
typedef void piece_taker(picture *c, const snapshot_piece *p, int32_t block, const uint32_t range[2]);

static void each_seen(picture *c, piece_taker *each) {
    const snapshot_trace *t = c->d->trace;
    uint32_t range[2];
    for (uint32_t i = 0; i < snapshot_count(&t->before); i++)
        if (lives(c, snapshot_piece_at(&t->before, i), range))
            each(c, snapshot_piece_at(&t->before, i), -1, range);
    for (uint32_t i = 0; i < snapshot_count(&t->pieces); i++)
        if (lives(c, snapshot_piece_at(&t->pieces, i), range))
            each(c, snapshot_piece_at(&t->pieces, i), c->block[i], range);
}

static void count_unseen(picture *c) {
    const array *pieces = &c->d->trace->pieces;
    uint32_t range[2];
    for (uint32_t i = 0; i < snapshot_count(pieces); i++) {
        const snapshot_piece *p = snapshot_piece_at(pieces, i);
        if (lives(c, p, range)) continue;
        c->unseen += p->bytes;
        c->unseen_count++;
    }
}

/* ---- those that stand alone ---- */

static void sink(picture *c, uint32_t at) {
    for (;;) {
        uint32_t least = at, left = 2 * at + 1;
        for (uint32_t k = left; k < left + 2 && k < c->heap; k++)
            if (c->largest[k] < c->largest[least]) least = k;
        if (least == at) return;
        uint64_t other = c->largest[at];
        c->largest[at] = c->largest[least], c->largest[least] = other;
        at = least;
    }
}

/* One more than can stand alone, so that the least is the largest one that does not. */
static void note_size(picture *c, const snapshot_piece *p, int32_t block, const uint32_t range[2]) {
    (void)block, (void)range;
    if (c->heap <= c->most) {
        uint32_t at = c->heap++;
        for (; at && c->largest[(at - 1) / 2] > p->bytes; at = (at - 1) / 2)
            c->largest[at] = c->largest[(at - 1) / 2];
        c->largest[at] = p->bytes;
    } else if (p->bytes > c->largest[0]) {
        c->largest[0] = p->bytes;
        sink(c, 0);
    }
}

static int larger_first(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x < y) - (x > y);
}

static void add_alone(picture *c, const snapshot_piece *p, int32_t block, const uint32_t range[2]) {
    static const char *const known[EVIDENCES] = { [BY_NOTHING] = NULL,
                                                  [BY_FRAMES] = "known by its frames",
                                                  [BY_LIFETIME] = "known by its lifetime",
                                                  [BY_SIZE] = "known by its size",
                                                  [BY_FILE] = "as the file says" };
    if (p->bytes <= c->threshold) return;
    verdict v = roles_of(&c->d->roles, p);
    course_moment m = course_moment_of(&c->d->course, p->born);
    c->stacks[c->band_count] = p->stack;
    c->bands[c->band_count++] = (page_band){ .form = known[v.by],
                                             .category = c->place[v.role],
                                             .phase = phase_of(m.phase),
                                             .group = v.role == ROLES_ACTIVATION ? block : -1,
                                             .first = range[0],
                                             .last = range[1],
                                             .bytes = p->bytes };
}

/* Bytes of the names of bands that are larger than that, each stack's once; a '<' takes six of them. */
static size_t names_above(picture *c, uint64_t threshold) {
    c->names.length = 0;
    memset(c->offset, 0, (c->d->course.traits->count + 1) * sizeof *c->offset);
    for (uint32_t i = 0; i < c->band_count; i++)
        if (c->bands[i].bytes > threshold) add_name(c, c->stacks[i]);
    size_t bytes = c->names.length;
    for (size_t i = 0; i < c->names.length; i++) bytes += c->names.data[i] == '<' ? 5 : 0;
    return bytes;
}

/* Of these as many as their names leave room for; the others join those that are gathered. */
static bool choose(picture *c) {
    each_seen(c, note_size);
    qsort(c->largest, c->heap, sizeof *c->largest, larger_first);
    c->threshold = c->heap > c->most ? c->largest[c->most] : 0;
    each_seen(c, add_alone);
    uint64_t threshold = c->threshold;
    while (c->most >= 16 && names_above(c, threshold) * c->share > NAMES_BYTES) {
        c->most /= 2;
        threshold = c->heap > c->most ? c->largest[c->most] : 0;
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < c->band_count; i++) {
        if (c->bands[i].bytes <= threshold) continue;
        c->bands[kept] = c->bands[i];
        c->bands[kept].name = name_of(c, c->stacks[i], 0);
        c->bands[kept].from = name_of(c, c->stacks[i], 1);
        if (c->bands[kept].from && strcmp(c->bands[kept].name, c->bands[kept].from) == 0)
            c->bands[kept].from = NULL;
        kept++;
    }
    c->band_count = kept;
    c->threshold = threshold;
    return !c->names.failed;
}

/* ---- those that are gathered ---- */

/* Of a category, and of activations in a block. */
static page_change *change_at(picture *c, uint8_t tone, int32_t block, uint32_t moment) {
    uint32_t kind = block >= 0 ? ROLES_COUNT + 1 + (uint32_t)block : tone;
    return &c->changes[(size_t)kind * (c->moments + 1) + moment];
}

static void gather(picture *c, const snapshot_piece *p, int32_t block, const uint32_t range[2]) {
    if (p->bytes > c->threshold) return;
    verdict v = roles_of(&c->d->roles, p);
    int32_t group = v.role == ROLES_ACTIVATION && block < (int32_t)c->groups ? block : -1;
    uint8_t tone = c->place[v.role];
    for (int ends = 0; ends < 2; ends++) {
        page_change *x = change_at(c, tone, group, ends ? range[1] + 1 : range[0]);
        x->category = tone, x->group = group;
        x->moment = ends ? range[1] + 1 : range[0];
        x->bytes += ends ? -(int64_t)p->bytes : (int64_t)p->bytes;
        x->count += ends ? -1 : 1;
    }
    c->smaller++;
}

static bool gather_all(picture *c, uint32_t groups) {
    size_t room = (size_t)(ROLES_COUNT + 1 + groups) * (c->moments + 1);
    memory_free(c->changes);
    c->changes = memory_new(room, sizeof *c->changes);
    if (!c->changes) return false;
    c->groups = groups, c->smaller = 0, c->change_count = 0;
    each_seen(c, gather);
    for (size_t i = 0; i < room; i++)
        if (c->changes[i].bytes || c->changes[i].count) c->changes[c->change_count++] = c->changes[i];
    return true;
}

/* Blocks tell them apart only where that takes no room. */
static bool gather_smaller(picture *c) {
    uint32_t blocks = c->d->sites.blocks;
    if (!gather_all(c, blocks < MOST_BLOCKS ? blocks : 0)) return false;
    return c->change_count * c->share <= STAIRS || !c->groups || gather_all(c, 0);
}

/* ---- the whole ---- */

static void close_picture(picture *c) {
    memory_free(c->instants), memory_free(c->levels), memory_free(c->held), memory_free(c->whats);
    memory_free(c->times), memory_free(c->events), memory_free(c->steps), memory_free(c->parts);
    memory_free(c->bands), memory_free(c->stacks), memory_free(c->block), memory_free(c->offset);
    memory_free(c->largest), memory_free(c->changes);
    text_close(&c->names);
}

static bool open_picture(picture *c) {
    const snapshot_trace *t = c->d->trace;
    uint32_t pieces = snapshot_count(&t->pieces);
    c->instants = memory_new(c->moments, sizeof *c->instants);
    c->levels = memory_new(c->moments, sizeof *c->levels);
    c->held = memory_new(c->moments, sizeof *c->held);
    c->whats = memory_new(c->moments, sizeof *c->whats);
    c->times = memory_new(c->moments + 1u, sizeof *c->times);
    c->events = memory_new(c->moments, sizeof *c->events);
    c->steps = memory_new(MOST_STEPS + 2, sizeof *c->steps);
    c->parts = memory_new(MOST_STEPS + 2, sizeof *c->parts);
    c->block = memory_new(pieces + 1u, sizeof *c->block);
    c->bands = memory_new(c->most + 1u, sizeof *c->bands);
    c->stacks = memory_new(c->most + 1u, sizeof *c->stacks);
    c->largest = memory_new(c->most + 1u, sizeof *c->largest);
    c->offset = memory_new(c->d->course.traits->count + 1u, sizeof *c->offset);
    if (!c->instants || !c->levels || !c->held || !c->whats || !c->times || !c->events || !c->steps ||
        !c->parts || !c->block || !c->offset || !c->bands || !c->stacks || !c->largest)
        return false;
    if (sites_number(&c->d->course, c->d->sites.blocks, c->block) != STATUS_OK) return false;
    find_moments(c);
    find_held(c);
    name_steps(c);
    describe_moments(c);
    if (t->first) find_times(c);
    count_unseen(c);
    return choose(c) && gather_smaller(c);
}

static void say_unseen(page *p, const picture *c) {
    char bytes[2 * PAGE_VALUE_BYTES];
    if (c->length == 1) return;
    page_say(p,
             "Of %u events %u moments are shown: of each %u after each other the one with the most in use.",
             c->d->trace->events, c->moments, c->length);
    if (c->unseen_count)
        page_say(p, "Left out are %llu allocations, of %s taken together, which live between two of these.",
                 (unsigned long long)c->unseen_count, page_exact(c->unseen, bytes));
}

status look_page_memory(page *p, const look_file *f, const look_device *d, uint32_t share) {
    static const char *const phases[] = { "forward", "backward", "update", "other" };
    const char *categories[ROLES_COUNT + 1];
    uint32_t instants = d->trace->events + 1, moments = MOMENTS / share;
    picture c = { .f = f, .d = d, .most = BANDS_ALONE / share, .share = share };
    c.length = (instants - 1) / moments + 1;
    c.moments = (instants - 1) / c.length + 1;
    for (uint8_t i = 0; i < ROLES_COUNT; i++) {
        c.place[look_stacked[i]] = (uint8_t)(i < 7 ? i : i + 1);
        categories[i < 7 ? i : i + 1] = roles_name(look_stacked[i]);
    }
    categories[7] = "reserved, not in use";
    if (!open_picture(&c)) {
        close_picture(&c);
        return status_set(STATUS_FAILED, "no memory for the picture of the snapshot");
    }
    page_put_bands(p, &(page_bands){
                          .name = "Memory over the recording",
                          .about = "Each band is an allocation, from its event to the one that frees it. "
                                   "Bytes are those that were asked for; what is reserved beside them, "
                                   "roundings among it, lies above.",
                          .categories = categories,
                          .category_count = ROLES_COUNT + 1,
                          .phases = phases,
                          .phase_count = 4,
                          .parts = c.parts,
                          .part_count = c.part_count,
                          .group_word = "block",
                          .moment_word = "moment",
                          .moments = c.whats,
                          .moment_count = c.moments,
                          .times = d->trace->first ? c.times : NULL,
                          .by_moment = true,
                          .bands = c.bands,
                          .band_count = c.band_count,
                          .changes = c.changes,
                          .change_count = c.change_count,
                          .gathered = c.smaller,
                          .gathered_most = c.smaller ? c.threshold : 0,
                          .held = d->gaps.known || d->gaps.told ? c.held : NULL,
                          .held_varies = true,
                          .free = 7,
                          .budget = look_memory(f, d) ? look_memory(f, d) : UINT64_MAX,
                          .peak = stretch_of(&c, d->trace->top_at),
                      });
    say_unseen(p, &c);
    close_picture(&c);
    return STATUS_OK;
}
