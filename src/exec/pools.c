/* The memory of a plan that is bound: one allocation for each of its pools. In separate mode one for each
 * storage instead, so that a sanitizer sees their edges. */
#include <string.h>

#include "base/memory.h"
#include "exec/exec_internal.h"

static status open_separate(exec *e) {
    e->persistent = memory_new(e->plan->persistent_count, sizeof *e->persistent);
    if (!e->persistent) return status_set(STATUS_FAILED, "no memory to bind a plan");
    for (uint32_t i = 0; i < e->plan->persistent_count; i++) {
        uint64_t bytes = e->plan->persistent[i].bytes;
        if (e->plan->persistent[i].pool != POOL_MEMORY) continue;
        e->persistent[i] = device_block_new(bytes);
        if (!e->persistent[i])
            return status_set(STATUS_NO_FIT, "no memory for '%s'", e->plan->persistent[i].name);
        memset(e->persistent[i], 0, bytes);
    }
    for (uint32_t k = 0; k < e->plan->program_count; k++) {
        bound_program *b = &e->programs[k];
        b->blocks = memory_new(b->plan->live.count, sizeof *b->blocks);
        if (!b->blocks) return status_set(STATUS_FAILED, "no memory to bind a plan");
        for (uint32_t i = 0; i < b->plan->live.count; i++) {
            b->blocks[i] = device_block_new(b->plan->live.storages[i].bytes);
            if (!b->blocks[i]) return status_set(STATUS_NO_FIT, "no memory for a buffer");
        }
    }
    return STATUS_OK;
}

static void close_separate(const exec *e) {
    for (uint32_t i = 0; e->persistent && i < e->plan->persistent_count; i++)
        device_block_free(e->persistent[i]);
    memory_free(e->persistent);
    for (uint32_t k = 0; k < e->plan->program_count; k++) {
        bound_program *b = &e->programs[k];
        for (uint32_t i = 0; b->blocks && i < b->plan->live.count; i++) device_block_free(b->blocks[i]);
        memory_free(b->blocks);
    }
}

/* Of a device apart the host's buffers, and what is away, are a pool of the host's. */
static status open_host(exec *e) {
    const plan *p = e->plan;
    if (!p->device->apart) return STATUS_OK;
    return p->device->open_host(p->device, &e->host, plan_allocated(p, POOL_HOST));
}

status exec_pools_open(exec *e) {
    const plan *p = e->plan;
    if (!(e->modes & EXEC_SEPARATE)) {
        TRY(p->device->open(p->device, &e->pool, plan_pool_bytes(p)));
        return open_host(e);
    }
    if (p->device->apart)
        return status_set(STATUS_INVALID, "%s has one pool: there are no separate blocks", p->device->name);
    return open_separate(e);
}

void exec_pools_close(exec *e) {
    capture_close(e); /* it has addresses of theirs */
    if (e->modes & EXEC_SEPARATE) close_separate(e);
    const device *d = e->plan->device;
    d->close(d, &e->pool);
    if (d->apart) d->close_host(d, &e->host);
}

uint64_t exec_pool_bytes(const exec *e) { return e->plan->device->apart ? e->host.bytes : e->pool.bytes; }
