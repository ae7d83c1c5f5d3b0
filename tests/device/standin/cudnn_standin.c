/* libcudnn.so.9 for tests, upon the emulated GPU: it has cuDNN's names, keeps descriptors as it is given
 * them, and carries out any graph of their operations on the lane of kernels, number by number, in an order
 * of its own (sums from the last to the first). So a graph that is not attention makes other numbers than
 * attention. It ends the program with a sentence where it was asked otherwise than the library may be asked:
 *
 * - descriptors without an attribute, with one of another's, used before or changed after they are finished;
 * - operations on sizes that don't go together, or on what no earlier one has made;
 * - operands or workspace that are not the device's, that are missing, or that begin at other places.
 *
 * Its engines write into all of their workspace. Its heuristic names one first whose results differ from run
 * to run, which is not to be taken. Told by the environment: STANDIN_DNN_NO_PLANS=1, it makes no plan by the
 * engine that it named; STANDIN_DNN_GROWS=N, a plan wants so many bytes more than it said;
 * STANDIN_DNN_VERSION, the number it says it has (92600); STANDIN_DNN_WORKSPACE, bytes for a graph (8192);
 * STANDIN_DNN_FAILS=N, the graph that it refuses to carry out; STANDIN_DNN_BARS=N, it has no engine for so
 * many queries; STANDIN_DNN_FORWARD=1, nor for gradients. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "device/cuda/emulate_stream.h"
#include "device/library_attention_calls.h"

#define EXPORTED(type) __attribute__((visibility("default"))) type
#define DECLARE(name, arguments) EXPORTED(int) cudnn##name arguments;
LIBRARY_ATTENTION_CALLS(DECLARE)
EXPORTED(size_t) cudnnGetVersion(void);
EXPORTED(const char *) cudnnGetErrorString(int result);
EXPORTED(const char) snug_standin[] = "cudnn";

typedef library_attention_handle handle;

enum { OK = 0, NOT_SUPPORTED = 3000, OTHER_BITS = 7, GOOD = 9, KNOB_TYPE = 3 };
enum { MOST_STEPS = 40, MOST_NAMES = 16, FORWARD_STEPS = 15 };

typedef struct {
    int type;
    int64_t size[4], step[4], name, alignment;
    bool is_virtual, by_value;
} tensor;

typedef struct {
    int kind, mode;
    int64_t axis;
    bool has_b, has_t;
    tensor x, b, t, y;
} step;

/* Whatever a handle of the interface is. */
struct library_attention_opaque {
    int kind;
    bool finished;
    uint32_t given; /* attributes, as bits */
    tensor of;      /* of a tensor */
    int mode, precision;
    int64_t axis;
    handle x, b, t, y, how,
        from;               /* of an operation; `from`: of a heuristic, configuration, engine and plan */
    step steps[MOST_STEPS]; /* of a graph and of a plan */
    int64_t count;          /* of steps, or of names */
    int64_t engine, value;
    int64_t names[MOST_NAMES]; /* of a pack */
    const void *at[MOST_NAMES];
    void *workspace;
    emulated_stream *stream; /* of the library's own handle */
};

enum { HANDLE = 1000 }; /* a kind beside those of descriptors */

static uint64_t carried_out;

static void die(const char *why) {
    fprintf(stderr, "stand-in of cuDNN: graph %llu: %s\n", (unsigned long long)carried_out, why);
    fflush(stderr);
    abort();
}

static void must(bool holds, const char *why) {
    if (!holds) die(why);
}

static uint64_t told(const char *name, uint64_t otherwise) {
    const char *said = getenv(name);
    return said ? strtoull(said, NULL, 10) : otherwise;
}

static handle made(int kind) {
    handle h = calloc(1, sizeof *h);
    must(h != NULL, "no memory");
    h->kind = kind;
    return h;
}

size_t cudnnGetVersion(void) { return told("STANDIN_DNN_VERSION", 92600); }

const char *cudnnGetErrorString(int result) { return result ? "CUDNN_STATUS_NOT_SUPPORTED" : "success"; }

