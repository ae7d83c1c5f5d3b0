#include "estimate/recorded/recorded_play.h"

#include <string.h>

#include "base/memory.h"
#include "estimate/recorded/recorded_course.h"
#include "estimate/recorded/recorded_rewrite.h"
#include "estimate/recorded/recorded_types.h"
#include "estimate/torch/allocator.h"
#include "estimate/torch/torch_state.h"

/* ---- storages, and who holds how much ---- */

typedef struct {
    const recording *r;
    const recorded_sizes *sizes;
    const recorded_course *course;
    const torch_settings *s;
    const recording_program *p;
    allocator a;
    uint32_t *block;         /* by storage of the course: the allocator's */
    bool *there, *in_block;  /* in_block: of gradients, by storage; NULL: nobody asks */
    uint32_t *gradient_done; /* by storage: the last call of backward that has it */
    uint32_t *operands;      /* by call: where its operands begin */
    uint64_t now[TAPE_TERMS], live, peak, at_peak[TAPE_TERMS];
    recording_phase phase, peak_in;
    bool second, accumulates, multiplied[RECORDING_PHASES];
} player;

static tape_term term_of(const player *y, uint32_t storage) {
    static const tape_term terms[RECORDING_ROLES] = { TAPE_WEIGHTS,    TAPE_WEIGHTS, TAPE_INPUTS,
                                                      TAPE_OPTIMIZER,  TAPE_INPUTS,  TAPE_GRADIENTS,
                                                      TAPE_ACTIVATIONS };
    if (recorded_course_is_draws(y->course, storage)) return TAPE_ACTIVATIONS;
    recording_role as = (recording_role)y->p->role.of[recorded_course_of(y->course, storage) - 1];
    if (as == RECORDING_MADE && !y->course->by_forward[storage]) return TAPE_TEMPORARIES;
    return terms[as];
}

/* Of a generator of the CPU's, as torch.get_rng_state() has it. */
static const uint64_t draws_bytes = 5056;

static uint64_t bytes_of(const player *y, uint32_t storage) {
    if (recorded_course_is_draws(y->course, storage)) return y->s->cuda ? 0 : draws_bytes;
    return y->sizes->bytes[recorded_course_of(y->course, storage)];
}

static void count(player *y, tape_term term, uint64_t bytes) {
    y->now[term] += bytes, y->live += bytes;
    if (y->live <= y->peak) return;
    y->peak = y->live, y->peak_in = y->phase;
    memcpy(y->at_peak, y->now, sizeof y->at_peak);
}

static uint32_t take_bytes(player *y, tape_term term, uint64_t bytes) {
    count(y, term, bytes);
    return y->s->cuda && bytes ? allocator_take(&y->a, bytes, TAPE_COMPUTES) : 0;
}

static void give_bytes(player *y, tape_term term, uint64_t bytes, uint32_t block) {
    y->now[term] -= bytes, y->live -= bytes;
    if (block) allocator_give(&y->a, block);
}

static void take(player *y, uint32_t storage) {
    if (y->there[storage]) return;
    y->there[storage] = true;
    y->block[storage] = take_bytes(y, term_of(y, storage), bytes_of(y, storage));
}

static void give(player *y, uint32_t storage) {
    if (!y->there[storage]) return;
    y->there[storage] = false;
    give_bytes(y, term_of(y, storage), bytes_of(y, storage), y->block[storage]);
}

static recording_role role_of(const player *y, uint32_t storage) {
    return (recording_role)y->p->role.of[storage - 1];
}

static void take_all(player *y, recording_role as) {
    for (uint32_t i = 1; i <= recording_storages(y->p); i++)
        if (role_of(y, i) == as) take(y, i);
}

/* ---- the update by rule ---- */

static double width_of(const player *y, uint32_t storage) {
    const char *type = y->p->strings.of[y->p->dtype.of[storage - 1]];
    return strstr(type, "64") ? 8 : strstr(type, "16") ? 2 : strstr(type, "float8") ? 1 : 4;
}

