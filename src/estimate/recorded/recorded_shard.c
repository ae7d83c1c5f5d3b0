#include "estimate/recorded/recorded_shard.h"

#include <math.h>

#include "base/memory.h"
#include "estimate/recorded/recorded_course.h"
#include "estimate/torch/torch_state.h"

typedef struct {
    double weights, gradients;  /* bytes of the whole unit */
    uint32_t forward, backward; /* its first calls; 0: none */
    uint32_t last_forward, last_backward;
} unit;

typedef struct {
    recorded_edit *e;
    const torch_settings *s;
    uint32_t *block_of;     /* by module */
    unit *units;            /* by block; 0: the root */
    uint32_t blocks, known; /* known: storages that were there */
    double share;
    uint32_t sending; /* gradients on their way, which the next unit waits for */
} sharing;

/* ---- units ---- */

/* Adapters have no name; a call of their module reads or makes them. */
static void note_blocks(const sharing *h, uint32_t *block) {
    recorded_edit *e = h->e;
    for (uint32_t call = edit_first(e); call; call = edit_next(e, call))
        for (uint32_t k = 0; k < e->calls[call].reads + e->calls[call].makes; k++)
            block[edit_reads(e, call)[k]] = h->block_of[e->calls[call].module];
    for (uint32_t i = 1; i <= e->storage_count; i++)
        if (*edit_name(e, i)) block[i] = recorded_block_of_name(e->r, h->block_of, edit_name(e, i));
}

static void note_calls(sharing *h) {
    const recorded_edit *e = h->e;
    for (uint32_t call = edit_first(e); call; call = edit_next(e, call)) {
        unit *u = h->units + h->block_of[e->calls[call].module];
        bool forward = e->calls[call].phase == RECORDING_FORWARD,
             backward = e->calls[call].phase == RECORDING_BACKWARD;
        if (forward && !u->forward) u->forward = call;
        if (backward && !u->backward) u->backward = call;
        if (forward) u->last_forward = call;
        if (backward) u->last_backward = h->units[0].last_backward = call;
    }
}

static bool is_gradient(const edit_storage *x) { return x->role == RECORDING_GRADIENT && !x->gone; }

static void note_bytes(sharing *h, const uint32_t *block) {
    for (uint32_t i = 1; i <= h->e->storage_count; i++) {
        const edit_storage *x = edit_at(h->e, i);
        if (x->role == RECORDING_PARAMETER) h->units[block[i]].weights += (double)x->bytes;
        if (is_gradient(x)) h->units[block[i]].gradients += (double)x->bytes;
    }
}

/* ---- weights ---- */

/* Beside the model's own calls, so that blocks which are computed again do not gather again. */
static uint32_t put(sharing *h, uint32_t behind, const char *name, recording_phase when, uint32_t read,
                    uint32_t made) {
    return edit_insert(
        h->e, behind,
        &(edit_new_call){ .name = name, .phase = when, .reads = { read ? read : made }, .makes = { made } });
}

static uint32_t bytes_of(sharing *h, double bytes) {
    return edit_add(h->e, &(edit_new){ .role = RECORDING_MADE, .dtype = "uint8", .rows = bytes });
}

/* FSDP gathers into a buffer and copies weights out of it; DeepSpeed's are views of the buffer. Returns what
 * holds the unit's weights; `fetched`: a buffer that is there already; 0: none. */
static uint32_t gather(sharing *h, uint32_t before, recording_phase when, double bytes, uint32_t fetched) {
    uint32_t behind = h->e->calls[before].before, weights = bytes_of(h, bytes);
    uint32_t buffer = fetched ? fetched : h->s->shard == TORCH_FSDP ? bytes_of(h, bytes) : 0;
    if (buffer && !fetched) behind = put(h, behind, "all_gather", when, 0, buffer);
    put(h, behind, "gathered", when, buffer, weights);
    return weights;
}

/* Nothing is done to what is let go. */
static void let_go(sharing *h, uint32_t behind, recording_phase when, uint32_t storage) {
    put(h, behind, "reshard", when, storage, storage);
}

static void gather_forward(sharing *h) {
    for (uint32_t b = 1; b <= h->blocks; b++) {
        unit *u = h->units + b;
        if (!u->forward) continue;
        uint32_t weights = gather(h, u->forward, RECORDING_FORWARD, u->weights, 0);
        let_go(h, u->last_forward, RECORDING_FORWARD, weights);
    }
}

/* The unit that backward comes to behind that one; 0: none. */
static uint32_t following(const sharing *h, uint32_t block) {
    uint32_t b = block - 1;
    while (b && !h->units[b].backward) b--;
    return b;
}

static uint32_t fetch(sharing *h, uint32_t before, uint32_t block) {
    uint32_t buffer = block ? bytes_of(h, h->units[block].weights) : 0;
    if (buffer) put(h, h->e->calls[before].before, "all_gather", RECORDING_BACKWARD, 0, buffer);
    return buffer;
}

/* While a unit is differentiated the next one's weights arrive; while the root is, those of the first. */
static void gather_backward(sharing *h) {
    uint32_t first = edit_first(h->e), b = following(h, h->blocks + 1);
    while (first && h->e->calls[first].phase != RECORDING_BACKWARD) first = edit_next(h->e, first);
    uint32_t fetched = first ? fetch(h, first, b) : 0;
    for (; b; b = following(h, b)) {
        unit *u = h->units + b;
        uint32_t weights = gather(h, u->backward, RECORDING_BACKWARD, u->weights, fetched);
        fetched = fetch(h, u->backward, following(h, b));
        let_go(h, u->last_backward, RECORDING_BACKWARD, weights);
    }
}

