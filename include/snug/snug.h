/* snug: neural networks trained inside the memory you have.
 *
 * Describe a network as a function that builds it, describe data as a function that writes sample number i,
 * and say how many bytes the process may take. snug_plan answers, before anything large is allocated, exactly
 * what the training needs and which memory-saving techniques make it fit at the least cost in time;
 * snug_train then runs exactly that plan; snug_load and snug_predict use what was trained.
 * examples/classify.c is a whole program.
 *
 * Every function that can fail returns a snug_status or NULL, and snug_error says why in one sentence. NULL
 * where a pointer must not be NULL is a failure, too: the function does nothing and returns SNUG_INVALID,
 * NULL, 0 or zeros. The library never prints, exits or aborts. Plans and predictors belong to the thread that
 * uses them; a process trains one network at a time, on as many threads as it is given. Results do not depend
 * on their number. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define SNUG_API __attribute__((visibility("default")))
#else
#define SNUG_API
#endif

/* Of a type: compilers that know how warn where a function's result of that type is dropped. */
#if defined(__cplusplus)
#if __cplusplus >= 201703L
#define SNUG_HEEDED [[nodiscard]]
#endif
#elif defined(__clang__)
#define SNUG_HEEDED __attribute__((warn_unused_result))
#elif defined(__GNUC__) && defined(__has_c_attribute)
#if __has_c_attribute(nodiscard)
#define SNUG_HEEDED [[nodiscard]]
#define SNUG_EXTENSION __extension__ /* before C23 */
#endif
#endif
#ifndef SNUG_HEEDED
#define SNUG_HEEDED
#endif
#ifndef SNUG_EXTENSION
#define SNUG_EXTENSION
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The values are the exit codes of the command `snug`. */
SNUG_EXTENSION typedef enum SNUG_HEEDED {
    SNUG_OK = 0,
    SNUG_FAILED = 1,  /* after work began: disk full, a loss that is not finite, a callback that failed */
    SNUG_INVALID = 2, /* wrong input or options that contradict each other */
    SNUG_NO_FIT = 3,  /* needs more memory than it may have */
    SNUG_INTERRUPTED = 130 /* was asked to stop, and did so in order */
} snug_status;

/* The sentence of this thread's last failure; never NULL. */
SNUG_API const char *snug_error(void);

/* Which instructions of the processor may be used, in this process and from now on; before anything is
 * planned, since bits of training in bf16 depend on it: a name that `snug devices` shows ("avx2",
 * "avx512-bf16"), "widened" (bf16 by products of f32, as on any processor), "auto" (all), as it begins, or
 * "tensor-cores" (all, and those of a GPU), or "tensor-groups" (those, on capability 9.0 by groups of warps);
 * kernels of these two have run in emulation alone. */
SNUG_API snug_status snug_instructions(const char *name);

/* ---- networks ---- */

enum { SNUG_MAX_RANK = 4, SNUG_MAX_FIELDS = 8, SNUG_MAX_OUTPUTS = 8, SNUG_IGNORED_LABEL = -100 };

typedef enum { SNUG_F32, SNUG_I32 } snug_type;

typedef struct {
    int64_t dim[SNUG_MAX_RANK]; /* row-major */
    uint32_t rank;              /* 0: a single number */
} snug_shape;

#define SNUG_SHAPE(...)                                                                                      \
    ((snug_shape){ .dim = { __VA_ARGS__ },                                                                   \
                   .rank = (uint32_t)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)) })

/* A part of every sample: its name in the graph, and the shape that it has in one sample (rank at most 3). */
typedef struct {
    const char *name;
    snug_shape shape;
    snug_type type;
} snug_field;

typedef struct snug_graph snug_graph;
typedef uint32_t snug_tensor; /* 0: none */

typedef struct {
    const char *name;                   /* for people */
    snug_field fields[SNUG_MAX_FIELDS]; /* of a sample; the first without a name ends the list */
    const char *labels; /* the i32 field that holds labels: the loss is the mean over those that are not
                           SNUG_IGNORED_LABEL; NULL: over the samples */

    /* Adds the network to the graph, with the functions below. It is called many times, by several threads at
     * once, and must build the same network each time: it may read `context`, and write nothing but the
     * graph. */
    void (*build)(void *context, snug_graph *g);
    void *context;
} snug_network;

