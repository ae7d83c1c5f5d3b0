/* Codes of 4 bits (ops/codes4.h) of a tensor of plain numbers. Numbers are read and become codes some panels
 * at a time, so a model is never in memory as a whole. Where the tensor lies as (in, out), neighbours of a
 * panel's outputs are read depth by depth. */
#pragma once

#include "io/safetensors.h"
#include "models/weight.h"

/* The matrix that w, which has panels, stands for: outputs and depth. */
typedef struct {
    int64_t outputs, depth;
} panel_matrix;
panel_matrix panel_files_matrix(const model_weight *w);

/* The shape of its tensor in files of numbers. */
shape panel_files_shape(const model_weight *w);

/* A tensor of F32, BF16 or F16, and room for at least a panel of its numbers. */
typedef struct {
    const safetensors *file;
    const safetensors_entry *entry;
    const model_weight *weight;
    float *wide;  /* `room` numbers */
    void *narrow; /* as many, as the file has them */
    int64_t room;
} panel_reading;

/* How many panels have room; at least 1. */
int64_t panel_files_at_once(const panel_reading *r);

/* These panels, as far as there are so many. `codes` and `scales` begin with them. STATUS_INVALID where a
 * scale is too large for F16. */
status panel_files_encode(const panel_reading *r, int64_t first, int64_t panels, uint8_t *codes,
                          uint16_t *scales);

/* Fills w and its scales. */
status panel_files_read(const safetensors *s, const safetensors_entry *e, const model_weight *w,
                        const model_weight *scales);
