/* What the host reaches of a plan that is bound: values by name, in parts. */
#include <assert.h>
#include <string.h>

#include "base/units.h"
#include "comm/comm.h"
#include "exec/exec_internal.h"
#include "exec/joined.h"

/* exec_value.program of persistent tensors, whose index is one of the plan: all of one, or of what ranks
 * share this one's part. */
#define STATE UINT32_MAX
#define OWN (UINT32_MAX - 1)

static const plan_persistent *state_of(const exec *e, const exec_value *x) {
    return x->program >= OWN ? &e->plan->persistent[x->index] : NULL;
}

static void *address_of_state(const exec *e, const plan_persistent *p) {
    if (p->pool == POOL_FILE) return NULL;
    if (e->modes & EXEC_SEPARATE) return e->persistent[p - e->plan->persistent];
    return (char *)(p->pool == POOL_HOST ? e->host.data : e->pool.data) + p->offset;
}

void *exec_persistent(const exec *e, const char *name) {
    const plan_persistent *p = plan_find(e->plan, name);
    return p ? address_of_state(e, p) : NULL;
}

void *exec_buffer(const exec *e, const char *name) {
    const plan_persistent *p = plan_find(e->plan, name);
    return p && !p->shape.rank ? address_of_state(e, p) : NULL;
}

static exec_value value_of(const exec *e, uint32_t which, tensor_id t) {
    return (exec_value){ graph_tensor_bytes(&e->plan->programs[which].program.graph, t), which, t };
}

exec_value exec_input(const exec *e, uint32_t which, const char *name) {
    const plan_program *p = &e->plan->programs[which];
    tensor_id t = graph_find(&p->program.graph, name);
    return t && p->live.of_tensor[t] != LIVE_NONE ? value_of(e, which, t) : (exec_value){ 0 };
}

exec_value exec_output(const exec *e, uint32_t which, const char *name) {
    const graph *g = &e->plan->programs[which].program.graph;
    tensor_id t = graph_find(g, name);
    return t && graph_tensor(g, t)->flags & TENSOR_KEEP ? value_of(e, which, t) : (exec_value){ 0 };
}

static exec_value persistent_value(const exec *e, const plan_persistent *p, uint32_t kind, const shape *s) {
    return (exec_value){ .bytes = (uint64_t)shape_elements(s) * dtype_bytes(p->dtype),
                         .program = kind,
                         .index = (uint32_t)(p - e->plan->persistent) };
}

exec_value exec_state_of(const exec *e, const plan_persistent *p) {
    return persistent_value(e, p, STATE, &p->global);
}

exec_value exec_own(const exec *e, const plan_persistent *p) {
    return persistent_value(e, p, OWN, &p->shape);
}

exec_value exec_state(const exec *e, const char *name) {
    const plan_persistent *p = plan_find(e->plan, name);
    return p && p->shape.rank ? exec_state_of(e, p) : (exec_value){ 0 };
}

static char *address_of(const exec *e, const exec_value *x) {
    const plan_persistent *p = state_of(e, x);
    return p ? address_of_state(e, p) : exec_address(e, &e->programs[x->program], x->index);
}

/* What is in a file passes through a slot of the transfer's, as much as that holds. */
static status room_in_file(exec *e, exec_part *part) {
    TRY(transfer_settle(e->transfer));
    uint64_t most = e->plan->slot_bytes / PIECES_PAGE * PIECES_PAGE;
    if (part->bytes > most) part->bytes = most;
    part->data = transfer_buffer(e->transfer);
    return STATUS_OK;
}

static int pool_of(const exec *e, const exec_value *x) {
    const plan_persistent *p = state_of(e, x);
    return p ? p->pool : POOL_MEMORY;
}

static bool in_file(const exec *e, const exec_value *x) { return pool_of(e, x) == POOL_FILE; }

/* Does it pass through the staging buffer? */
static bool is_staged(const exec *e, const exec_value *x) {
    return e->plan->device->apart && pool_of(e, x) == POOL_MEMORY;
}

/* What is in the memory of a device apart, or another rank's, passes through the staging buffer. */
static status room_apart(const exec *e, exec_part *part) {
    uint64_t most = e->plan->staging_bytes - e->staged_from;
    if (part->bytes > most) part->bytes = most;
    part->data = (char *)exec_buffer(e, PLAN_STAGING) + e->staged_from;
    return STATUS_OK;
}

/* ---- what ranks share ---- */

typedef struct {
    int rank;             /* that has the byte which is asked for */
    uint64_t first, left; /* the byte in that rank's part, and how many of the whole are there from it on */
} share_place;

static share_place place_in_shares(const exec *e, const exec_value *x, uint64_t first) {
    const plan_persistent *p = state_of(e, x);
    share_place at = { comm_world().rank, first, x->bytes - first };
    if (x->program != STATE || !plan_is_share(p)) return at;
    uint64_t each = (uint64_t)shape_elements(&p->shape) * dtype_bytes(p->dtype);
    at.rank = exec_first_of(e->plan->group) + (int)(first / each), at.first = first % each;
    if (at.left > each - at.first) at.left = each - at.first;
    return at;
}