/* The trained weight that a gradient is of. */
static torch_weight weight_of(const player *y, uint32_t gradient) {
    double width = width_of(y, gradient), numbers = (double)bytes_of(y, gradient) / width;
    int64_t which = y->p->shape[0].of[gradient - 1], rank = y->p->shape_ranks.of[which];
    double last = rank < 2 ? 0 : (double)y->p->shape_dims.of[y->p->shape_at.of[which] + rank - 1];
    bool in_block = y->in_block && y->in_block[gradient];
    return (torch_weight){ last > 0 ? numbers / last : numbers, last, width, in_block };
}

/* The optimizer's state of it, of which a device may have a share. */
static uint64_t state_of(const player *y, uint32_t gradient) {
    const torch_settings *s = y->s;
    torch_weight w = weight_of(y, gradient);
    double share = torch_is_shared(s) && s->shard == TORCH_ZERO1 ? 1.0 / (double)s->gpus : 1;
    return s->host_keeps ? 0 : (uint64_t)(share * torch_state_of(s, &w));
}

static bool is_gradient(const player *y, uint32_t storage) {
    return role_of(y, storage) == RECORDING_GRADIENT;
}

/* State is taken in the first update and stays; it needs no names. */
static void make_states(player *y) {
    for (uint32_t i = 1; i <= recording_storages(y->p); i++)
        if (is_gradient(y, i)) take_bytes(y, TAPE_OPTIMIZER, state_of(y, i));
}

/* As torch.c has it: foreach copies all, others one after the other, fused and 8 bits nothing. */
static void update_by_rule(player *y) {
    const torch_settings *s = y->s;
    uint32_t storages = recording_storages(y->p);
    bool all = s->update == TORCH_FOREACH && s->optimizer == OPTIMIZER_ADAMW && !s->matrices;
    if (s->host_keeps || s->in_backward) return;
    uint64_t *bytes = memory_new((size_t)storages + 1, sizeof *bytes);
    uint32_t *blocks = memory_new((size_t)storages + 1, sizeof *blocks);
    if (!bytes || !blocks) y->a.failed = true;
    for (uint32_t i = 1; bytes && blocks && i <= storages; i++) {
        if (!is_gradient(y, i)) continue;
        torch_weight w = weight_of(y, i);
        bytes[i] = (uint64_t)torch_update_of(s, &w);
        blocks[i] = take_bytes(y, TAPE_TEMPORARIES, bytes[i]);
        if (!all) give_bytes(y, TAPE_TEMPORARIES, bytes[i], blocks[i]);
    }
    for (uint32_t i = 1; all && bytes && blocks && i <= storages; i++)
        if (is_gradient(y, i)) give_bytes(y, TAPE_TEMPORARIES, bytes[i], blocks[i]);
    memory_free(bytes);
    memory_free(blocks);
}

/* ---- the step ---- */

/* The library of products has a workspace of each thread that calls it, which stays. */
static void add_workspace(player *y, uint32_t call) {
    bool product = y->p->operations[0].of[call - 1] > 0;
    if (!product || !y->s->cuda || !y->s->workspace || y->multiplied[y->phase]) return;
    y->multiplied[y->phase] = true;
    take_bytes(y, TAPE_TEMPORARIES, y->s->workspace);
}

/* The last call of backward that reads or makes each gradient: weights that several modules share have theirs
 * added up there. */
static void note_gradients(player *y) {
    uint32_t at = 0;
    for (uint32_t call = 1; call <= y->p->call_name.count; call++) {
        int64_t operands = y->p->reads.of[call - 1] + y->p->makes.of[call - 1];
        bool backward = y->p->phase.of[call - 1] == RECORDING_BACKWARD;
        for (int64_t k = 0; backward && k < operands; k++) y->gradient_done[y->p->operands.of[at + k]] = call;
        y->operands[call] = at;
        at += (uint32_t)operands;
    }
}

/* Gradients that are done behind that call were added to those of earlier micro-batches. */
static void add_gradients(player *y, uint32_t call) {
    int64_t operands = call ? y->p->reads.of[call - 1] + y->p->makes.of[call - 1] : 0;
    for (int64_t k = 0; k < operands; k++) {
        uint32_t s = (uint32_t)y->p->operands.of[y->operands[call] + k];
        if (y->gradient_done[s] == call && is_gradient(y, s)) give(y, s);
    }
}

