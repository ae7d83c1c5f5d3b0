#include "infer/model_folder.h"

#include <stdio.h>

#include "base/memory.h"
#include "io/adapter_files.h"
#include "io/model_config.h"
#include "io/model_files.h"
#include "io/quantized_files.h"
#include "io/weight_files.h"
#include "passes/storing.h"

static void pin(model_folder *f, const pass *p, const pass_setting *s) {
    for (int i = 0; p && pass_table[i]; i++)
        if (pass_table[i] == p) f->pinned.settings[i] = *s;
}

static status read_adapter(model_folder *f) {
    const pass *p = NULL;
    pass_setting s;
    if (!f->adapter) return STATUS_OK;
    TRY(adapter_files_read(f->adapter, false, &p, &s));
    TRY(adapter_files_check_base(f->adapter, f->directory));
    pin(f, p, &s);
    return STATUS_OK;
}

/* Matrices of 16 bits stay so, and others become so where that is asked for. */
static status read_type(model_folder *f, dtype products) {
    dtype type;
    TRY(weight_files_type(f->directory, &type));
    f->products = products ? products : type == DTYPE_BF16 ? DTYPE_BF16 : DTYPE_F32;
    for (int i = 0; pass_table[i]; i++) {
        const pass_storing *how = pass_table[i]->storing;
        const char *setting = how && how->for_reading ? how->for_reading(type, products) : NULL;
        if (setting) TRY(pass_table[i]->parse(setting, &f->pinned.settings[i]));
    }
    return STATUS_OK;
}

/* Weights that only one technique reads. */
static status read_stored(model_folder *f) {
    const pass *p;
    pass_setting s;
    TRY(quantized_files_read(f->directory, &p, &s));
    pin(f, p, &s);
    return STATUS_OK;
}

/* Both files are listed one after the other. */
static status count_listed(model_folder *f, uint64_t memory) {
    uint64_t beside = 0;
    char path[4096];
    TRY(weight_files_held(f->directory, &f->listed_bytes));
    if (f->adapter &&
        snprintf(path, sizeof path, "%s/adapter_model.safetensors", f->adapter) < (int)sizeof path)
        TRY(weight_files_held(path, &beside));
    if (beside > f->listed_bytes) f->listed_bytes = beside;
    bool small =
        f->listed_bytes < 1u << 20; /* beside the program itself: then the plan says what is needed */
    uint64_t code = device_runtime_reserve(0).code;
    if (memory == UINT64_MAX || (small ? 0 : code) + f->listed_bytes < memory) return STATUS_OK;
    return status_set(STATUS_NO_FIT,
                      "the lists of tensors in the files of %s take %llu bytes, more than --memory allows "
                      "beside the program",
                      f->directory, (unsigned long long)f->listed_bytes);
}

status model_folder_open(const char *directory, const char *adapter, dtype products, uint64_t memory,
                         model_folder *f) {
    *f = (model_folder){ .directory = directory, .adapter = adapter };
    TRY(model_config_read(directory, &f->config, NULL));
    families_model(&f->config, directory, &f->model);
    TRY(model_continues(&f->model));
    TRY(count_listed(f, memory));
    TRY(read_type(f, products));
    TRY(read_stored(f));
    return read_adapter(f);
}

status model_folder_load(const model_folder *f, exec *e) {
    model_weight *weights;
    uint32_t count;
    TRY(exec_weights(e, &weights, &count));
    uint32_t own = adapter_files_own(weights, count);
    status result = model_files_load(f->directory, weights, own);
    if (result == STATUS_OK && f->adapter)
        result = adapter_files_load(f->adapter, &(adapter_files_part){ .weights = weights, .count = count });
    memory_free(weights);
    return result;
}
