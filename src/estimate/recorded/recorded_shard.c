#include "estimate/recorded/recorded_shard.h"

#include <math.h>

#include "base/memory.h"
#include "estimate/recorded/recorded_course.h"
#include "estimate/torch/torch_state.h"

typedef struct {
    double weights;             /* bytes of all its weights, as they are gathered */
    double sent;                /* bytes of all its gradients, as they are sent; 0: none */
    uint32_t forward, backward; /* its first calls; 0: none */
    uint32_t last_forward, last_backward;
} unit;

typedef struct {
    recorded_edit *e;
    const torch_settings *s;
    uint32_t *block_of;              /* by module */
    unit *units;                     /* by block; 0: the root */
    uint32_t *order;                 /* blocks as forward leaves them */
    uint32_t blocks, ordered, known; /* known: storages that were there */
    uint32_t from, to;               /* the model's forward: calls that were recorded behind one, up to one */
    uint32_t begin, end;             /* its first and last call that is left; 0: none */
    bool gathers, copies;            /* copies: FSDP gathers into a buffer and copies out of it */
    bool widens;                     /* 16 bits of f32 shares: gradients are sent in f32 */
    bool apart;                      /* the loss is computed in pieces outside of the model */
    uint32_t *part;   /* by storage that was there: what a device has of that gradient; 0: all of it */
    uint32_t sending; /* gradients on their way, which the next unit waits for */
} sharing;

static const char wide[] = "float32";

/* ---- sizes ---- */

/* FSDP cuts each tensor along its first dimension and fills up what does not divide; DeepSpeed cuts them
 * all as one. */
static double whole_of(const sharing *h, uint32_t storage) {
    double bytes = (double)edit_at(h->e, storage)->bytes, rows = edit_dim(h->e, storage, 0),
           gpus = (double)h->s->gpus;
    return h->copies && rows > 0 ? bytes / rows * ceil(rows / gpus) * gpus : bytes;
}

static double sent_of(const sharing *h, uint32_t gradient) {
    double narrower = edit_width(wide) / edit_width(edit_dtype(h->e, gradient));
    return whole_of(h, gradient) * (h->widens ? narrower : 1);
}

/* What a device has of it. Shares are f32 where FSDP computes in 16 bits. */
static void share(const sharing *h, uint32_t storage) {
    bool narrow = edit_is_narrow(h->e, storage);
    if (h->widens && narrow) edit_retype(h->e, storage, wide);
    edit_at(h->e, storage)->bytes = (uint64_t)ceil(whole_of(h, storage) / (double)h->s->gpus);
}

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

static void note_order(sharing *h) {
    const recorded_edit *e = h->e;
    for (uint32_t call = edit_first(e); call; call = edit_next(e, call)) {
        uint32_t b = h->block_of[e->calls[call].module];
        if (b && h->units[b].last_forward == call) h->order[h->ordered++] = b;
    }
}

/* The last call of forward that was recorded before that one, whether it is left or not. What was put in, as
 * pieces of a loss, stands for calls that are gone, of which that is the last. */
static uint32_t stands_for(const recorded_edit *e, uint32_t call) {
    const recording_program *p = e->from;
    if (call <= p->call_name.count) return call;
    while (call > p->call_name.count) call = edit_next(e, call);
    uint32_t last = call ? call - 1 : p->call_name.count;
    while (last && p->phase.of[last - 1] != RECORDING_FORWARD) last--;
    return last;
}

/* Code around the model, as a loss, is none of its forward. */
static bool is_of_model(const sharing *h, uint32_t call) {
    uint32_t recorded = stands_for(h->e, call);
    return recorded > h->from && recorded <= h->to;
}

static void find_model(const recording_program *p, uint32_t *first, uint32_t *last) {
    *first = EDIT_NEVER, *last = 0;
    for (uint32_t i = 0; i < p->visit_module.count; i++) {
        if (p->visit_module.of[i]) continue;
        uint32_t from = (uint32_t)p->visit_calls.of[2 * i], to = (uint32_t)p->visit_calls.of[2 * i + 1];
        if (from < *first) *first = from;
        if (to > *last) *last = to;
    }
    if (!*last) *first = 0, *last = p->call_name.count; /* an old recording does not say */
}

