#include "train/room.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/memory.h"
#include "base/units.h"
#include "comm/comm.h"
#include "device/device.h"
#include "io/safetensors.h"
#include "io/shards.h"
#include "run/weights.h"

/* ---- what a run writes ---- */

/* What small files take in a folder, with that and the unused ends of large ones; a line of metrics, and the
 * same in an event file. */
enum { SMALL_BYTES = 24 << 10, LINE_BYTES = 512, ENTRY_BYTES = 192, FILE_BYTES = 4 << 10 };

/* The file of the persistent tensors of a category, in a type of floats (NONE: their own); `added`: of those
 * that a pass has put beside the model's. */
static status file_bytes(const plan *p, category c, dtype as, bool added, uint64_t *bytes) {
    safetensors_item *items = memory_new(p->persistent_count + 1u, sizeof *items);
    uint32_t count = 0;
    float deviation;
    if (!items) return status_set(STATUS_FAILED, "no memory to look at what is saved");
    for (uint32_t i = 0; i < p->persistent_count; i++) {
        const plan_persistent *x = &p->persistent[i];
        if (x->category != c || (added && !pass_of_parameter(x->name, &x->global, &deviation))) continue;
        dtype type = as ? as : (dtype)x->dtype;
        items[count++] =
            (safetensors_item){ .name = x->name,
                                .dtype = safetensors_dtype_name(type),
                                .shape = x->global,
                                .bytes = (uint64_t)shape_elements(&x->global) * dtype_bytes(type) };
    }
    status result = safetensors_file_bytes("a checkpoint", items, count, bytes);
    memory_free(items);
    return result;
}

/* Of those a file has the number of batches that they have seen as well. */
static uint64_t norms(const plan *p) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < p->persistent_count; i++)
        count += text_ends_with(p->persistent[i].name, ".running_var");
    return count;
}

/* What more headers and an index take where ranks write several files of a category. */
static uint64_t index_bytes(const plan *p, category c) {
    plan_whole whole = plan_whole_of(p, c);
    int files = shards_files(whole.bytes, whole.tensors, comm_world().world);
    return files > 1 ? whole.tensors * ENTRY_BYTES + (uint64_t)files * FILE_BYTES : 0;
}

/* How many checkpoints there are at once, more than now. */
static uint64_t checkpoints_more(const setup_options *o, const resume *from) {
    int64_t left = o->steps - from->step, *steps, made = 1; /* one where it is stopped */
    uint32_t there = 0;
    if (o->save_every) made += left / o->save_every;
    if (made > o->keep + 1) made = o->keep + 1;
    if (!resume_is_of(from, o->out) || checkpoint_folder_list(o->out, &steps, &there) != STATUS_OK)
        return (uint64_t)made;
    memory_free(steps);
    int64_t most = o->keep + 1 - (int64_t)there; /* older ones go */
    if (most < 1) most = 1;
    return (uint64_t)(made < most ? made : most);
}

status room_disk_bytes(const setup *s, const decision *d, const resume *from, uint64_t *bytes) {
    const setup_options *o = &s->options;
    *bytes = 0;
    if (!o->out) return STATUS_OK;
    bool adapts = weights_adapter(s, d, &from->run).pass; /* then what does not change is not written */
    uint64_t weights, saved, state, lines = (uint64_t)(o->steps - from->step) * LINE_BYTES;
    TRY(file_bytes(&d->plan, CATEGORY_WEIGHTS, DTYPE_NONE, adapts, &weights));
    TRY(file_bytes(&d->plan, CATEGORY_WEIGHTS, setup_save_dtype(o), adapts, &saved));
    TRY(file_bytes(&d->plan, CATEGORY_OPTIMIZER, DTYPE_NONE, false, &state));
    uint64_t of_weights = adapts ? 0 : index_bytes(&d->plan, CATEGORY_WEIGHTS);
    saved += of_weights, weights += of_weights, state += index_bytes(&d->plan, CATEGORY_OPTIMIZER);
    if (!adapts && !s->custom) /* a header's entry for each matrix */
        saved += (uint64_t)families_expert_tensors(&s->config) * ENTRY_BYTES;
    if (!s->custom) saved += norms(&d->plan) * ENTRY_BYTES;
    if (o->keep_best) lines += saved + SMALL_BYTES;
    *bytes = saved + lines + 2 * SMALL_BYTES + checkpoints_more(o, from) * (weights + state + SMALL_BYTES);
    return STATUS_OK;
}

/* ---- what there is ---- */

/* The folder, or the nearest above it that is there. */
static bool nearest(const char *path, char found[CHECKPOINT_PATH_BYTES], struct stat *about) {
    if (snprintf(found, CHECKPOINT_PATH_BYTES, "%s", path) >= CHECKPOINT_PATH_BYTES) return false;
    while (stat(found, about) != 0) {
        char *slash = strrchr(found, '/');
        if (!slash && strcmp(found, ".") == 0) return false;
        if (!slash)
            strcpy(found, ".");
        else if (slash == found && !found[1])
            return false;
        else
            slash[slash == found] = '\0';
    }
    return true;
}

static status check_disk(const setup *s, const decision *d, const resume *from) {
    char folder[CHECKPOINT_PATH_BYTES], is[UNITS_TEXT_BYTES], need[UNITS_TEXT_BYTES];
    struct stat about, moved;
    struct statvfs disk;
    uint64_t bytes;
    TRY(room_disk_bytes(s, d, from, &bytes));
    if (!bytes || !nearest(s->options.out, folder, &about) || statvfs(folder, &disk) != 0) return STATUS_OK;
    if (!disk.f_blocks) return STATUS_OK; /* no disk: what is wrong with it is said when it is written to */
    if (plan_file_bytes(&d->plan) && stat(d->plan.folder, &moved) == 0 && moved.st_dev == about.st_dev)
        bytes += plan_file_bytes(&d->plan);
    uint64_t left = (uint64_t)disk.f_bavail * disk.f_frsize;
    if (bytes <= left) return STATUS_OK;
    return status_set(
        STATUS_NO_FIT,
        "the disk of %s has %s left, and the run takes %s there with %lld checkpoint%s kept; free "
        "some space, or choose a smaller --keep or another --out",
        s->options.out, units_bytes_text(left, is), units_bytes_text(bytes, need), (long long)s->options.keep,
        s->options.keep == 1 ? "" : "s");
}

/* Of what is needed the process has already taken a part. */
static status check_left(const char *whose, uint64_t left, uint64_t taken, uint64_t needed) {
    char is[UNITS_TEXT_BYTES], need[UNITS_TEXT_BYTES];
    uint64_t more = needed > taken ? needed - taken : 0;
    if (more <= left) return STATUS_OK;
    return status_set(STATUS_NO_FIT,
                      "%s has %s of memory left, and the plan takes %s more; plan for what there is with "
                      "--memory auto, or make room",
                      whose, units_bytes_text(left, is), units_bytes_text(more, need));
}

static status check_memory(const plan *p) {
    const device *d = p->device;
    TRY(check_left("the machine or its control group", device_available(), device_resident(),
                   plan_taken(p, plan_host_pool(p))));
    if (!d->apart) return STATUS_OK;
    device_parts taken = d->beside(d);
    return check_left(d->gpu ? d->gpu->title : d->name, d->available(d), device_parts_sum(&taken),
                      plan_taken(p, POOL_MEMORY));
}

status room_check(const setup *s, const decision *d, const resume *from) {
    TRY(check_memory(&d->plan));
    return check_disk(s, d, from);
}
