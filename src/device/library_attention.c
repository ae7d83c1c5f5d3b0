#include "device/library_attention.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "base/dtype.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/units.h"
#include "device/library_attention_calls.h"
#include "device/library_file.h"

typedef library_attention_handle handle;

enum { BUCKETS = 64, WORKSPACE_ALIGNMENT = 256, PLAN_ALIGNMENT = 64 };

/* An attention that the library was asked for, and the plan that makes it, where it was prepared: kept as
 * long as the library is open, which is until the process ends. */
typedef struct known_attention {
    struct known_attention *next; /* of its bucket */
    library_attention of;
    library_attention_answer answer;
    library_algorithm algorithm;
    handle plan;
} known_attention;

static struct {
    void *library;
#define CALL(name, arguments) int(*name) arguments;
    LIBRARY_ATTENTION_CALLS(CALL)
#undef CALL
    const char *(*words)(int result);
    handle handle;
    char name[LIBRARY_NAME_BYTES];
    known_attention *known[BUCKETS];
    char failed[160];
} own;

static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER; /* of what is known */

/* ---- opening ---- */

static const library_call calls[] = {
#define CALL(name, arguments) { "cudnn" #name, &own.name },
    LIBRARY_ATTENTION_CALLS(CALL)
#undef CALL
        { "cudnnGetErrorString", &own.words },
};

static const library_file file = { .title = "cuDNN",
                                   .called = "libcudnn",
                                   .package = "libcudnn9",
                                   .files = { "libcudnn.so.9" },
                                   .version_call = "cudnnGetVersion",
                                   .least_version = 9 };

static status begin(void *stream) {
    int result = own.Create(&own.handle);
    if (result != 0) return status_set(STATUS_INVALID, "cuDNN can't begin: %s", own.words(result));
    result = own.SetStream(own.handle, stream);
    if (result == 0) return STATUS_OK;
    STATUS_IGNORED(own.Destroy(own.handle)); /* the sentence is of what failed before */
    return status_set(STATUS_INVALID, "cuDNN takes no stream: %s", own.words(result));
}

status library_attention_open(void *stream, bool emulated) {
    char name[LIBRARY_NAME_BYTES];
    if (own.name[0]) return STATUS_OK;
    TRY(library_file_open(&file, emulated, calls, sizeof calls / sizeof *calls, &own.library, name));
    status result = begin(stream);
    if (result == STATUS_OK)
        memcpy(own.name, name, sizeof name);
    else
        library_file_close(&own.library);
    return result;
}

const char *library_attention_name(void) { return own.name; }

/* ---- a graph of operations ---- */

/* Tensors in memory by their names there; those that have no place follow. */
enum { Q = 1, K, V, Y, LOGARITHMS, DY, DQ, DK, DV, SUMS, SCALE, NOTHING, ONE, FIRST_VIRTUAL = 100 };

typedef enum { IN_MEMORY, VIRTUAL, BY_VALUE } place;

typedef struct {
    int64_t of[4];
} four;

/* Four dimensions: samples, heads, rows and columns. */
typedef struct {
    handle at;
    four size, step;
    int type;
} piece;

enum { MOST_HANDLES = 256, MOST_OPERATIONS = 32 };

typedef struct {
    handle all[MOST_HANDLES]; /* that are there until the plan is made */
    int count;
    handle operations[MOST_OPERATIONS];
    int operation_count;
    int64_t name; /* of the next tensor without a place */
    bool good;    /* so far */
} drawing;

static handle make(drawing *d, int type) {
    handle made = NULL;
    d->good = d->good && d->count < MOST_HANDLES && own.BackendCreateDescriptor(type, &made) == 0;
    if (d->good) d->all[d->count++] = made;
    return made;
}

static void set(drawing *d, handle at, int which, int type, int64_t count, const void *values) {
    d->good = d->good && own.BackendSetAttribute(at, which, type, count, values) == 0;
}

static void set_handle(drawing *d, handle at, int which, handle to) {
    set(d, at, which, DNN_IS_DESCRIPTOR, 1, &to);
}

static void set_type(drawing *d, handle at, int which, int type) { set(d, at, which, DNN_IS_TYPE, 1, &type); }

