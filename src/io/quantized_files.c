#include "io/quantized_files.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/half.h"
#include "base/least.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "io/expert_files.h"
#include "io/file.h"
#include "io/json.h"
#include "io/model_files.h"
#include "io/panel_files.h"
#include "io/safetensors.h"
#include "io/vit_files.h"
#include "ops/codes4.h"
#include "passes/storing.h"

enum { PATH_BYTES = 4096 };

static status path_of(const char *path, const char *file, char into[PATH_BYTES]) {
    struct stat about;
    bool folder = stat(path, &about) == 0 && S_ISDIR(about.st_mode);
    int length =
        folder ? snprintf(into, PATH_BYTES, "%s/%s", path, file) : snprintf(into, PATH_BYTES, "%s", path);
    if (length < PATH_BYTES) return STATUS_OK;
    return status_set(STATUS_INVALID, "the path '%.60s...' is too long", path);
}

/* ---- what the configuration says ---- */

static bool has_key(const pass *p, const char *key) {
    for (const char *const *k = pass_stores(p) ? p->storing->keys : NULL; k && *k; k++)
        if (strcmp(*k, key) == 0) return true;
    return false;
}

static status read_form(json_value root, const pass **p, pass_setting *s) {
    json_value form, v;
    const char *method, *setting;
    TRY(json_as_object(root));
    if (!json_find(root, "quantization_config", &form)) return STATUS_OK;
    TRY(json_as_object(form));
    TRY(json_get_string(form, "quant_method", &method));
    for (int i = 0; pass_table[i] && !*p; i++)
        if (has_key(pass_table[i], method)) *p = pass_table[i];
    TRY(json_get(form, "quant_method", &v));
    if (!*p)
        return json_wrong(
            v, "is '%.40s', which this program does not read; 'snug quantize' makes what it does", method);
    TRY(json_get_string(form, "setting", &setting));
    bool known = (*p)->parse(setting, s) == STATUS_OK && s->class == PASS_LOSSY;
    if (known && strcmp(pass_stores_as(*p, s), method) == 0) return STATUS_OK;
    TRY(json_get(form, "setting", &v));
    return json_wrong(v, "is '%.40s', which %s does not know", setting, method);
}

status quantized_files_read(const char *path, const pass **p, pass_setting *s) {
    char config[PATH_BYTES];
    json_document d;
    *p = NULL;
    TRY(path_of(path, "config.json", config));
    TRY(json_open(config, &d));
    status result = read_form(d.root, p, s);
    json_close(&d);
    if (result != STATUS_OK) *p = NULL;
    return result;
}

bool quantized_files_form(const model_weight *weights, uint32_t count, model_config_stored *form) {
    pass_setting s;
    *form = (model_config_stored){ .setting = "int8" };
    for (int i = 0; pass_table[i]; i++)
        if (pass_stores(pass_table[i]) && pass_table[i]->parse(form->setting, &s) == STATUS_OK)
            form->method = pass_stores_as(pass_table[i], &s);
    for (uint32_t i = 0; i < count; i++)
        if (weights[i].type == DTYPE_I8) return true;
    return false;
}

/* ---- codes of a file's numbers ---- */

enum { BUFFER = 1 << 18 }; /* elements that are read at a time */

/* Elements that there is room for: those, or a panel of codes of 4 bits. */
static int64_t room_for(const model_weight *weights, uint32_t count) {
    int64_t room = BUFFER;
    for (uint32_t i = 0; i < count; i++)
        if (weights[i].panels) room = most(room, CODES4_PANEL * panel_files_matrix(&weights[i]).depth);
    return room;
}

/* One weight that passes through. */
typedef struct {
    const safetensors *file;
    const safetensors_entry *entry;
    const model_weight *weight;
    codes_matrix matrix; /* without scales: the weight stays as it is */
    float *wide;         /* `room` numbers */
    void *narrow;        /* the same, as the file has them */
    int8_t *codes;
    int64_t room;
} passing;

/* Elements first .. first + n - 1 as f32, in p->wide. */
static status read_wide(const passing *p, int64_t first, int64_t n) {
    dtype from = safetensors_dtype(p->entry->dtype);
    uint64_t bytes = dtype_bytes(from);
    void *into = from == DTYPE_F32 ? (void *)p->wide : p->narrow;
    TRY(safetensors_read_part(p->file, p->entry, (uint64_t)first * bytes, into, (uint64_t)n * bytes));
    if (from != DTYPE_F32) half_widen(from, p->narrow, n, p->wide);
    return STATUS_OK;
}

/* From a first reading. */
static status find_scales(const passing *p) {
    const codes_matrix *m = &p->matrix;
    int64_t all = m->rows * m->columns;
    for (int64_t i = 0; i < all; i += BUFFER) {
        int64_t n = all - i < BUFFER ? all - i : BUFFER;
        TRY(read_wide(p, i, n));
        codes_matrix_look(m, p->wide, i, n);
    }
    codes_matrix_scale(m);
    for (int64_t i = 0; i < (m->by_rows ? m->rows : m->columns); i++)
        if (!(m->scales[i] < HUGE_VALF))
            return status_set(STATUS_INVALID, "%s: the tensor '%s' holds numbers that are not finite",
                              p->file->files[p->entry->file].path, p->weight->name);
    return STATUS_OK;
}

