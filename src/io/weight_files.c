#include "io/weight_files.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/finite.h"
#include "base/half.h"
#include "base/memory.h"
#include "io/file.h"

/* Numbers of the file that are finite may be too large for 16 bits. */
static status check_fits(const safetensors *s, const safetensors_entry *e, const model_weight *w,
                         const float *x, int64_t n) {
    uint16_t narrow[WEIGHT_PART];
    if (!dtype_is_half(w->type)) return STATUS_OK;
    half_narrow(w->type, x, n, narrow);
    int64_t at = finite_find(w->type, narrow, n);
    if (at < 0) return STATUS_OK;
    return status_set(STATUS_INVALID,
                      "%s: tensor '%s' has %g, which is more than %s holds; keep the weights in f32",
                      s->files[e->file].path, e->name, (double)x[at], dtype_name(w->type));
}

/* ---- numbers of a tensor ---- */

static status read_wide(const weight_numbers *x, int64_t first, int64_t n, float *wide) {
    uint16_t half[WEIGHT_PART];
    dtype from = safetensors_dtype(x->e->dtype);
    uint64_t each = dtype_bytes(from);
    void *part = from == DTYPE_F32 ? (void *)wide : (void *)half;
    TRY(safetensors_read_part(x->s, x->e, (uint64_t)first * each, part, (uint64_t)n * each));
    if (from != DTYPE_F32) half_widen(from, half, n, wide);
    return STATUS_OK;
}

/* Row after row, in double. */
static status add_up(weight_numbers *x, double *sum) {
    float wide[WEIGHT_PART];
    for (int64_t i = 0; i < x->have; i += WEIGHT_PART) {
        int64_t n = x->have - i < WEIGHT_PART ? x->have - i : WEIGHT_PART;
        TRY(read_wide(x, i, n, wide));
        for (int64_t k = 0; k < n; k++) sum[(i + k) % x->columns] += (double)wide[k];
    }
    for (int64_t c = 0; c < x->columns; c++) x->mean[c] = (float)(sum[c] / (double)(x->have / x->columns));
    return STATUS_OK;
}

status weight_files_numbers(const safetensors *s, const safetensors_entry *e, const model_weight *w,
                            weight_numbers *x) {
    int64_t all = shape_elements(&w->shape);
    *x = (weight_numbers){ .s = s, .e = e, .have = all, .columns = 1 };
    if (!e->rank || !w->shape.rank || e->dim[0] >= w->shape.dim[0]) return STATUS_OK;
    x->columns = all / w->shape.dim[0];
    x->have = e->dim[0] * x->columns;
    double *sum = memory_new((size_t)x->columns, sizeof *sum);
    x->mean = memory_new((size_t)x->columns, sizeof *x->mean);
    status result = sum && x->mean
                        ? add_up(x, sum)
                        : status_set(STATUS_FAILED, "no memory for the mean of the rows of '%s'", w->name);
    memory_free(sum);
    if (result != STATUS_OK) weight_files_numbers_close(x);
    return result;
}

void weight_files_numbers_close(weight_numbers *x) {
    memory_free(x->mean);
    x->mean = NULL;
}

status weight_files_numbers_read(const weight_numbers *x, int64_t first, int64_t n, float *wide) {
    int64_t left = x->have > first ? x->have - first : 0, old = left < n ? left : n;
    if (old) TRY(read_wide(x, first, old, wide));
    for (int64_t k = old; k < n; k++) wide[k] = x->mean[(first + k) % x->columns];
    return STATUS_OK;
}

/* ---- weights ---- */

static status read_parts(const weight_numbers *x, const model_weight *w) {
    float wide[WEIGHT_PART];
    uint64_t each = dtype_bytes(w->type);
    for (int64_t i = 0, all = shape_elements(&w->shape); i < all; i += WEIGHT_PART) {
        int64_t n = all - i < WEIGHT_PART ? all - i : WEIGHT_PART;
        if (weight_is_elsewhere(w, (uint64_t)i * each, (uint64_t)n * each)) continue;
        TRY(weight_files_numbers_read(x, i, n, wide));
        TRY(check_fits(x->s, x->e, w, wide, n));
        TRY(weight_put(w, i, wide, n));
    }
    return STATUS_OK;
}

