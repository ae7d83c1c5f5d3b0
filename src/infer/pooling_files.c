/* What sentence-transformers keeps beside a model: modules.json lists what follows its hidden states, each
 * with a folder of its own. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "infer/pooling.h"
#include "io/json.h"

enum { PATH_BYTES = 4096 };

static status join(const char *directory, const char *file, char path[PATH_BYTES]) {
    if (snprintf(path, PATH_BYTES, "%s/%s", directory, file) < PATH_BYTES) return STATUS_OK;
    return status_set(STATUS_INVALID, "the path '%.60s...' is too long", directory);
}

static bool is_there(const char *path) { return access(path, F_OK) == 0; }

static void refuse(pooling *p, const char *what) {
    if (!p->refused[0])
        snprintf(p->refused, sizeof p->refused, "embeddings of this model are not known here: %.100s", what);
}

/* ---- the Pooling module ---- */

static const struct {
    const char *flag, *mode;
    int kind; /* -1: not known here */
} modes[] = { { "pooling_mode_cls_token", "cls", POOLING_FIRST },
              { "pooling_mode_mean_tokens", "mean", POOLING_MEAN },
              { "pooling_mode_weightedmean_tokens", "weightedmean", POOLING_WEIGHTED },
              { "pooling_mode_lasttoken", "lasttoken", POOLING_LAST },
              { "pooling_mode_max_tokens", "max", -1 },
              { "pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", -1 } };
enum { MODES = sizeof modes / sizeof *modes };

static void take_mode(pooling *p, size_t i, int *found) {
    if (modes[i].kind < 0)
        refuse(p, modes[i].flag);
    else
        p->kind = (pooling_kind)modes[i].kind;
    ++*found;
}

/* The mode by its name, or a flag for each. */
static status read_modes(json_value root, pooling *p) {
    json_value v;
    const char *name;
    int found = 0;
    if (json_find(root, "pooling_mode", &v)) {
        TRY(json_as_string(v, &name));
        for (size_t i = 0; i < MODES; i++)
            if (strcmp(name, modes[i].mode) == 0) take_mode(p, i, &found);
        if (!found) refuse(p, "its pooling_mode");
        return STATUS_OK;
    }
    for (size_t i = 0; i < MODES; i++) {
        bool yes = false;
        if (json_find(root, modes[i].flag, &v)) TRY(json_as_bool(v, &yes));
        if (yes) take_mode(p, i, &found);
    }
    if (found != 1) refuse(p, found ? "several ways of pooling at once" : "no pooling_mode is true");
    return STATUS_OK;
}

static status read_width(json_value root, pooling *p) {
    json_value v;
    int64_t width;
    if (!json_find(root, "word_embedding_dimension", &v) && !json_find(root, "embedding_dimension", &v))
        return STATUS_OK;
    TRY(json_as_integer(v, 1, INT32_MAX, &width));
    if (width != p->width) refuse(p, "its Pooling module is for hidden states of another width");
    return STATUS_OK;
}

static status read_pooling(const char *directory, const char *folder, pooling *p) {
    char file[PATH_BYTES], path[PATH_BYTES];
    json_document d;
    TRY(join(folder, "config.json", file));
    TRY(join(directory, file, path));
    TRY(json_open(path, &d));
    status result = read_modes(d.root, p);
    if (result == STATUS_OK) result = read_width(d.root, p);
    json_close(&d);
    return result;
}

/* ---- the list of modules ---- */

/* The last part of a class's path. */
static bool is_kind(const char *type, const char *kind) {
    const char *dot = strrchr(type, '.');
    return strcmp(dot ? dot + 1 : type, kind) == 0;
}

static status take_module(const char *directory, json_value m, pooling *p, bool *pools) {
    const char *type, *path;
    TRY(json_get_string(m, "type", &type));
    TRY(json_get_string(m, "path", &path));
    if (is_kind(type, "Pooling")) {
        if (*pools) refuse(p, "two Pooling modules");
        return *pools = true, read_pooling(directory, path, p);
    }
    if (is_kind(type, "Normalize"))
        p->normalizes = true;
    else if (!is_kind(type, "Transformer"))
        refuse(p, type);
    else if (*path)
        refuse(p, "its weights stand in a folder of their own");
    return STATUS_OK;
}

static status read_modules(const char *directory, json_value root, pooling *p) {
    size_t count;
    bool pools = false;
    TRY(json_as_array(root, &count));
    for (size_t i = 0; i < count; i++) TRY(take_module(directory, json_item(root, i), p, &pools));
    if (!pools) refuse(p, "modules.json has no Pooling module");
    return STATUS_OK;
}

status pooling_read(const char *directory, pooling_kind usual, int64_t width, pooling *out) {
    char path[PATH_BYTES];
    json_document d;
    *out = (pooling){ .kind = usual, .normalizes = !directory, .width = width };
    if (!directory) return STATUS_OK;
    TRY(join(directory, "modules.json", path));
    if (is_there(path)) {
        TRY(json_open(path, &d));
        status result = read_modules(directory, d.root, out);
        json_close(&d);
        return result;
    }
    TRY(join(directory, "2_Normalize", path));
    out->normalizes = is_there(path);
    TRY(join(directory, "1_Pooling/config.json", path));
    if (is_there(path)) return read_pooling(directory, "1_Pooling", out);
    out->normalizes = true;
    return STATUS_OK;
}
