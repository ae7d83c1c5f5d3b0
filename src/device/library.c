#include "device/library.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "base/hash.h"
#include "base/memory.h"
#include "device/library_calls.h"
#include "device/library_file.h"

/* The products of a model are few, since layers repeat; those of a search are as many for each micro-batch.
 */
enum { BUCKETS = 512 };

/* A product that the library was asked for, with what describes it there: made once, so that a call makes
 * none, and kept as long as the library is open, which is until the process ends. */
typedef struct known_product {
    struct known_product *next; /* of its bucket */
    library_product of;
    library_answer answer;
    library_algorithm algorithm;
    library_handle desc, a, b, y;
} known_product;

static struct {
    void *library;
#define CALL(name, arguments) int(*name) arguments;
    LIBRARY_CALLS(CALL)
#undef CALL
    const char *(*words)(int result);
    library_handle handle;
    void *stream;
    char name[LIBRARY_NAME_BYTES];
    known_product *known[BUCKETS];
    char failed[160];
} own;

static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER; /* of what is known */

/* ---- opening ---- */

static const library_call calls[] = {
#define CALL(name, arguments) { "cublasLt" #name, &own.name },
    LIBRARY_CALLS(CALL)
#undef CALL
        { "cublasLtGetStatusString", &own.words },
};

static const library_file file = { .title = "cuBLASLt",
                                   .called = "libcublasLt",
                                   .package = "libcublas",
                                   .files = { "libcublasLt.so.13", "libcublasLt.so.12" },
                                   .version_call = "cublasLtGetVersion",
                                   .least_version = 12 };

status library_open(void *stream, bool emulated) {
    char name[LIBRARY_NAME_BYTES];
    if (own.name[0]) return STATUS_OK;
    TRY(library_file_open(&file, emulated, calls, sizeof calls / sizeof *calls, &own.library, name));
    int result = own.Create(&own.handle);
    if (result != 0) {
        status refused = status_set(STATUS_INVALID, "cuBLASLt can't begin: %s", own.words(result));
        library_file_close(&own.library);
        return refused;
    }
    own.stream = stream;
    memcpy(own.name, name, sizeof name);
    return STATUS_OK;
}

const char *library_name(void) { return own.name; }

/* ---- choosing ---- */

static int type_of(int32_t type) {
    return type == DTYPE_F32 ? LIBRARY_F32 : type == DTYPE_F16 ? LIBRARY_F16 : LIBRARY_BF16;
}

static bool is_of_types(const library_product *p) {
    bool known = p->type == DTYPE_F32 || p->type == DTYPE_BF16 || p->type == DTYPE_F16;
    bool result = p->result == p->type || p->result == DTYPE_F32;
    return known && result && (p->bias == DTYPE_NONE || p->bias == p->result);
}

/* A line of each matrix, as it lies in memory, is whole units of 16 bytes. */
static bool is_in_place(const library_product *p) {
    int64_t of_a = (p->ta ? p->rows : p->depth) * dtype_bytes((dtype)p->type);
    int64_t of_b = (p->tb ? p->depth : p->columns) * dtype_bytes((dtype)p->type);
    int64_t of_y = p->columns * dtype_bytes((dtype)p->result);
    return of_a % LIBRARY_ALIGNMENT == 0 && of_b % LIBRARY_ALIGNMENT == 0 && of_y % LIBRARY_ALIGNMENT == 0;
}

/* The library's matrices lie column by column. A matrix of ours, read so, is transposed: it makes
 * y^T = op(b)^T op(a)^T, its A is our b, and neither is moved. The bias goes along its rows, our columns. */
static bool describe(const library_product *p, known_product *k) {
    int of_a = p->tb != 0 ? LIBRARY_TRANSPOSED : 0, of_b = p->ta != 0 ? LIBRARY_TRANSPOSED : 0;
    int type = type_of(p->type), result = type_of(p->result);
    int end = p->bias ? LIBRARY_END_BIAS : LIBRARY_END_PLAIN;
    uint64_t rows = (uint64_t)p->rows, columns = (uint64_t)p->columns, depth = (uint64_t)p->depth;
    bool good = own.MatmulDescCreate(&k->desc, LIBRARY_COMPUTE_F32, LIBRARY_F32) == 0;
    good = good && own.MatmulDescSetAttribute(k->desc, LIBRARY_DESC_TRANSPOSE_A, &of_a, sizeof of_a) == 0;
    good = good && own.MatmulDescSetAttribute(k->desc, LIBRARY_DESC_TRANSPOSE_B, &of_b, sizeof of_b) == 0;
    good = good && own.MatmulDescSetAttribute(k->desc, LIBRARY_DESC_END, &end, sizeof end) == 0;
    if (p->bias)
        good =
            good && own.MatmulDescSetAttribute(k->desc, LIBRARY_DESC_BIAS_TYPE, &result, sizeof result) == 0;
    if (p->tb)
        good = good && own.MatrixLayoutCreate(&k->a, type, depth, columns, p->depth) == 0;
    else
        good = good && own.MatrixLayoutCreate(&k->a, type, columns, depth, p->columns) == 0;
    if (p->ta)
        good = good && own.MatrixLayoutCreate(&k->b, type, rows, depth, p->rows) == 0;
    else
        good = good && own.MatrixLayoutCreate(&k->b, type, depth, rows, p->depth) == 0;
    return good && own.MatrixLayoutCreate(&k->y, result, columns, rows, p->columns) == 0;
}

