/* Attention on tensor cores beside the plain kernels: bench-gpu-attention DEVICE [seconds]
 *
 * 1. On small cases of all kinds: near the plain kernels, whose bits are the CPU's; the same bits twice; each
 * sample alone with those that it has among others. A hash of each case's results, so that two builds, or two
 * GPUs, can be compared.
 * 2. With a second argument: milliseconds of both, forward and backward, on gpt2's shapes and others, the
 * median of seven rounds of so many launches that each takes about 20 ms; TFLOP/s of what has to be computed
 * (two products forward, five backward, of pairs that see each other); hashes.
 *
 * Takes up to 4 GiB of the GPU. Exit 0: nothing was wrong. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/half.h"
#include "base/instructions.h"
#include "ops/attention_flash/attention_flash.h"
#include "room.h"

enum { FORWARD_INPUTS = 8, BACKWARD_INPUTS = 11, ROUNDS = 7, RESULTS = 5 };
enum { PLAIN, TENSOR, KINDS };

static int wrong;

typedef struct {
    int64_t batch, queries, keys /* 0: packed */, size;
    attention_attributes attributes;
    dtype type;
    bool lengths;
} form;

/* In the pool. results: y, lse, then dq, dk and dv, or the gradient of packed q. */
typedef struct {
    form f;
    op_arg q, k, v, dy, lengths, key, results[RESULTS];
    int result_count;
} bound;

/* ---- numbers ---- */

static float *fetched(const op_arg *x) {
    int64_t n = shape_elements(&x->shape);
    float *to = room_host((uint64_t)n * sizeof *to);
    uint16_t *half = room_host(room_bytes(x));
    gpu->get(gpu, x->dtype == DTYPE_F32 ? (void *)to : half, x->data, room_bytes(x));
    if (x->dtype != DTYPE_F32) half_widen(x->dtype, half, n, to);
    free(half);
    return to;
}

static uint64_t hash_of(const bound *b) {
    uint64_t hash = ROOM_HASH;
    for (int r = 0; r < b->result_count; r++) hash = room_hash(&b->results[r], hash);
    return hash;
}

/* ---- calls ---- */

static bound bind(const form *f) {
    int64_t heads = f->attributes.heads, kv_heads = f->attributes.kv_heads ? f->attributes.kv_heads : heads;
    int64_t own = heads * f->size, theirs = kv_heads * f->size;
    bound b = { .f = *f };
    room_used = 0;
    b.q = room_numbers(f->type, SHAPE(f->batch, f->queries, f->keys ? own : own + 2 * theirs), 1);
    if (f->keys) b.k = room_numbers(f->type, SHAPE(f->batch, f->keys, theirs), 1);
    if (f->keys) b.v = room_numbers(f->type, SHAPE(f->batch, f->keys, theirs), 1);
    b.dy = room_numbers(f->type, SHAPE(f->batch, f->queries, own), 0.1f);
    b.key = room(DTYPE_I32, SHAPE(4));
    static const int32_t key[4] = { 7, 11, 3, 2 };
    gpu->put(gpu, b.key.data, key, sizeof key);
    if (f->lengths) {
        b.lengths = room(DTYPE_I32, SHAPE(f->batch));
        for (int64_t i = 0; i < f->batch; i++) {
            int32_t length = (int32_t)((f->keys ? f->keys : f->queries) - 3 * i);
            gpu->put(gpu, (int32_t *)b.lengths.data + i, &length, sizeof length);
        }
    }
    b.results[0] = room(f->type, b.dy.shape);
    b.results[1] = room(DTYPE_F32, SHAPE(f->batch, heads, f->queries));
    b.results[2] = room(f->type, b.q.shape);
    if (f->keys) b.results[3] = room(f->type, b.k.shape), b.results[4] = room(f->type, b.k.shape);
    b.result_count = f->keys ? 5 : 3;
    return b;
}

static const op_kernel *kernel_of(int kind, bool backward) {
    if (kind == PLAIN) return backward ? attention_flash_backward_cuda : attention_flash_cuda;
    return backward ? attention_flash_backward_tensor : attention_flash_tensor;
}