static bool is_here(const share_place *at) { return at->rank == comm_world().rank; }

bool exec_is_here(const exec *e, const exec_value *x, uint64_t first) {
    share_place at = place_in_shares(e, x, first);
    return is_here(&at);
}

status exec_room(exec *e, const exec_value *x, uint64_t first, exec_part *part) {
    if (first >= x->bytes)
        return status_set(STATUS_FAILED, "byte %llu of a value of %llu bytes", (unsigned long long)first,
                          (unsigned long long)x->bytes);
    share_place at = place_in_shares(e, x, first);
    *part = (exec_part){ .bytes = at.left };
    if (!is_here(&at)) return room_apart(e, part);
    if (in_file(e, x)) return room_in_file(e, part);
    if (is_staged(e, x)) return room_apart(e, part);
    part->data = address_of(e, x) + at.first;
    return STATUS_OK;
}

/* ---- within a step ---- */

void exec_begin(exec *e) {
    const device *d = e->plan->device;
    if (!d->apart) return;
    d->begin(d);
    e->in_step = true, e->passing = 0;
}

void exec_end(exec *e) {
    const device *d = e->plan->device;
    if (e->in_step) joined_end(d);
    e->in_step = false;
}

enum { PASSES_ALIGN = 16 };

/* Room in the staging buffer for something that is under way until the step ends. Where all of it is taken,
 * the lanes come to what they have first. */
static char *room_to_pass(exec *e, uint64_t bytes) {
    uint64_t at = units_align(e->passing, PASSES_ALIGN);
    assert(bytes <= e->plan->staging_bytes);
    if (at + bytes > e->plan->staging_bytes) {
        exec_end(e);
        exec_begin(e);
        at = 0;
    }
    e->passing = at + bytes;
    return (char *)exec_buffer(e, PLAN_STAGING) + at;
}

/* Does the device reach it? */
static bool is_pinned(const exec *e, const void *at, uint64_t bytes) {
    const char *first = e->host.data;
    return (const char *)at >= first && (const char *)at + bytes <= first + e->host.bytes;
}

static void pass(exec *e, char *to, const char *from, uint64_t bytes) {
    const device *d = e->plan->device;
    for (uint64_t part; bytes; to += part, from += part, bytes -= part) {
        part = bytes < e->plan->staging_bytes ? bytes : e->plan->staging_bytes;
        const char *at = from;
        if (!is_pinned(e, from, part)) at = memcpy(room_to_pass(e, part), from, part);
        d->carry(d, to, at, part);
    }
}

/* Of what is asked for within a step: what lies near enough comes with one copy of all between. */
void exec_ask(exec *e, const exec_value *values, exec_question *questions, uint32_t count) {
    enum { NEAR = 4096 };
    const device *d = e->plan->device;
    const char *low = NULL, *high = NULL;
    for (uint32_t i = 0; i < count; i++) {
        const exec_value *x = &values[i];
        questions[i] = (exec_question){ .value = *x };
        if (!e->in_step || !x->bytes || !is_staged(e, x)) continue;
        const char *at = address_of(e, x);
        if (!low || at < low) low = at;
        if (!high || at + sizeof(float) > high) high = at + sizeof(float);
    }
    if (!low) return;
    bool together = high - low <= NEAR;
    char *all = together ? room_to_pass(e, (uint64_t)(high - low)) : NULL;
    if (together) d->carry(d, all, low, (uint64_t)(high - low));
    for (uint32_t i = 0; i < count; i++) {
        const exec_value *x = &values[i];
        if (!x->bytes || !is_staged(e, x)) continue;
        const char *at = address_of(e, x);
        char *here = together ? all + (at - low) : room_to_pass(e, sizeof(float));
        if (!together) d->carry(d, here, at, sizeof(float));
        questions[i].at = (const float *)here;
    }
}

status exec_answer(exec *e, const exec_question *q, double *number) {
    const device *d = e->plan->device;
    if (!q->at) return exec_read_number(e, &q->value, number);
    *number = (double)*q->at;
    return joined_failed(d);
}

/* ---- parts ---- */

status exec_view_here(exec *e, const exec_value *x, uint64_t first, uint64_t bytes, exec_part *part) {
    const device *d = e->plan->device;
    TRY(exec_room(e, x, first, part));
    if (part->bytes > bytes) part->bytes = bytes;
    share_place at = place_in_shares(e, x, first);
    if (in_file(e, x)) return transfer_read(e->transfer, state_of(e, x)->offset + at.first, part->bytes);
    if (!is_staged(e, x)) return STATUS_OK;
    assert(!e->in_step);
    d->get(d, part->data, address_of(e, x) + at.first, part->bytes);
    return joined_failed(d); /* then nothing was copied */
}