static void note_model(sharing *h) {
    const recorded_edit *e = h->e;
    find_model(e->from, &h->from, &h->to);
    for (uint32_t call = 1; h->s->loss_chunks && call <= e->from->call_name.count; call++)
        h->apart |= e->calls[call].gone && e->calls[call].phase == RECORDING_FORWARD && call > h->to;
    for (uint32_t call = edit_first(e); call; call = edit_next(e, call)) {
        if (e->calls[call].phase != RECORDING_FORWARD || !is_of_model(h, call)) continue;
        if (!h->begin) h->begin = call;
        h->end = call;
    }
}

static bool is_gradient(const edit_storage *x) { return x->role == RECORDING_GRADIENT && !x->gone; }

static void note_bytes(sharing *h, const uint32_t *block) {
    for (uint32_t i = 1; i <= h->e->storage_count; i++) {
        const edit_storage *x = edit_at(h->e, i);
        if (x->role == RECORDING_PARAMETER) h->units[block[i]].weights += whole_of(h, i);
        if (is_gradient(x)) h->units[block[i]].sent += sent_of(h, i);
    }
}

/* ---- weights ---- */

/* Beside the model's own calls, so that blocks which are computed again do not gather again. `read`: 0 where
 * it reads nothing that is counted. */
static uint32_t put(sharing *h, uint32_t behind, recording_phase when, const char *name, uint32_t read,
                    uint32_t made) {
    return edit_insert(h->e, behind,
                       &(edit_new_call){ .name = name, .phase = when, .reads = { read }, .makes = { made } });
}

static uint32_t bytes_of(sharing *h, double bytes) {
    return edit_add(h->e, &(edit_new){ .role = RECORDING_MADE, .dtype = "uint8", .rows = bytes });
}

/* Nothing is done to what is let go: it was there until then. */
static uint32_t let_go(sharing *h, uint32_t behind, recording_phase when, uint32_t storage) {
    return put(h, behind, when, "reshard", storage, storage);
}

static uint32_t before(const sharing *h, uint32_t call) { return h->e->calls[call].before; }

/* All of a unit's weights come into a buffer, f32 shares as a copy of 16 bits. `until`: what is let go then;
 * 0: nothing. Returns the buffer. */
static uint32_t fetch(sharing *h, uint32_t call, recording_phase when, const unit *u, uint32_t until) {
    uint32_t own = h->widens ? bytes_of(h, u->weights / (double)h->s->gpus) : 0,
             buffer = bytes_of(h, u->weights);
    if (own) put(h, before(h, call), when, "_foreach_copy", 0, own);
    put(h, before(h, call), when, "all_gather", own, buffer);
    if (until) let_go(h, before(h, call), when, until); /* once the other is full */
    return buffer;
}

/* What a unit computes with: copied out of the buffer, or the buffer itself (DeepSpeed's are views). */
static uint32_t weights_in(sharing *h, uint32_t call, recording_phase when, const unit *u, uint32_t buffer) {
    if (!h->copies) return buffer;
    uint32_t weights = bytes_of(h, u->weights);
    put(h, before(h, call), when, "split_with_sizes_copy", buffer, weights);
    return weights;
}

/* In forward a buffer stays until the next one is full, so that its copies can be made meanwhile, and the
 * last one to the end of the model's forward (FSDPCommContext.all_gather_state). The root's weights stay to
 * the end of backward. */
static void gather_forward(sharing *h) {
    const unit *root = h->units;
    uint32_t kept = 0;
    if (root->weights > 0 && h->begin) {
        kept = fetch(h, h->begin, RECORDING_FORWARD, root, 0);
        uint32_t weights = weights_in(h, h->begin, RECORDING_FORWARD, root, kept);
        if (root->last_backward) let_go(h, root->last_backward, RECORDING_BACKWARD, weights);
    }
    for (uint32_t k = 0; k < h->ordered; k++) {
        const unit *u = h->units + h->order[k];
        kept = fetch(h, u->forward, RECORDING_FORWARD, u, h->copies ? kept : 0);
        uint32_t weights = weights_in(h, u->forward, RECORDING_FORWARD, u, kept);
        let_go(h, u->last_forward, RECORDING_FORWARD, weights);
    }
    if (kept && h->copies && h->end) let_go(h, h->end, RECORDING_FORWARD, kept);
}