static void finish(drawing *d, handle at) { d->good = d->good && own.BackendFinalize(at) == 0; }

static void add_operation(drawing *d, handle at) {
    finish(d, at);
    d->good = d->good && d->operation_count < MOST_OPERATIONS;
    if (d->good) d->operations[d->operation_count++] = at;
}

static void forget(drawing *d) {
    while (d->count) /* what can't be destroyed stays, as all would without this */
        STATUS_IGNORED(own.BackendDestroyDescriptor(d->all[--d->count]));
}

/* `name` 0: it has no place. */
static piece tensor(drawing *d, int64_t name, place in, int type, four size, four step) {
    piece x = { make(d, DNN_TENSOR), size, step, type };
    int64_t alignment = in == BY_VALUE ? (int64_t)sizeof(float) : LIBRARY_ALIGNMENT;
    bool is_virtual = in == VIRTUAL, by_value = in == BY_VALUE;
    int64_t own_name = name ? name : d->name++;
    set(d, x.at, DNN_TENSOR_NAME, DNN_IS_INT64, 1, &own_name);
    set_type(d, x.at, DNN_TENSOR_TYPE, type);
    set(d, x.at, DNN_TENSOR_DIMENSIONS, DNN_IS_INT64, 4, size.of);
    set(d, x.at, DNN_TENSOR_STRIDES, DNN_IS_INT64, 4, step.of);
    set(d, x.at, DNN_TENSOR_ALIGNMENT, DNN_IS_INT64, 1, &alignment);
    set(d, x.at, DNN_TENSOR_VIRTUAL, DNN_IS_BOOLEAN, 1, &is_virtual);
    set(d, x.at, DNN_TENSOR_BY_VALUE, DNN_IS_BOOLEAN, 1, &by_value);
    finish(d, x.at);
    return x;
}

static piece whole(drawing *d, int64_t name, int type, four n) {
    four step = { { n.of[1] * n.of[2] * n.of[3], n.of[2] * n.of[3], n.of[3], 1 } };
    return tensor(d, name, name ? IN_MEMORY : VIRTUAL, type, n, step);
}

static piece like(drawing *d, piece x, int type) { return tensor(d, 0, VIRTUAL, type, x.size, x.step); }

static piece number(drawing *d, int64_t name) {
    const four single = { { 1, 1, 1, 1 } };
    return tensor(d, name, BY_VALUE, DNN_F32, single, single);
}

static four turned(four x) { return (four){ { x.of[0], x.of[1], x.of[3], x.of[2] } }; }

static void multiply(drawing *d, piece a, piece b, piece c) {
    handle how = make(d, DNN_MATMUL), at = make(d, DNN_OF_MATMUL);
    set_type(d, how, DNN_MATMUL_PRECISION, DNN_F32);
    finish(d, how);
    set_handle(d, at, DNN_OF_MATMUL_A, a.at);
    set_handle(d, at, DNN_OF_MATMUL_B, b.at);
    set_handle(d, at, DNN_OF_MATMUL_C, c.at);
    set_handle(d, at, DNN_OF_MATMUL_HOW, how);
    add_operation(d, at);
}

typedef struct {
    int mode, result;      /* result: the type that is computed in */
    int64_t axis;          /* of DNN_INDEX */
    const piece *b, *keep; /* NULL: none */
} pointwise;

static piece apply(drawing *d, pointwise how, piece x, piece y) {
    handle mode = make(d, DNN_POINTWISE), at = make(d, DNN_OF_POINTWISE);
    set(d, mode, DNN_POINTWISE_MODE, DNN_IS_MODE_OF_POINTWISE, 1, &how.mode);
    set_type(d, mode, DNN_POINTWISE_PRECISION, how.result);
    if (how.axis) set(d, mode, DNN_POINTWISE_AXIS, DNN_IS_INT64, 1, &how.axis);
    finish(d, mode);
    set_handle(d, at, DNN_OF_POINTWISE_MODE, mode);
    set_handle(d, at, DNN_OF_POINTWISE_X, x.at);
    if (how.b) set_handle(d, at, DNN_OF_POINTWISE_B, how.b->at);
    if (how.keep) set_handle(d, at, DNN_OF_POINTWISE_T, how.keep->at);
    set_handle(d, at, DNN_OF_POINTWISE_Y, y.at);
    add_operation(d, at);
    return y;
}

