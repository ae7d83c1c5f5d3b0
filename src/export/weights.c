#include "export/weights.h"

#include <math.h>
#include <string.h>

#include "base/finite.h"
#include "base/half.h"
#include "base/memory.h"
#include "base/vector.h"
#include "io/model_files.h"
#include "io/safetensors.h"

enum {
    NUMBERS = 1 << 20, /* that pass through at a time, where a row is no longer */
    LINE = 16 << 10    /* that are read at a time of a row that becomes a column */
};

/* One tensor of the file, with what its numbers pass through. */
typedef struct {
    export_weights *all;
    const safetensors_entry *entry; /* NULL: speeds of pairs */
    architecture_place place;
    gguf_write_type type;
    int64_t rows, columns; /* of what is written; vectors are columns of one number */
} passing;

struct export_weights {
    const model_config *config;
    const architecture *architecture;
    safetensors file;
    graph g; /* of the model; owns the names of parameters */
    passing *passing;
    gguf_tensor *tensors;
    bool *used; /* by entry */
    uint32_t count, room, odd;
    uint64_t read;
    int64_t numbers; /* in `wide` and, half as wide, in `narrow` */
    float *wide, *line;
    uint16_t *narrow;
};

/* ---- numbers of the model ---- */

/* `count` numbers of the entry from `first` on, widened. */
static status read_numbers(const passing *p, int64_t first, int64_t count, float *to) {
    dtype from = safetensors_dtype(p->entry->dtype);
    uint64_t each = dtype_bytes(from);
    bool half = from != DTYPE_F32;
    TRY(safetensors_read_part(&p->all->file, p->entry, (uint64_t)first * each,
                              half ? (void *)p->all->narrow : to, (uint64_t)count * each));
    if (half) half_widen(from, p->all->narrow, count, to);
    return STATUS_OK;
}

/* The row of the model that becomes this row of the file. */
static int64_t source_row(const passing *p, int64_t row) {
    int64_t head = p->rows / p->place.heads, i;
    if (p->place.rows == ROWS_PAIRED) {
        i = row % head;
        return row - i + i % 2 * (head / 2) + i / 2;
    }
    int64_t third = p->rows / 3, size = head / 3;
    i = row % third;
    return i / size * head + row / third * size + i % size;
}

static status read_moved(const passing *p, int64_t row, int64_t count, float *to) {
    for (int64_t i = 0; i < count; i++)
        TRY(read_numbers(p, source_row(p, row + i) * p->columns, p->columns, to + i * p->columns));
    return STATUS_OK;
}

/* Columns row .. row + count - 1 of the model, as rows. */
static status read_turned(const passing *p, int64_t row, int64_t count, float *to) {
    float *line = p->all->line;
    for (int64_t c = 0; c < p->columns; c++) {
        TRY(read_numbers(p, c * p->rows + row, count, line));
        for (int64_t i = 0; i < count; i++) to[i * p->columns + c] = line[i];
    }
    return STATUS_OK;
}

static status read_rows(const passing *p, int64_t row, int64_t count) {
    float *to = p->all->wide;
    int64_t all = count * p->columns;
    if (!p->entry) {
        for (int64_t i = 0; i < all; i++) to[i] = architecture_speed(p->all->config, row + i);
        return STATUS_OK;
    }
    if (p->place.rows == ROWS_TURNED)
        TRY(read_turned(p, row, count, to));
    else if (p->place.rows != ROWS_KEPT)
        TRY(read_moved(p, row, count, to));
    else
        TRY(read_numbers(p, row * p->columns, all, to));
    for (int64_t i = 0; p->place.plus != 0 && i < all; i++) to[i] += p->place.plus;
    return STATUS_OK;
}

/* ---- numbers of the file ---- */

/* Blocks of 32 numbers: a scale in f16, the largest over 127, and codes rounded to the nearest, halves away
 * from zero. The codes go by the scale before it is rounded, as ggml's do. */