/* Of the first `k` in the order the last one that backward comes to; 0: none. */
static uint32_t following(const sharing *h, uint32_t k) {
    while (k && !h->units[h->order[k - 1]].backward) k--;
    return k;
}

static uint32_t first_of_backward(const sharing *h) {
    const recorded_edit *e = h->e;
    for (uint32_t call = edit_first(e); call; call = edit_next(e, call)) {
        uint32_t of = e->calls[call].of;
        if (e->calls[call].phase == RECORDING_BACKWARD && is_of_model(h, of)) return call;
    }
    return 0;
}

/* While a unit is differentiated the next one's weights arrive; while the root is, those of the first, if a
 * result of the model says that backward begins. */
static void gather_backward(sharing *h) {
    uint32_t k = following(h, h->ordered), fetched = 0,
             call = h->apart && k ? h->units[h->order[k - 1]].backward : first_of_backward(h);
    if (call && k) fetched = fetch(h, call, RECORDING_BACKWARD, h->units + h->order[k - 1], 0);
    for (; k && fetched; k = following(h, k - 1)) {
        const unit *u = h->units + h->order[k - 1];
        uint32_t weights = weights_in(h, u->backward, RECORDING_BACKWARD, u, fetched),
                 next = following(h, k - 1);
        fetched = next ? fetch(h, u->backward, RECORDING_BACKWARD, h->units + h->order[next - 1], 0) : 0;
        let_go(h, u->last_backward, RECORDING_BACKWARD, weights);
    }
}

/* ---- gradients ---- */

/* A device's share of a gradient in its place. */
static void add_part(sharing *h, uint32_t gradient) {
    recorded_edit *e = h->e;
    uint32_t part = edit_add(e, &(edit_new){ RECORDING_GRADIENT, edit_dtype(e, gradient), 1, 0, true });
    edit_storage *old = edit_at(e, gradient), *new = edit_at(e, part);
    new->bytes = old->bytes, new->name = old->name, new->shape = old->shape;
    share(h, part);
    if (h->s->host_keeps) new->bytes = 0;
    old->role = RECORDING_MADE, old->held = false, old->loose = true;
    h->part[gradient] = part;
}

/* The update reads a device's parts. */
static void update_parts(const sharing *h) {
    const recorded_edit *e = h->e;
    for (uint32_t call = edit_first(e); call; call = edit_next(e, call)) {
        uint32_t *operand = edit_reads(e, call), count = e->calls[call].reads + e->calls[call].makes;
        if (e->calls[call].phase != RECORDING_UPDATE) continue;
        for (uint32_t k = 0; k < count; k++)
            if (operand[k] <= h->known && h->part[operand[k]]) operand[k] = h->part[operand[k]];
    }
}

/* A CPU copies each gradient of another type than the buffer's once more on its way; all are there meanwhile.
 */
static uint32_t copy_narrow(sharing *h, uint32_t b, const uint32_t *block, uint32_t at) {
    for (uint32_t i = 1; i <= h->known && h->widens && !h->s->cuda; i++) {
        bool narrow = edit_is_narrow(h->e, i);
        if (!is_gradient(edit_at(h->e, i)) || block[i] != b || !narrow || !edit_at(h->e, i)->bytes) continue;
        at = put(h, at, RECORDING_BACKWARD, "cat", i, bytes_of(h, whole_of(h, i)));
    }
    return at;
}

/* A unit's weights are let go, then its gradients are copied into one buffer, of which a share comes back.
 * The buffer stays until the next unit's are ready; shares are added to those of earlier micro-batches
 * together (FSDPParamGroup.post_backward, foreach_reduce). */