/* At most `bytes` of it. */
status exec_view_some(exec *e, const exec_value *x, uint64_t first, uint64_t bytes, exec_part *part) {
    share_place at = place_in_shares(e, x, first);
    TRY(exec_room(e, x, first, part));
    if (part->bytes > bytes) part->bytes = bytes;
    TRY(meeting_view(e, is_here(&at), &(meeting_place){ at.rank, x->index, at.first }, part));
    return is_here(&at) ? exec_view_here(e, x, first, part->bytes, part) : STATUS_OK;
}

status exec_view(exec *e, const exec_value *x, uint64_t first, exec_part *part) {
    return exec_view_some(e, x, first, UINT64_MAX, part);
}

status exec_put(exec *e, const exec_value *x, uint64_t first, const exec_part *part) {
    const device *d = e->plan->device;
    share_place at = place_in_shares(e, x, first);
    if (!is_here(&at)) return STATUS_OK;
    if (in_file(e, x)) return transfer_write(e->transfer, state_of(e, x)->offset + at.first, part->bytes);
    if (is_staged(e, x)) d->put(d, address_of(e, x) + at.first, part->data, part->bytes);
    return STATUS_OK;
}

status exec_write(exec *e, const exec_value *x, uint64_t first, const void *from, uint64_t bytes) {
    if (!x->bytes) return STATUS_OK;
    if (e->in_step && is_staged(e, x)) {
        pass(e, address_of(e, x) + first, from, bytes);
        return STATUS_OK;
    }
    for (exec_part part; bytes; first += part.bytes, bytes -= part.bytes) {
        TRY(exec_room(e, x, first, &part));
        if (part.bytes > bytes) part.bytes = bytes;
        memcpy(part.data, from, part.bytes);
        TRY(exec_put(e, x, first, &part));
        from = (const char *)from + part.bytes;
    }
    return STATUS_OK;
}

/* Of `list`, in the order of addresses, the first few that lie one after the other, from one place of
 * LIVE_ALIGN bytes to the next: nothing else is between them. */
static uint32_t neighbours(const exec *e, const exec_item *const *list, uint32_t count) {
    uint32_t n = 1;
    while (n < count && address_of(e, &list[n]->value) - address_of(e, &list[n - 1]->value) == LIVE_ALIGN)
        n++;
    return n;
}

static void pass_together(exec *e, const exec_item *const *list, uint32_t count) {
    const device *d = e->plan->device;
    uint64_t bytes = (count - 1) * (uint64_t)LIVE_ALIGN + list[count - 1]->value.bytes;
    char *all = room_to_pass(e, bytes);
    memset(all, 0, bytes);
    for (uint32_t i = 0; i < count; i++)
        memcpy(all + i * (uint64_t)LIVE_ALIGN, list[i]->from, list[i]->value.bytes);
    d->carry(d, address_of(e, &list[0]->value), all, bytes);
}

status exec_write_items(exec *e, const exec_item *items, uint32_t count) {
    const exec_item *list[EXEC_ITEMS];
    uint32_t n = 0;
    assert(count <= EXEC_ITEMS);
    for (uint32_t i = 0; i < count; i++) {
        const exec_value *x = &items[i].value;
        if (!e->in_step || !is_staged(e, x) || x->bytes > LIVE_ALIGN) {
            TRY(exec_write(e, x, 0, items[i].from, x->bytes));
            continue;
        }
        if (!x->bytes) continue;
        uint32_t at = n++;
        for (; at && address_of(e, &list[at - 1]->value) > address_of(e, x); at--) list[at] = list[at - 1];
        list[at] = &items[i];
    }
    for (uint32_t i = 0, together; i < n; i += together) {
        together = neighbours(e, list + i, n - i);
        pass_together(e, list + i, together);
    }
    return STATUS_OK;
}

status exec_clear(exec *e, const exec_value *x) {
    const device *d = e->plan->device;
    exec_part part;
    if (e->in_step && is_staged(e, x)) {
        if (x->bytes) d->fill(d, address_of(e, x), 0, x->bytes);
        return STATUS_OK;
    }
    for (uint64_t done = 0; done < x->bytes; done += part.bytes) {
        TRY(exec_room(e, x, done, &part));
        memset(part.data, 0, part.bytes);
        TRY(exec_put(e, x, done, &part));
    }
    return STATUS_OK;
}

status exec_read(exec *e, const exec_value *x, uint64_t first, void *into, uint64_t bytes) {
    for (exec_part part; bytes; first += part.bytes, bytes -= part.bytes) {
        TRY(exec_view_some(e, x, first, bytes, &part));
        memcpy(into, part.data, part.bytes);
        into = (char *)into + part.bytes;
    }
    return STATUS_OK;
}

status exec_write_number(exec *e, const exec_value *x, float number) {
    return exec_write(e, x, 0, &number, sizeof number);
}

status exec_read_number(exec *e, const exec_value *x, double *number) {
    float value = 0;
    if (x->bytes) TRY(exec_read(e, x, 0, &value, sizeof value));
    *number = (double)value;
    return STATUS_OK;
}
