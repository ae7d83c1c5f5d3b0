/* What PyTorch needs for a training step: another reading of a model's forward graph, by that framework's
 * rules.
 *
 * Each node of the graph becomes the calls that PyTorch, or Hugging Face's transformers on it, makes for it,
 * with what autograd keeps of them (its formulas are in derivatives.yaml). The tape is then played: live
 * bytes; and each allocation is told to a model of the caching allocator: reserved bytes. What the process
 * takes beside that, the context and libraries, is the device's to say. docs/estimate.md lists the rules. */
#pragma once

#include "autodiff/optimizer.h"
#include "estimate/interval.h"
#include "estimate/torch/tape.h"
#include "models/model.h"

/* HALF: weights of 16 bits as well. UNSAID: an option's: AUTOCAST, or what a step was recorded in. */
typedef enum { TORCH_TYPES_UNSAID = -1, TORCH_F32, TORCH_AUTOCAST, TORCH_HALF } torch_types;
/* FLASH: torch's own kernels (sdpa), which know no windows: those are masks. FLASH_ATTN: those of the library
 * flash-attn by way of transformers, which take a window and read no mask. */
typedef enum { TORCH_FLASH, TORCH_EAGER, TORCH_FLASH_ATTN } torch_attention;
const char *torch_attention_word(torch_attention a); /* as attn_implementation of transformers has it */
typedef enum {
    TORCH_FOREACH,
    TORCH_FUSED,
    TORCH_SINGLE
} torch_update; /* how the optimizer goes over weights */
/* Optimizers that keep less of the matrices of blocks, of a recorded step; other weights have what
 * torch_settings.optimizer keeps. Muon: one moment (kellerjordan.github.io/posts/muon). GaLore
 * (arXiv:2403.03507): moments of `state_rank` numbers for each of the longer side, and a projection; APOLLO
 * (arXiv:2412.05270): the same without it, drawn anew from a seed. */
typedef enum { TORCH_WHOLE_STATES, TORCH_MUON, TORCH_GALORE, TORCH_APOLLO } torch_matrices;
typedef enum { TORCH_ALONE, TORCH_DDP, TORCH_ZERO1, TORCH_ZERO2, TORCH_ZERO3, TORCH_FSDP } torch_shard;

/* What is kept with the host: the optimizer's state with f32 masters and gradients (DeepSpeed), weights too.
 */
typedef enum { TORCH_KEEPS_NONE, TORCH_KEEPS_STATE, TORCH_KEEPS_ALL } torch_host_keeps;

/* Who makes the texts that GRPO learns from: transformers' generate; vLLM on the same devices, where it stays
 * between rollouts, or sleeps; vLLM on others. */
typedef enum { TORCH_GENERATES, TORCH_COLOCATES, TORCH_SLEEPS, TORCH_ELSEWHERE } torch_rollouts;

/* TRL's GRPOTrainer (torch_grpo.h). */
typedef struct {
    bool asked;
    torch_rollouts rollouts;
    int64_t completion;     /* tokens at the end of a text that are made, and learned from */
    int64_t generations;    /* texts of one prompt */
    int64_t iterations;     /* passes of training over the same texts */
    int64_t passes;         /* micro-batches whose texts are made at once; 0: those of an optimizer step */
    double beta;            /* weight of the divergence from a reference; 0: there is none */
    double share;           /* of the device, which vLLM fills */
    uint64_t awake, asleep; /* bytes of vLLM's on the device; framework_torch sets them */
} torch_grpo;

/* Of a pass without gradients between training's steps; torch_grpo.c sets it. */
typedef struct {
    bool asked;
    bool within;    /* between two micro-batches, whose gradients are there */
    bool bare;      /* adapters are switched off */
    bool whole;     /* weights that are shared out stand there whole besides */
    bool makes;     /* texts are made: the head sees a text's last token alone, and one is drawn */
    int64_t cached; /* tokens of each text whose keys and values lie beside the pass */
} torch_pass;

/* Of PyTorch, in the order of TORCH_VERSION_NAMES. TORCH_ANY: nobody says it; likely today's. */
typedef enum {
    TORCH_ANY,
    TORCH_1_8,
    TORCH_1_9,
    TORCH_1_10,
    TORCH_1_11,
    TORCH_1_12,
    TORCH_1_13,
    TORCH_2_0,
    TORCH_2_1,
    TORCH_2_2,
    TORCH_2_3,
    TORCH_2_4,
    TORCH_2_5,
    TORCH_2_6,
    TORCH_2_7,
    TORCH_2_8,
    TORCH_2_9,
    TORCH_2_10,
    TORCH_2_11,
    TORCH_2_12, /* no rule tells these apart from 2.11 */
    TORCH_2_13,
    TORCH_2_14,
    TORCH_2_15,
    TORCH_TODAY = TORCH_2_15
} torch_version;
#define TORCH_VERSION_NAMES                                                                                  \
    "any, 1.8, 1.9, 1.10, 1.11, 1.12, 1.13, 2.0, 2.1, 2.2, 2.3, 2.4, 2.5, 2.6, 2.7, 2.8, 2.9, 2.10, 2.11, "  \
    "2.12, 2.13, 2.14, 2.15"