/* For safetensors_item.part: codes, or the file's own bytes. */
static status next_part(void *context, uint64_t first, const void **data, uint64_t *bytes) {
    const passing *p = context;
    const codes_matrix *m = &p->matrix;
    uint64_t all = m->scales ? (uint64_t)(m->rows * m->columns) : p->entry->bytes;
    *bytes = all - first < BUFFER ? all - first : BUFFER;
    *data = m->scales ? (void *)p->codes : (void *)p->wide;
    if (!m->scales) return safetensors_read_part(p->file, p->entry, first, p->wide, *bytes);
    TRY(read_wide(p, (int64_t)first, (int64_t)*bytes));
    codes_matrix_encode(m, p->wide, (int64_t)first, (int64_t)*bytes, p->codes);
    return STATUS_OK;
}

/* ---- codes of 4 bits ---- */

/* Some panels from a part's first byte on: their codes, or with `scales` these. Both are made each time, so
 * that neither is held. */
static status make_panels(const passing *p, uint64_t first, bool scales, const void **data, uint64_t *bytes) {
    const panel_reading r = { p->file, p->entry, p->weight, p->wide, p->narrow, p->room };
    panel_matrix m = panel_files_matrix(p->weight);
    int64_t groups = codes4_groups(m.depth), each = groups * (scales ? 2 : CODES4_BYTES);
    int64_t output = (int64_t)first / each, panels = panel_files_at_once(&r);
    int64_t outputs = least(panels * CODES4_PANEL, m.outputs - output);
    uint8_t *codes = (uint8_t *)p->codes;
    uint16_t *of_panels = (uint16_t *)(void *)(codes + outputs * groups * CODES4_BYTES);
    TRY(panel_files_encode(&r, output / CODES4_PANEL, panels, codes, of_panels));
    *data = scales ? (void *)of_panels : codes;
    *bytes = (uint64_t)(outputs * each);
    return STATUS_OK;
}

static status next_panels(void *context, uint64_t first, const void **data, uint64_t *bytes) {
    return make_panels(context, first, false, data, bytes);
}

static status next_scales(void *context, uint64_t first, const void **data, uint64_t *bytes) {
    return make_panels(context, first, true, data, bytes);
}

/* ---- a whole directory ---- */

typedef struct {
    safetensors file;
    const model_weight *weights;
    uint32_t count;
    passing *passing;        /* by weight */
    safetensors_item *items; /* by weight */
    passing buffers;
} conversion;

/* The scales that belong to a weight of codes. */
static float *scales_of(const conversion *c, const model_weight *w) {
    char name[CODES_NAME_BYTES];
    codes_scales_name(w->name, name);
    for (uint32_t i = 0; i < c->count; i++)
        if (strcmp(c->weights[i].name, name) == 0) return c->weights[i].data;
    return NULL;
}

static const safetensors_entry *find(const safetensors *s, const char *name) {
    static const char prefix[] = "transformer."; /* which files may leave away */
    const safetensors_entry *e = safetensors_find(s, name);
    char filed[VIT_FILES_NAME_BYTES];
    if (!e && vit_files_name(name, filed)) return safetensors_find(s, filed);
    if (e || strncmp(name, prefix, sizeof prefix - 1) != 0) return e;
    return safetensors_find(s, name + sizeof prefix - 1);
}

static status check_entry(const conversion *c, const model_weight *w, const safetensors_entry *e) {
    char need[SHAPE_TEXT_BYTES];
    const char *path = c->file.files[0].path;
    shape should = w->panels ? panel_files_shape(w) : w->shape;
    if (!e)
        return status_set(STATUS_INVALID, "%s has no tensor '%s', which the model needs, of shape %s", path,
                          w->name, shape_text(&should, need));
    if (!safetensors_has_shape(e, &should))
        return status_set(STATUS_INVALID, "%s: the tensor '%s' is not of the shape %s that the model needs",
                          path, w->name, shape_text(&should, need));
    dtype from = safetensors_dtype(e->dtype);
    if (from == DTYPE_F32 || dtype_is_half(from)) return STATUS_OK;
    return status_set(STATUS_INVALID, "%s: the tensor '%s' is of type %s; weights are F32, BF16 or F16", path,
                      w->name, e->dtype);
}

/* The weight of panels that this is the scales of; NULL: it is none such. */
static const model_weight *panels_of(const conversion *c, const model_weight *scales) {
    size_t length = codes_scales_of(scales->name);
    for (uint32_t i = 0; length && i < c->count; i++) {
        const model_weight *w = &c->weights[i];
        if (w->panels && strlen(w->name) == length && strncmp(w->name, scales->name, length) == 0) return w;
    }
    return NULL;
}

