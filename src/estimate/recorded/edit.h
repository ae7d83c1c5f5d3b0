/* A recorded step at one size, while settings rewrite it: calls are taken out, put in or get other operands,
 * and a storage then lives as long as what is left reads it. What comes out is a program of one run, which is
 * played as any other.
 *
 * Numbers of storages and calls are those of the program and stay; new ones come behind them. The order of
 * calls is a list, so that one can stand anywhere. What autograd keeps follows the calls (edit_kept.c): a
 * call of backward that reads another storage than was recorded says that its node has kept that one. */
#pragma once

#include "estimate/recorded/recorded_play.h"
#include "estimate/recorded/recording.h"

enum { EDIT_NEVER = UINT32_MAX };

typedef struct {
    uint32_t born, died;         /* the call that makes it, 0: there before; the call behind which it dies */
    uint32_t dtype, name, shape; /* of the program's tables */
    recording_role role;
    uint64_t bytes;
    bool gone;     /* nobody makes it any more */
    bool held;     /* something holds it beyond the call of backward that reads it last */
    bool loose;    /* other calls read it than were recorded, so its end is to be found again */
    bool outlasts; /* loose, and stays to the end of forward at least */
    uint32_t left; /* the call behind which code has let go of it; EDIT_NEVER: none */
} edit_storage;

typedef struct {
    uint32_t name, module;
    uint32_t of; /* the call of forward that it differentiates; 0: none */
    recording_phase phase;
    int64_t operations;
    uint32_t first, reads, makes; /* of the operands */
    uint32_t before, next;        /* its neighbours; 0: none */
    bool gone;
    bool rewired; /* it was put in, or reads other storages than were recorded */
} edit_call;

/* What autograd keeps: behind call `at`, wanted behind `used`, let go behind `until`; EDIT_NEVER: it is not.
 */
typedef struct {
    uint32_t module, storage, at, used, until;
    uint32_t wanted;    /* the call of backward that wants it; 0: none, and `used` says when */
    uint32_t node;      /* the call of forward that keeps it; 0: nobody says */
    uint32_t key, rank; /* its order when it is written */
    bool was_read;      /* calls of backward read it, as recorded */
} edit_save;

typedef struct {
    const recording *r;
    const recording_program *from;
    edit_storage *storages; /* from 1 */
    edit_call *calls;       /* from 1; number 0 is before the first and behind the last */
    uint32_t *operands;
    edit_save *saves;
    uint32_t save_count, save_room;
    uint32_t storage_count, storage_room, call_count, call_room, operand_count, operand_room;
    recording_texts strings; /* the program's, and constants behind them */
    recording_column shape_ranks, shape_dims, shape_at;
    bool failed; /* there was no memory; looked at by edit_write */
} recorded_edit;

/* `sizes`: of the program that is rewritten. Close it in any case. */
status edit_open(recorded_edit *e, const recording *r, const recorded_sizes *sizes);
void edit_close(recorded_edit *e);

/* Finds the ends of what is loose and writes the program of one run. Texts are the recording's. */
status edit_write(recorded_edit *e, recording_program *out, uint64_t **bytes);
void edit_close_program(recording_program *p); /* fine on a zeroed one */

/* ---- storages ---- */

static inline edit_storage *edit_at(const recorded_edit *e, uint32_t storage) {
    return e->storages + storage;
}
/* `columns` 0: a vector. It is born when a call makes it, and its readers say when it dies, unless it stays.
 */
typedef struct {
    recording_role role;
    const char *dtype; /* "float32", "bfloat16", "uint8" */
    double rows, columns;
    bool stays;
} edit_new;
uint32_t edit_add(recorded_edit *e, const edit_new *what);
void edit_drop(recorded_edit *e, uint32_t storage);
/* By storage: what stands in its place, itself where nothing does; replaced ones are nobody's any more. What
 * a gradient was is one. */
void edit_replace(recorded_edit *e, const uint32_t *by);
/* From here on `call` makes a new storage of that type in place of `storage`, which is for somebody else to
 * make. Returns the new one. */