typedef struct {
    torch_version version;
    bool transformers; /* the modules of Hugging Face's library; else torch.nn's own */
    bool litgpt;       /* else: the modules of Lightning's litgpt */
    bool older;        /* libraries as they were before July 2024 */
    bool cuda;         /* else what PyTorch does on a CPU */
    torch_types types;
    torch_attention attention;
    torch_update update;
    bool update_by_rule;    /* of a recorded step: not as it was recorded, but as the settings say */
    bool narrow_throughout; /* of one in 16 bits by rule: nothing in it casts to f32 */
    torch_shard shard;
    torch_host_keeps host_keeps;
    optimizer_kind optimizer;
    double momentum;    /* of SGD */
    int64_t state_bits; /* of the optimizer's state: 32, or 8 in blocks of 256, or 4 in blocks of 128 */
    torch_matrices matrices;
    int64_t state_rank; /* of GaLore and APOLLO */
    bool in_backward;   /* of a recorded step: a weight is updated as soon as its gradient is there */
    bool averages;      /* ... and an average of the weights is kept beside them */
    int64_t batch, context;
    int64_t adapter_rank; /* 0: all weights are trained */
    int64_t base_bits;    /* of the frozen weights beside adapters: 16, or 4 */
    bool plain_scales;    /* of 4 bits: in f32, not in 8 bits with scales of their own */
    int64_t gpus;
    const char *adapter_targets; /* modules by name, with commas; NULL: every product of the blocks */
    double adapter_dropout;
    bool magnitudes; /* adapters with magnitudes, PEFT's use_dora */
    bool checkpointing, fused_loss;
    const char *checkpoint_saves; /* of a recorded step: operations whose results stay; NULL: none */
    int64_t loss_chunks;          /* ... and head and loss in so many pieces of rows; 0: as recorded */
    bool reentrant;     /* blocks are computed again by a function around FSDP's units, not within them */
    int64_t step;       /* samples of an optimizer step over all devices; 0: those of one pass */
    uint64_t limit;     /* bytes that the device lets the allocator reserve; 0: no end */
    bool repeats_heads; /* of keys and values, before fused attention; torch_estimate sets it */
    uint64_t workspace; /* of the products' library, for each thread that calls it */
    bool unfused;       /* no fused kernel of attention is there for this GPU */
    int64_t multiprocessors, threads; /* of the GPU; threads that each holds; 0: sums take no buffers */
    bool masters;                     /* 16 bits with f32 shares of weights; torch_estimate sets it */
    int64_t positions;                /* that the model is made for; torch_estimate sets it */
    bool widens;                      /* norms and the loss in f32 where all else has 16 bits */
    bool holds_output;                /* whoever trains holds the model's output to the end of the step */
    bool keeps_gradients;             /* ... and gradients until forward of the next step is done */
    /* Of a decoder that continues texts: numbers of a token's keys and values in one layer, 0 where it can't;
     * its layers, and those that see `window` tokens alone. */
    int64_t cache_numbers, layers, near_layers, window;
    bool turns_keys;   /* by cosines and sines that are as wide as the embeddings */
    int64_t workers;   /* of a data loader, for each process */
    int64_t node_gpus; /* devices, and so processes, of a node; 0: not known, all count as one */
    /* How long training is to be: tokens (of images: images), or steps; 0: nobody asks. The share of the
     * device's rate that it reaches; 0: nobody says. */
    double tokens, share;
    int64_t steps;
    bool expandable;           /* the allocator has expandable_segments */
    bool padded;               /* samples are padded, so attention gets a mask */
    bool compiled, benchmarks; /* torch.compile, cudnn.benchmark: torch_beyond.h */
    int64_t shortest;          /* tokens of the shortest sample; 0: all are as long as the context */
    const model *of;           /* whose steps of other lengths are played; torch_estimate sets it */
    torch_grpo grpo;
    torch_pass pass;
} torch_settings;

/* What a step of GRPO's does one after the other. */
typedef enum {
    TORCH_PHASE_GENERATING,
    TORCH_PHASE_OLD,       /* the model's own chances of the texts, before it learns from them */
    TORCH_PHASE_REFERENCE, /* the reference's */
    TORCH_PHASE_TRAINING,
    TORCH_PHASES
} torch_phase;

/* Live bytes besides the step. What has no rule, or takes nothing more than the step leaves, is 0. */
typedef struct {
    interval evaluating; /* forward without gradients, after training */
    interval generating; /* after training, texts as long as the context */
    interval loading;    /* weights, at the start */
    interval resuming;   /* a checkpoint, in a new process */
    interval misplaced;  /* on the first device, of each other process, by a checkpoint loaded where it was */
    interval saving;
} torch_besides;

typedef struct {
    interval live, reserved;
    uint64_t held; /* what the played allocator had at most; above torch_settings.limit: a request failed */
    uint64_t by_term[TAPE_TERMS];  /* of live.likely */
    const char *peak_in;           /* forward, backward or update; of GRPO's also a phase */
    interval phases[TORCH_PHASES]; /* of GRPO, live; 0: there is no such phase */
    uint64_t parameters, trained;  /* how many */
    uint64_t largest;              /* numbers of the largest weight */
    uint64_t state, trained_bytes; /* bytes of the optimizer's state and of trained weights, of all devices */
    double operations, calls; /* of forward, of one micro-batch: in products of matrices; how many calls */
    double convolutions;      /* the share of operations that convolutions have */
    torch_besides besides;
} torch_result;

/* Samples of unequal lengths, whose order nobody knows: the upper end of what is reserved, beside what the
 * order that is played reserves. */
static const double torch_unequal_order = 1.30;

/* What --shard names is at work: among several devices, or between one and the host. */
static inline bool torch_is_shared(const torch_settings *s) {
    return s->shard != TORCH_ALONE && (s->gpus > 1 || s->host_keeps);
}

/* Micro-batches of an optimizer step. */
int64_t torch_accumulation(const torch_settings *s);

status torch_estimate(const model *m, const torch_settings *s, torch_result *r);

/* The steps whose peak torch_estimate's likely value is, told to `w` as they are played. */
status torch_watch(const model *m, const torch_settings *s, tape_watcher *w);

/* Writes the step's calls; for tests. `g` is a forward graph (MODEL_TRAIN). */
status torch_read(const graph *g, const torch_settings *s, tape *t);