static void reduce(sharing *h, uint32_t b, const uint32_t *block) {
    recorded_edit *e = h->e;
    const recording_phase when = RECORDING_BACKWARD;
    const unit *u = h->units + b;
    uint32_t at = u->last_backward;
    if (!(u->sent > 0) || !at) return;
    uint32_t buffer = bytes_of(h, u->sent);
    if (h->sending) at = let_go(h, at, when, h->sending);
    at = copy_narrow(h, b, block, put(h, at, when, "chunk_cat", 0, buffer));
    uint32_t first = e->storage_count + 1;
    for (uint32_t i = 1; i <= h->known; i++) {
        if (!is_gradient(edit_at(e, i)) || block[i] != b || !edit_at(e, i)->bytes) continue;
        add_part(h, i);
        at = put(h, at, when, "chunk_cat", i, buffer);
    }
    for (uint32_t part = first; part <= e->storage_count; part++)
        at = put(h, at, when, "reduce_scatter", buffer, part);
    for (uint32_t part = first; part <= e->storage_count; part++) at = let_go(h, at, when, part);
    h->sending = buffer;
}

/* The root's, as they are made: recorded_root_is_wide. Pieces have cast theirs. */
static void widen_root(sharing *h, const uint32_t *block) {
    recorded_edit *e = h->e;
    for (uint32_t i = 1; i <= h->known && !e->failed; i++) {
        uint32_t call = edit_at(e, i)->born;
        bool narrow = edit_is_narrow(e, i);
        if (!is_gradient(edit_at(e, i)) || block[i] || !narrow || !call) continue;
        uint32_t made = edit_divert(e, call, i, edit_dtype(e, i));
        edit_retype(e, i, wide);
        put(h, edit_end_of_node(e, call), RECORDING_BACKWARD, "_to_copy.default", made, i);
    }
}

static void reduce_all(sharing *h, const uint32_t *block) {
    for (uint32_t k = h->ordered; k; k--) reduce(h, h->order[k - 1], block);
    for (uint32_t call = edit_first(h->e); call; call = edit_next(h->e, call))
        if (h->e->calls[call].phase == RECORDING_BACKWARD) h->units[0].last_backward = call;
    reduce(h, 0, block);
    update_parts(h);
}

/* ---- inputs ---- */

static void read_instead(sharing *h, uint32_t old, uint32_t new) {
    recorded_edit *e = h->e;
    for (uint32_t call = edit_first(e); call; call = edit_next(e, call)) {
        bool reads = false;
        for (uint32_t k = 0; k < e->calls[call].reads; k++) reads |= edit_reads(e, call)[k] == old;
        if (reads) edit_read_instead(e, call, old, new);
    }
}

/* Where it computes in 16 bits FSDP casts what the model is given; the batch stays as it came. */
static void cast_inputs(sharing *h) {
    recorded_edit *e = h->e;
    for (uint32_t i = 1; i <= h->known && h->begin && !e->failed; i++) {
        const char *type = edit_dtype(e, i);
        if (edit_at(e, i)->role != RECORDING_INPUT || !edit_is_narrow(e, i)) continue;
        uint32_t copy = edit_add(e, &(edit_new){ RECORDING_MADE, type, edit_numbers(e, i), 0, false });
        read_instead(h, i, copy);
        edit_retype(e, i, wide);
        put(h, before(h, h->begin), RECORDING_FORWARD, "_to_copy.default", i, copy);
        let_go(h, h->end, RECORDING_FORWARD, copy); /* the model's call has it */
    }
}

/* ---- the whole ---- */

/* DDP keeps gradients once more, in buckets. */
static void add_buckets(sharing *h) {
    double bytes = 0;
    for (uint32_t b = 0; b <= h->blocks; b++) bytes += h->units[b].sent;
    uint32_t buckets =
        edit_add(h->e, &(edit_new){ .role = RECORDING_HELD, .dtype = "uint8", .rows = bytes, .stays = true });
    edit_at(h->e, buckets)->gone = false;
}

static void share_all(const sharing *h, recording_role as, bool none) {
    for (uint32_t i = 1; i <= h->known; i++) {
        if (edit_at(h->e, i)->role != as) continue;
        share(h, i);
        if (none) edit_at(h->e, i)->bytes = 0;
    }
}

