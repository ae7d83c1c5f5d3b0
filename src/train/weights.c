#include "train/weights.h"

#include <string.h>

#include "base/half.h"
#include "base/memory.h"
#include "base/philox.h"
#include "base/threads.h"
#include "io/file.h"
#include "io/model_config.h"
#include "io/model_files.h"
#include "io/quantized_files.h"
#include "ops/codes.h"
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

enum { PART = 1024 };

/* Some of a weight's numbers: they depend on nothing but its stream and their places. */
static void draw(const philox_normal_list *list, int64_t first, int64_t n, float *part) {
    if (list->deviation > 0)
        philox_normal(list, first, n, part);
    else
        for (int64_t j = 0; j < n; j++) part[j] = list->mean;
}

static void store(const plan_persistent *x, char *data, int64_t first, int64_t n, const float *part) {
    char *to = data + (uint64_t)first * dtype_bytes(x->dtype);
    if (dtype_is_half(x->dtype))
        half_narrow(x->dtype, part, n, (uint16_t *)(void *)to);
    else
        memcpy(to, part, (size_t)n * sizeof *part);
}

static const plan_persistent *find(const plan *p, const char *name, size_t length) {
    for (uint32_t i = 0; i < p->persistent_count; i++)
        if (strncmp(p->persistent[i].name, name, length) == 0 && !p->persistent[i].name[length])
            return &p->persistent[i];
    return NULL;
}

/* Scales are made with their codes. */
static bool is_scale(const plan *p, const char *name) {
    size_t length = codes_scales_of(name);
    const plan_persistent *codes = length ? find(p, name, length) : NULL;
    return codes && codes->dtype == DTYPE_I8;
}

/* Drawn twice: the scales are those of all numbers. */
static void initialise_codes(const initialisation *i, const plan_persistent *x,
                             const philox_normal_list *list) {
    char name[CODES_NAME_BYTES];
    float part[PART];
    codes_matrix m = { .rows = shape_rows(&x->shape),
                       .columns = shape_last(&x->shape),
                       .by_rows = x->by_rows,
                       .scales = exec_persistent(i->e, codes_scales_name(x->name, name)) };
    int8_t *codes = exec_persistent(i->e, x->name);
    int64_t all = shape_elements(&x->shape);
    for (int64_t k = 0; k < all; k += PART) {
        int64_t n = all - k < PART ? all - k : PART;
        draw(list, k, n, part);
        codes_matrix_look(&m, part, k, n);
    }
    codes_matrix_scale(&m);
    for (int64_t k = 0; k < all; k += PART) {
        int64_t n = all - k < PART ? all - k : PART;
        draw(list, k, n, part);
        codes_matrix_encode(&m, part, k, n, codes + k);
    }
}

static void initialise_one(void *context, int64_t index, int thread) {
    (void)thread;
    const initialisation *i = context;
    const plan_persistent *x = &i->p->persistent[index];
    model_initial from = { .stream = name_stream(x->name) };
    bool added = pass_of_parameter(x->name, &x->shape, &from.deviation) != NULL;
    if (x->category != CATEGORY_WEIGHTS || (!added && !i->m) || is_scale(i->p, x->name)) return;
    if (!added) i->m->initial(i->m, x->name, &x->shape, &from);
    philox_normal_list list = { i->seed, from.stream, from.mean, from.deviation };
    if (x->dtype == DTYPE_I8) {
        initialise_codes(i, x, &list);
        return;
    }
    for (int64_t k = 0, all = shape_elements(&x->shape); k < all; k += PART) {
        float part[PART];
        int64_t n = all - k < PART ? all - k : PART;
        draw(&list, k, n, part);
        store(x, exec_persistent(i->e, x->name), k, n, part);
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

/* Matrices of 16 bits, where a run has such, are all of one type. */
status weights_save_config(const exec *e, const model_config *c, const char *directory) {
    model_weight *weights;
    model_config_stored stored = { 0 };
    uint32_t count;
    TRY(exec_weights(e, &weights, &count));
    if (!quantized_files_form(weights, count, &stored)) stored = (model_config_stored){ 0 };
    for (uint32_t i = 0; i < count; i++)
        if (dtype_is_half(weights[i].type)) stored.type = weights[i].type;
    memory_free(weights);
    return model_config_write(directory, c, &stored);
}

status weights_save(const exec *e, const model_config *c, const char *directory) {
    model_weight *weights;
    uint32_t count;
    TRY(io_make_folder(directory));
    TRY(exec_weights(e, &weights, &count));
    status result =
        model_files_save(directory, weights, count); /* the largest first: a full disk shows here */
    memory_free(weights);
    if (result == STATUS_OK && c) result = weights_save_config(e, c, directory);
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
