/* A folder with a model that continues texts: what it says before its weights are read. */
#pragma once

#include "chain/compose.h"
#include "exec/exec.h"
#include "models/families.h"
#include "ops/adapter_matmul/adapter_matmul.h"
#include "passes/adapting.h"

/* Adapters that are chosen by row. */
typedef struct {
    const char *name, *directory;
} model_folder_adapter;

/* Not to be moved: parts point at each other. */
typedef struct {
    const char *directory; /* Hugging Face model directory */
    const char *adapter;   /* a folder with what was trained beside its weights; NULL: none */
    model_config config;
    model model;
    compose_choice pinned; /* what the files ask for */
    dtype products; /* f32 or bf16: what products multiply, and so what keys and values are rounded to */
    model_folder_adapter adapters[ADAPTERS_MOST];
    pass_adapter several_of[ADAPTERS_MOST];
    pass_adapters several; /* the same; count 0: none are chosen by row */
    uint64_t listed_bytes; /* that reading the files' tensors holds */
} model_folder;

/* `products`: what products shall multiply. NONE: as the files are, bf16 by bf16 where all matrices are bf16,
 * else f32. F32: numbers of f32 by what the files have. BF16: bf16 by bf16, whatever they have. F16: f32 by
 * matrices that become f16. Quantized models say themselves what they multiply.
 *
 * STATUS_INVALID for a model that can neither continue texts nor read them whole (model.reads_whole), and for
 * files that are wrong; STATUS_NO_FIT where listing its tensors alone takes more than `memory` (UINT64_MAX:
 * no matter). */
status model_folder_open(const char *directory, const char *adapter, dtype products, uint64_t memory,
                         model_folder *f);

/* The same of a configuration alone, whose weights would be stored as `stored`: for plans. */
status model_folder_of(const model_config *c, const char *name, dtype stored, dtype products,
                       model_folder *f);

/* Between opening and planning: an adapter that rows choose by its number, which is how many there were
 * before. The texts stay the caller's. STATUS_INVALID where it is no adapter, was trained beside other
 * weights, or beside weights of another form than those before it; STATUS_NO_FIT as above. */
status model_folder_add_adapter(model_folder *f, const model_folder_adapter *a, uint64_t memory);

/* Into the weights of e. */
status model_folder_load(const model_folder *f, exec *e);