int cudnnCreate(handle *to) {
    *to = made(HANDLE);
    return OK;
}

int cudnnDestroy(handle h) {
    free(h);
    return OK;
}

int cudnnSetStream(handle h, void *stream) {
    must(h->kind == HANDLE, "a stream is the library's");
    h->stream = stream;
    return OK;
}

int cudnnBackendCreateDescriptor(int type, handle *descriptor) {
    *descriptor = made(type);
    return OK;
}

int cudnnBackendDestroyDescriptor(handle d) {
    must(d->kind != HANDLE, "a handle is no descriptor");
    free(d);
    return OK;
}

/* ---- attributes ---- */

typedef struct {
    int kind, which, type;
    size_t at, bytes, room; /* room: how many values there may be */
} attribute;

#define ONE(kind, which, type, field)                                                                        \
    {                                                                                                        \
        kind, which, type, offsetof(struct library_attention_opaque, field),                                 \
            sizeof(((struct library_attention_opaque *)0)->field), 1                                         \
    }
#define MANY(kind, which, type, field, room)                                                                 \
    {                                                                                                        \
        kind, which, type, offsetof(struct library_attention_opaque, field),                                 \
            sizeof(((struct library_attention_opaque *)0)->field) / (room), room                             \
    }

/* In the order of the bits of `given`, by kind. */
static const attribute attributes[] = {
    ONE(DNN_TENSOR, DNN_TENSOR_NAME, DNN_IS_INT64, of.name),
    ONE(DNN_TENSOR, DNN_TENSOR_TYPE, DNN_IS_TYPE, of.type),
    MANY(DNN_TENSOR, DNN_TENSOR_DIMENSIONS, DNN_IS_INT64, of.size, 4),
    MANY(DNN_TENSOR, DNN_TENSOR_STRIDES, DNN_IS_INT64, of.step, 4),
    ONE(DNN_TENSOR, DNN_TENSOR_ALIGNMENT, DNN_IS_INT64, of.alignment),
    ONE(DNN_TENSOR, DNN_TENSOR_VIRTUAL, DNN_IS_BOOLEAN, of.is_virtual),
    ONE(DNN_TENSOR, DNN_TENSOR_BY_VALUE, DNN_IS_BOOLEAN, of.by_value),
    ONE(DNN_POINTWISE, DNN_POINTWISE_MODE, DNN_IS_MODE_OF_POINTWISE, mode),
    ONE(DNN_POINTWISE, DNN_POINTWISE_PRECISION, DNN_IS_TYPE, precision),
    ONE(DNN_POINTWISE, DNN_POINTWISE_AXIS, DNN_IS_INT64, axis),
    ONE(DNN_MATMUL, DNN_MATMUL_PRECISION, DNN_IS_TYPE, precision),
    ONE(DNN_REDUCTION, DNN_REDUCTION_OPERATOR, DNN_IS_REDUCTION, mode),
    ONE(DNN_REDUCTION, DNN_REDUCTION_PRECISION, DNN_IS_TYPE, precision),
    ONE(DNN_OF_POINTWISE, DNN_OF_POINTWISE_MODE, DNN_IS_DESCRIPTOR, how),
    ONE(DNN_OF_POINTWISE, DNN_OF_POINTWISE_X, DNN_IS_DESCRIPTOR, x),
    ONE(DNN_OF_POINTWISE, DNN_OF_POINTWISE_B, DNN_IS_DESCRIPTOR, b),
    ONE(DNN_OF_POINTWISE, DNN_OF_POINTWISE_T, DNN_IS_DESCRIPTOR, t),
    ONE(DNN_OF_POINTWISE, DNN_OF_POINTWISE_Y, DNN_IS_DESCRIPTOR, y),
    ONE(DNN_OF_MATMUL, DNN_OF_MATMUL_A, DNN_IS_DESCRIPTOR, x),
    ONE(DNN_OF_MATMUL, DNN_OF_MATMUL_B, DNN_IS_DESCRIPTOR, b),
    ONE(DNN_OF_MATMUL, DNN_OF_MATMUL_C, DNN_IS_DESCRIPTOR, y),
    ONE(DNN_OF_MATMUL, DNN_OF_MATMUL_HOW, DNN_IS_DESCRIPTOR, how),
    ONE(DNN_OF_REDUCTION, DNN_OF_REDUCTION_X, DNN_IS_DESCRIPTOR, x),
    ONE(DNN_OF_REDUCTION, DNN_OF_REDUCTION_Y, DNN_IS_DESCRIPTOR, y),
    ONE(DNN_OF_REDUCTION, DNN_OF_REDUCTION_HOW, DNN_IS_DESCRIPTOR, how),
    ONE(DNN_OF_RESHAPE, DNN_OF_RESHAPE_X, DNN_IS_DESCRIPTOR, x),
    ONE(DNN_OF_RESHAPE, DNN_OF_RESHAPE_Y, DNN_IS_DESCRIPTOR, y),
    ONE(DNN_GRAPH, DNN_GRAPH_HANDLE, DNN_IS_HANDLE, how),
    ONE(DNN_HEURISTIC, DNN_HEURISTIC_GRAPH, DNN_IS_DESCRIPTOR, from),
    ONE(DNN_HEURISTIC, DNN_HEURISTIC_MODE, DNN_IS_MODE_OF_HEURISTIC, mode),
    ONE(DNN_PLAN, DNN_PLAN_HANDLE, DNN_IS_HANDLE, how),
    ONE(DNN_PLAN, DNN_PLAN_CONFIGURATION, DNN_IS_DESCRIPTOR, from),
    MANY(DNN_PACK, DNN_PACK_NAMES, DNN_IS_INT64, names, MOST_NAMES),
    MANY(DNN_PACK, DNN_PACK_POINTERS, DNN_IS_POINTER, at, MOST_NAMES),
    ONE(DNN_PACK, DNN_PACK_WORKSPACE, DNN_IS_POINTER, workspace),
};
enum { ATTRIBUTES = sizeof attributes / sizeof *attributes };