static void write_blocks(const float *x, int64_t blocks, unsigned char *to) {
    for (int64_t b = 0; b < blocks; b++, x += GGUF_BLOCK, to += GGUF_BLOCK_BYTES) {
        float largest = 0;
        for (int i = 0; i < GGUF_BLOCK; i++) largest = fabsf(x[i]) > largest ? fabsf(x[i]) : largest;
        float scale = largest / 127, inverse = scale > 0 ? 1 / scale : 0;
        uint16_t stored = half_to_f16(scale);
        memcpy(to, &stored, sizeof stored);
        for (int i = 0; i < GGUF_BLOCK; i++) {
            int8_t code = (int8_t)roundf(x[i] * inverse);
            memcpy(to + sizeof stored + i, &code, 1);
        }
    }
}

static status too_large(const passing *p, float x) {
    return status_set(
        STATUS_INVALID, "%s: tensor '%s' has %g, which is more than %s holds; choose --dtype f32 or bf16",
        p->all->file.files[p->entry->file].path, p->entry->name, (double)x, gguf_write_type_name(p->type));
}

static status narrow_rows(const passing *p, int64_t count) {
    const float *x = p->all->wide;
    dtype to = p->type == GGUF_WRITE_BF16 ? DTYPE_BF16 : DTYPE_F16;
    int64_t n = count * p->columns, at;
    if (p->type == GGUF_WRITE_Q8_0) {
        for (at = 0; at < n; at++)
            if (fabsf(x[at]) / 127 >= 65520) return too_large(p, x[at]);
        write_blocks(x, n / GGUF_BLOCK, (unsigned char *)p->all->narrow);
        return STATUS_OK;
    }
    half_narrow(to, x, n, p->all->narrow);
    at = finite_find(to, p->all->narrow, n);
    return at < 0 ? STATUS_OK : too_large(p, x[at]);
}

static status next_part(void *context, uint64_t first, const void **data, uint64_t *bytes) {
    const passing *p = context;
    uint64_t each = gguf_row_bytes(p->type, p->columns);
    int64_t row = (int64_t)(first / each), most = p->all->numbers / p->columns;
    if (p->place.rows == ROWS_TURNED && most > LINE) most = LINE;
    int64_t count = p->rows - row < most ? p->rows - row : most;
    TRY(read_rows(p, row, count));
    if (p->type != GGUF_WRITE_F32) TRY(narrow_rows(p, count));
    *data = p->type == GGUF_WRITE_F32 ? (const void *)p->all->wide : (const void *)p->all->narrow;
    *bytes = (uint64_t)count * each;
    return STATUS_OK;
}

/* ---- the list ---- */

static const safetensors_entry *find(const safetensors *s, const char *name) {
    static const char prefix[] = "transformer."; /* which files may leave away */
    const safetensors_entry *e = safetensors_find(s, name);
    if (e || strncmp(name, prefix, sizeof prefix - 1) != 0) return e;
    return safetensors_find(s, name + sizeof prefix - 1);
}

static status check_entry(const export_weights *w, const char *name, const shape *s,
                          const safetensors_entry *e) {
    char need[SHAPE_TEXT_BYTES];
    const char *path = w->file.files[0].path;
    if (!e)
        return status_set(STATUS_INVALID, "%s has no tensor '%s', which the model needs, of shape %s", path,
                          name, shape_text(s, need));
    if (!safetensors_has_shape(e, s))
        return status_set(STATUS_INVALID, "%s: the tensor '%s' is not of the shape %s that the model needs",
                          path, name, shape_text(s, need));
    dtype from = safetensors_dtype(e->dtype);
    if (from == DTYPE_F32 || dtype_is_half(from)) return STATUS_OK;
    return status_set(STATUS_INVALID, "%s: the tensor '%s' is of type %s; weights are F32, BF16 or F16", path,
                      name, e->dtype);
}

static void add_tensor(export_weights *w, passing p, gguf_write_type type, shape s) {
    passing *kept = &w->passing[w->count];
    p.all = w;
    p.type = p.place.narrow ? type : GGUF_WRITE_F32;
    p.columns = s.rank > 1 ? shape_last(&s) : 1;
    p.rows = shape_elements(&s) / p.columns;
    if (!gguf_row_bytes(p.type, p.columns)) p.type = GGUF_WRITE_F16, w->odd++;
    if (p.columns > w->numbers) w->numbers = p.columns;
    *kept = p;
    w->tensors[w->count++] = (gguf_tensor){
        .name = kept->place.name, .type = p.type, .shape = s, .part = next_part, .context = kept
    };
}

