#include "train/weights.h"

#include <string.h>

#include "base/half.h"
#include "base/memory.h"
#include "base/philox.h"
#include "base/threads.h"
#include "io/file.h"
#include "io/model_config.h"
#include "io/model_files.h"
#include "passes/pass.h"

/* ---- initial values ---- */

typedef struct {
    exec *e;
    const plan *p;
    const model *m;
    uint64_t seed;
} initialisation;

static uint32_t name_stream(const char *name) {
    uint32_t stream = 2166136261u;
    for (; *name; name++) stream = (stream ^ (uint8_t)*name) * 16777619u;
    return stream;
}

/* A weight is a task: its numbers depend on nothing but its stream and their places. */
static void initialise_one(void *context, int64_t index, int thread) {
    (void)thread;
    const initialisation *i = context;
    const plan_persistent *x = &i->p->persistent[index];
    if (x->category != CATEGORY_WEIGHTS) return;
    enum { PART = 1024 };
    char *data = exec_persistent(i->e, x->name);
    model_initial from = { .stream = name_stream(x->name) };
    bool added = pass_of_parameter(x->name, &x->shape, &from.deviation) != NULL;
    if (!added && !i->m) return;
    if (!added) i->m->initial(i->m, x->name, &x->shape, &from);
    philox_normal_list list = { i->seed, from.stream, from.mean, from.deviation };
    for (int64_t k = 0, all = shape_elements(&x->shape); k < all; k += PART) {
        float part[PART];
        int64_t n = all - k < PART ? all - k : PART;
        if (from.deviation > 0)
            philox_normal(&list, k, n, part);
        else
            for (int64_t j = 0; j < n; j++) part[j] = from.mean;
        char *to = data + (uint64_t)k * dtype_bytes(x->dtype);
        if (dtype_is_half(x->dtype))
            half_narrow(x->dtype, part, n, (uint16_t *)(void *)to);
        else
            memcpy(to, part, (size_t)n * sizeof *part);
    }
}

void weights_initialise(exec *e, const plan *p, const model *m, uint64_t seed) {
    initialisation i = { .e = e, .p = p, .m = m, .seed = seed };
    threads_for(p->persistent_count, initialise_one, &i);
}

/* ---- files ---- */

status weights_load(exec *e, const char *directory) {
    model_weight *weights;
    uint32_t count;
    TRY(exec_weights(e, &weights, &count));
    status result = model_files_load(directory, weights, adapter_files_own(weights, count));
    memory_free(weights);
    return result;
}

status weights_save(const exec *e, const model_config *c, const char *directory) {
    model_weight *weights;
    uint32_t count;
    TRY(io_make_folder(directory));
    TRY(exec_weights(e, &weights, &count));
    status result =
        model_files_save(directory, weights, count); /* the largest first: a full disk shows here */
    memory_free(weights);
    if (result == STATUS_OK && c) result = model_config_write(directory, c, NULL);
    return result;
}

status weights_save_adapter(const exec *e, const adapter_files_about *about, const char *directory) {
    model_weight *weights;
    uint32_t count;
    TRY(io_make_folder(directory));
    TRY(exec_weights(e, &weights, &count));
    uint32_t own = adapter_files_own(weights, count);
    status result = adapter_files_save(directory, about, weights + own, count - own);
    memory_free(weights);
    return result;
}