static void add_operations(handle graph, int64_t count, const handle *operations);

static uint32_t bit_of(int i) {
    uint32_t bit = 1;
    for (int k = 0; k < i; k++)
        if (attributes[k].kind == attributes[i].kind) bit <<= 1;
    return bit;
}

int cudnnBackendSetAttribute(handle d, int which, int type, int64_t count, const void *values) {
    must(!d->finished, "a finished descriptor does not change");
    if (d->kind == DNN_GRAPH && which == DNN_GRAPH_OPERATIONS) {
        must(type == DNN_IS_DESCRIPTOR, "operations are descriptors");
        add_operations(d, count, values);
        return OK;
    }
    for (int i = 0; i < ATTRIBUTES; i++) {
        const attribute *a = &attributes[i];
        if (a->kind != d->kind || a->which != which) continue;
        bool fits = count == (int64_t)a->room || (d->kind == DNN_PACK && count < (int64_t)a->room);
        must(a->type == type && fits, "an attribute of another type, or of another count");
        memcpy((char *)d + a->at, values, (size_t)count * a->bytes);
        if (d->kind == DNN_PACK && which != DNN_PACK_WORKSPACE) {
            must(!d->count || d->count == count, "a pack has a pointer for each name");
            d->count = count;
        }
        d->given |= bit_of(i);
        return OK;
    }
    die("no attribute of this descriptor");
    return OK;
}

/* What may be left out: the axis of what has none, and operands that a mode does not take. */
static bool is_optional(const attribute *a) {
    return a->which == DNN_POINTWISE_AXIS || a->which == DNN_OF_POINTWISE_B || a->which == DNN_OF_POINTWISE_T;
}

static void check_given(handle d) {
    for (int i = 0; i < ATTRIBUTES; i++)
        if (attributes[i].kind == d->kind && !is_optional(&attributes[i]))
            must((d->given & bit_of(i)) != 0, "a descriptor lacks an attribute");
}