/* False: the step is over, since the rest is the update that rules play. */
static bool begin_call(player *y, uint32_t call) {
    recording_phase now = (recording_phase)y->p->phase.of[call - 1];
    bool updates = now == RECORDING_UPDATE && y->phase != RECORDING_UPDATE;
    y->phase = now;
    if (updates && y->s->update_by_rule) {
        if (!y->second) make_states(y);
        update_by_rule(y);
        return false;
    }
    if (updates) take_all(y, RECORDING_STATE);
    add_workspace(y, call);
    return true;
}

/* What was there before the step, and what earlier micro-batches left. Of inputs and what is held some may
 * have died in the step before. */
static void begin_step(player *y) {
    take_all(y, RECORDING_PARAMETER);
    take_all(y, RECORDING_BUFFER);
    take_all(y, RECORDING_HELD);
    take_all(y, RECORDING_INPUT);
    y->phase = RECORDING_FORWARD;
}

/* Gradients that wait for the last micro-batch are beside those that are being made. */
static uint64_t gradients(const player *y) {
    uint64_t whole = 0;
    for (uint32_t i = 1; i <= recording_storages(y->p); i++) whole += is_gradient(y, i) ? bytes_of(y, i) : 0;
    return whole;
}

static void play_events(player *y) {
    const recording_column *events = &y->course->events;
    uint32_t call = 0;
    for (uint32_t i = 0; i < events->count; i++) {
        int64_t e = events->of[i];
        if (!e) {
            if (y->accumulates) add_gradients(y, call);
            if (!begin_call(y, ++call)) return;
        } else if (e < 0) {
            give(y, (uint32_t)-e);
        } else {
            take(y, (uint32_t)e);
        }
    }
}

static void play_step(player *y) {
    begin_step(y);
    uint64_t earlier = y->accumulates ? gradients(y) : 0;
    uint32_t block = take_bytes(y, TAPE_GRADIENTS, earlier);
    play_events(y);
    give_bytes(y, TAPE_GRADIENTS, earlier, block);
    for (uint32_t i = 1; i <= recorded_course_storages(y->course); i++)
        if (recorded_course_is_draws(y->course, i) ||
            role_of(y, recorded_course_of(y->course, i)) >= RECORDING_GRADIENT)
            give(y, i);
    y->second = true;
}

/* ---- what comes of it ---- */

/* As of known models (torch.c): what was compared is what a GPU counts, and rules of versions lie between. */
static const double live_low = 0.97, live_high = 1.05, reserved_low = 0.90, reserved_high = 1.08;
static const double several_low = 0.87, several_high = 1.07, several_reserved_high = 1.15;

static interval within(double likely, double low, double high) {
    return (interval){ (uint64_t)(likely * low), (uint64_t)likely, (uint64_t)(likely * high) };
}

static void count_weights(const player *y, torch_result *out) {
    for (uint32_t i = 1; i <= recording_storages(y->p); i++) {
        recording_role as = role_of(y, i);
        uint64_t numbers = (uint64_t)((double)bytes_of(y, i) / width_of(y, i));
        if (as == RECORDING_PARAMETER) out->parameters += numbers;
        if (as == RECORDING_GRADIENT) out->trained += numbers, out->trained_bytes += bytes_of(y, i);
        if (y->s->update_by_rule && as == RECORDING_GRADIENT) out->state += state_of(y, i);
        if (!y->s->update_by_rule && as == RECORDING_STATE) out->state += bytes_of(y, i);
    }
    if (y->sizes->parameters) out->parameters = y->sizes->parameters, out->trained = y->sizes->trained;
}

static void tell(const player *y, torch_result *out) {
    static const char *const phases[] = { "forward", "backward", "update" };
    memcpy(out->by_term, y->at_peak, sizeof out->by_term);
    out->peak_in = phases[y->peak_in];
    out->held = y->s->cuda ? y->a.most : y->peak;
    bool several = torch_is_shared(y->s);
    out->live = within((double)y->peak, several ? several_low : live_low, several ? several_high : live_high);
    out->reserved = within((double)out->held, reserved_low, several ? several_reserved_high : reserved_high);
    if (out->reserved.low < out->live.low) out->reserved.low = out->live.low;
    out->operations = y->sizes->operations;
    out->calls = y->p->call_name.count;
    count_weights(y, out);
}