static status prepare_scales(const conversion *c, const model_weight *of, safetensors_item *item,
                             passing *p) {
    *p = c->buffers;
    p->file = &c->file, p->weight = of, p->entry = find(&c->file, of->name);
    item->part = next_scales, item->context = p;
    return check_entry(c, of, p->entry);
}

static status prepare(conversion *c, uint32_t i, quantized_files_bytes *bytes) {
    const model_weight *w = &c->weights[i];
    safetensors_item *item = &c->items[i];
    passing *p = &c->passing[i];
    *item = (safetensors_item){ .name = w->name,
                                .dtype = safetensors_dtype_name(w->type),
                                .shape = w->shape,
                                .data = w->data,
                                .bytes = (uint64_t)shape_elements(&w->shape) * dtype_bytes(w->type) };
    if (w->data) return STATUS_OK;
    const model_weight *of = panels_of(c, w);
    if (of) return prepare_scales(c, of, item, p);
    *p = c->buffers;
    p->file = &c->file, p->weight = w, p->entry = find(&c->file, w->name);
    TRY(check_entry(c, w, p->entry));
    bytes->before += p->entry->bytes;
    item->part = next_part, item->context = p;
    if (w->panels) {
        item->part = next_panels;
        bytes->quantized++;
        return STATUS_OK;
    }
    if (w->type != DTYPE_I8) {
        item->dtype = p->entry->dtype, item->bytes = p->entry->bytes;
        return STATUS_OK;
    }
    p->matrix = (codes_matrix){ shape_rows(&w->shape), shape_last(&w->shape), w->by_rows, scales_of(c, w) };
    if (!p->matrix.scales) return status_set(STATUS_INVALID, "the codes of %s have no scales", w->name);
    bytes->quantized++;
    return find_scales(p);
}

static status check_all_used(const conversion *c) {
    bool *used = memory_new(c->file.count + 1, sizeof *used);
    if (!used) return status_set(STATUS_FAILED, "no memory to quantize a model");
    for (uint32_t i = 0; i < c->count; i++)
        if (c->passing[i].entry) used[c->passing[i].entry - c->file.entries] = true;
    status result = model_files_all_used(&c->file, used);
    memory_free(used);
    return result;
}

uint64_t quantized_files_held(const model_weight *weights, uint32_t count) {
    enum { ENTRY = 2 * sizeof(safetensors_entry) }; /* of the file that is read, while its list grows */
    uint64_t files = expert_files_count(weights, count), room = (uint64_t)room_for(weights, count);
    uint64_t bytes = room * (sizeof(float) + sizeof(uint16_t) + sizeof(int8_t)) +
                     files * (sizeof(passing) + sizeof(safetensors_item) + sizeof(model_weight) + ENTRY);
    if (files > count) bytes += files * EXPERT_FILES_BYTES;
    for (uint32_t i = 0; i < count; i++)
        if (codes_scales_of(weights[i].name) && weights[i].type == DTYPE_F32)
            bytes += weight_bytes(&weights[i]);
    return bytes;
}

static status make_room(conversion *c) {
    c->passing = memory_new(c->count, sizeof *c->passing);
    c->items = memory_new(c->count, sizeof *c->items);
    size_t room = (size_t)room_for(c->weights, c->count);
    c->buffers = (passing){ .wide = memory_new(room, sizeof(float)),
                            .narrow = memory_new(room, sizeof(uint16_t)),
                            .codes = memory_new(room, sizeof(int8_t)),
                            .room = (int64_t)room };
    const passing *b = &c->buffers;
    if (c->passing && c->items && b->wide && b->narrow && b->codes) return STATUS_OK;
    return status_set(STATUS_FAILED, "no memory to quantize a model");
}

static status convert(conversion *c, const char *path, quantized_files_bytes *bytes) {
    status result = make_room(c);
    for (uint32_t i = 0; i < c->count && result == STATUS_OK; i++) result = prepare(c, i, bytes);
    if (result == STATUS_OK) result = check_all_used(c);
    if (result == STATUS_OK) result = safetensors_write(path, c->items, c->count);
    for (uint32_t i = 0; i < c->count && result == STATUS_OK; i++) bytes->after += c->items[i].bytes;
    memory_free(c->passing);
    memory_free(c->items);
    memory_free(c->buffers.wide);
    memory_free(c->buffers.narrow);
    memory_free(c->buffers.codes);
    return result;
}

status quantized_files_convert(const char *from, const char *to, const model_weight *weights, uint32_t count,
                               quantized_files_bytes *bytes) {
    char path[PATH_BYTES];
    conversion c = { 0 };
    expert_files x;
    *bytes = (quantized_files_bytes){ 0 };
    if (snprintf(path, sizeof path, "%s/model.safetensors", to) >= (int)sizeof path)
        return status_set(STATUS_INVALID, "the path '%.60s...' is too long", to);
    TRY(safetensors_open(from, &c.file));
    status result = expert_files_list(expert_files_names(&c.file), weights, count, &x);
    if (result == STATUS_OK) {
        c.weights = x.weights, c.count = x.count;
        result = convert(&c, path, bytes);
        expert_files_close(&x);
    }
    safetensors_close(&c.file);
    return result;
}
