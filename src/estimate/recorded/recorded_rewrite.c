#include "estimate/recorded/recorded_rewrite.h"

#include <math.h>

#include "base/memory.h"
#include "estimate/recorded/recorded_adapters.h"
#include "estimate/recorded/recorded_course.h"
#include "estimate/recorded/recorded_shard.h"
#include "estimate/recorded/recorded_types.h"
#include "estimate/recorded/recorded_update.h"
#include "estimate/recorded/recorded_within.h"

bool recorded_is_rewritten(const recording *r, const torch_settings *s) {
    return s->types != recorded_types_of(r) || s->adapter_rank || torch_is_shared(s) || s->in_backward ||
           s->averages || s->loss_chunks;
}

static uint64_t numbers_of(const recorded_edit *e, recording_role as) {
    double numbers = 0;
    for (uint32_t i = 1; i <= e->storage_count; i++)
        if (edit_at(e, i)->role == as && !edit_at(e, i)->gone) numbers += edit_numbers(e, i);
    return (uint64_t)numbers;
}

/* Of each call at the size that is played. */
static void note_operations(recorded_edit *e, const torch_settings *s, const recorded_sizes *sizes) {
    double *of = memory_new((size_t)e->call_count + 1, sizeof *of);
    if (!of) e->failed = true;
    if (of) recorded_sizes_operations(sizes, s->batch, s->context, of);
    for (uint32_t call = 1; of && call <= e->call_count; call++)
        edit_call_at(e, call)->operations = (int64_t)fmin(of[call - 1], 0x1p62);
    memory_free(of);
}

torch_settings recorded_prepared(const torch_settings *s) {
    torch_settings with = *s;
    with.masters = s->types == TORCH_AUTOCAST && torch_is_shared(s) && s->shard >= TORCH_ZERO1;
    if (with.masters) with.types = TORCH_HALF;
    return with;
}

/* Where weights are gathered, those of the root are there from forward to the end of backward, so pieces find
 * the head's. A unit's come and go with the unit's own call. */
static status check_head_stays(const recording *r, const torch_settings *s, const recorded_head *h) {
    bool gathers = torch_is_shared(s) && (s->shard == TORCH_FSDP || s->shard == TORCH_ZERO3);
    if (!gathers) return STATUS_OK;
    uint32_t *block_of = memory_new((size_t)r->modules.count + 1, sizeof *block_of);
    if (!block_of) return status_set(STATUS_FAILED, "no memory to estimate");
    recorded_blocks(r, block_of);
    bool is_unit = block_of[h->module] > 0;
    memory_free(block_of);
    if (!is_unit) return STATUS_OK;
    return status_set(STATUS_INVALID,
                      "--loss-chunks: the head of %s, %s, is gathered with a unit of --shard %s and let go "
                      "behind it, so its pieces would not find it; leave one of them out",
                      r->model, r->modules.of[h->module], s->shard == TORCH_FSDP ? "fsdp" : "zero3");
}

/* Its types, and with --loss-chunks the loss in pieces. */
static status rewrite_step(const recording *r, const torch_settings *s, recorded_edit *e, recorded_head *h) {
    *h = (recorded_head){ 0 };
    if (s->types != recorded_types_of(r)) recorded_retype(e, s->types, s->cuda, !s->narrow_throughout);
    if (!s->loss_chunks) return STATUS_OK;
    TRY(recorded_head_find(e, h));
    return check_head_stays(r, s, h);
}

status recorded_head_of(const recording *r, const torch_settings *s, recorded_head *h) {
    recorded_sizes sizes;
    recorded_edit e = { 0 };
    status result = recorded_sizes_find(r, s->batch, s->context, s->checkpointing, &sizes);
    if (result == STATUS_OK) result = edit_open(&e, r, &sizes);
    if (result == STATUS_OK) note_operations(&e, s, &sizes);
    if (result == STATUS_OK) result = rewrite_step(r, s, &e, h);
    edit_close(&e);
    recorded_sizes_close(&sizes);
    return result;
}

status recorded_rewrite(const recording *r, const torch_settings *s, recorded_sizes *sizes,
                        recording_program *out) {
    recorded_edit e;
    recorded_head head;
    uint64_t *bytes = NULL;
    *out = (recording_program){ 0 };
    if (!recorded_is_rewritten(r, s)) return STATUS_OK;
    status result = edit_open(&e, r, sizes);
    if (result == STATUS_OK) note_operations(&e, s, sizes);
    if (result == STATUS_OK) result = rewrite_step(r, s, &e, &head);
    if (result == STATUS_OK && s->loss_chunks)
        result = recorded_chunk(&e, &head, s->loss_chunks, recorded_root_is_wide(&e, s, head.loss));
    uint64_t numbers = numbers_of(&e, RECORDING_PARAMETER); /* before some are coded */
    if (result == STATUS_OK) result = recorded_adapt(&e, s);
    if (result == STATUS_OK && !s->cuda) recorded_within_mix(&e);
    uint64_t trained = numbers_of(&e, RECORDING_GRADIENT);
    if (s->adapter_rank) numbers += trained;
    if (result == STATUS_OK) recorded_share(&e, s, &sizes->link);
    if (result == STATUS_OK) recorded_update(&e, s);
    if (result == STATUS_OK) result = edit_write(&e, out, &bytes);
    edit_close(&e);
    if (result != STATUS_OK) return result;
    memory_free(sizes->bytes);
    sizes->bytes = bytes, sizes->program = out;
    sizes->parameters = numbers, sizes->trained = trained, sizes->head = head.module;
    return STATUS_OK;
}
