#include "train/checkpoint.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/units.h"
#include "io/file.h"
#include "io/weight_files.h"
#include "run/products.h"
#include "run/weights.h"

static const char OPTIMIZER[] = "optimizer.safetensors", STATE[] = "trainer_state.json";

static status path_of(const char *folder, const char *name, char path[CHECKPOINT_PATH_BYTES]) {
    if (snprintf(path, CHECKPOINT_PATH_BYTES, "%s/%s", folder, name) >= CHECKPOINT_PATH_BYTES)
        return status_set(STATUS_INVALID, "%.60s... is too long for the name of a folder", folder);
    return STATUS_OK;
}

static uint64_t bytes_of(const plan_persistent *x) {
    return (uint64_t)shape_elements(&x->shape) * dtype_bytes(x->dtype);
}

/* ---- saving ---- */

/* A tensor that is written part by part. */
typedef struct {
    exec *e;
    const plan_persistent *x;
} streamed;

static status next_part(void *context, uint64_t first, const void **data, uint64_t *bytes) {
    const streamed *s = context;
    exec_value x = exec_state_of(s->e, s->x);
    exec_part part;
    TRY(exec_view(s->e, &x, first, &part));
    *data = part.data, *bytes = part.bytes;
    return STATUS_OK;
}

/* The persistent tensors of one category, as a file. */
static status save_category(exec *e, const plan *p, category c, const char *path, io_sum *sum) {
    safetensors_item *items = memory_new(p->persistent_count + 1u, sizeof *items);
    streamed *sources = memory_new(p->persistent_count + 1u, sizeof *sources);
    uint32_t count = 0;
    status result =
        items && sources ? STATUS_OK : status_set(STATUS_FAILED, "%s: no memory to list its tensors", path);
    for (uint32_t i = 0; result == STATUS_OK && i < p->persistent_count; i++) {
        const plan_persistent *x = &p->persistent[i];
        if (x->category != c) continue;
        sources[count] = (streamed){ e, x };
        items[count] = (safetensors_item){ .name = x->name,
                                           .dtype = safetensors_dtype_name(x->dtype),
                                           .shape = x->shape,
                                           .part = next_part,
                                           .context = &sources[count],
                                           .bytes = bytes_of(x) };
        count++;
    }
    if (result == STATUS_OK) result = safetensors_write_summed(path, items, count, sum);
    memory_free(sources);
    memory_free(items);
    return result;
}

static void describe_plan(const decision *d, trainer_state *t) {
    t->micro_batch = d->point.choice.micro_batch;
    for (int i = 0; pass_table[i]; i++) {
        const pass_setting *s = &d->point.choice.settings[i];
        snprintf(t->passes[i].setting, sizeof t->passes[i].setting, "%s", s->text);
        t->passes[i].class = s->class;
    }
    const char *products = products_kind(d);
    if (strcmp(products, PRODUCTS_WIDENED) != 0) snprintf(t->products, sizeof t->products, "%s", products);
}

/* The large files first: a full disk shows there. */
static status write_files(exec *e, const setup *s, const decision *d, const char *folder, trainer_state *t) {
    char path[CHECKPOINT_PATH_BYTES];
    const plan *p = &d->plan;
    adapter_files_about about = weights_adapter(s, d, &t->run);
    TRY(path_of(folder, OPTIMIZER, path));
    TRY(save_category(e, p, CATEGORY_OPTIMIZER, path, &t->optimizer));
    TRY(path_of(folder, trainer_state_weights(t), path));
    if (t->run.base.bytes) { /* what does not change is where it was */
        TRY(weights_save_adapter(e, &about, folder));
        TRY(io_sum_file(path, false, &t->model));
    } else {
        TRY(save_category(e, p, CATEGORY_WEIGHTS, path, &t->model));
        if (!s->custom) TRY(weights_save_config(e, &s->config, folder));
        TRY(setup_copy_tokenizer(s, folder));
    }
    TRY(path_of(folder, STATE, path));
    return trainer_state_write(path, t);
}

status checkpoint_save(exec *e, const setup *s, const decision *d, const identity *run, int64_t step) {
    const char *out = s->options.out;
    char folder[CHECKPOINT_PATH_BYTES];
    trainer_state t = { .step = step, .samples = (uint64_t)(step * s->options.batch), .run = *run };
    describe_plan(d, &t);
    TRY(checkpoint_folder_begin(out, step, folder));
    status result = write_files(e, s, d, folder, &t);
    if (result == STATUS_OK) result = checkpoint_folder_commit(out, step);
    if (result != STATUS_OK) {
        char sentence[1024];
        snprintf(sentence, sizeof sentence, "%s", status_message());
        if (checkpoint_folder_clean(out) != STATUS_OK) result = STATUS_FAILED; /* the next run tries again */
        return status_set(result, "%s", sentence);
    }
    return checkpoint_folder_keep(out, step, s->options.keep);
}

/* ---- verifying ---- */