/* Gradients have their weights' names; those without one are adapters', which stand in blocks. */
static status note_blocks(player *y) {
    uint32_t *block_of = memory_new((size_t)y->r->modules.count + 1, sizeof *block_of);
    y->in_block = memory_new((size_t)recording_storages(y->p) + 1, sizeof *y->in_block);
    if (block_of && y->in_block) recorded_blocks(y->r, block_of);
    for (uint32_t i = 1; block_of && y->in_block && i <= recording_storages(y->p); i++) {
        const char *name = y->p->strings.of[y->p->name.of[i - 1]];
        y->in_block[i] = is_gradient(y, i) && (!*name || recorded_block_of_name(y->r, block_of, name));
    }
    bool made = block_of && y->in_block;
    memory_free(block_of);
    return made ? STATUS_OK : status_set(STATUS_FAILED, "no memory to estimate");
}

static status open_player(player *y) {
    size_t storages = (size_t)recorded_course_storages(y->course) + 1;
    y->block = memory_new(storages, sizeof *y->block);
    y->there = memory_new(storages, sizeof *y->there);
    y->gradient_done = memory_new((size_t)recording_storages(y->p) + 1, sizeof *y->gradient_done);
    y->operands = memory_new((size_t)y->p->call_name.count + 1, sizeof *y->operands);
    TRY(allocator_open(&y->a));
    y->a.limit = y->s->limit, y->a.expandable = y->s->expandable;
    if (!y->block || !y->there || !y->gradient_done || !y->operands)
        return status_set(STATUS_FAILED, "no memory to estimate");
    note_gradients(y);
    return y->s->matrices ? note_blocks(y) : STATUS_OK;
}

/* Two steps: the optimizer's state comes with the first update, into what the allocator has left over. */
status recorded_play_course(const recording *r, const torch_settings *s, const recorded_sizes *sizes,
                            const recorded_course *course, torch_result *out) {
    *out = (torch_result){ 0 };
    player y = { .r = r,
                 .sizes = sizes,
                 .course = course,
                 .s = s,
                 .p = sizes->program,
                 .accumulates = torch_accumulation(s) > 1 };
    status result = open_player(&y);
    if (result == STATUS_OK) {
        play_step(&y);
        play_step(&y);
        tell(&y, out);
    }
    if (result == STATUS_OK && y.a.failed) result = status_set(STATUS_FAILED, "no memory to estimate");
    memory_free(y.block);
    memory_free(y.there);
    memory_free(y.in_block);
    memory_free(y.gradient_done);
    memory_free(y.operands);
    allocator_close(&y.a);
    return result;
}

static status play_once(const recording *r, const torch_settings *s, torch_result *out) {
    recorded_sizes sizes;
    recorded_course course = { 0 };
    recording_program rewritten = { 0 };
    *out = (torch_result){ 0 };
    status result = recorded_sizes_find(r, s->batch, s->context, s->checkpointing, &sizes);
    if (result == STATUS_OK) result = recorded_rewrite(r, s, &sizes, &rewritten);
    if (result == STATUS_OK)
        result = recorded_course_find(r, sizes.program, s->checkpointing, s->checkpoint_saves, &course);
    if (result == STATUS_OK) result = recorded_play_course(r, s, &sizes, &course, out);
    recorded_course_close(&course);
    recorded_sizes_close(&sizes);
    edit_close_program(&rewritten);
    return result;
}

static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* What a model's own code casts to f32 an older recording of f32 does not say: the interval reaches to a step
 * that casts nothing. */
status recorded_play(const recording *r, const torch_settings *s, torch_result *out) {
    torch_settings with = recorded_prepared(s);
    torch_result narrow;
    TRY(play_once(r, &with, out));
    if (recorded_types_of(r) == with.types || with.types == TORCH_F32) return STATUS_OK;
    if (r->programs[0].tells_widened) return STATUS_OK;
    with.narrow_throughout = true;
    TRY(play_once(r, &with, &narrow));
    out->live.low = smaller(out->live.low, narrow.live.low);
    out->reserved.low = smaller(out->reserved.low, narrow.reserved.low);
    return STATUS_OK;
}
