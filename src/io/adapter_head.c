#include "io/adapter_head.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "io/config_families.h"
#include "io/json.h"
#include "io/safetensors.h"
#include "models/head.h"

enum { PATH_BYTES = 4096 };

static status join(const char *directory, const char *file, char path[PATH_BYTES]) {
    if (snprintf(path, PATH_BYTES, "%s/%s", directory, file) < PATH_BYTES) return STATUS_OK;
    return status_set(STATUS_INVALID, "the path '%.60s...' is too long", directory);
}

static status look(const char *directory, bool *yes) {
    char path[PATH_BYTES];
    json_document d;
    json_value list;
    size_t count = 0;
    TRY(join(directory, "adapter_config.json", path));
    TRY(json_open(path, &d));
    *yes =
        json_find(d.root, "modules_to_save", &list) && json_as_array(list, &count) == STATUS_OK && count > 0;
    json_close(&d);
    return STATUS_OK;
}

/* `*said` false: nothing there says what the head is. */
static status read_said(const char *directory, model_config *c, label_names *names, bool *said) {
    char path[PATH_BYTES];
    json_document d;
    json_value classes;
    *said = false;
    TRY(join(directory, "adapter_base.json", path));
    if (access(path, F_OK) != 0) return STATUS_OK;
    TRY(json_open(path, &d));
    *said = json_find(d.root, "architectures", &classes);
    status result = *said ? config_head_read(d.root, c) : STATUS_OK;
    if (result == STATUS_OK && *said && c->head.kind == HEAD_CLASSES)
        result = config_head_names(d.root, c, names);
    json_close(&d);
    return result;
}

/* By the last product of the head: as many outputs as it has rows. */
static status count_outputs(const char *directory, int64_t *outputs) {
    static const char *const last[] = { "base_model.model.score.weight",
                                        "base_model.model.classifier.out_proj.weight",
                                        "base_model.model.classifier.weight" };
    char path[PATH_BYTES];
    safetensors s;
    *outputs = 0;
    TRY(join(directory, "adapter_model.safetensors", path));
    TRY(safetensors_open(path, &s));
    for (size_t i = 0; i < sizeof last / sizeof *last && !*outputs; i++) {
        const safetensors_entry *e = safetensors_find(&s, last[i]);
        if (e && e->rank == 2) *outputs = e->dim[0];
    }
    safetensors_close(&s);
    if (*outputs) return STATUS_OK;
    return status_set(
        STATUS_INVALID,
        "%s keeps whole modules beside its adapters (modules_to_save), and none of them is a head "
        "that judges texts; others are not supported",
        directory);
}

status adapter_head_read(const char *directory, model_config *c, label_names *names, bool *brings) {
    bool said;
    int64_t outputs;
    TRY(look(directory, brings));
    if (!*brings) return STATUS_OK;
    if (!families_judges(c))
        return status_set(STATUS_INVALID,
                          "%s brings a head that judges texts, and a model of this kind can have none",
                          directory);
    c->other_task[0] = 0;
    TRY(read_said(directory, c, names, &said));
    if (said) return STATUS_OK;
    TRY(count_outputs(directory, &outputs));
    if (c->head.outputs != outputs)
        c->head = (model_head){ outputs == 1 ? HEAD_SCORE : HEAD_CLASSES, outputs };
    return head_check(&c->head);
}