static status verify_file(const char *folder, const char *name, const io_sum *should) {
    char path[CHECKPOINT_PATH_BYTES];
    io_sum is;
    TRY(path_of(folder, name, path));
    TRY(io_sum_file(path, should->early, &is));
    if (is.bytes != should->bytes)
        return status_set(STATUS_INVALID, "%s has %llu bytes instead of %llu", path,
                          (unsigned long long)is.bytes, (unsigned long long)should->bytes);
    if (!io_sum_equal(&is, should))
        return status_set(STATUS_INVALID, "%s is damaged: its bytes are not those that were written", path);
    return STATUS_OK;
}

status checkpoint_verify(const char *folder, trainer_state *t) {
    char path[CHECKPOINT_PATH_BYTES];
    TRY(path_of(folder, STATE, path));
    TRY(trainer_state_read(path, t));
    TRY(verify_file(folder, trainer_state_weights(t), &t->model));
    return verify_file(folder, OPTIMIZER, &t->optimizer);
}

/* ---- loading ---- */

static status find_one(const safetensors *file, const char *path, const plan_persistent *x,
                       const safetensors_entry **entry) {
    char need[SHAPE_TEXT_BYTES];
    *entry = safetensors_find(file, x->name);
    if (!*entry)
        return status_set(STATUS_INVALID, "%s has no tensor '%s', which the run needs", path, x->name);
    if (safetensors_dtype((*entry)->dtype) == x->dtype && safetensors_has_shape(*entry, &x->shape))
        return STATUS_OK;
    return status_set(STATUS_INVALID,
                      "%s: '%s' has not the type and shape that the run needs, %s of %s; resume with the "
                      "options that it was begun with",
                      path, x->name, dtype_name(x->dtype), shape_text(&x->shape, need));
}

static status check_category(const plan *p, category c, const char *path) {
    safetensors file;
    const safetensors_entry *entry;
    TRY(safetensors_open(path, &file));
    status result = STATUS_OK;
    for (uint32_t i = 0; i < p->persistent_count && result == STATUS_OK; i++) {
        const plan_persistent *x = &p->persistent[i];
        if (x->category == c) result = find_one(&file, path, x, &entry);
    }
    safetensors_close(&file);
    return result;
}

status checkpoint_check(const plan *p, const char *folder, const trainer_state *t) {
    char path[CHECKPOINT_PATH_BYTES];
    if (!t->run.base.bytes) { /* weights that adapters stand beside come from elsewhere */
        TRY(path_of(folder, trainer_state_weights(t), path));
        TRY(check_category(p, CATEGORY_WEIGHTS, path));
    }
    TRY(path_of(folder, OPTIMIZER, path));
    return check_category(p, CATEGORY_OPTIMIZER, path);
}

static status load_one(exec *e, const safetensors *file, const char *path, const plan_persistent *x) {
    const safetensors_entry *entry;
    exec_value value = exec_state_of(e, x);
    exec_part part;
    TRY(find_one(file, path, x, &entry));
    for (uint64_t done = 0; done < value.bytes; done += part.bytes) {
        TRY(exec_room(e, &value, done, &part));
        TRY(safetensors_read_part(file, entry, done, part.data, part.bytes));
        TRY(exec_put(e, &value, done, &part));
    }
    return STATUS_OK;
}

static status load_category(exec *e, const plan *p, category c, const char *path) {
    safetensors file;
    TRY(safetensors_open(path, &file));
    status result = STATUS_OK;
    for (uint32_t i = 0; i < p->persistent_count && result == STATUS_OK; i++) {
        const plan_persistent *x = &p->persistent[i];
        if (x->category == c) result = load_one(e, &file, path, x);
    }
    safetensors_close(&file);
    return result;
}

/* The weights that adapters stand beside, if they are still those. */
static status load_base(exec *e, const setup *s, const char *folder, const io_sum *should) {
    const char *base = s->weights;
    io_sum is = { 0 };
    if (base) TRY(weight_files_sum(base, should->early, &is));
    if (!io_sum_equal(&is, should))
        return status_set(
            STATUS_INVALID,
            "%s holds adapters alone, and %s are not the weights that they were trained beside; "
            "name the same model directory",
            folder, base ? base : "this model's");
    return weights_load_base(e, s);
}

status checkpoint_load(exec *e, const setup *s, const decision *d, const char *folder,
                       const trainer_state *t) {
    char path[CHECKPOINT_PATH_BYTES];
    const plan *p = &d->plan;
    if (t->run.base.bytes) {
        TRY(load_base(e, s, folder, &t->run.base));
        TRY(weights_load_adapter(e, s, folder));
    } else {
        TRY(path_of(folder, trainer_state_weights(t), path));
        TRY(load_category(e, p, CATEGORY_WEIGHTS, path));
    }
    TRY(path_of(folder, OPTIMIZER, path));
    return load_category(e, p, CATEGORY_OPTIMIZER, path);
}