/* Values. The first dimension of a field, and of nearly all that is made from fields, counts samples. When a
 * call is wrong, the graph remembers the first sentence, later calls do nothing and return 0, and whoever
 * wanted the network built gets SNUG_INVALID. */

SNUG_API snug_tensor snug_input(snug_graph *g, const char *field);     /* (samples, shape of the field...) */
SNUG_API snug_shape snug_shape_of(const snug_graph *g, snug_tensor x); /* of rank 0 where x is none */

/* A trained tensor, f32. It begins with normal numbers around `mean`, or equal to it where deviation is 0;
 * the optimizer's weight decay applies from rank 2 on. Names are unique, of letters, digits and "._-/". */
SNUG_API snug_tensor snug_parameter(snug_graph *g, const char *name, snug_shape shape, double mean,
                                    double deviation);

/* Products: x is (...,K), w is (K,N), or (N,K) where transposed, bias (N) or 0; the result is (...,N). */
SNUG_API snug_tensor snug_matmul(snug_graph *g, snug_tensor x, snug_tensor w, snug_tensor bias,
                                 bool transposed);

/* The same with parameters "NAME.weight" (K,outputs), of deviation 1/sqrt(K), and "NAME.bias", which begins
 * at 0. */
SNUG_API snug_tensor snug_linear(snug_graph *g, const char *name, snug_tensor x, int64_t outputs);

/* Rows of a table (V,C), picked by i32 ids (N) or (N,T); the result has one more dimension, C. */
SNUG_API snug_tensor snug_embedding(snug_graph *g, snug_tensor ids, snug_tensor table);
/* x (N,T,C) plus the first T rows of a table (S,C). */
SNUG_API snug_tensor snug_add_positions(snug_graph *g, snug_tensor x, snug_tensor table);

/* Elementwise. */
SNUG_API snug_tensor snug_add(snug_graph *g, snug_tensor a, snug_tensor b);
SNUG_API snug_tensor snug_multiply(snug_graph *g, snug_tensor a, snug_tensor b);
SNUG_API snug_tensor snug_scale(snug_graph *g, snug_tensor x, double factor);
SNUG_API snug_tensor snug_relu(snug_graph *g, snug_tensor x);
SNUG_API snug_tensor snug_tanh(snug_graph *g, snug_tensor x);
SNUG_API snug_tensor snug_sigmoid(snug_graph *g, snug_tensor x);
SNUG_API snug_tensor snug_gelu(snug_graph *g, snug_tensor x);
SNUG_API snug_tensor snug_silu(snug_graph *g, snug_tensor x);
SNUG_API snug_tensor snug_swiglu(snug_graph *g, snug_tensor gate, snug_tensor up); /* silu(gate) up */
SNUG_API snug_tensor snug_dropout(snug_graph *g, snug_tensor x, double p);         /* while training */

/* Over the last dimension, C: gamma (C), beta (C) or 0. */
SNUG_API snug_tensor snug_layernorm(snug_graph *g, snug_tensor x, snug_tensor gamma, snug_tensor beta,
                                    double epsilon);
SNUG_API snug_tensor snug_rmsnorm(snug_graph *g, snug_tensor x, snug_tensor gamma, double epsilon);
SNUG_API snug_tensor snug_softmax(snug_graph *g, snug_tensor x);
/* Batch norm of each channel, the last dimension, over all samples and places: usually epsilon is 1e-5 and
 * momentum 0.1. Parameters "NAME.weight", which begins at 1, and "NAME.bias"; beside them files hold the
 * averages "NAME.running_mean" and "NAME.running_var", to which each step adds the share `momentum` of its
 * batch's, and which stand for a batch's own in validation and in snug_predict. A batch has two samples or
 * more, and is cut into micro-batches only where `techniques` says "accumulation=add". */
SNUG_API snug_tensor snug_batch_norm(snug_graph *g, const char *name, snug_tensor x, double epsilon,
                                     double momentum);