/* ---- what goes together ---- */

static bool is_whole(const tensor *x) {
    bool known = x->type == DNN_F32 || x->type == DNN_F16 || x->type == DNN_BF16 || x->type == DNN_I32 ||
                 x->type == DNN_BOOLEAN;
    for (int i = 0; i < 4; i++) known = known && x->size[i] > 0 && x->step[i] > 0;
    return known && x->alignment >= 4 && !(x->is_virtual && x->by_value);
}

static bool is_of(const tensor *x, int64_t a, int64_t b, int64_t c, int64_t d) {
    return x->size[0] == a && x->size[1] == b && x->size[2] == c && x->size[3] == d;
}

/* Each size of b is x's, or 1. */
static bool spreads(const tensor *b, const tensor *x) {
    for (int i = 0; i < 4; i++)
        if (b->size[i] != x->size[i] && b->size[i] != 1) return false;
    return true;
}

static void check_multiplication(const step *s) {
    const int64_t *a = s->x.size, *b = s->b.size;
    must(a[0] == b[0] && a[1] % b[1] == 0 && a[3] == b[2] && is_of(&s->y, a[0], a[1], a[2], b[3]),
         "these matrices can't be multiplied");
}

static void check_pointwise(const step *s) {
    bool binary = s->mode == DNN_ADD || s->mode == DNN_MULTIPLY || s->mode == DNN_DIVIDE ||
                  s->mode == DNN_SUBTRACT || s->mode == DNN_IS_AT_LEAST || s->mode == DNN_SELECT;
    bool unary = s->mode == DNN_EXP || s->mode == DNN_LOG || s->mode == DNN_INDEX;
    must(binary || unary, "a mode that attention does not have");
    must(s->has_b == binary && s->has_t == (s->mode == DNN_SELECT), "operands that the mode does not take");
    must((s->axis > 0) == (s->mode == DNN_INDEX), "an index goes along an axis");
    must(is_of(&s->y, s->x.size[0], s->x.size[1], s->x.size[2], s->x.size[3]), "a result of another size");
    must(!s->has_b || spreads(&s->b, &s->x), "operands of sizes that don't go together");
    must(!s->has_t || (spreads(&s->t, &s->x) && s->t.type == DNN_BOOLEAN),
         "a choice by what is no condition");
}

static void check_reduction(const step *s) {
    const int64_t *x = s->x.size, *y = s->y.size;
    must(s->mode == DNN_REDUCE_ADD || s->mode == DNN_REDUCE_MAX, "a reduction that attention does not have");
    must(x[0] == y[0] && x[1] % y[1] == 0 && x[2] == y[2] && (x[3] == y[3] || y[3] == 1),
         "a reduction to a size that does not go with it");
}

static void check_reshape(const step *s) {
    must(is_of(&s->y, s->x.size[0], s->x.size[1], s->x.size[3], s->x.size[2]), "rows don't become columns");
}

static const tensor *tensor_of(handle h) {
    must(h && h->kind == DNN_TENSOR && h->finished, "an operand is no finished tensor");
    return &h->of;
}

/* What was made so far, or is there; the same name is the same tensor. */
static void check_read(const handle graph, const tensor *x) {
    bool found = !x->is_virtual;
    for (int64_t i = 0; i < graph->count; i++) {
        const step *s = &graph->steps[i];
        const tensor *all[] = { &s->x, &s->b, &s->t, &s->y };
        bool there[] = { true, s->has_b, s->has_t, true };
        for (int k = 0; k < 4; k++)
            must(!there[k] || all[k]->name != x->name || memcmp(all[k], x, sizeof *x) == 0,
                 "two tensors of one name");
        found |= s->y.name == x->name;
    }
    must(found, "an operation reads what none before it has made");
}

static void check_written(const handle graph, const tensor *y) {
    must(!y->by_value, "a number of the host's is not written");
    for (int64_t i = 0; i < graph->count; i++)
        must(graph->steps[i].y.name != y->name, "two operations write one tensor");
}