/* mode(x, b), of x's shape, without a place. */
static piece with(drawing *d, int mode, piece x, const piece *b) {
    return apply(d, (pointwise){ .mode = mode, .b = b }, x, like(d, x, DNN_F32));
}

static void reduce(drawing *d, int by, piece x, piece y) {
    handle how = make(d, DNN_REDUCTION), at = make(d, DNN_OF_REDUCTION);
    set(d, how, DNN_REDUCTION_OPERATOR, DNN_IS_REDUCTION, 1, &by);
    set_type(d, how, DNN_REDUCTION_PRECISION, DNN_F32);
    finish(d, how);
    set_handle(d, at, DNN_OF_REDUCTION_X, x.at);
    set_handle(d, at, DNN_OF_REDUCTION_Y, y.at);
    set_handle(d, at, DNN_OF_REDUCTION_HOW, how);
    add_operation(d, at);
}

/* The same numbers, rows as columns. */
static piece turn(drawing *d, piece x) {
    handle at = make(d, DNN_OF_RESHAPE);
    piece y = tensor(d, 0, VIRTUAL, x.type, turned(x.size), turned(x.step));
    set_handle(d, at, DNN_OF_RESHAPE_X, x.at);
    set_handle(d, at, DNN_OF_RESHAPE_Y, y.at);
    add_operation(d, at);
    return y;
}

/* ---- attention as such a graph ---- */

static int type_of(const library_attention *p) { return p->type == DTYPE_F16 ? DNN_F16 : DNN_BF16; }

/* Numbers from one row of a matrix to the next. */
static int64_t row_of(const library_attention *p, int64_t name) {
    int64_t queries = p->heads * p->size, keys = p->kv_heads * p->size;
    if (name == Y || name == DY) return queries;
    if (p->packed) return queries + 2 * keys;
    return name == Q || name == DQ ? queries : keys;
}

static piece operand(drawing *d, const library_attention *p, int64_t name) {
    bool of_queries = name == Q || name == DQ || name == Y || name == DY;
    int64_t heads = of_queries ? p->heads : p->kv_heads, rows = of_queries ? p->queries : p->keys;
    int64_t step = row_of(p, name);
    return tensor(d, name, IN_MEMORY, type_of(p), (four){ { p->batch, heads, rows, p->size } },
                  (four){ { rows * step, p->size, step, 1 } });
}

/* Keys or values with a column for each of them. */
static piece operand_turned(drawing *d, const library_attention *p, int64_t name) {
    int64_t step = row_of(p, name);
    return tensor(d, name, IN_MEMORY, type_of(p), (four){ { p->batch, p->kv_heads, p->size, p->keys } },
                  (four){ { p->keys * step, p->size, 1, step } });
}

static four of_scores(const library_attention *p) {
    return (four){ { p->batch, p->heads, p->queries, p->keys } };
}

static four of_queries(const library_attention *p) { return (four){ { p->batch, p->heads, p->queries, 1 } }; }

/* Minus infinity where a query does not see a key. */
static piece sighted(drawing *d, const library_attention *p, piece scores) {
    if (!p->causal) return scores;
    pointwise index = { .mode = DNN_INDEX, .result = DNN_I32, .axis = 2 };
    piece query = apply(d, index, scores, like(d, scores, DNN_I32));
    index.axis = 3;
    piece key = apply(d, index, scores, like(d, scores, DNN_I32));
    piece sees = apply(d, (pointwise){ .mode = DNN_IS_AT_LEAST, .result = DNN_BOOLEAN, .b = &key }, query,
                       like(d, scores, DNN_BOOLEAN));
    piece nothing = number(d, NOTHING);
    return apply(d, (pointwise){ .mode = DNN_SELECT, .b = &nothing, .keep = &sees }, scores,
                 like(d, scores, DNN_F32));
}

static piece scaled_scores(drawing *d, const library_attention *p, piece q, piece keys, piece scale) {
    piece scores = whole(d, 0, DNN_F32, of_scores(p));
    multiply(d, q, keys, scores);
    return with(d, DNN_MULTIPLY, scores, &scale);
}