/* The same numbers of each sample in another shape: (samples, shape...). */
SNUG_API snug_tensor snug_reshape(snug_graph *g, snug_tensor x, snug_shape shape);

/* Dimensions are numbered from 0, that of the samples, which stays as it is. A part of one: indexes start ..
 * start + count - 1. Parts (at most 64) one behind the other along one, alike in all others. And two that
 * change places, with the numbers moved. */
SNUG_API snug_tensor snug_slice(snug_graph *g, snug_tensor x, int32_t dimension, int64_t start,
                                int64_t count);
SNUG_API snug_tensor snug_concat(snug_graph *g, const snug_tensor *parts, uint32_t count, int32_t dimension);
SNUG_API snug_tensor snug_transpose(snug_graph *g, snug_tensor x, int32_t first, int32_t second);

/* Images are (N,H,W,C), channels last. Convolution with w (O,C/groups,h,w), as in other programs, and bias
 * (O) or 0; padding is by zeros; NULL are options of 0. */
typedef struct {
    int32_t stride, padding, groups; /* stride and groups 0: 1 */
} snug_conv2d_options;
SNUG_API snug_tensor snug_conv2d(snug_graph *g, snug_tensor x, snug_tensor w, snug_tensor bias,
                                 const snug_conv2d_options *options);
/* The same with parameters "NAME.weight" (outputs,C/groups,size,size), of deviation 1/sqrt(C/groups size
 * size), and "NAME.bias", which begins at 0. */
SNUG_API snug_tensor snug_convolution(snug_graph *g, const char *name, snug_tensor x, int64_t outputs,
                                      int64_t size, const snug_conv2d_options *options);
/* The largest and the mean of windows of size x size, for each channel; what is outside of the image does not
 * count. And the mean over all places: (N,H,W,C) or (N,T,C) become (N,C). */
SNUG_API snug_tensor snug_max_pool(snug_graph *g, snug_tensor x, int32_t size, int32_t stride,
                                   int32_t padding);
SNUG_API snug_tensor snug_mean_pool(snug_graph *g, snug_tensor x, int32_t size, int32_t stride,
                                    int32_t padding);
SNUG_API snug_tensor snug_mean_places(snug_graph *g, snug_tensor x);

/* Attention of `heads` heads of size D. Packed: k and v are 0, and rows of q hold queries, keys and values,
 * (N,T,3 heads D). Otherwise q is (N,T,heads D), k and v (N,S,kv_heads D). The result is (N,T,heads D). */
typedef struct {
    int32_t heads, kv_heads; /* kv_heads 0: as many as heads */
    bool causal;             /* sees itself and what came before */
    int32_t window;          /* sees at most so far; 0: any distance */
    double dropout;          /* of the probabilities, while training */
} snug_attention_options;
SNUG_API snug_tensor snug_attention(snug_graph *g, snug_tensor q, snug_tensor k, snug_tensor v,
                                    const snug_attention_options *options);

/* What follows belongs to block i (from 0) of a stack of alike blocks, until -1: techniques work block by
 * block, and reports name them. */
SNUG_API void snug_block(snug_graph *g, int32_t i);

/* The losses: at least one of these. What is trained, and told, is their sum, each times its weight.
 * Gradients flow to the first tensor only; the second is a field, or made from fields.
 *
 * Softmax cross entropy of logits (...,V) and the i32 labels (...), ids below V: the sum over labels, divided
 * by the number of those that count where the network names its labels, and else by the number of samples. */
SNUG_API void snug_cross_entropy(snug_graph *g, snug_tensor logits, snug_tensor labels);
/* Of one shape, but that a last dimension of 1 may be missing in either: the mean over samples and over all
 * elements of a sample, of (x - target)^2, of |x - target|, and of the cross entropy of sigmoid(logit) with
 * targets from 0 to 1. The network names no labels. */