uint32_t edit_divert(recorded_edit *e, uint32_t call, uint32_t storage, const char *type);

const char *edit_dtype(const recorded_edit *e, uint32_t storage);
const char *edit_name(const recorded_edit *e, uint32_t storage);
double edit_width(const char *type); /* bytes of a number */
bool edit_is_float(const char *type);
bool edit_is_narrow(const recorded_edit *e, uint32_t storage); /* a float of 16 bits */
double edit_numbers(const recorded_edit *e, uint32_t storage);
/* Another type of the same numbers. */
void edit_retype(recorded_edit *e, uint32_t storage, const char *type);
int edit_rank(const recorded_edit *e, uint32_t storage); /* how many dimensions its shape has */
/* A dimension of its shape; 1 where it has fewer. From the last where `i` is negative. */
double edit_dim(const recorded_edit *e, uint32_t storage, int i);

/* ---- calls ---- */

static inline edit_call *edit_call_at(const recorded_edit *e, uint32_t call) { return e->calls + call; }
static inline uint32_t edit_first(const recorded_edit *e) { return e->calls[0].next; }
static inline uint32_t edit_next(const recorded_edit *e, uint32_t call) { return e->calls[call].next; }
static inline uint32_t *edit_reads(const recorded_edit *e, uint32_t call) {
    return e->operands + e->calls[call].first;
}
static inline uint32_t *edit_makes(const recorded_edit *e, uint32_t call) {
    return e->operands + e->calls[call].first + e->calls[call].reads;
}
const char *edit_call_name(const recorded_edit *e, uint32_t call);          /* "mm.default" */
bool edit_is_call(const recorded_edit *e, uint32_t call, const char *name); /* "mm": of any overload */

enum { EDIT_OPERANDS = 4 };
typedef struct {
    const char *name;
    recording_phase phase;
    uint32_t module, of;
    uint32_t reads[EDIT_OPERANDS], makes[EDIT_OPERANDS]; /* up to the first 0 */
} edit_new_call;
/* Behind the call `behind`; 0: before all. Of what it makes it is the maker where nobody else is. A product
 * ("mm.default") has the operations of its operands' sizes. Returns its number. */
uint32_t edit_insert(recorded_edit *e, uint32_t behind, const edit_new_call *what);
/* Call `call` reads another storage in place of one. */
void edit_read_instead(recorded_edit *e, uint32_t call, uint32_t old, uint32_t new);
/* The last of the calls that differentiate the same call of forward as `call` does; `call` where it does
 * none. What autograd has kept for that one goes behind it. */
uint32_t edit_end_of_node(const recorded_edit *e, uint32_t call);
/* Puts a call at the end of that node, which has all that it keeps until then. Returns its number. */
uint32_t edit_insert_in_node(recorded_edit *e, uint32_t call, const edit_new_call *what);
/* The call itself; of one that is gone the one before it. EDIT_NEVER stays. */
uint32_t edit_still_there(const recorded_edit *e, uint32_t call);
/* The last call of forward; 0: there is none. */
uint32_t edit_forward_end(const recorded_edit *e);
/* Takes it out with what it alone has made. */
void edit_remove(recorded_edit *e, uint32_t call);

/* ---- what autograd keeps: edit_kept.c ---- */

/* Of the program that is rewritten; edit_open calls it. Nothing where the program does not say. */
void edit_open_kept(recorded_edit *e);
/* What is kept by the calls as they now are, in order. `place`: of calls in that order, from 1. Before
 * storages are numbered anew. */
void edit_find_kept(recorded_edit *e, const uint32_t *place);
/* The columns left, saved, saves and visits. Afterwards. */
void edit_put_kept(recorded_edit *e, const uint32_t *place, recording_program *out);
bool edit_add_number(recorded_edit *e, recording_column *c, int64_t x);

/* ---- what nobody wants ---- */

/* Takes out calls of backward whose results nobody wants: what leads to no gradient that is there. Storages
 * whose gradients are no longer wanted were dropped before. */
void edit_prune(recorded_edit *e);