static status add_parameter(export_weights *w, tensor_id t, gguf_write_type type) {
    const char *name = graph_name(&w->g, t);
    shape s = graph_tensor(&w->g, t)->shape;
    passing p = { .entry = find(&w->file, name) };
    TRY(architecture_place_of(w->architecture, w->config, name, &p.place));
    TRY(check_entry(w, name, &s, p.entry));
    w->used[p.entry - w->file.entries] = true;
    w->read += p.entry->bytes;
    if (p.place.rows == ROWS_TURNED) s = SHAPE(s.dim[1], s.dim[0]);
    add_tensor(w, p, type, s);
    if (strcmp(p.place.name, "token_embd.weight") == 0 &&
        architecture_copies_head(w->architecture, w->config)) {
        strcpy(p.place.name, "output.weight");
        add_tensor(w, p, type, s);
    }
    return STATUS_OK;
}

static status list_tensors(export_weights *w, gguf_write_type type) {
    int64_t speeds = architecture_speeds(w->config);
    w->passing = memory_new(w->room, sizeof *w->passing);
    w->tensors = memory_new(w->room, sizeof *w->tensors);
    w->used = memory_new(w->file.count + 1, sizeof *w->used);
    if (!w->passing || !w->tensors || !w->used)
        return status_set(STATUS_FAILED, "no memory to list a model's tensors");
    if (speeds)
        add_tensor(w, (passing){ .place = { .name = "rope_freqs.weight" } }, GGUF_WRITE_F32, SHAPE(speeds));
    for (tensor_id t = 1; t < w->g.tensors.count; t++) {
        const tensor *x = graph_tensor(&w->g, t);
        if (x->role == ROLE_PARAMETER && !x->producer) TRY(add_parameter(w, t, type));
    }
    return model_files_all_used(&w->file, w->used);
}

static status make_room(export_weights *w) {
    w->wide = memory_room((size_t)w->numbers, sizeof *w->wide);
    w->narrow = memory_room((size_t)w->numbers, sizeof *w->narrow);
    w->line = memory_room(LINE, sizeof *w->line);
    if (w->wide && w->narrow && w->line) return STATUS_OK;
    return status_set(STATUS_FAILED, "no memory for what weights pass through");
}

static status build(const char *directory, export_weights *w) {
    model m;
    model_ports ports = { 0 };
    families_model(w->config, directory, &m);
    TRY(graph_open(&w->g));
    m.build(&m, &w->g, &(model_run){ .mode = MODEL_EVALUATE, .batch = 1, .context = 1 }, &ports);
    w->room = w->g.tensors.count + 2u; /* and the copy of a head, and speeds */
    return graph_status(&w->g);
}

status export_weights_open(const char *directory, const architecture *a, const model_config *c,
                           gguf_write_type type, export_weights **opened) {
    export_weights *w = *opened = memory_new(1, sizeof *w);
    if (!w) return status_set(STATUS_FAILED, "no memory to look at %s", directory);
    w->architecture = a, w->config = c, w->numbers = NUMBERS;
    TRY(build(directory, w));
    TRY(safetensors_open(directory, &w->file));
    TRY(list_tensors(w, type));
    return make_room(w);
}

void export_weights_close(export_weights *w) {
    if (!w) return;
    safetensors_close(&w->file);
    graph_close(&w->g);
    memory_free(w->passing);
    memory_free(w->tensors);
    memory_free(w->used);
    memory_free(w->wide);
    memory_free(w->narrow);
    memory_free(w->line);
    memory_free(w);
}

const gguf_tensor *export_weights_tensors(const export_weights *w, uint32_t *count) {
    *count = w->count;
    return w->tensors;
}

uint32_t export_weights_odd(const export_weights *w) { return w->odd; }
uint64_t export_weights_read(const export_weights *w) { return w->read; }

uint64_t export_weights_held(const export_weights *w) {
    return sizeof *w + w->room * (sizeof *w->passing + sizeof *w->tensors) + w->file.count + 1 +
           (uint64_t)w->numbers * (sizeof *w->wide + sizeof *w->narrow) + LINE * sizeof *w->line;
}
