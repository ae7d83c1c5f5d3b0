#include "io/panel_files.h"

#include "base/half.h"
#include "base/least.h"
#include "base/memory.h"
#include "ops/codes4.h"

panel_matrix panel_files_matrix(const model_weight *w) {
    return (panel_matrix){ shape_rows(&w->shape), 2 * shape_last(&w->shape) };
}

shape panel_files_shape(const model_weight *w) {
    panel_matrix m = panel_files_matrix(w);
    return w->by_rows ? SHAPE(m.outputs, m.depth) : SHAPE(m.depth, m.outputs);
}

int64_t panel_files_at_once(const panel_reading *r) {
    return most(1, r->room / (CODES4_PANEL * panel_files_matrix(r->weight).depth));
}

/* Numbers of some neighbouring outputs, line after line as the file has them. */
static status read_lines(const panel_reading *r, int64_t output, int64_t outputs) {
    panel_matrix m = panel_files_matrix(r->weight);
    dtype from = safetensors_dtype(r->entry->dtype);
    uint64_t each = dtype_bytes(from);
    char *into = from == DTYPE_F32 ? (char *)r->wide : r->narrow;
    if (r->weight->by_rows)
        TRY(safetensors_read_part(r->file, r->entry, (uint64_t)(output * m.depth) * each, into,
                                  (uint64_t)(outputs * m.depth) * each));
    for (int64_t d = 0; !r->weight->by_rows && d < m.depth; d++)
        TRY(safetensors_read_part(r->file, r->entry, (uint64_t)(d * m.outputs + output) * each,
                                  into + (uint64_t)(d * outputs) * each, (uint64_t)outputs * each));
    if (from != DTYPE_F32) half_widen(from, r->narrow, outputs * m.depth, r->wide);
    return STATUS_OK;
}

status panel_files_encode(const panel_reading *r, int64_t first, int64_t panels, uint8_t *codes,
                          uint16_t *scales) {
    panel_matrix m = panel_files_matrix(r->weight);
    int64_t output = first * CODES4_PANEL, outputs = least(panels * CODES4_PANEL, m.outputs - output);
    int64_t groups = codes4_groups(m.depth);
    bool by_rows = r->weight->by_rows;
    TRY(read_lines(r, output, outputs));
    for (int64_t o = 0; o < outputs; o += CODES4_PANEL)
        codes4_encode_panel(&(codes4_numbers){ .x = r->wide + (by_rows ? o * m.depth : o),
                                               .by_line = by_rows ? m.depth : 1,
                                               .by_depth = by_rows ? 1 : outputs,
                                               .lanes = least(CODES4_PANEL, outputs - o),
                                               .depth = m.depth },
                            codes + o * groups * CODES4_BYTES, scales + o * groups);
    if (codes4_finite(scales, outputs * groups)) return STATUS_OK;
    return status_set(STATUS_INVALID, "%s: the tensor '%s' holds numbers too large for codes of 4 bits",
                      r->file->files[r->entry->file].path, r->weight->name);
}

/* ---- a whole weight ---- */

static status read_panels(const panel_reading *r, const model_weight *scales, uint8_t *codes,
                          uint16_t *of_panel) {
    panel_matrix m = panel_files_matrix(r->weight);
    int64_t groups = codes4_groups(m.depth);
    for (int64_t output = 0; output < m.outputs; output += CODES4_PANEL) {
        int64_t lanes = least(CODES4_PANEL, m.outputs - output), at = output * groups;
        TRY(panel_files_encode(r, output / CODES4_PANEL, 1, codes, of_panel));
        TRY(weight_put_bytes(r->weight, (uint64_t)(at * CODES4_BYTES), codes,
                             (uint64_t)(lanes * groups * CODES4_BYTES)));
        TRY(weight_put_bytes(scales, (uint64_t)at * sizeof *of_panel, of_panel,
                             (uint64_t)(lanes * groups) * sizeof *of_panel));
    }
    return STATUS_OK;
}

status panel_files_read(const safetensors *s, const safetensors_entry *e, const model_weight *w,
                        const model_weight *scales) {
    int64_t room = CODES4_PANEL * panel_files_matrix(w).depth;
    panel_reading r = { .file = s,
                        .entry = e,
                        .weight = w,
                        .wide = memory_new((size_t)room, sizeof *r.wide),
                        .narrow = memory_new((size_t)room, sizeof(uint16_t)),
                        .room = room };
    uint8_t *codes = memory_new((size_t)room, 1);
    uint16_t *of_panel = memory_new((size_t)(room / CODES4_GROUP), sizeof *of_panel);
    status result = r.wide && r.narrow && codes && of_panel
                        ? read_panels(&r, scales, codes, of_panel)
                        : status_set(STATUS_FAILED, "no memory to read '%s'", w->name);
    memory_free(r.wide);
    memory_free(r.narrow);
    memory_free(codes);
    memory_free(of_panel);
    return result;
}