static void add_operation(handle graph, handle o) {
    step s = { .kind = o->kind, .has_b = o->b != NULL, .has_t = o->t != NULL };
    must(o->finished && graph->count < MOST_STEPS, "an operation is not finished");
    s.x = *tensor_of(o->x), s.y = *tensor_of(o->y);
    if (s.has_b) s.b = *tensor_of(o->b);
    if (s.has_t) s.t = *tensor_of(o->t);
    if (o->how) {
        must(o->how->finished, "how it is done is not finished");
        s.mode = o->how->mode, s.axis = o->how->axis;
    }
    check_read(graph, &s.x);
    if (s.has_b) check_read(graph, &s.b);
    if (s.has_t) check_read(graph, &s.t);
    check_written(graph, &s.y);
    if (o->kind == DNN_OF_MATMUL)
        check_multiplication(&s);
    else if (o->kind == DNN_OF_POINTWISE)
        check_pointwise(&s);
    else if (o->kind == DNN_OF_REDUCTION)
        check_reduction(&s);
    else if (o->kind == DNN_OF_RESHAPE)
        check_reshape(&s);
    else
        die("no operation of attention");
    graph->steps[graph->count++] = s;
}

static void add_operations(handle graph, int64_t count, const handle *operations) {
    must(!graph->count, "a graph has its operations once");
    for (int64_t i = 0; i < count; i++) add_operation(graph, operations[i]);
}

/* ---- choosing ---- */

/* Of the first product: queries and keys. */
static bool is_barred(handle graph) {
    bool gradient = graph->count > FORWARD_STEPS;
    uint64_t barred = told("STANDIN_DNN_BARS", 0);
    for (int64_t i = 0; i < graph->count; i++)
        if (graph->steps[i].kind == DNN_OF_MATMUL && (uint64_t)graph->steps[i].x.size[2] == barred)
            return true;
    return gradient && told("STANDIN_DNN_FORWARD", 0);
}

static int finish_heuristic(handle d) {
    must(d->from->kind == DNN_GRAPH && d->from->finished, "a heuristic is asked of a finished graph");
    must(d->mode == DNN_HEURISTIC_A, "a heuristic that is none of ours");
    return is_barred(d->from) ? NOT_SUPPORTED : OK;
}

/* A plan stands for itself: what it was made of may go. */
static int finish_plan(handle d) {
    must(d->from->kind == DNN_CONFIGURATION && d->from->from,
         "a plan is made of a heuristic's configuration");
    must(d->how && d->how->kind == HANDLE, "a plan is made for a handle");
    if (told("STANDIN_DNN_NO_PLANS", 0)) return NOT_SUPPORTED;
    must(d->from->engine == GOOD, "the results of this engine differ from run to run");
    const handle graph = d->from->from;
    memcpy(d->steps, graph->steps, sizeof d->steps);
    d->count = graph->count, d->from = NULL;
    return OK;
}

int cudnnBackendFinalize(handle d) {
    int result = OK;
    check_given(d);
    must(!d->finished, "a descriptor is finished once");
    if (d->kind == DNN_TENSOR) must(is_whole(&d->of), "a tensor that can't be");
    if (d->kind == DNN_MATMUL || d->kind == DNN_REDUCTION) must(d->precision == DNN_F32, "sums are not f32");
    if (d->kind == DNN_GRAPH) must(d->count > 0, "a graph without operations");
    if (d->kind == DNN_HEURISTIC) result = finish_heuristic(d);
    if (d->kind == DNN_PLAN) result = finish_plan(d);
    d->finished = result == OK;
    return result;
}

static void put_results(handle heuristic, int64_t wanted, int64_t *count, handle *configurations) {
    static const int64_t engines[] = { OTHER_BITS, GOOD };
    must(wanted >= 2, "too few engines are wanted");
    for (int i = 0; i < 2; i++) {
        must(configurations[i]->kind == DNN_CONFIGURATION, "results are configurations");
        configurations[i]->from = heuristic->from;
        configurations[i]->engine = engines[i];
    }
    *count = 2;
}