static void draw_forward(drawing *d, const library_attention *p) {
    piece q = operand(d, p, Q), keys = operand_turned(d, p, K), v = operand(d, p, V), y = operand(d, p, Y);
    piece scores = sighted(d, p, scaled_scores(d, p, q, keys, number(d, SCALE)));
    piece top = whole(d, 0, DNN_F32, of_queries(p)), sum = whole(d, 0, DNN_F32, of_queries(p));
    reduce(d, DNN_REDUCE_MAX, scores, top);
    piece powers = with(d, DNN_EXP, with(d, DNN_SUBTRACT, scores, &top), NULL);
    reduce(d, DNN_REDUCE_ADD, powers, sum);
    piece logarithm = with(d, DNN_LOG, sum, NULL);
    apply(d, (pointwise){ .mode = DNN_ADD, .b = &logarithm }, top,
          whole(d, LOGARITHMS, DNN_F32, of_queries(p)));
    piece shares =
        apply(d, (pointwise){ .mode = DNN_DIVIDE, .b = &sum }, powers, like(d, powers, type_of(p)));
    multiply(d, shares, v, y);
}

/* a b into the gradient `name` of keys or values: the heads that share one are added. */
static void add_heads(drawing *d, const library_attention *p, piece a, piece b, int64_t name) {
    piece to = operand(d, p, name);
    if (p->heads == p->kv_heads) {
        multiply(d, a, b, to);
        return;
    }
    piece each = whole(d, 0, type_of(p), (four){ { p->batch, p->heads, p->keys, p->size } });
    multiply(d, a, b, each);
    reduce(d, DNN_REDUCE_ADD, each, to);
}

/* The sum of y dy over a head's numbers, for each query: in memory, as the library has it. */
static piece draw_sums(drawing *d, const library_attention *p, piece dy) {
    piece y = operand(d, p, Y), sum = whole(d, 0, DNN_F32, of_queries(p)), single = number(d, ONE);
    reduce(d, DNN_REDUCE_ADD, with(d, DNN_MULTIPLY, dy, &y), sum);
    return apply(d, (pointwise){ .mode = DNN_MULTIPLY, .b = &single }, sum,
                 whole(d, SUMS, DNN_F32, of_queries(p)));
}

static void draw_gradient(drawing *d, const library_attention *p) {
    piece q = operand(d, p, Q), keys = operand_turned(d, p, K), values = operand_turned(d, p, V);
    piece dy = operand(d, p, DY), scale = number(d, SCALE);
    piece logarithms = whole(d, LOGARITHMS, DNN_F32, of_queries(p)), sums = draw_sums(d, p, dy);
    piece scores = with(d, DNN_SUBTRACT, scaled_scores(d, p, q, keys, scale), &logarithms);
    piece shares = with(d, DNN_EXP, sighted(d, p, scores), NULL);
    add_heads(d, p, turn(d, shares), dy, DV);
    piece slopes = whole(d, 0, DNN_F32, of_scores(p));
    multiply(d, dy, values, slopes);
    slopes = with(d, DNN_MULTIPLY, with(d, DNN_SUBTRACT, slopes, &sums), &shares);
    slopes = apply(d, (pointwise){ .mode = DNN_MULTIPLY, .b = &scale }, slopes, like(d, slopes, type_of(p)));
    add_heads(d, p, turn(d, slopes), q, DK);
    multiply(d, slopes, turn(d, keys), operand(d, p, DQ));
}

/* ---- choosing ---- */

enum { ENGINES = 16, KNOBS = 64 };

