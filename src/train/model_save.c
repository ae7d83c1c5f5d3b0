#include "train/model_save.h"

#include <stdio.h>
#include <sys/stat.h>

#include "comm/comm.h"
#include "io/checkpoint_folder.h"
#include "io/file.h"
#include "io/shards.h"
#include "run/weights.h"
#include "train/train.h"

static const char STEM[] = "model";

/* Files of several ranks are written in a folder within that which they are for. */
static status path_of_partial(const char *folder, char path[CHECKPOINT_PATH_BYTES]) {
    if (snprintf(path, CHECKPOINT_PATH_BYTES, "%s/model.partial", folder) < CHECKPOINT_PATH_BYTES)
        return STATUS_OK;
    return status_set(STATUS_INVALID, "the path '%.60s...' is too long", folder);
}

static const model_config *config_of(const model_saved *m) { return m->s->custom ? NULL : &m->s->config; }

static weights_form form_of(const model_saved *m) {
    return (weights_form){ .type = setup_save_dtype(&m->s->options), .batches = m->done };
}

/* The names that the model of so many files has. */
static status check_names(const char *folder, int files) {
    char name[SHARDS_NAME_BYTES];
    TRY(io_check_target(folder, shards_name(STEM, 0, 1, name)));
    TRY(io_check_target(folder, shards_all(STEM, 2, name)));
    for (int k = 0; k < files; k++) TRY(io_check_target(folder, shards_name(STEM, k, files, name)));
    return STATUS_OK;
}

static status check_adapter(const char *folder) {
    static const char *const names[] = { "adapter_model.safetensors", "adapter_config.json",
                                         "adapter_base.json" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) TRY(io_check_target(folder, names[i]));
    return STATUS_OK;
}

/* What has the name of the folder in between has to be one. */
static status check_partial(const char *folder) {
    char path[CHECKPOINT_PATH_BYTES];
    struct stat about;
    TRY(path_of_partial(folder, path));
    if (lstat(path, &about) != 0 || S_ISDIR(about.st_mode)) return STATUS_OK;
    return status_set(STATUS_INVALID,
                      "%s is no folder, and files of several ranks are written in one of this name; move it "
                      "away or choose another --out",
                      path);
}

status model_save_check(const setup *s, const decision *d, const identity *run) {
    char best[CHECKPOINT_PATH_BYTES];
    const char *out = s->options.out;
    if (!out) return STATUS_OK;
    if (weights_adapter(s, d, run).pass) return check_adapter(out);
    int files = weights_files(&d->plan, s->custom ? NULL : &s->config);
    TRY(check_names(out, files));
    if (files > 1) TRY(check_partial(out));
    if (!s->options.keep_best || snprintf(best, sizeof best, "%s/%s", out, TRAIN_BEST) >= (int)sizeof best)
        return STATUS_OK;
    TRY(check_names(best, files));
    return files > 1 ? check_partial(best) : STATUS_OK;
}

static status save_alone(const model_saved *m, const adapter_files_about *adapter, const char *folder) {
    weights_form form = form_of(m);
    if (adapter->pass) return weights_save_adapter(m->exec, adapter, folder);
    TRY(weights_save_as(m->exec, config_of(m), folder, &form));
    TRY(shards_remove(folder, STEM)); /* of an earlier model */
    return setup_copy_tokenizer(m->s, folder);
}

static status begin_partial(const char *folder, const char *partial) {
    TRY(io_make_folder(folder));
    TRY(shards_finish(partial, folder, STEM));
    return io_make_folder(partial);
}

static status end_partial(const model_saved *m, const char *folder, const char *partial, int files) {
    const model_config *c = config_of(m);
    TRY(shards_index(partial, STEM, files));
    TRY(shards_replace(partial, folder, STEM, files));
    if (c) TRY(weights_save_config(m->exec, c, folder, setup_save_dtype(&m->s->options)));
    return setup_copy_tokenizer(m->s, folder);
}

static status save_together(const model_saved *m, const char *folder, int files) {
    char partial[CHECKPOINT_PATH_BYTES], sentence[STATUS_SENTENCE];
    weights_form form = form_of(m);
    int rank = m->s->comm.rank;
    TRY(path_of_partial(folder, partial));
    TRY(comm_agree(rank ? STATUS_OK : begin_partial(folder, partial)));
    exec_meet(m->exec, files);
    status own = STATUS_OK;
    if (rank < files) own = weights_save_file(m->exec, config_of(m), partial, &form, rank, files);
    status result = comm_agree(exec_served(m->exec, own));
    if (rank) return result;
    if (result == STATUS_OK) result = end_partial(m, folder, partial, files);
    if (result == STATUS_OK) return STATUS_OK;
    snprintf(sentence, sizeof sentence, "%s", status_message());
    STATUS_IGNORED(shards_finish(partial, folder, STEM)); /* the next run tries again */
    return status_set(result, "%s", sentence);
}

status model_save(const model_saved *m, const char *folder) {
    adapter_files_about adapter = weights_adapter(m->s, m->d, m->run);
    int files = adapter.pass ? 1 : weights_files(&m->d->plan, config_of(m));
    if (files > 1) return save_together(m, folder, files);
    exec_meet(m->exec, 1);
    return exec_served(m->exec, m->s->comm.rank ? STATUS_OK : save_alone(m, &adapter, folder));
}

status model_save_clean(const char *out) {
    char best[CHECKPOINT_PATH_BYTES], path[CHECKPOINT_PATH_BYTES];
    TRY(path_of_partial(out, path));
    TRY(shards_finish(path, out, STEM));
    if (snprintf(best, sizeof best, "%s/%s", out, TRAIN_BEST) >= (int)sizeof best) return STATUS_OK;
    TRY(path_of_partial(best, path));
    return shards_finish(path, best, STEM);
}