/* The knob depends on the graph, as a real one's do. */
static void put_configuration(handle d, int which, int64_t *count, handle *to) {
    handle first = to[0];
    *count = 1;
    first->engine = d->engine;
    if (which == DNN_CONFIGURATION_ENGINE)
        must(first->kind == DNN_ENGINE, "an engine is an engine");
    else
        must(which == DNN_CONFIGURATION_KNOBS && first->kind == DNN_KNOB, "a knob is a knob");
    first->value = 64 + (d->from ? d->from->steps[0].x.size[3] : 0);
}

static void put_number(handle d, int which, int type, void *values) {
    uint64_t workspace = told("STANDIN_DNN_WORKSPACE", 8192);
    if (d->kind == DNN_PLAN) workspace += told("STANDIN_DNN_GROWS", 0);
    int64_t number = which == DNN_ENGINE_INDEX ? d->engine
                     : which == DNN_KNOB_VALUE ? d->value
                                               : (int64_t)workspace;
    bool is_known = (d->kind == DNN_ENGINE && which == DNN_ENGINE_INDEX) ||
                    (d->kind == DNN_KNOB && which == DNN_KNOB_VALUE) ||
                    (d->kind == DNN_CONFIGURATION && which == DNN_CONFIGURATION_WORKSPACE) ||
                    (d->kind == DNN_PLAN && which == DNN_PLAN_WORKSPACE && d->finished);
    must(type == DNN_IS_INT64 && is_known, "no number of a descriptor");
    memcpy(values, &number, sizeof number);
}

int cudnnBackendGetAttribute(handle d, int which, int type, int64_t wanted, int64_t *count, void *values) {
    const int note = DNN_NOTE_OTHER_BITS, knob = KNOB_TYPE;
    *count = 1;
    if (d->kind == DNN_HEURISTIC && which == DNN_HEURISTIC_RESULTS) {
        put_results(d, wanted, count, values);
    } else if (d->kind == DNN_CONFIGURATION && type == DNN_IS_DESCRIPTOR) {
        put_configuration(d, which, count, values);
    } else if (d->kind == DNN_ENGINE && which == DNN_ENGINE_NUMERICAL_NOTES) {
        must(type == DNN_IS_NUMERICAL_NOTE && wanted >= 1, "no notes");
        *count = d->engine == OTHER_BITS;
        if (*count) memcpy(values, &note, sizeof note);
    } else if (d->kind == DNN_KNOB && which == DNN_KNOB_TYPE) {
        must(type == DNN_IS_KNOB, "no type of a knob");
        memcpy(values, &knob, sizeof knob);
    } else {
        put_number(d, which, type, values);
    }
    return OK;
}

/* ---- carrying out ---- */

typedef struct {
    handle plan;
    int64_t names[MOST_NAMES];
    const void *at[MOST_NAMES];
    float numbers[MOST_NAMES]; /* of the host's */
    int64_t count;
    void *workspace;
} job;

static int64_t elements(const tensor *x) { return x->size[0] * x->size[1] * x->size[2] * x->size[3]; }

static size_t bytes_of(int type) { return type == DNN_F16 || type == DNN_BF16 ? 2 : 4; }

static int64_t place_of(const tensor *x, int64_t i) {
    int64_t at = 0;
    for (int k = 3; k >= 0; k--) at += i % x->size[k] * x->step[k], i /= x->size[k];
    return at;
}

static int64_t find(const job *j, int64_t name) {
    for (int64_t i = 0; i < j->count; i++)
        if (j->names[i] == name) return i;
    die("an operand is missing");
    return -1;
}

static float rounded(int type, float x) {
    if (type == DNN_F16) return half_from_f16(half_to_f16(x));
    return type == DNN_BF16 ? half_from_bf16(half_to_bf16(x)) : x;
}

/* Numbers of tensors without a place, by the step that made them; packed. */
typedef struct {
    const job *j;
    float *made[MOST_STEPS];
} state;