/* The graph is whole: what the heuristic names for it, first what it guesses to be fastest. */
static int list_engines(drawing *d, handle configurations[ENGINES]) {
    int mode = DNN_HEURISTIC_A;
    int64_t count = 0;
    handle graph = make(d, DNN_GRAPH), heuristic = make(d, DNN_HEURISTIC);
    set(d, graph, DNN_GRAPH_HANDLE, DNN_IS_HANDLE, 1, &own.handle);
    set(d, graph, DNN_GRAPH_OPERATIONS, DNN_IS_DESCRIPTOR, d->operation_count, d->operations);
    finish(d, graph);
    set_handle(d, heuristic, DNN_HEURISTIC_GRAPH, graph);
    set(d, heuristic, DNN_HEURISTIC_MODE, DNN_IS_MODE_OF_HEURISTIC, 1, &mode);
    finish(d, heuristic);
    for (int i = 0; i < ENGINES; i++) configurations[i] = make(d, DNN_CONFIGURATION);
    d->good = d->good && own.BackendGetAttribute(heuristic, DNN_HEURISTIC_RESULTS, DNN_IS_DESCRIPTOR, ENGINES,
                                                 &count, configurations) == 0;
    return d->good ? (int)(count < ENGINES ? count : ENGINES) : 0;
}

/* Does it say so, and that its results are always the same? */
static bool keeps_bits(handle engine) {
    int notes[DNN_NOTES];
    int64_t count = 0;
    if (own.BackendGetAttribute(engine, DNN_ENGINE_NUMERICAL_NOTES, DNN_IS_NUMERICAL_NOTE, DNN_NOTES, &count,
                                notes) != 0)
        return false;
    for (int64_t i = 0; i < count && i < DNN_NOTES; i++)
        if (notes[i] == DNN_NOTE_OTHER_BITS) return false;
    return count <= DNN_NOTES;
}

static bool get_integer(handle of, int which, int64_t *value) {
    int64_t count = 0;
    return own.BackendGetAttribute(of, which, DNN_IS_INT64, 1, &count, value) == 0 && count == 1;
}

/* What the configuration is, beside its engine. */
static bool digest_knobs(drawing *d, handle configuration, uint64_t *value) {
    handle knobs[KNOBS];
    int64_t count = 0, types = 0;
    digest of = digest_begin();
    for (int i = 0; i < KNOBS; i++) knobs[i] = make(d, DNN_KNOB);
    bool good = d->good && own.BackendGetAttribute(configuration, DNN_CONFIGURATION_KNOBS, DNN_IS_DESCRIPTOR,
                                                   KNOBS, &count, knobs) == 0;
    for (int64_t i = 0; good && i < count && i < KNOBS; i++) {
        int type = 0;
        int64_t chosen = 0;
        good = own.BackendGetAttribute(knobs[i], DNN_KNOB_TYPE, DNN_IS_KNOB, 1, &types, &type) == 0 &&
               get_integer(knobs[i], DNN_KNOB_VALUE, &chosen);
        digest_add(&of, &type, sizeof type), digest_add(&of, &chosen, sizeof chosen);
    }
    *value = digest_value(&of);
    return good && count <= KNOBS;
}

/* Is it one to be taken? Then `way` is what it is. */
static bool describe(drawing *d, handle configuration, library_algorithm *way) {
    handle engine = make(d, DNN_ENGINE);
    int64_t count = 0, index = 0, workspace = 0;
    bool good = d->good && own.BackendGetAttribute(configuration, DNN_CONFIGURATION_ENGINE, DNN_IS_DESCRIPTOR,
                                                   1, &count, &engine) == 0;
    if (!good || !keeps_bits(engine) || !get_integer(engine, DNN_ENGINE_INDEX, &index)) return false;
    if (!get_integer(configuration, DNN_CONFIGURATION_WORKSPACE, &workspace) || workspace < 0) return false;
    way->words[0] = (uint64_t)index, way->workspace_bytes = (uint64_t)workspace;
    return digest_knobs(d, configuration, &way->words[1]);
}

/* The first that is to be taken; NULL: there is none. It lives as long as the drawing's handles. */
static handle find_configuration(drawing *d, const library_attention *p, library_algorithm *way) {
    handle configurations[ENGINES];
    *d = (drawing){ .good = true, .name = FIRST_VIRTUAL };
    if (p->gradient)
        draw_gradient(d, p);
    else
        draw_forward(d, p);
    int count = list_engines(d, configurations);
    for (int i = 0; i < count; i++) {
        *way = (library_algorithm){ 0 };
        if (describe(d, configurations[i], way)) return configurations[i];
    }
    return NULL;
}

