/* Weights of experts, which lie in two tensors of a layer here and in files as a matrix for each expert.
 * Either's numbers are the other's in the same order, so a matrix of the file is a range of the tensor: a
 * weight of its own, which is read and written where the tensor is. */
#pragma once

#include "io/safetensors.h"
#include "models/decoder_experts.h"
#include "models/weight.h"

/* Weights as files hold them. */
typedef struct {
    const model_weight *weights;
    uint32_t count;
    model_weight *made; /* NULL: they are the caller's own list */
    char *names;
} expert_files;

/* What such a list takes for each matrix, to be planned for, with what is needed to write it. */
enum { EXPERT_FILES_BYTES = 512 };

/* `names` NULL: the tensors are left whole. STATUS_FAILED without memory. Close it where it came back with
 * STATUS_OK; it lasts no longer than the weights do. */
status expert_files_list(const decoder_experts_names *names, const model_weight *weights, uint32_t count,
                         expert_files *x);
void expert_files_close(expert_files *x);

/* How many tensors files have for these weights, where they have a matrix for each expert. */
uint64_t expert_files_count(const model_weight *weights, uint32_t count);

/* By which names an open file has experts; NULL: it has none, or keeps them in tensors of a layer. */
const decoder_experts_names *expert_files_names(const safetensors *s);