/* All numbers of a tensor, in a packed copy that the caller frees. */
static float *copy_of(const state *st, const tensor *x) {
    int64_t n = elements(x);
    float *to = malloc((size_t)n * sizeof *to);
    must(to != NULL, "no memory");
    for (int64_t i = 0; x->is_virtual && i < st->j->plan->count; i++)
        if (st->j->plan->steps[i].y.name == x->name) memcpy(to, st->made[i], (size_t)n * sizeof *to);
    if (x->is_virtual) return to;
    int64_t operand = find(st->j, x->name);
    const void *from = st->j->at[operand];
    for (int64_t i = 0; i < n; i++) {
        int64_t at = place_of(x, i);
        if (x->by_value)
            to[i] = st->j->numbers[operand];
        else if (x->type == DNN_F32)
            to[i] = ((const float *)from)[at];
        else
            to[i] = x->type == DNN_F16 ? half_from_f16(((const uint16_t *)from)[at])
                                       : half_from_bf16(((const uint16_t *)from)[at]);
    }
    return to;
}

static void put(state *st, int64_t at, const tensor *y, float *numbers) {
    int64_t n = elements(y);
    for (int64_t i = 0; i < n; i++) numbers[i] = rounded(y->type, numbers[i]);
    st->made[at] = numbers;
    if (y->is_virtual) return;
    void *to = (void *)(uintptr_t)st->j->at[find(st->j, y->name)];
    for (int64_t i = 0; i < n; i++) {
        int64_t place = place_of(y, i);
        if (y->type == DNN_F32)
            ((float *)to)[place] = numbers[i];
        else
            ((uint16_t *)to)[place] = y->type == DNN_F16 ? half_to_f16(numbers[i]) : half_to_bf16(numbers[i]);
    }
}

static void multiply(const step *s, const float *a, const float *b, float *y) {
    int64_t heads = s->x.size[1], shared = heads / s->b.size[1], rows = s->x.size[2], depth = s->x.size[3],
            columns = s->b.size[3];
    for (int64_t i = 0; i < s->x.size[0] * heads; i++) {
        int64_t other = i / heads * s->b.size[1] + i % heads / shared;
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < columns; c++) {
                float sum = 0;
                for (int64_t k = depth; k-- > 0;)
                    sum += a[(i * rows + r) * depth + k] * b[(other * depth + k) * columns + c];
                y[(i * rows + r) * columns + c] = sum;
            }
    }
}

/* The element of b that goes with element i of x. */
static int64_t spread(const tensor *b, const tensor *x, int64_t i) {
    int64_t at = 0, unit = 1;
    for (int k = 3; k >= 0; k--) {
        at += (b->size[k] == 1 ? 0 : i % x->size[k]) * unit;
        unit *= b->size[k], i /= x->size[k];
    }
    return at;
}

static float applied(const step *s, int64_t i, float x, float b, float t) {
    int64_t after = s->axis == 2 ? s->x.size[3] : 1;
    switch (s->mode) {
    case DNN_ADD: return x + b;
    case DNN_MULTIPLY: return x * b;
    case DNN_DIVIDE: return x / b;
    case DNN_SUBTRACT: return x - b;
    case DNN_EXP: return expf(x);
    case DNN_LOG: return logf(x);
    case DNN_IS_AT_LEAST: return x >= b;
    case DNN_SELECT: return t != 0 ? x : b;
    default: return (float)(i / after % s->x.size[s->axis]);
    }
}

static void reduce(const step *s, const float *x, float *y) {
    int64_t shared = s->x.size[1] / s->y.size[1], rows = s->x.size[2], columns = s->x.size[3],
            kept = s->y.size[3];
    float first = s->mode == DNN_REDUCE_MAX ? -INFINITY : 0;
    for (int64_t i = 0; i < elements(&s->y); i++) y[i] = first;
    for (int64_t i = elements(&s->x); i-- > 0;) {
        int64_t head = i / (rows * columns), row = i / columns % rows, column = kept == 1 ? 0 : i % columns;
        int64_t of = head / s->x.size[1] * s->y.size[1] + head % s->x.size[1] / shared;
        float *to = &y[(of * rows + row) * kept + column];
        *to = s->mode == DNN_REDUCE_ADD ? *to + x[i] : fmaxf(*to, x[i]);
    }
}

