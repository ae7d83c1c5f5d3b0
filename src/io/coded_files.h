/* Weights that are held as codes, of 8 bits (ops/codes.h) or of 4 (ops/nf4.h). From tensors of plain numbers
 * the latter are encoded row by row while they are read, so a model is never in memory as a whole. */
#pragma once

#include "io/safetensors.h"
#include "models/weight.h"

/* Does w hold codes, of 8 bits or of 4? */
bool coded_files_has(const model_weight *w);

/* The shape of the matrix that w's codes stand for. */
shape coded_files_shape(const model_weight *w);

/* Fills codes of 4 bits and their scales from a tensor of F32, BF16 or F16. */
status coded_files_read(const safetensors *s, const safetensors_entry *e, const model_weight *w,
                        const model_weight *scales);

/* All numbers of a matrix of codes, in f32, row by row. */
void coded_files_widen(const model_weight *w, const float *scales, float *x);