static void gather_root(sharing *h) {
    const unit *u = h->units;
    if (!(u->weights > 0)) return;
    uint32_t weights = gather(h, edit_first(h->e), RECORDING_FORWARD, u->weights, 0);
    if (u->last_backward) let_go(h, u->last_backward, RECORDING_BACKWARD, weights);
}

/* ---- gradients ---- */

/* A unit's gradients are copied into one buffer, of which a share comes back. The buffer stays until the next
 * unit's are ready. */
static void reduce(sharing *h, uint32_t b, const uint32_t *block, double width) {
    recorded_edit *e = h->e;
    unit *u = h->units + b;
    uint32_t behind = u->last_backward;
    if (!(u->gradients > 0) || !behind) return;
    uint32_t buffer = bytes_of(h, u->gradients);
    if (h->sending) behind = put(h, behind, "wait", RECORDING_BACKWARD, h->sending, h->sending);
    behind = put(h, behind, "chunk_cat", RECORDING_BACKWARD, 0, buffer);
    for (uint32_t i = 1; i <= h->known; i++) {
        if (!is_gradient(edit_at(e, i)) || block[i] != b || edit_at(e, i)->bytes == 0) continue;
        edit_storage whole = *edit_at(e, i);
        uint32_t share = edit_add(e, &(edit_new){ RECORDING_GRADIENT, edit_dtype(e, i), 1, 0, true });
        edit_storage *part = edit_at(e, share);
        part->bytes = h->s->host_keeps ? 0 : (uint64_t)ceil((double)whole.bytes * h->share * width);
        part->name = whole.name, part->shape = whole.shape;
        edit_storage *old = edit_at(e, i);
        old->role = RECORDING_MADE, old->held = false, old->loose = true;
        behind = edit_insert(e, behind,
                             &(edit_new_call){ .name = "reduce_scatter",
                                               .phase = RECORDING_BACKWARD,
                                               .reads = { buffer, i },
                                               .makes = { share } });
    }
    u->last_backward = behind;
    h->sending = buffer;
}

static void reduce_all(sharing *h, const uint32_t *block, double width) {
    for (uint32_t b = h->blocks; b; b--) reduce(h, b, block, width);
    for (uint32_t call = edit_first(h->e); call; call = edit_next(h->e, call))
        if (h->e->calls[call].phase == RECORDING_BACKWARD) h->units[0].last_backward = call;
    reduce(h, 0, block, width);
}

/* ---- the whole ---- */

/* DDP keeps gradients once more, in buckets. */
static void add_buckets(sharing *h) {
    double bytes = 0;
    for (uint32_t b = 0; b <= h->blocks; b++) bytes += h->units[b].gradients;
    uint32_t buckets =
        edit_add(h->e, &(edit_new){ .role = RECORDING_HELD, .dtype = "uint8", .rows = bytes, .stays = true });
    edit_at(h->e, buckets)->gone = false;
}

static void scale(sharing *h, recording_role as, double by) {
    for (uint32_t i = 1; i <= h->e->storage_count; i++) {
        edit_storage *x = edit_at(h->e, i);
        if (x->role == as) x->bytes = (uint64_t)ceil((double)x->bytes * by);
    }
}

static void share_out(sharing *h, const uint32_t *block) {
    const torch_settings *s = h->s;
    bool gathers = s->shard == TORCH_ZERO3 || s->shard == TORCH_FSDP;
    double masters = s->masters && s->shard == TORCH_FSDP ? 2 : 1; /* shares of f32 beside 16 bits */
    note_calls(h);
    note_bytes(h, block);
    if (s->shard == TORCH_DDP) add_buckets(h);
    if (s->shard >= TORCH_ZERO2) reduce_all(h, block, masters);
    if (gathers) {
        gather_backward(h);
        gather_forward(h);
        gather_root(h);
        scale(h, RECORDING_PARAMETER, s->host_keeps == TORCH_KEEPS_ALL ? 0 : h->share * masters);
    }
    if (s->shard >= TORCH_ZERO1) scale(h, RECORDING_STATE, s->host_keeps ? 0 : h->share);
}

status recorded_share(recorded_edit *e, const torch_settings *s) {
    if (!torch_is_shared(s)) return STATUS_OK;
    sharing h = { .e = e, .s = s, .known = e->storage_count, .share = 1.0 / (double)s->gpus };
    h.block_of = memory_new((size_t)e->r->modules.count + 1, sizeof *h.block_of);
    uint32_t *block = memory_new((size_t)e->storage_count + 1, sizeof *block);
    status result = STATUS_OK;
    if (h.block_of) h.blocks = recorded_blocks(e->r, h.block_of);
    h.units = memory_new((size_t)h.blocks + 1, sizeof *h.units);
    if (h.block_of && block && h.units) {
        note_blocks(&h, block);
        share_out(&h, block);
    } else {
        e->failed = true;
    }
    memory_free(h.block_of);
    memory_free(h.units);
    memory_free(block);
    return result;
}
