/* What was observed, storage by storage: for pages and tests that lay it beside the plan. The executor opened
 * with EXEC_OBSERVE has seen it anyway (exec/observe.c); here it hands it out, once and between steps, in one
 * block whose bytes are known before the plan is bound. */
#pragma once

#include "exec/exec.h"

/* A buffer of the arena: alive from the first call that was handed it to the last one. */
typedef struct {
    tensor_id owner;      /* 0: scratch of step `first` */
    uint32_t first, last; /* steps of the program, inclusive */
    category category;    /* by who made it and who read it */
    uint64_t bytes;       /* as it lies in the pool */
} exec_life;

/* Of one program of the plan. */
typedef struct {
    bool ran;
    const exec_life *lives;  /* by owner, then scratch by step */
    uint32_t count, tensors; /* all of them; those with an owner come first */
    uint32_t room;           /* for lives */
} exec_lives;

/* How many bytes the lives of all programs take. */
uint64_t exec_lives_bytes(const plan *p);
/* By program of the plan; memory_free the one block. */
status exec_lives_of(const exec *e, exec_lives **out);

/* What was seen of a storage of the plan; NULL: nothing. */
const exec_life *exec_life_of(const exec_lives *l, const live_storage *planned);

/* What was alive at each kernel of a program, by category: adds it up in alive[step][category], which is zero
 * at first and has a row for each step and one more. `planned` NULL: as it was seen; else as these storages
 * say. */
void exec_lives_add(const exec_lives *l, const live_set *planned, uint64_t (*alive)[CATEGORY_COUNT],
                    uint32_t steps);

/* The largest difference of what was planned and seen alive, of any category at any kernel that ran. */
status exec_lives_apart(const plan *p, const exec_lives *lives, uint64_t *most);

/* The plan's storages of programs that ran, beside what was seen of them. */
typedef struct {
    uint32_t planned; /* how many there are, */
    uint32_t same;    /* of these with the same bytes, category, first and last step */
    uint32_t beside;  /* seen, though not in the plan */
} exec_likeness;
exec_likeness exec_lives_like(const plan *p, const exec_lives *lives);
