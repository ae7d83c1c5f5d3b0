/* Weights of a model to and from tensors of a file, wherever they lie (models/weight.h). */
#pragma once

#include "io/lock.h"
#include "io/safetensors.h"
#include "models/weight.h"

/* Numbers of a tensor of F32, BF16 or F16 in f32, as a weight wants them that may have more rows than the
 * tensor. Those behind are the mean of the tensor's rows (it has at least one), as new tokens begin in
 * transformers, which draws them around that mean with a billionth of the rows' covariance. */
typedef struct {
    const safetensors *s;
    const safetensors_entry *e;
    int64_t have, columns; /* numbers that the tensor has, and of a row */
    float *mean;           /* NULL: it has all */
} weight_numbers;

/* STATUS_FAILED without memory for two rows. Close it where it came back with STATUS_OK. */
status weight_files_numbers(const safetensors *s, const safetensors_entry *e, const model_weight *w,
                            weight_numbers *x);
void weight_files_numbers_close(weight_numbers *x);
/* n (<= WEIGHT_PART) of them from number `first` on. */
status weight_files_numbers_read(const weight_numbers *x, int64_t first, int64_t n, float *wide);

/* The weight from a tensor of its shape, or with fewer rows, of F32, BF16 or F16; where the types differ it
 * is rounded or widened part by part. */
status weight_files_read(const safetensors *s, const safetensors_entry *e, const model_weight *w);

/* Of a model's weights as they are stored: all bytes, and a sum of the sums and sizes of its files. */
status weight_files_sum(const char *directory, bool early, io_sum *sum);

/* Tells weights apart at the cost of some KiB of each tensor: a digest of all names, types and shapes and of
 * bytes spread evenly over each tensor; the same however the tensors are cut into files. */
status weight_files_digest(const char *directory, uint64_t *value);

/* What reading the tensors of a directory or file holds in memory, beyond that which the runtime reserve has
 * room for: 0 for most; known before it is held. To be planned for. */
status weight_files_held(const char *path, uint64_t *bytes);

/* The type that all matrices of a directory or file have, those aside that are codes or integers: f32, f16 or
 * bf16. NONE: they differ, or there are none. */
status weight_files_type(const char *path, dtype *type);

/* The file by which a folder shows that it holds a model or an adapter, weights before the configuration;
 * NULL: it holds none. */
const char *weight_files_in(const char *folder);

/* STATUS_INVALID where a model that is to be written to --out `folder` would replace one. */
status weight_files_check_vacant(const char *folder);

/* A model while it is written to a folder. */
typedef struct {
    const char *folder; /* the caller's */
    lock lock;
    bool made; /* the folder was not there before */
} weight_files_writing;
/* Makes --out `folder`, which holds no model, and keeps other processes from writing there until
 * weight_files_end. */
status weight_files_begin(const char *folder, weight_files_writing *w);
/* Returns `written`, the status of what was written since. After a failure the half of a model is removed, so
 * that writing can be tried again; what fails in that is not said. */
status weight_files_end(weight_files_writing *w, status written);

/* The weight under a name, in its type; both must last until it is written. */
safetensors_item weight_files_item(const model_weight *w, const char *name);

/* The same in another type of floats, each number rounded to the nearest: through `block`, WEIGHT_PART
 * numbers of that type, which several may share. `to` lasts as long as the item. */
typedef struct {
    const model_weight *weight;
    dtype type;
    void *block;
} weight_files_cast;
safetensors_item weight_files_item_as(const weight_files_cast *to, const char *name);
