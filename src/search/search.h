/* The front of (peak bytes, predicted seconds) over all combinations of techniques that are worth trying, and
 * what a budget picks from it. The candidates do not depend on the budget, each is planned for real, and plan
 * and least budget are read from the same front: so a larger budget never gives a slower plan and a smaller
 * one never a larger peak. Names no technique: it walks the registry. */
#pragma once

#include "chain/compose.h"

typedef enum {
    SEARCH_AUTO,
    SEARCH_OFF,
    SEARCH_PINNED,
    SEARCH_ON /* any setting but off: for comparing */
} search_pin_kind;

typedef struct {
    compose_run run;
    int64_t micro_batch; /* pinned; 0: auto */
    struct {
        search_pin_kind kind;
        pass_setting setting;
        bool held;      /* by a run that is resumed: `allowed` speaks of the other settings only */
    } pins[PASS_MAX];   /* by pass, in the order of pass_table */
    pass_class allowed; /* PASS_EXACT: --exact; else PASS_REASSOCIATING */
    struct {
        bool given, named;                               /* named: by itself, not by `all` */
        char setting[sizeof(((pass_setting *)0)->text)]; /* this one only; "": any */
    } lossy[PASS_MAX]; /* by pass: what --allow names. Other LOSSY settings are used only where pinned */
} search_request;

typedef struct {
    compose_choice choice;
    uint64_t peak_bytes;
    uint64_t away_bytes; /* plan_away_bytes */
    double seconds;      /* compose_seconds */
    pass_class class;
} search_point;

/* Which points of the front the caller needs; no others are looked for. The leanest of all is one, unless
 * `only` says otherwise. */
typedef struct {
    uint64_t budget; /* also the fastest point within so many bytes; 0: not needed */
    double seconds;  /* also the leanest point that takes at most so long; 0: not needed */
    bool plain;      /* also the run with every technique off, which need not be on the front */
    enum {
        SEARCH_AND_LEANEST, /* the leanest of all is always found, */
        SEARCH_FASTEST,     /* here nothing but the fastest point within `budget`, */
        SEARCH_ANY          /* and here any point within `budget`, to know whether there is one */
    } only;
} search_wish;

typedef struct {
    search_point *points; /* peak rising, seconds falling; never empty after search_run */
    uint32_t count;
    search_point plain;  /* every technique off; peak_bytes 0: it cannot be planned, or was not wished for */
    uint64_t candidates; /* how many combinations there are, */
    uint32_t sketched;   /* how many of them were sketched, */
    uint32_t outlined;   /* how many outlines were asked for, some of them twice, */
    uint32_t given_up;   /* how many of those were given up, as one program is beyond reach, */
    uint32_t planned;    /* and how many plans were packed and proved */
    uint64_t held_bytes; /* the most memory that the search held at once, code included */
    uint64_t above;      /* of a limit that leaves no point: with any less than this it leaves none either */
    double elapsed;      /* seconds that the search took */
} search_front;

/* Finds the points that are wished for; the whole front where w is NULL. STATUS_INVALID when pins contradict
 * each other. Free with search_close. */
status search_run(const search_request *q, const search_wish *w, search_front *front);
/* The same for the points whose peaks are at most `limit`, of which there may be none. `plain` is not
 * planned. Candidates above the limit are recognised by their outlines, or earlier. Those that lack a
 * technique which is nearly free are searched only where some other gave a point within the limit; where none
 * did, front->count is 0. */
status search_within(const search_request *q, uint64_t limit, const search_wish *w, search_front *front);
void search_close(search_front *front);

/* The fastest point within the budget; NULL: none fits. */
const search_point *search_pick(const search_front *front, uint64_t budget);
static inline uint64_t search_least(const search_front *front) { return front->points[0].peak_bytes; }

/* What each technique of a choice contributes: from plain to the choice, one after the other. Both are points
 * that a search has planned. */
typedef struct {
    char name[24], setting[PASS_SETTING_BYTES];
    pass_class class;
    int64_t bytes;  /* change of the peak; negative: saved */
    double seconds; /* change of the step time */
} search_share;
status search_explain(const search_request *q, const search_point *plain, const search_point *point,
                      search_share *shares, uint32_t room, uint32_t *count);

/* Why a technique that --allow names, and that needs something opened, is not in a choice. */
typedef enum {
    SEARCH_NO_SETTING, /* it has none for this model: `said` */
    SEARCH_NO_PLAN,    /* it can't be beside what was chosen: `said` */
    SEARCH_TOO_LARGE,  /* its peak is above the budget */
    SEARCH_NOT_FASTER
} search_why;
typedef struct {
    int pass; /* in pass_table */
    search_why why;
    char setting[PASS_SETTING_BYTES]; /* of which the numbers are; "": none */
    uint64_t peak_bytes;              /* with it beside all that was chosen; 0: it cannot be planned */
    double seconds;
    char said[256];
} search_decline;
/* At most PASS_MAX of them, into `out`; settings that would be a better choice are none. */
status search_declined(const search_request *q, const search_point *point, uint64_t budget,
                       search_decline *out, uint32_t *count);
const char *search_why_name(search_why why); /* "not faster" … */

/* The settings that pass number i offers for this micro-batch, with the choice's settings before it; classes
 * and all. Fails for want of memory, and where there are `room` or more. */
status search_offers(const compose_run *r, const compose_choice *c, int i, pass_setting *out, uint32_t room,
                     uint32_t *count);

/* Plans the choice of each point, on all threads. peak_bytes 0: it cannot be planned. Peaks above `limit` may
 * be lower bounds. Fails only for want of memory. */
status search_plan(const compose_run *r, uint64_t limit, search_point *points, uint32_t count);