/* A device updates its shares alone. */
static void share_update(const sharing *h) {
    const recorded_edit *e = h->e;
    for (uint32_t i = 1; i <= h->known; i++) {
        uint32_t born = edit_at(e, i)->born;
        bool made = edit_at(e, i)->role == RECORDING_MADE && born;
        if (made && e->calls[born].phase == RECORDING_UPDATE) share(h, i);
    }
}

/* Weights are let go before their unit's gradients are sent, so their calls come in front of those that were
 * put there first. */
static void share_out(sharing *h, const uint32_t *block) {
    const torch_settings *s = h->s;
    note_calls(h);
    note_order(h);
    note_model(h);
    if (h->widens) cast_inputs(h);
    if (h->widens && h->apart) widen_root(h, block);
    note_bytes(h, block);
    if (s->shard == TORCH_DDP) add_buckets(h);
    if (s->shard >= TORCH_ZERO2) reduce_all(h, block);
    if (h->gathers) {
        gather_backward(h);
        gather_forward(h);
        share_all(h, RECORDING_PARAMETER, s->host_keeps == TORCH_KEEPS_ALL);
    }
    if (s->shard < TORCH_ZERO1) return;
    share_all(h, RECORDING_STATE, s->host_keeps);
    share_update(h);
}

/* Of what is whole a device has a part. FSDP gathers units for forward and backward and the root once; where
 * weights are not shared out, ZeRO gathers them behind the update. DDP's and ZeRO-1's gradients go with the
 * last micro-batch. */
static void note_link(const sharing *h, recorded_link *link) {
    double others = 1 - 1 / (double)h->s->gpus, weights = 0, sent = 0;
    for (uint32_t b = 0; b <= h->blocks; b++)
        weights += (b ? 2 : 1) * h->units[b].weights, sent += h->units[b].sent;
    double all = (weights + h->units[0].weights) / 2;
    bool zero = h->s->shard == TORCH_ZERO1 || h->s->shard == TORCH_ZERO2;
    *link = (recorded_link){ 0 };
    if (h->gathers) link->each = others * weights;
    if (h->s->shard >= TORCH_ZERO2) link->each += others * sent;
    if (h->s->shard == TORCH_DDP) link->once = 2 * others * sent;
    if (h->s->shard == TORCH_ZERO1) link->once = others * sent;
    if (zero) link->once += others * all;
}

bool recorded_root_is_wide(const recorded_edit *e, const torch_settings *s, uint32_t loss) {
    uint32_t from, to;
    find_model(e->from, &from, &to);
    return torch_is_shared(s) && s->shard == TORCH_FSDP && s->masters && loss > to;
}

void recorded_share(recorded_edit *e, const torch_settings *s, recorded_link *link) {
    if (!torch_is_shared(s)) return;
    sharing h = { .e = e,
                  .s = s,
                  .known = e->storage_count,
                  .gathers = s->shard == TORCH_ZERO3 || s->shard == TORCH_FSDP,
                  .copies = s->shard == TORCH_FSDP,
                  .widens = s->shard == TORCH_FSDP && s->masters };
    h.block_of = memory_new((size_t)e->r->modules.count + 1, sizeof *h.block_of);
    uint32_t *block = memory_new((size_t)e->storage_count + 1, sizeof *block);
    if (h.block_of) h.blocks = recorded_blocks(e->r, h.block_of);
    h.units = memory_new((size_t)h.blocks + 1, sizeof *h.units);
    h.order = memory_new((size_t)h.blocks + 1, sizeof *h.order);
    h.part = memory_new((size_t)h.known + 1, sizeof *h.part);
    if (h.block_of && block && h.units && h.order && h.part) {
        note_blocks(&h, block);
        share_out(&h, block);
        note_link(&h, link);
    } else {
        e->failed = true;
    }
    memory_free(h.block_of);
    memory_free(h.units);
    memory_free(h.order);
    memory_free(h.part);
    memory_free(block);
}
