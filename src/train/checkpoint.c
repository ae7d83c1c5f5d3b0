#include "train/checkpoint.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/units.h"
#include "comm/comm.h"
#include "io/file.h"
#include "io/weight_files.h"
#include "run/products.h"
#include "run/weights.h"

static const char STATE[] = "trainer_state.json";

static status path_of(const char *folder, const char *name, char path[CHECKPOINT_PATH_BYTES]) {
    if (snprintf(path, CHECKPOINT_PATH_BYTES, "%s/%s", folder, name) >= CHECKPOINT_PATH_BYTES)
        return status_set(STATUS_INVALID, "%.60s... is too long for the name of a folder", folder);
    return STATUS_OK;
}

static uint64_t bytes_of(const plan_persistent *x) {
    return (uint64_t)shape_elements(&x->global) * dtype_bytes(x->dtype);
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

/* Some persistent tensors of a category, as file k of so many. */
typedef struct {
    const char *folder, *stem;
    category category;
    int k, files;
} kind;

static int files_of(const plan *p, category c) {
    plan_whole whole = plan_whole_of(p, c);
    return shards_files(whole.bytes, whole.tensors, comm_world().world);
}

static uint32_t list_items(exec *e, const plan *p, const kind *of, safetensors_item *items,
                           streamed *sources) {
    shards_division division = { .files = of->files };
    uint32_t count = 0;
    for (uint32_t i = 0; i < p->persistent_count; i++) {
        const plan_persistent *x = &p->persistent[i];
        if (x->category != of->category || shards_next(&division, bytes_of(x)) != of->k) continue;
        sources[count] = (streamed){ e, x };
        items[count] = (safetensors_item){ .name = x->name,
                                           .dtype = safetensors_dtype_name(x->dtype),
                                           .shape = x->global,
                                           .part = next_part,
                                           .context = &sources[count],
                                           .bytes = bytes_of(x) };
        count++;
    }
    return count;
}

/* Of ranks beyond the files nothing. */
static status write_kind(exec *e, const plan *p, const kind *of, io_sum *sum) {
    char path[CHECKPOINT_PATH_BYTES], name[SHARDS_NAME_BYTES];
    if (of->k >= of->files) return STATUS_OK;
    TRY(path_of(of->folder, shards_name(of->stem, of->k, of->files, name), path));
    safetensors_item *items = memory_new(p->persistent_count + 1u, sizeof *items);
    streamed *sources = memory_new(p->persistent_count + 1u, sizeof *sources);
    status result =
        items && sources ? STATUS_OK : status_set(STATUS_FAILED, "%s: no memory to list its tensors", path);
    if (result == STATUS_OK)
        result = safetensors_write_summed(path, items, list_items(e, p, of, items, sources), sum);
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
    char products[PRODUCTS_KIND_BYTES];
    products_kind(d, products);
    if (strcmp(products, PRODUCTS_WIDENED) != 0) snprintf(t->products, sizeof t->products, "%s", products);
}

/* A checkpoint while it is written. */
typedef struct {
    exec *e;
    const setup *s;
    const decision *d;
    char folder[CHECKPOINT_PATH_BYTES];
    trainer_state t;
} saving;

static kind optimizer_of(const saving *v) {
    return (kind){ v->folder, trainer_state_optimizer, CATEGORY_OPTIMIZER, v->s->comm.rank,
                   v->t.optimizer.files };
}

static kind weights_of(const saving *v) {
    return (kind){ v->folder, trainer_state_weights(&v->t), CATEGORY_WEIGHTS, v->s->comm.rank,
                   v->t.model.files };
}

/* What adapters stand beside does not change, and is where it was. */
static status save_adapter(const saving *v, io_sum *sum) {
    char path[CHECKPOINT_PATH_BYTES], name[SHARDS_NAME_BYTES];
    adapter_files_about about = weights_adapter(v->s, v->d, &v->t.run);
    if (v->s->comm.rank) return STATUS_OK;
    TRY(path_of(v->folder, shards_name(trainer_state_weights(&v->t), 0, 1, name), path));
    TRY(weights_save_adapter(v->e, &about, v->folder));
    return io_sum_file(path, false, sum);
}

typedef struct {
    io_sum optimizer, model;
} own_sums;

/* Of this rank. */
static status save_own(const saving *v, own_sums *own) {
    kind optimizer = optimizer_of(v), weights = weights_of(v);
    TRY(write_kind(v->e, &v->d->plan, &optimizer, &own->optimizer));
    if (v->t.run.base.bytes) return save_adapter(v, &own->model);
    return write_kind(v->e, &v->d->plan, &weights, &own->model);
}

/* The large files first: a full disk shows there. */
static status save_large(saving *v) {
    own_sums own = { 0 };
    const void *heard;
    exec_meet(v->e, v->t.optimizer.files > v->t.model.files ? v->t.optimizer.files : v->t.model.files);
    TRY(comm_agree(exec_served(v->e, save_own(v, &own))));
    TRY(comm_hear(&own, sizeof own, &heard));
    const own_sums *all = heard;
    for (int k = 0; k < v->t.optimizer.files; k++) v->t.optimizer.sums[k] = all[k].optimizer;
    for (int k = 0; k < v->t.model.files; k++) v->t.model.sums[k] = all[k].model;
    return STATUS_OK;
}

static status save_index(const char *folder, const char *stem, trainer_files *f) {
    char path[CHECKPOINT_PATH_BYTES], name[SHARDS_NAME_BYTES];
    if (f->files < 2) return STATUS_OK;
    TRY(shards_index(folder, stem, f->files));
    TRY(path_of(folder, shards_all(stem, f->files, name), path));
    return io_sum_file(path, false, &f->index);
}

static status save_small(saving *v) {
    char path[CHECKPOINT_PATH_BYTES];
    TRY(save_index(v->folder, trainer_state_optimizer, &v->t.optimizer));
    TRY(save_index(v->folder, trainer_state_weights(&v->t), &v->t.model));
    if (!v->t.run.base.bytes) {
        if (!v->s->custom) TRY(weights_save_config(v->e, &v->s->config, v->folder, DTYPE_NONE));
        TRY(setup_copy_tokenizer(v->s, v->folder));
    }
    TRY(path_of(v->folder, STATE, path));
    return trainer_state_write(path, &v->t);
}

/* Rank 0 makes the folder, each writes files of its own into it, and rank 0 gives it its name when all have
 * written theirs. */
static status save(saving *v, const char *out) {
    int64_t step = v->t.step;
    bool first = !v->s->comm.rank;
    TRY(comm_agree(first ? checkpoint_folder_begin(out, step, v->folder)
                         : checkpoint_folder_partial(out, step, v->folder)));
    status result = save_large(v);
    if (!first) return result;
    if (result == STATUS_OK) result = save_small(v);
    if (result == STATUS_OK) result = checkpoint_folder_commit(out, step);
    if (result == STATUS_OK) return STATUS_OK;
    char sentence[1024];
    snprintf(sentence, sizeof sentence, "%s", status_message());
    if (checkpoint_folder_clean(out) != STATUS_OK) result = STATUS_FAILED; /* the next run tries again */
    return status_set(result, "%s", sentence);
}

status checkpoint_save(exec *e, const setup *s, const decision *d, const identity *run, int64_t step) {
    const char *out = s->options.out;
    saving v = { .e = e, .s = s, .d = d };
    v.t = (trainer_state){ .step = step, .samples = (uint64_t)(step * s->options.batch), .run = *run };
    describe_plan(d, &v.t);
    v.t.optimizer.files = files_of(&d->plan, CATEGORY_OPTIMIZER);
    v.t.model.files = run->base.bytes ? 1 : files_of(&d->plan, CATEGORY_WEIGHTS);
    TRY(save(&v, out));
    return s->comm.rank ? STATUS_OK : checkpoint_folder_keep(out, step, s->options.keep);
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

/* Files that are divided among those who look: in turn, over all kinds. */
typedef struct {
    int part, parts, turn;
} looker;

static status verify_kind(const char *folder, const char *stem, const trainer_files *f, looker *who) {
    char name[SHARDS_NAME_BYTES];
    int files = trainer_files_count(f);
    for (int k = 0; k < files; k++)
        if (who->turn++ % who->parts == who->part)
            TRY(verify_file(folder, shards_name(stem, k, files, name), &f->sums[k]));
    bool index = files > 1 && who->turn++ % who->parts == who->part;
    return index ? verify_file(folder, shards_all(stem, files, name), &f->index) : STATUS_OK;
}

status checkpoint_read(const char *folder, trainer_state *t) {
    char path[CHECKPOINT_PATH_BYTES];
    TRY(path_of(folder, STATE, path));
    return trainer_state_read(path, t);
}

status checkpoint_verify_part(const char *folder, const trainer_state *t, int part, int parts) {
    looker who = { .part = part, .parts = parts };
    TRY(verify_kind(folder, trainer_state_weights(t), &t->model, &who));
    return verify_kind(folder, trainer_state_optimizer, &t->optimizer, &who);
}

status checkpoint_verify(const char *folder, trainer_state *t) {
    TRY(checkpoint_read(folder, t));
    return checkpoint_verify_part(folder, t, 0, 1);
}

/* ---- loading ---- */

static status find_one(const safetensors *file, const char *path, const plan_persistent *x,
                       const safetensors_entry **entry) {
    char need[SHAPE_TEXT_BYTES];
    *entry = safetensors_find(file, x->name);
    if (!*entry)
        return status_set(STATUS_INVALID, "%s has no tensor '%s', which the run needs", path, x->name);
    if (safetensors_dtype((*entry)->dtype) == x->dtype && safetensors_has_shape(*entry, &x->global))
        return STATUS_OK;
    return status_set(STATUS_INVALID,
                      "%s: '%s' has not the type and shape that the run needs, %s of %s; resume with the "
                      "options that it was begun with",
                      path, x->name, dtype_name(x->dtype), shape_text(&x->global, need));
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

/* What is opened for all tensors of a kind. */
static status path_of_kind(const char *folder, const char *stem, const trainer_files *f,
                           char path[CHECKPOINT_PATH_BYTES]) {
    char name[SHARDS_NAME_BYTES];
    return path_of(folder, shards_all(stem, trainer_files_count(f), name), path);
}

status checkpoint_check(const plan *p, const char *folder, const trainer_state *t) {
    char path[CHECKPOINT_PATH_BYTES];
    if (!t->run.base.bytes) { /* weights that adapters stand beside come from elsewhere */
        TRY(path_of_kind(folder, trainer_state_weights(t), &t->model, path));
        TRY(check_category(p, CATEGORY_WEIGHTS, path));
    }
    TRY(path_of_kind(folder, trainer_state_optimizer, &t->optimizer, path));
    return check_category(p, CATEGORY_OPTIMIZER, path);
}

static status load_one(exec *e, const safetensors *file, const char *path, const plan_persistent *x) {
    const safetensors_entry *entry;
    exec_value value = exec_state_of(e, x);
    exec_part part;
    TRY(find_one(file, path, x, &entry));
    for (uint64_t done = 0; done < value.bytes; done += part.bytes) {
        TRY(exec_room(e, &value, done, &part));
        if (!exec_is_here(e, &value, done)) continue; /* another rank reads it */
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
        TRY(path_of_kind(folder, trainer_state_weights(t), &t->model, path));
        TRY(load_category(e, p, CATEGORY_WEIGHTS, path));
    }
    TRY(path_of_kind(folder, trainer_state_optimizer, &t->optimizer, path));
    return load_category(e, p, CATEGORY_OPTIMIZER, path);
}