static library_attention_answer find_way(known_attention *k) {
    drawing *d = memory_new(1, sizeof *d);
    if (!d) return LIBRARY_ATTENTION_NO_WAY;
    bool found = find_configuration(d, &k->of, &k->algorithm) != NULL;
    forget(d);
    memory_free(d);
    return found ? LIBRARY_ATTENTION_MAKES : LIBRARY_ATTENTION_NO_WAY;
}

static known_attention **bucket_of(const library_attention *p) {
    return &own.known[hash_bytes(p, sizeof *p) % BUCKETS];
}

static known_attention *find_known(const library_attention *p) {
    known_attention *k = *bucket_of(p);
    while (k && memcmp(&k->of, p, sizeof *p) != 0) k = k->next;
    return k;
}

/* NULL: there is no memory. */
static const known_attention *ask(const library_attention *p) {
    known_attention *k = find_known(p), **bucket = bucket_of(p);
    if (k) return k;
    k = memory_new(1, sizeof *k);
    if (!k) return NULL;
    k->of = *p, k->next = *bucket;
    k->answer = find_way(k);
    *bucket = k;
    return k;
}

library_attention_answer library_attention_choose(const library_attention *p, library_algorithm *out) {
    *out = (library_algorithm){ 0 };
    if (!own.name[0]) return LIBRARY_ATTENTION_NO_WAY;
    if (p->type != DTYPE_BF16 && p->type != DTYPE_F16) return LIBRARY_ATTENTION_TYPES;
    if (p->size * (int64_t)sizeof(uint16_t) % LIBRARY_ALIGNMENT) return LIBRARY_ATTENTION_PLACES;
    pthread_mutex_lock(&one);
    const known_attention *k = ask(p);
    library_attention_answer answer = k ? k->answer : LIBRARY_ATTENTION_NO_WAY;
    if (answer == LIBRARY_ATTENTION_MAKES) *out = k->algorithm;
    pthread_mutex_unlock(&one);
    return answer;
}

/* ---- preparing ---- */

/* The library compiles what it has no code of: that takes seconds, and a search asks for many shapes. */
static int make_plan(handle configuration, handle *plan) {
    int result = own.BackendCreateDescriptor(DNN_PLAN, plan);
    if (result != 0) return result;
    result = own.BackendSetAttribute(*plan, DNN_PLAN_HANDLE, DNN_IS_HANDLE, 1, &own.handle);
    if (result == 0)
        result = own.BackendSetAttribute(*plan, DNN_PLAN_CONFIGURATION, DNN_IS_DESCRIPTOR, 1, &configuration);
    return result == 0 ? own.BackendFinalize(*plan) : result;
}

static status prepare(known_attention *k, drawing *d) {
    library_algorithm way;
    handle configuration = find_configuration(d, &k->of, &way), plan = NULL;
    int64_t workspace = 0;
    if (!configuration || memcmp(&way, &k->algorithm, sizeof way) != 0)
        return status_set(STATUS_INVALID, "%s names another engine for attention than when it was planned",
                          own.name);
    int result = make_plan(configuration, &plan);
    bool fits = result == 0 && get_integer(plan, DNN_PLAN_WORKSPACE, &workspace) && workspace >= 0 &&
                (uint64_t)workspace <= way.workspace_bytes;
    k->plan = fits ? plan : NULL;
    if (fits) return STATUS_OK;
    if (plan) STATUS_IGNORED(own.BackendDestroyDescriptor(plan)); /* it is none */
    if (result != 0)
        return status_set(STATUS_INVALID, "%s makes no plan by the engine that it named for attention: %s",
                          own.name, own.words(result));
    return status_set(STATUS_INVALID, "%s wants %lld bytes of workspace for attention, and said %llu before",
                      own.name, (long long)workspace, (unsigned long long)way.workspace_bytes);
}

status library_attention_prepare(const library_attention *p, const library_algorithm *a) {
    pthread_mutex_lock(&one);
    known_attention *k = find_known(p);
    pthread_mutex_unlock(&one);
    if (!k || k->answer != LIBRARY_ATTENTION_MAKES || memcmp(&k->algorithm, a, sizeof *a) != 0)
        return status_set(STATUS_INVALID, "an attention was planned by another process's engine");
    if (k->plan) return STATUS_OK;
    drawing *d = memory_new(1, sizeof *d);
    if (!d) return status_set(STATUS_FAILED, "no memory to prepare attention");
    status result = prepare(k, d);
    forget(d);
    memory_free(d);
    return result;
}