/* What the file holds as the weight does: into its own place, without a copy on the way. */
static status read_bytes(const safetensors *s, const safetensors_entry *e, const model_weight *w) {
    void *to;
    uint64_t bytes;
    for (uint64_t done = 0; done < e->bytes; done += bytes) {
        TRY(weight_room(w, done, &to, &bytes));
        if (bytes > e->bytes - done) bytes = e->bytes - done;
        if (weight_is_elsewhere(w, done, bytes)) continue; /* all of a part is one rank's */
        TRY(safetensors_read_part(s, e, done, to, bytes));
        TRY(weight_placed(w, done, to, bytes));
    }
    return STATUS_OK;
}

status weight_files_read(const safetensors *s, const safetensors_entry *e, const model_weight *w) {
    weight_numbers x;
    if (safetensors_dtype(e->dtype) == w->type && e->bytes == weight_bytes(w)) return read_bytes(s, e, w);
    TRY(weight_files_numbers(s, e, w, &x));
    status result = read_parts(&x, w);
    weight_files_numbers_close(&x);
    return result;
}

status weight_files_sum(const char *directory, bool early, io_sum *sum) {
    safetensors s;
    digest d = digest_begin();
    checksum c = checksum_begin();
    *sum = (io_sum){ .early = early };
    TRY(safetensors_open(directory, &s));
    status result = STATUS_OK;
    for (uint32_t i = 0; i < s.file_count && result == STATUS_OK; i++) {
        io_sum one = { 0 };
        result = io_sum_file(s.files[i].path, early, &one);
        uint64_t of[2] = { one.sum, one.bytes };
        sum->bytes += one.bytes;
        digest_add(&d, of, sizeof of);
        checksum_add(&c, of, sizeof of);
    }
    sum->sum = early ? digest_value(&d) : checksum_value(&c);
    safetensors_close(&s);
    return result;
}

enum { SAMPLES = 16, SAMPLE_BYTES = 256 };

/* All of a small tensor; of a larger one its first and its last bytes, and some between. */
static status add_entry(const safetensors *s, const safetensors_entry *e, digest *d) {
    unsigned char part[SAMPLES * SAMPLE_BYTES];
    digest_text(d, e->name);
    digest_text(d, e->dtype);
    digest_add(d, e->dim, e->rank * sizeof *e->dim);
    if (e->bytes <= sizeof part) {
        TRY(safetensors_read_bytes(s, e, 0, part, e->bytes));
        digest_add(d, part, e->bytes);
        return STATUS_OK;
    }
    for (uint64_t k = 0; k < SAMPLES; k++) {
        uint64_t at = (uint64_t)((__uint128_t)(e->bytes - SAMPLE_BYTES) * k / (SAMPLES - 1));
        TRY(safetensors_read_bytes(s, e, at, part + k * SAMPLE_BYTES, SAMPLE_BYTES));
    }
    digest_add(d, part, sizeof part);
    return STATUS_OK;
}

status weight_files_digest(const char *directory, uint64_t *value) {
    safetensors s;
    digest d = digest_begin();
    TRY(safetensors_open(directory, &s));
    status result = STATUS_OK;
    for (uint32_t i = 0; i < s.count && result == STATUS_OK; i++) result = add_entry(&s, &s.entries[i], &d);
    *value = digest_value(&d);
    safetensors_close(&s);
    return result;
}

status weight_files_held(const char *path, uint64_t *bytes) {
    enum { RESERVED = 1 << 20 };
    TRY(safetensors_held(path, bytes));
    *bytes = *bytes > RESERVED ? *bytes - RESERVED : 0;
    return STATUS_OK;
}

status weight_files_type(const char *path, dtype *type) {
    safetensors s;
    *type = DTYPE_NONE;
    TRY(safetensors_open(path, &s));
    bool differ = false;
    for (uint32_t i = 0; i < s.count; i++) {
        dtype own = safetensors_dtype(s.entries[i].dtype);
        if (s.entries[i].rank < 2 || (own != DTYPE_F32 && !dtype_is_half(own))) continue;
        differ |= *type && *type != own;
        *type = own;
    }
    if (differ) *type = DTYPE_NONE;
    safetensors_close(&s);
    return STATUS_OK;
}

