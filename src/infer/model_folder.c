#include "infer/model_folder.h"

#include <stdio.h>
#include <string.h>

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
static status choose_type(model_folder *f, dtype type, dtype products) {
    bool narrow = products == DTYPE_BF16 || (!products && type == DTYPE_BF16);
    f->products = narrow ? DTYPE_BF16 : DTYPE_F32; /* matrices of f16 are multiplied by numbers of f32 */
    for (int i = 0; pass_table[i]; i++) {
        const pass_storing *how = pass_table[i]->storing;
        const char *setting = how && how->for_reading ? how->for_reading(type, products) : NULL;
        if (setting) TRY(pass_table[i]->parse(setting, &f->pinned.settings[i]));
    }
    return STATUS_OK;
}

static status read_type(model_folder *f, dtype products) {
    dtype type;
    TRY(weight_files_type(f->directory, &type));
    return choose_type(f, type, products);
}

/* Weights that only one technique reads. */
static status read_stored(model_folder *f) {
    const pass *p;
    pass_setting s;
    TRY(quantized_files_read(f->directory, &p, &s));
    pin(f, p, &s);
    return STATUS_OK;
}

/* Files are listed one after the other. */
static status count_listed(model_folder *f, const char *adapter, uint64_t memory) {
    uint64_t held = 0;
    char path[4096];
    if (!adapter)
        TRY(weight_files_held(f->directory, &held));
    else if (snprintf(path, sizeof path, "%s/adapter_model.safetensors", adapter) < (int)sizeof path)
        TRY(weight_files_held(path, &held));
    if (held > f->listed_bytes) f->listed_bytes = held;
    bool small =
        f->listed_bytes < 1u << 20; /* beside the program itself: then the plan says what is needed */
    uint64_t code = device_runtime_reserve(0).code;
    if (memory == UINT64_MAX || (small ? 0 : code) + f->listed_bytes < memory) return STATUS_OK;
    return status_set(STATUS_NO_FIT,
                      "the lists of tensors in the files of %s take %llu bytes, more than --memory allows "
                      "beside the program",
                      f->directory, (unsigned long long)f->listed_bytes);
}

/* Texts are continued, or told as vectors. */
static status is_of_use(const model *m) { return m->reads_whole ? model_computes(m) : model_continues(m); }

status model_folder_open(const char *directory, const char *adapter, dtype products, uint64_t memory,
                         model_folder *f) {
    *f = (model_folder){ .directory = directory, .adapter = adapter };
    TRY(model_config_read(directory, &f->config, NULL));
    families_model(&f->config, directory, &f->model);
    TRY(is_of_use(&f->model));
    TRY(count_listed(f, NULL, memory));
    if (f->adapter) TRY(count_listed(f, f->adapter, memory));
    TRY(read_type(f, products));
    TRY(read_stored(f));
    return read_adapter(f);
}

status model_folder_of(const model_config *c, const char *name, dtype stored, dtype products,
                       model_folder *f) {
    *f = (model_folder){ .config = *c };
    families_model(&f->config, name, &f->model);
    TRY(is_of_use(&f->model));
    return choose_type(f, stored, products);
}

/* ---- several adapters ---- */

status model_folder_add_adapter(model_folder *f, const model_folder_adapter *a, uint64_t memory) {
    const pass *p = NULL;
    pass_setting s;
    pass_adapter about;
    uint32_t k = f->several.count;
    if (f->adapter)
        return status_set(STATUS_INVALID,
                          "an adapter for all texts can't stand beside '%s', which texts choose", a->name);
    if (k == ADAPTERS_MOST)
        return status_set(STATUS_INVALID, "there are more than %d adapters", ADAPTERS_MOST);
    for (uint32_t i = 0; i < k; i++)
        if (strcmp(f->adapters[i].name, a->name) == 0)
            return status_set(STATUS_INVALID, "two adapters are called '%s'", a->name);
    TRY(adapter_files_read(a->directory, false, &p, &s));
    TRY(adapter_files_check_base(a->directory, f->directory));
    TRY(p->adapting->describe(&s, &about));
    if (k && strcmp(about.base, f->several_of[0].base) != 0)
        return status_set(STATUS_INVALID, "'%s' was trained beside weights of %s, and '%s' beside such of %s",
                          a->name, about.base, f->adapters[0].name, f->several_of[0].base);
    TRY(count_listed(f, a->directory, memory));
    if (!k) pin(f, p, &s);
    f->adapters[k] = *a, f->several_of[k] = about;
    f->several = (pass_adapters){ f->several_of, k + 1 };
    return STATUS_OK;
}

/* Those of adapter k, under the names that they have alone. */
static status load_numbered(const model_folder *f, uint32_t k, const model_weight *weights, uint32_t count) {
    char prefix[32];
    uint32_t found = 0;
    size_t length = (size_t)snprintf(prefix, sizeof prefix, PASS_ADAPTER_NAME, k);
    model_weight *own = memory_new(count ? count : 1, sizeof *own);
    if (!own) return status_set(STATUS_FAILED, "no memory for %u tensors of an adapter", count);
    for (uint32_t i = 0; i < count; i++) {
        if (strncmp(weights[i].name, prefix, length) != 0) continue;
        own[found] = weights[i];
        own[found++].name += length;
    }
    status result =
        adapter_files_load(f->adapters[k].directory, &(adapter_files_part){ .weights = own, .count = found });
    memory_free(own);
    return result;
}

status model_folder_load(const model_folder *f, exec *e) {
    model_weight *weights;
    uint32_t count;
    TRY(exec_weights(e, &weights, &count));
    uint32_t own = adapter_files_own(weights, count);
    model_files_difference d = { .headless = f->model.reads_whole };
    status result = model_files_load_other(f->directory, weights, own, &d);
    if (result == STATUS_OK && f->adapter)
        result = adapter_files_load(f->adapter, &(adapter_files_part){ .weights = weights, .count = count });
    for (uint32_t k = 0; k < f->several.count && result == STATUS_OK; k++)
        result = load_numbered(f, k, weights, count);
    memory_free(weights);
    return result;
}
