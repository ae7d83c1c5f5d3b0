/* Model directories whose weights are codes of 8 or 4 bits. config.json says so:
 *
 *   "quantization_config": { "quant_method": "snug-int8", "setting": "int8" }
 *
 * with method and setting of the pass that reads such weights (pass.storing). Of 8 bits, in the weights' file
 * "NAME.weight" is I8, in its old shape, and beside it lie "NAME.weight_scale" (out) and, for "int8:static",
 * "NAME.input_scale" (1), in F32: a number is its code times the scale of its output, which is a column where
 * the weight is (in, out) and a row where it is (out, in) (ops/codes.h). Of 4 bits, "snug-int4",
 * "NAME.weight" is U8 of (out, in / 2) and "NAME.weight_scale" F16 of (out * groups), both in the order of
 * panels (ops/codes4.h), however the weight lay before. All other weights are what they were. */
#pragma once

#include "io/model_config.h"
#include "models/model.h"
#include "passes/pass.h"

/* The pass that reads the weights of `path` (a directory, or its config.json) and its setting; NULL: they are
 * plain. STATUS_INVALID for a method or setting that is not known. */
status quantized_files_read(const char *path, const pass **p, pass_setting *s);

/* What the configuration says beside these weights; false: they are plain. */
bool quantized_files_form(const model_weight *weights, uint32_t count, model_config_stored *form);

/* Writes the weights' file of a quantized model to the directory `to` (made if missing), atomically, from the
 * plain one in `from`. The list is what the quantized model has, in any order: of a weight without data the
 * file's numbers are taken, as they are or, where it is of i8 or has panels, as codes; what has data is
 * written as it is. Room for the scales of i8 has to be there: they are filled in. Weights pass through a
 * buffer, so they are never in memory as a whole. Bytes of both files come back, of `from` those of the
 * tensors of this model. */
typedef struct {
    uint64_t before, after;
    uint32_t quantized; /* weights that are codes now */
} quantized_files_bytes;
/* What it holds of memory meanwhile, with the scales that the caller has made room for. */
uint64_t quantized_files_held(const model_weight *weights, uint32_t count);
status quantized_files_convert(const char *from, const char *to, const model_weight *weights, uint32_t count,
                               quantized_files_bytes *bytes);