static void turn(const step *s, const float *x, float *y) {
    int64_t rows = s->x.size[2], columns = s->x.size[3];
    for (int64_t i = 0; i < elements(&s->x); i++) {
        int64_t matrix = i / (rows * columns), row = i / columns % rows, column = i % columns;
        y[(matrix * columns + column) * rows + row] = x[i];
    }
}

static void carry_out_step(state *st, int64_t at) {
    const step *s = &st->j->plan->steps[at];
    float *x = copy_of(st, &s->x), *b = s->has_b ? copy_of(st, &s->b) : NULL,
          *t = s->has_t ? copy_of(st, &s->t) : NULL;
    float *y = malloc((size_t)elements(&s->y) * sizeof *y);
    must(y != NULL, "no memory");
    if (s->kind == DNN_OF_MATMUL) multiply(s, x, b, y);
    if (s->kind == DNN_OF_REDUCTION) reduce(s, x, y);
    if (s->kind == DNN_OF_RESHAPE) turn(s, x, y);
    for (int64_t i = 0; s->kind == DNN_OF_POINTWISE && i < elements(&s->x); i++)
        y[i] = applied(s, i, x[i], b ? b[spread(&s->b, &s->x, i)] : 0, t ? t[spread(&s->t, &s->x, i)] : 0);
    free(x), free(b), free(t);
    put(st, at, &s->y, y);
}

static bool carry_out(void *context) {
    const job *j = context;
    state st = { .j = j };
    memset(j->workspace, 0xaa, told("STANDIN_DNN_WORKSPACE", 8192));
    for (int64_t i = 0; i < j->plan->count; i++) carry_out_step(&st, i);
    for (int64_t i = 0; i < j->plan->count; i++) free(st.made[i]);
    return true;
}

static void check_place(const emulated_stream *s, job *j, const tensor *x) {
    uint64_t last = 0;
    if (x->is_virtual) return;
    int64_t operand = find(j, x->name);
    const void *at = j->at[operand];
    if (x->by_value) {
        must(!s->is_in_pool(at, sizeof(float)), "a number is not the host's");
        memcpy(&j->numbers[operand], at, sizeof(float));
        return;
    }
    for (int k = 0; k < 4; k++) last += (uint64_t)((x->size[k] - 1) * x->step[k]);
    must(s->is_in_pool(at, (last + 1) * bytes_of(x->type)), "an operand is not the device's");
    must((uintptr_t)at % (uint64_t)x->alignment == 0, "an operand does not begin where it was said to");
}

int cudnnBackendExecute(handle h, handle plan, handle pack) {
    uint64_t bytes = told("STANDIN_DNN_WORKSPACE", 8192);
    must(h->kind == HANDLE && plan->kind == DNN_PLAN && plan->finished && pack->kind == DNN_PACK &&
             pack->finished,
         "what is carried out is no plan with a pack");
    if (++carried_out == told("STANDIN_DNN_FAILS", 0)) return NOT_SUPPORTED;
    job j = { .plan = plan, .count = pack->count, .workspace = pack->workspace };
    memcpy(j.names, pack->names, sizeof j.names), memcpy(j.at, pack->at, sizeof j.at);
    must(!bytes || h->stream->is_in_pool(j.workspace, bytes), "the workspace is not the device's");
    for (int64_t i = 0; i < plan->count; i++) {
        const step *s = &plan->steps[i];
        check_place(h->stream, &j, &s->x), check_place(h->stream, &j, &s->y);
        if (s->has_b) check_place(h->stream, &j, &s->b);
        if (s->has_t) check_place(h->stream, &j, &s->t);
    }
    h->stream->give(h->stream, carry_out, &j, sizeof j);
    return OK;
}