SNUG_API void snug_squared_error(snug_graph *g, snug_tensor x, snug_tensor targets);
SNUG_API void snug_absolute_error(snug_graph *g, snug_tensor x, snug_tensor targets);
SNUG_API void snug_binary_cross_entropy(snug_graph *g, snug_tensor logits, snug_tensor targets);
/* Soft labels: softmax cross entropy of logits (...,V) and targets (...,V), f32, that add up to 1 for each
 * row: the mean over samples and over the rows of a sample. The network names no labels. */
SNUG_API void snug_soft_cross_entropy(snug_graph *g, snug_tensor logits, snug_tensor targets);
/* The weight of the losses that follow, above 0; before it is said it is 1. */
SNUG_API void snug_loss_weight(snug_graph *g, double weight);

/* What snug_predict gives back; a network that is only trained needs none. Other outputs, up to
 * SNUG_MAX_OUTPUTS in all, have other names than this one, which is "output"; the one that is added first is
 * what snug_predict returns. */
SNUG_API void snug_output(snug_graph *g, snug_tensor x);
SNUG_API void snug_output_named(snug_graph *g, const char *name, snug_tensor x);
/* Is this the network of snug_predict? Then what only the output needs belongs in it, and otherwise not. */
SNUG_API bool snug_predicting(const snug_graph *g);

/* ---- data ---- */

typedef struct {
    int64_t samples;
    /* Writes every field of sample i (0 .. samples-1) to fields[0], fields[1] …, in the network's order.
     * Called by other threads, several at once, on stacks of 64 KiB. What it writes depends on i alone.
     * Anything but 0 ends the run; so does, with SNUG_INVALID, an id or a label of a row that is not there.
     */
    int (*read)(void *context, int64_t i, void *const fields[]);
    void *context;
} snug_data;

/* ---- plans ---- */

typedef enum { SNUG_ADAMW, SNUG_SGD, SNUG_ADAFACTOR, SNUG_LION } snug_optimizer;
typedef enum { SNUG_COSINE, SNUG_LINEAR, SNUG_CONSTANT } snug_schedule;

/* Begin with snug_defaults(). */
typedef struct {
    uint64_t memory;        /* the process may take so many bytes; 0: any number */
    uint64_t program_bytes; /* what your own program holds of them; 0: measured when planning */
    int64_t batch;          /* samples per optimizer step; techniques never change it */
    int64_t micro_batch;    /* of it computed at once; 0: chosen */
    int64_t steps;
    int64_t eval_every;   /* steps; 0: only at the end */
    int64_t eval_samples; /* of the validation data, at most */
    double learning_rate;
    int64_t warmup;         /* steps, from 0 up to learning_rate */
    snug_schedule schedule; /* then down to this part of it: */
    double minimum_rate;
    snug_optimizer optimizer;
    double beta1, beta2; /* AdamW, Lion; -1: the usual ones */
    double epsilon;      /* AdamW */
    double momentum;     /* SGD */
    double weight_decay;
    double clip;            /* the gradients' norm, at most; 0: any */
    int64_t seed;           /* decides initial weights, the order of the data, and dropout */
    int64_t threads;        /* 0: as many as there are */
    bool exact;             /* only techniques that leave every bit of every weight the same */
    const char *techniques; /* pins, such as "recompute=block attention=off"; NULL: all are chosen */
    const char *weights;    /* model directory or .safetensors file to begin from; NULL: random */
    const char *out;        /* folder for model.safetensors and metrics.jsonl; NULL: nothing is written */
    int64_t save_every;     /* steps between checkpoints in `out`; 0: only when stopped */
    int64_t keep;           /* checkpoints that stay */
    bool resume;            /* go on from the newest checkpoint in `out`, if there is one */
    bool overwrite;         /* what another run has left in `out` goes; otherwise it is refused */
    const char *device;     /* "cpu", "cuda", "cuda:1"; NULL: a GPU where there is one */
} snug_options;
SNUG_API snug_options snug_defaults(void);

/* A planned run. */
typedef struct snug_run snug_run;

/* Plans training of the network on `train`, tried on `validation` (NULL: none). The structs are copied; what
 * they point at must outlive the run. With SNUG_OK, and with SNUG_NO_FIT (then as the plan that comes
 * closest), *run answers questions; otherwise it is NULL. End with snug_close, which takes NULL too. */