/* So many launches; seconds of each. */
static double run(const bound *b, int kind, bool backward, int launches) {
    op_arg in[BACKWARD_INPUTS] = { b->q, b->k, b->v }, out[RESULTS];
    int side = backward ? 6 : 3;
    if (backward) in[3] = b->results[0], in[4] = b->results[1], in[5] = b->dy;
    in[side] = b->lengths, in[side + 3] = b->key;
    memcpy(out, b->results + (backward ? 2 : 0), (size_t)(backward ? b->result_count - 2 : 2) * sizeof *out);
    const op_kernel *k = kernel_of(kind, backward);
    op_call c = { .in = in,
                  .out = out,
                  .in_count = backward ? BACKWARD_INPUTS : FORWARD_INPUTS,
                  .out_count = (uint16_t)(backward ? b->result_count - 2 : 2),
                  .capability = gpu->capability,
                  .attributes = &b->f.attributes };
    if (k->accepts && !k->accepts(&c)) die("a kernel declines");
    uint64_t before = room_used, bytes = k->scratch ? k->scratch(&c, 1) : 0;
    c.scratch = bytes ? room(DTYPE_U8, SHAPE((int64_t)bytes)).data : NULL;
    c.scratch_bytes = bytes, room_used = before;
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    gpu->begin(gpu);
    for (int i = 0; i < launches; i++) k->run(&c);
    gpu->end(gpu);
    clock_gettime(CLOCK_MONOTONIC, &to);
    if (gpu->failed && gpu->failed(gpu) != STATUS_OK) die(status_message());
    return ((double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) * 1e-9) / launches;
}

/* ---- checks ---- */

static void say_wrong(const char *what, int which) {
    if (wrong++ < 20) printf("WRONG: case %d: %s\n", which, what);
}

static void check_near(const op_arg *x, const float *plain, int which, int result) {
    static const char *const names[] = { "y", "lse", "dq", "dk", "dv" };
    double largest = 0, apart = 0;
    float *is = fetched(x);
    for (int64_t i = 0, n = shape_elements(&x->shape); i < n; i++) {
        largest = fmax(largest, fabs((double)plain[i]));
        apart = fmax(apart, is[i] == is[i] ? fabs((double)is[i] - (double)plain[i]) : INFINITY);
    }
    double allowed = x->dtype == DTYPE_F32 ? 1e-5 : x->dtype == DTYPE_BF16 ? 0x1p-6 : 0x1p-9;
    if (!(apart <= allowed * largest)) say_wrong(names[result], which);
    free(is);
}

/* The last sample, as if there were no other. */
static void check_alone(const bound *b, int which) {
    bound one = *b;
    op_arg *all[] = { &one.q, &one.k, &one.v, &one.dy };
    int64_t last = b->f.batch - 1;
    one.f.batch = 1;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]->data) {
            all[i]->shape.dim[0] = 1;
            all[i]->data = (char *)all[i]->data + room_bytes(all[i]) * (uint64_t)last;
        }
    for (int r = 0; r < b->result_count; r++) {
        shape s = b->results[r].shape;
        s.dim[0] = 1;
        one.results[r] = room(b->results[r].dtype, s);
    }
    run(&one, TENSOR, false, 1), run(&one, TENSOR, true, 1);
    for (int r = 0; r < b->result_count; r++) {
        op_arg part = one.results[r];
        part.data = (char *)b->results[r].data + room_bytes(&part) * (uint64_t)last;
        float *is = fetched(&one.results[r]), *among = fetched(&part);
        if (memcmp(is, among, (size_t)shape_elements(&part.shape) * sizeof *is) != 0)
            say_wrong("a sample alone has other bits", which);
        free(is), free(among);
    }
}

static void check(const form *f, int which) {
    bound b = bind(f);
    float *plain[RESULTS];
    run(&b, PLAIN, false, 1), run(&b, PLAIN, true, 1);
    for (int r = 0; r < b.result_count; r++) plain[r] = fetched(&b.results[r]);
    run(&b, TENSOR, false, 1), run(&b, TENSOR, true, 1);
    uint64_t hash = hash_of(&b);
    for (int r = 0; r < b.result_count; r++) check_near(&b.results[r], plain[r], which, r), free(plain[r]);
    run(&b, TENSOR, false, 1), run(&b, TENSOR, true, 1);
    if (hash_of(&b) != hash) say_wrong("the second run has other bits", which);
    if (f->batch > 1 && !f->lengths && !(f->attributes.dropout > 0)) check_alone(&b, which);
    printf("case %2d: %016llx\n", which, (unsigned long long)hash);
}

