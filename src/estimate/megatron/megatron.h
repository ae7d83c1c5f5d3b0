/* What Megatron-LM needs of each device for a training step of a decoder in bf16, with weights, layers,
 * sequences and experts divided among devices.
 *
 * Weights and what belongs to them follow from sizes. Of activations each layer is a list of calls
 * (megatron_calls.h): what each keeps for backward, and what it needs for a while beside it. The schedule of
 * the pipeline then says how many micro-batches are kept at once. Papers: Shoeybi et al., Megatron-LM,
 * arXiv:1909.08053 (tensors); Narayanan et al., arXiv:2104.04473 (pipelines, interleaved too); Korthikanti et
 * al., arXiv:2205.05198 (sequences, and what selective recomputation keeps); Rajbhandari et al., ZeRO,
 * arXiv:1910.02054 (the distributed optimizer); Jacobs et al., DeepSpeed Ulysses, arXiv:2309.14509, and Liu
 * et al., Ring attention, arXiv:2310.01889 (contexts). What libraries keep was read in Megatron-Core 0.16 and
 * Transformer Engine 2.11; docs/megatron.md lists it. */
#pragma once

#include "estimate/interval.h"
#include "estimate/megatron/megatron_shape.h"

typedef enum { MEGATRON_KEEPS, MEGATRON_SELECTIVE, MEGATRON_FULL } megatron_recompute;
typedef enum { MEGATRON_UNIFORM, MEGATRON_BLOCK } megatron_method;
/* PLAIN: the vocabulary-parallel loss in f32; NATIVE: Megatron's fused one, which keeps the same; TE:
 * Transformer Engine's, whose gradient takes the place of the logits. */
typedef enum { MEGATRON_LOSS_PLAIN, MEGATRON_LOSS_NATIVE, MEGATRON_LOSS_TE } megatron_loss;
typedef enum { MEGATRON_RING, MEGATRON_ALL_TO_ALL } megatron_context;

/* What --recompute-modules names, as bits in this order. */
typedef enum {
    MEGATRON_CORE_ATTENTION,
    MEGATRON_NORMS,
    MEGATRON_UP_PROJECTIONS,
    MEGATRON_FEED,
    MEGATRON_EXPERTS,
    MEGATRON_EXPERT_ACTIVATION,
    MEGATRON_SHARED_EXPERTS,
    MEGATRON_MODULES
} megatron_module;
#define MEGATRON_MODULE_NAMES "core_attn, layernorm, mla_up_proj, mlp, moe, moe_act, shared_experts"

typedef struct {
    int64_t tensor, pipeline, contexts, experts; /* devices that divide each of these */
    int64_t expert_tensor;                       /* 0: as tensor */
    int64_t gpus;                                /* all devices */
    int64_t virtual_layers;                      /* of a virtual stage; 0: no interleaving */
    int64_t first_layers, last_layers;           /* of these stages; 0: as the others */
    int64_t instances;                           /* of the optimizer: groups that each share it alone */
    int64_t stage;                               /* which is asked for; -1: the fullest */
    int64_t layers;                              /* in place of the model's; 0: as many as that has */
    int64_t batch, context;                      /* samples of a micro-batch; tokens of a sample */
    int64_t step, accumulate; /* samples of a step; micro-batches of one; 0: as many as fill the pipeline */
    int64_t batch_step;       /* samples of a step from --batch beside --micro-batch; 0: not said */
    const char *batch_name;   /* the option that said `batch`; NULL: --micro-batch */
    int64_t divisible;        /* what the vocabulary is padded to a multiple of, times `tensor` */
    int64_t again_layers;     /* --recompute-num-layers; 0: all of a stage one by one */
    const char *again_names;  /* --recompute-modules; NULL: core_attn */
    uint32_t again;           /* bits of megatron_module; megatron_settle sets it */
    megatron_recompute recompute;
    megatron_method method;
    megatron_loss loss;
    megatron_context context_kind;
    double capacity; /* of an expert, as a part of its even share; 0: no token is dropped */
    bool pads;       /* experts' inputs are padded to the capacity */
    bool sequence;   /* --sequence-parallel */
    bool shares;     /* --use-distributed-optimizer */
} megatron_settings;

enum { MEGATRON_MOST_STAGES = 1024 };

/* Bytes of one device. */
typedef struct {
    uint64_t weights, gradients, optimizer;
    uint64_t buffers;                  /* that stay: of products, gradients that stand in, gathered inputs */
    uint64_t activations, temporaries; /* at the peak: kept for backward; for a while */
    const char *peak_in, *peak_call;   /* "forward" or "backward"; what runs then */
    uint64_t parameters;               /* how many */
    uint64_t live;                     /* all of these bytes */
    int64_t layers, kept; /* of the stage; micro-batches (of virtual stages: theirs) kept at most */
} megatron_stage;

typedef struct {
    megatron_stage at;     /* the stage that was asked for, or the fullest */
    int64_t stage, stages; /* its number */
    uint64_t live_of[MEGATRON_MOST_STAGES];
    uint64_t parameters; /* of the whole model */
    int64_t replicas, micro_batches;
} megatron_result;

/* The fewest devices that hold a copy of the model, whatever the model: all other numbers that sizes allow
 * are multiples. `s` need not have passed megatron_settle. INT64_MAX: more than can be counted. */
int64_t megatron_least_devices(const megatron_settings *s);

/* Tokens that --context is a multiple of. `s` need not have passed megatron_settle. */
int64_t megatron_context_step(const megatron_settings *s);

/* Replaces the names of --recompute-modules by bits. STATUS_INVALID: settings that contradict each other or
 * the model, with a sentence. */
status megatron_settle(megatron_settings *s, megatron_shape *m, const char *name);

/* Copies of the model, and micro-batches that each of them takes in a step. */
int64_t megatron_replicas(const megatron_settings *s);
int64_t megatron_micro_batches(const megatron_settings *s);

/* `s` and `m` have passed megatron_settle. */
status megatron_estimate(const megatron_shape *m, const megatron_settings *s, megatron_result *r);
