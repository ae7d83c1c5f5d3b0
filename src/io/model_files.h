/* The weights of model directories as Hugging Face's transformers writes them: model.safetensors, or shards
 * with their index. Nothing here knows of plans: who has the memory says where each weight lies, and weights
 * are read into that place and written from it.
 *
 * Names and layouts are those of transformers' models ("transformer.h.0.attn.c_attn.weight" of GPT-2 is
 * (in,out), "model.layers.0.mlp.up_proj.weight" of Llama (out,in)); a tied output projection has no tensor of
 * its own. */
#pragma once

#include "base/status.h"
#include "io/safetensors.h"
#include "models/decoder_experts.h"
#include "models/model.h"

/* Fills all of the weights from a directory (or a .safetensors file). The names in the file may lack the
 * "transformer." in front. F16 and BF16 become the
 * weight's type; widening them is exact. I8 is read as it is, where the weight is such. Masks that old files
 * carry and a copy of a tied projection are passed over; any other tensor that the model has no place for, a
 * missing one or one of another shape is STATUS_INVALID: then the contents of the weights are undefined. */
status model_files_load(const char *directory, const model_weight *weights, uint32_t count);

/* In what a model may differ from its files. Zeroed: in nothing. */
typedef struct {
    /* Its head may be another one (models/head.h): weights of it that are missing there, or of another shape,
     * are left as they are, and a language's head is passed over. NULL: it is the files' own. */
    const model *judge;
    /* Its vocabulary, and the smaller one of the files; 0: it has the files' own. Rows of tables beyond that
     * become the mean of those before (io/weight_files.h). */
    int64_t vocabulary, vocabulary_was;
    bool headless; /* it has no head: the files' is passed over */
} model_files_difference;

status model_files_load_other(const char *directory, const model_weight *weights, uint32_t count,
                              const model_files_difference *d);
/* Which weights of the head are left as they are, by weight. */
status model_files_lack(const char *directory, const model_weight *weights, uint32_t count,
                        const model_files_difference *d, bool *lacks);

/* Does a directory (or a .safetensors file) have these tensors, in their shapes, as numbers or as codes of 8
 * bits? STATUS_INVALID where it has not. Headers alone are read, so this is done before anything is planned;
 * `data` of the weights is not looked at. */
status model_files_check(const char *directory, const model_weight *weights, uint32_t count,
                         const model_files_difference *d);

/* Writes model.safetensors into the directory, from where the weights are and in their types, atomically. */
status model_files_save(const char *directory, const model_weight *weights, uint32_t count);

/* How files hold weights otherwise than memory does. Zeroed: in nothing. */
typedef struct {
    dtype type;                           /* every weight as f32, bf16 or f16; NONE: as they are */
    const decoder_experts_names *experts; /* a matrix for each expert (io/expert_files.h); NULL: together */
    bool timm;                            /* by the names of that library (io/timm_files.h) */
    int64_t batches;  /* that batch norms have seen, written for each of them as PyTorch does; 0: not */
    const char *name; /* of the file; NULL: model.safetensors */
} model_files_form;
/* STATUS_INVALID where a weight is of codes and the form has a type. A number that has no place in f16 is not
 * finite, and fails. */
status model_files_save_as(const char *directory, const model_weight *weights, uint32_t count,
                           const model_files_form *form);

/* Has every tensor of a model's files a use (`used`, one for each entry), or is one of those that old
 * versions saved and nobody needs? STATUS_INVALID names one that is neither. */
status model_files_all_used(const safetensors *s, const bool *used);