static void check_all(void) {
    static const form forms[] = {
        { 2, 200, 0, 64, { .heads = 2, .causal = 1 }, DTYPE_BF16, false },
        { 2, 200, 0, 64, { .heads = 2, .causal = 1 }, DTYPE_F16, false },
        { 3, 130, 0, 128, { .heads = 1, .causal = 1 }, DTYPE_BF16, false },
        { 2, 130, 190, 128, { .heads = 4, .kv_heads = 2 }, DTYPE_F16, true },
        { 2, 150, 0, 80, { .heads = 2, .causal = 1, .window = 70 }, DTYPE_BF16, false },
        { 2, 90, 100, 32, { .heads = 4, .kv_heads = 1 }, DTYPE_BF16, false },
        { 2, 97, 0, 36, { .heads = 1 }, DTYPE_F16, true },
        { 1, 140, 0, 64, { .heads = 2, .causal = 1, .dropout = 0.2f, .stream = 4 }, DTYPE_BF16, false },
        { 2, 140, 0, 128, { .heads = 1, .causal = 1, .cap = 2 }, DTYPE_F16, false },
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) check(&forms[i], (int)i);
    printf("attention on tensor cores: %zu cases: %s\n", sizeof forms / sizeof *forms,
           wrong ? "WRONG" : "right");
}

/* ---- time ---- */

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(const bound *b, int kind, bool backward) {
    double all[ROUNDS], once;
    run(b, kind, backward, 1);
    once = run(b, kind, backward, 1);
    int launches = once > 0.02 ? 1 : (int)fmin(0.02 / once, 500) + 1;
    for (int i = 0; i < ROUNDS; i++) all[i] = run(b, kind, backward, launches);
    qsort(all, ROUNDS, sizeof *all, ascending);
    return all[ROUNDS / 2];
}

static void time_form(const form *f) {
    static const char *const kinds[] = { "plain", "tensor" };
    const attention_attributes *a = &f->attributes;
    bound b = bind(f);
    double pairs = a->causal ? 0.5 * (double)f->queries * (double)(f->queries + 1)
                             : (double)f->queries * (double)f->queries;
    double product = 2.0 * (double)f->batch * a->heads * (double)f->size * pairs;
    for (int kind = PLAIN; kind < KINDS; kind++) {
        double forward = median_of(&b, kind, false), backward = median_of(&b, kind, true);
        printf("%3lld x %5lld, %2d heads of %3lld%s%s, %-6s %9.4f ms %7.1f %9.4f ms %7.1f  %016llx\n",
               (long long)f->batch, (long long)f->queries, a->heads, (long long)f->size,
               a->causal ? ", causal" : "", a->dropout > 0 ? ", dropout" : "", kinds[kind], forward * 1e3,
               2e-12 * product / forward, backward * 1e3, 5e-12 * product / backward,
               (unsigned long long)hash_of(&b));
        fflush(stdout);
    }
}

static void time_all(void) {
    static const form forms[] = {
        { 4, 1024, 0, 64, { .heads = 12, .causal = 1 }, DTYPE_BF16, false },
        { 64, 1024, 0, 64, { .heads = 12, .causal = 1 }, DTYPE_BF16, false },
        { 4, 1024, 0, 64, { .heads = 12, .causal = 1, .dropout = 0.1f, .stream = 4 }, DTYPE_BF16, false },
        { 16, 512, 0, 64, { .heads = 12 }, DTYPE_BF16, false },
        { 2, 4096, 0, 128, { .heads = 32, .kv_heads = 8, .causal = 1 }, DTYPE_BF16, false },
        { 4, 1024, 0, 64, { .heads = 12, .causal = 1 }, DTYPE_F16, false },
    };
    printf("\nbf16, the last one f16; milliseconds and TFLOP/s, forward, then backward:\n");
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) time_form(&forms[i]);
}

int main(int count, char **arguments) {
    if (count < 2 || count > 3) die("usage: bench-gpu-attention DEVICE [seconds]");
    bool timed = count == 3;
    room_open(arguments[1], timed ? 4ull << 30 : 32 << 20);
    if (instructions_pin(INSTRUCTIONS_TENSOR) != STATUS_OK) die(status_message());
    if (gpu->capability < 80) die("this GPU has none of these instructions");
    check_all();
    if (timed) time_all();
    room_close();
    return wrong > 0;
}