SNUG_API snug_status snug_plan(const snug_network *network, const snug_data *train,
                               const snug_data *validation, const snug_options *options, snug_run **run);
SNUG_API void snug_close(snug_run *run);

typedef struct {
    bool fits;
    uint64_t peak_bytes;         /* of the whole process */
    uint64_t least_budget_bytes; /* with every technique at its strongest */
    uint64_t plain_peak_bytes;   /* without any technique; 0: pins forbid that */
    uint64_t pool_bytes;         /* the one allocation */
    uint64_t parameters;         /* numbers that are trained */
    double step_seconds;         /* predicted */
    int64_t micro_batch;         /* samples computed at once */
} snug_needs;
SNUG_API snug_needs snug_run_needs(const snug_run *run);

/* The plan, for people: what was chosen, what it saves and costs, what holds the memory at the peak; and the
 * same as JSON. They live as long as the run; NULL for want of memory. */
SNUG_API const char *snug_run_text(snug_run *run);
SNUG_API const char *snug_run_json(snug_run *run);

/* ---- training ---- */

typedef struct {
    int64_t step, steps; /* finished; of */
    double loss;
    double norm; /* of all gradients together; NAN where it is not taken */
    double learning_rate, seconds, seconds_left;
    uint64_t resident_bytes, planned_bytes;
} snug_progress;

/* Any of them may be NULL. They are called by the thread that trains. */
typedef struct {
    void *context;
    void (*stepped)(void *context, const snug_progress *p);
    void (*evaluated)(void *context, int64_t step, double loss);
    volatile sig_atomic_t *stop; /* when it becomes other than 0: finish the step, save, SNUG_INTERRUPTED */
} snug_observer;

typedef struct {
    int64_t steps;                /* that were done */
    double loss, eval_loss;       /* the last ones; NAN: none */
    double seconds, step_seconds; /* of all; median of a step */
    uint64_t resident_peak_bytes; /* of the whole process, as the system counts it */
} snug_result;

/* Runs the plan; it may be run again, and does the same again. `observer` and `result` may be NULL; the
 * result is right as far as it got in any case. */
SNUG_API snug_status snug_train(snug_run *run, const snug_observer *observer, snug_result *result);

/* ---- using a network ---- */

typedef struct snug_predictor snug_predictor;

/* Loads weights (a directory or .safetensors file that training wrote) for the outputs of one sample at a
 * time. `memory` and `threads` as in snug_options. NULL on failure; end with snug_unload, which takes NULL
 * too. */
SNUG_API snug_predictor *snug_load(const snug_network *network, const char *weights, uint64_t memory,
                                   int64_t threads);
/* The same on a device, as in snug_options. */
SNUG_API snug_predictor *snug_load_on(const snug_network *network, const char *weights, uint64_t memory,
                                      int64_t threads, const char *device);
/* And for up to `batch` samples at once, whose memory is planned. The answers are those of one at a time, bit
 * for bit. `device` may be NULL. */
SNUG_API snug_predictor *snug_load_batch(const snug_network *network, const char *weights, uint64_t memory,
                                         int64_t threads, const char *device, int64_t batch);
SNUG_API void snug_unload(snug_predictor *p);

/* The output (shape of snug_output without its first dimension) of the sample whose fields are given in the
 * network's order, as snug_data writes them; fields that the output does not depend on may be NULL. It stays
 * valid until the next call. `count` (may be NULL) gets the number of its elements. NULL on failure. */
SNUG_API const float *snug_predict(snug_predictor *p, const void *const fields[], int64_t *count);
/* The same of 1 to `batch` samples: each field has those of all samples, one after the other, and so has the
 * output. */
SNUG_API const float *snug_predict_batch(snug_predictor *p, int64_t samples, const void *const fields[],
                                         int64_t *count);
/* Another output of the samples that were predicted last, by its name; it stays valid as long. */
SNUG_API const float *snug_predicted(snug_predictor *p, const char *name, int64_t *count);
SNUG_API uint64_t snug_predictor_bytes(const snug_predictor *p); /* what the process needs, as planned */

#ifdef __cplusplus
}
#endif