/* ---- running ---- */

static uint64_t sums_bytes(const library_attention *p) {
    uint64_t queries = (uint64_t)(p->batch * p->heads * p->queries);
    return p->gradient ? units_align(queries * sizeof(float), WORKSPACE_ALIGNMENT) : 0;
}

uint64_t library_attention_scratch(const library_attention *p, const library_algorithm *a) {
    uint64_t bytes = sums_bytes(p) + a->workspace_bytes;
    return bytes ? bytes + WORKSPACE_ALIGNMENT - PLAN_ALIGNMENT : 0;
}

static void heed(const char *why) {
    if (!own.failed[0]) snprintf(own.failed, sizeof own.failed, "%s", why);
}

enum { MOST_OPERANDS = 16 };
typedef struct {
    int64_t names[MOST_OPERANDS];
    const void *at[MOST_OPERANDS];
    int64_t count;
    bool aligned;
} operand_list;

static void add(operand_list *l, int64_t name, const void *at) {
    l->aligned = l->aligned && (uintptr_t)at % LIBRARY_ALIGNMENT == 0;
    l->names[l->count] = name, l->at[l->count++] = at;
}

/* A number of the host's, at any place. */
static void add_number(operand_list *l, int64_t name, const float *at) {
    l->names[l->count] = name, l->at[l->count++] = at;
}

static operand_list list_operands(const library_attention *p, const library_attention_operands *at,
                                  char *scratch) {
    static const float nothing = -INFINITY, single = 1;
    operand_list l = { .aligned = true };
    add(&l, Q, at->q), add(&l, K, at->k), add(&l, V, at->v), add(&l, Y, at->y);
    add(&l, LOGARITHMS, at->logarithms);
    add_number(&l, SCALE, &at->scale);
    if (p->causal) add_number(&l, NOTHING, &nothing);
    if (!p->gradient) return l;
    add(&l, DY, at->dy), add(&l, DQ, at->dq), add(&l, DK, at->dk), add(&l, DV, at->dv);
    add(&l, SUMS, scratch);
    add_number(&l, ONE, &single);
    return l;
}

static int execute(const known_attention *k, const operand_list *l, void *workspace) {
    handle pack = NULL;
    int result = own.BackendCreateDescriptor(DNN_PACK, &pack);
    if (result != 0) return result;
    result = own.BackendSetAttribute(pack, DNN_PACK_NAMES, DNN_IS_INT64, l->count, l->names);
    if (result == 0)
        result = own.BackendSetAttribute(pack, DNN_PACK_POINTERS, DNN_IS_POINTER, l->count, l->at);
    if (result == 0)
        result = own.BackendSetAttribute(pack, DNN_PACK_WORKSPACE, DNN_IS_POINTER, 1, &workspace);
    if (result == 0) result = own.BackendFinalize(pack);
    if (result == 0) result = own.BackendExecute(own.handle, k->plan, pack);
    STATUS_IGNORED(own.BackendDestroyDescriptor(pack)); /* what it was for has its result */
    return result;
}

void library_attention_run(const library_attention *p, const library_algorithm *a,
                           const library_attention_operands *at) {
    pthread_mutex_lock(&one);
    const known_attention *k = find_known(p);
    pthread_mutex_unlock(&one);
    if (!k || !k->plan) {
        heed("an attention was not prepared");
        return;
    }
    char *scratch = (char *)units_align((uintptr_t)at->scratch, WORKSPACE_ALIGNMENT);
    operand_list l = list_operands(p, at, scratch);
    if (!l.aligned) {
        heed("an operand of attention does not begin at a multiple of 16 bytes");
        return;
    }
    int result = execute(k, &l, a->workspace_bytes ? scratch + sums_bytes(p) : NULL);
    if (result != 0) heed(own.words(result));
}

status library_attention_failed(void) {
    return own.failed[0] ? status_set(STATUS_FAILED, "%s: %s", own.name, own.failed) : STATUS_OK;
}