/* No reduction of parts, and operands at multiples of 16 bytes. */
static bool prefer(library_handle preference) {
    uint64_t workspace = LIBRARY_WORKSPACE;
    uint32_t none = 0, alignment = LIBRARY_ALIGNMENT;
    bool good =
        own.MatmulPreferenceSetAttribute(preference, LIBRARY_PREFERS_WORKSPACE, &workspace,
                                         sizeof workspace) == 0 &&
        own.MatmulPreferenceSetAttribute(preference, LIBRARY_PREFERS_REDUCTIONS, &none, sizeof none) == 0;
    for (int i = 0; i < 4; i++)
        good = good && own.MatmulPreferenceSetAttribute(preference, LIBRARY_PREFERS_ALIGNMENT + i, &alignment,
                                                        sizeof alignment) == 0;
    return good;
}

/* What an older version does not know it is not asked to have. */
static bool is_whole(const library_found *f) {
    int32_t splits = 0;
    uint32_t reduces = 0;
    size_t written;
    bool knows = own.MatmulAlgoConfigGetAttribute(&f->way, LIBRARY_WAY_SPLITS, &splits, sizeof splits,
                                                  &written) == 0 &&
                 own.MatmulAlgoConfigGetAttribute(&f->way, LIBRARY_WAY_REDUCES, &reduces, sizeof reduces,
                                                  &written) == 0;
    return knows && (splits == 0 || splits == 1) && reduces == 0 && f->workspace_bytes <= LIBRARY_WORKSPACE;
}

/* In the order of the heuristic, which is of speed as it guesses it. */
static library_answer find_way(known_product *k) {
    enum { WANTED = 16 };
    library_found found[WANTED] = { 0 };
    library_handle preference = NULL;
    int count = 0;
    if (own.MatmulPreferenceCreate(&preference) != 0) return LIBRARY_NO_WAY;
    bool asked = prefer(preference) && own.MatmulAlgoGetHeuristic(own.handle, k->desc, k->a, k->b, k->y, k->y,
                                                                  preference, WANTED, found, &count) == 0;
    own.MatmulPreferenceDestroy(preference);
    for (int i = 0; asked && i < count; i++) {
        if (found[i].state != 0 || !is_whole(&found[i])) continue;
        memcpy(k->algorithm.words, found[i].way.words, sizeof k->algorithm.words);
        k->algorithm.workspace_bytes = found[i].workspace_bytes;
        return LIBRARY_MAKES;
    }
    return LIBRARY_NO_WAY;
}

static known_product **bucket_of(const library_product *p) {
    return &own.known[hash_bytes(p, sizeof *p) % BUCKETS];
}

static known_product *find_known(const library_product *p) {
    known_product *k = *bucket_of(p);
    while (k && memcmp(&k->of, p, sizeof *p) != 0) k = k->next;
    return k;
}

/* NULL: there is no memory. */
static const known_product *ask(const library_product *p) {
    known_product *k = find_known(p), **bucket = bucket_of(p);
    if (k) return k;
    k = memory_new(1, sizeof *k);
    if (!k) return NULL;
    k->of = *p, k->next = *bucket;
    k->answer = describe(p, k) ? find_way(k) : LIBRARY_NO_WAY;
    *bucket = k;
    return k;
}

library_answer library_choose(const library_product *p, library_algorithm *out) {
    *out = (library_algorithm){ 0 };
    if (!own.name[0]) return LIBRARY_NO_WAY;
    if (!is_of_types(p)) return LIBRARY_TYPES;
    if (!is_in_place(p)) return LIBRARY_PLACES;
    pthread_mutex_lock(&one);
    const known_product *k = ask(p);
    library_answer answer = k ? k->answer : LIBRARY_NO_WAY;
    if (answer == LIBRARY_MAKES) *out = k->algorithm;
    pthread_mutex_unlock(&one);
    return answer;
}

/* ---- multiplying ---- */

static void heed(const char *why) {
    if (!own.failed[0]) snprintf(own.failed, sizeof own.failed, "%s", why);
}

static bool is_aligned(const void *at) { return (uintptr_t)at % LIBRARY_ALIGNMENT == 0; }

void library_multiply(const library_product *p, const library_algorithm *a, const library_operands *at) {
    const float none = 0, whole = 1;
    pthread_mutex_lock(&one);
    known_product *k = find_known(p);
    pthread_mutex_unlock(&one);
    library_way way;
    if (!k || k->answer != LIBRARY_MAKES) {
        heed("a product was planned by another process's algorithm");
        return;
    }
    if (!is_aligned(at->a) || !is_aligned(at->b) || !is_aligned(at->y) || !is_aligned(at->added) ||
        !is_aligned(at->bias)) {
        heed("an operand does not begin at a multiple of 16 bytes");
        return;
    }
    memcpy(way.words, a->words, sizeof way.words);
    int result = 0;
    if (p->bias) result = own.MatmulDescSetAttribute(k->desc, LIBRARY_DESC_BIAS, &at->bias, sizeof at->bias);
    if (result == 0)
        result = own.Matmul(own.handle, k->desc, &whole, at->b, k->a, at->a, k->b,
                            p->addition ? &whole : &none, p->addition ? at->added : at->y, k->y, at->y, k->y,
                            &way, at->workspace, a->workspace_bytes, own.stream);
    if (result != 0) heed(own.words(result));
}

status library_failed(void) {
    return own.failed[0] ? status_set(STATUS_FAILED, "%s: %s", own.name, own.failed) : STATUS_OK;
}