const char *weight_files_in(const char *folder) {
    static const char *const names[] = { "model.safetensors", "model.safetensors.index.json",
                                         "adapter_model.safetensors", "config.json" };
    char path[4096];
    struct stat about;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (snprintf(path, sizeof path, "%s/%s", folder, names[i]) < (int)sizeof path &&
            stat(path, &about) == 0 && S_ISREG(about.st_mode))
            return names[i];
    return NULL;
}

status weight_files_check_vacant(const char *folder) {
    const char *name = weight_files_in(folder);
    if (!name) return STATUS_OK;
    return status_set(STATUS_INVALID,
                      "--out %s holds a model already (%s); name another folder, or remove it", folder, name);
}

static void withdraw(const weight_files_writing *w) {
    static const char *const names[] = { "model.safetensors", "config.json" };
    char path[4096];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (snprintf(path, sizeof path, "%s/%s", w->folder, names[i]) < (int)sizeof path) unlink(path);
}

/* Lets the folder go; where nothing was written, one that was made goes too. */
static void leave(weight_files_writing *w, status written) {
    lock_close(&w->lock);
    if (written != STATUS_OK && w->made) rmdir(w->folder); /* fails where something is in it */
}

static status hold(weight_files_writing *w) {
    char path[4096];
    if (snprintf(path, sizeof path, "%s/" LOCK_OF_FOLDER, w->folder) >= (int)sizeof path)
        return status_set(STATUS_INVALID, "the path '%.60s...' is too long", w->folder);
    TRY(lock_open(path, &w->lock));
    return weight_files_check_vacant(w->folder); /* another may have written before it was locked */
}

status weight_files_begin(const char *folder, weight_files_writing *w) {
    struct stat about;
    *w = (weight_files_writing){ .folder = folder, .lock.file = -1, .made = stat(folder, &about) != 0 };
    TRY(io_make_folder(folder));
    status result = hold(w);
    if (result != STATUS_OK) leave(w, result);
    return result;
}

status weight_files_end(weight_files_writing *w, status written) {
    if (written != STATUS_OK) withdraw(w);
    leave(w, written);
    return written;
}

static status next_part(void *context, uint64_t first, const void **data, uint64_t *bytes) {
    void *at;
    TRY(weight_view(context, first, &at, bytes));
    *data = at;
    return STATUS_OK;
}

safetensors_item weight_files_item(const model_weight *w, const char *name) {
    return (safetensors_item){ .name = name,
                               .dtype = safetensors_dtype_name(w->type),
                               .shape = w->shape,
                               .data = w->data,
                               .part = w->data ? NULL : next_part,
                               .context = (void *)w,
                               .bytes = weight_bytes(w) };
}

static status next_cast(void *context, uint64_t first, const void **data, uint64_t *bytes) {
    const weight_files_cast *to = context;
    float part[WEIGHT_PART];
    int64_t each = dtype_bytes(to->type), at = (int64_t)first / each,
            all = shape_elements(&to->weight->shape), n = all - at < WEIGHT_PART ? all - at : WEIGHT_PART;
    TRY(weight_get(to->weight, at, n, part));
    if (dtype_is_half(to->type))
        half_narrow(to->type, part, n, to->block);
    else
        memcpy(to->block, part, (size_t)n * sizeof *part);
    *data = to->block, *bytes = (uint64_t)(n * each);
    return STATUS_OK;
}

safetensors_item weight_files_item_as(const weight_files_cast *to, const char *name) {
    const shape *s = &to->weight->shape;
    return (safetensors_item){ .name = name,
                               .dtype = safetensors_dtype_name(to->type),
                               .shape = *s,
                               .part = next_cast,
                               .context = (void *)to,
                               .bytes = (uint64_t)(shape_elements(s) * dtype_bytes(to->type)) };
}
