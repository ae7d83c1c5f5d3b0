/* What torchtitan needs of each device for a training step of a decoder in bf16, with FSDP2's shares in f32,
 * and with products, layers, contexts and experts divided among devices.
 *
 * Read in torchtitan (commit b5bcd76, and 9dec370 of December 2024, of which its figures are), in PyTorch's
 * FSDP2 and in torchao: distributed/fsdp.py, distributed/activation_checkpoint.py, distributed/
 * pipeline_parallel.py, models/llama3/parallelize.py, components/loss.py; torchao/float8/float8_linear.py.
 * Papers: Liang et al., TorchTitan, arXiv:2410.06511; Narayanan et al., arXiv:2104.04473 (pipelines);
 * Korthikanti et al., arXiv:2205.05198 (sequences); Liu et al., Ring attention, arXiv:2310.01889 (contexts).
 * docs/titan.md has the rules in words. */
#pragma once

#include "estimate/heads.h"
#include "estimate/interval.h"
#include "models/model.h"

typedef enum { TITAN_SELECTIVE, TITAN_FULL, TITAN_KEEPS } titan_checkpoint;
typedef enum { TITAN_ONE, TITAN_INTERLEAVED } titan_schedule; /* 1F1B: of one stage a device; of several */
/* How float8 linear modules are scaled: by one number a tensor, by one a row, or by one for 32 numbers (MX).
 */
typedef enum { TITAN_BF16, TITAN_TENSORWISE, TITAN_ROWWISE, TITAN_MX } titan_float8;
typedef enum { TITAN_LOSS_PLAIN, TITAN_LOSS_CHUNKED } titan_loss;

typedef struct {
    int64_t tensor, pipeline, contexts, experts; /* devices that divide each of these */
    int64_t replicas;                            /* groups that each hold a whole model (HSDP) */
    int64_t gpus;                                /* all devices */
    int64_t batch, context;                      /* samples of a device's group at once; tokens of a sample */
    int64_t passes;                              /* micro-batches that a pipeline cuts these into */
    int64_t accumulate;                          /* passes of such samples before a step */
    int64_t stages_each;                         /* virtual stages of a device, with TITAN_INTERLEAVED */
    titan_checkpoint checkpoint;
    titan_schedule schedule;
    titan_float8 float8;
    titan_loss loss;
    bool gathers_float8;                /* FSDP sends weights in 8 bits */
    bool compiled, eager_loss, foreach; /* eager_loss: of what is compiled the loss is not */
    bool sends_beside;                  /* async tensor parallelism */
    double tokens;                      /* hours are asked for so many tokens, or steps; 0: they are not */
    int64_t steps;
} titan_settings;

enum { TITAN_MOST_STAGES = 1024, TITAN_CHUNKS = 8 };

/* Live bytes of one device. */
typedef struct {
    double weights, gradients, optimizer;    /* shares of f32 */
    double gathered;                         /* weights that are whole, and gradients of a block's */
    double activations, logits, temporaries; /* at the peak */
    double streams;                          /* what FSDP's streams hold in segments of their own */
    double left;  /* room that logits in bf16 leave at the loss; reserved, not live */
    double saved; /* bytes that FSDP's weights of 8 bits save of all that */
    const char *peak_in;
    double layers, kept; /* of the stage; micro-batches, of virtual stages theirs */
    double live;
} titan_stage;

typedef struct {
    titan_stage at; /* the fullest stage */
    int64_t stage, stages;
    double parameters;
    int64_t shards; /* devices among which a weight is shared out */
    double share;   /* numbers of weights that a device has a share of, at most */
} titan_result;

/* The fewest devices that hold all copies of the model; all other numbers that sizes allow are multiples. */
int64_t titan_least_devices(const titan_settings *s);

/* STATUS_INVALID: settings that contradict each other or the model, with a sentence. */
status titan_check(const model *m, const model_config *c, const titan_settings *s);
/* `s` has passed titan_check. */
status titan_estimate(const model *m, const model_config *c, const titan_settings *s, titan_result *r);

/* Bytes that the allocator holds for it, without what its pieces leave between them. */
double titan_held(const titan_stage *at);

/* ---- within this room ---- */

/* Layers of a part of the pipeline, which table and head, a layer each, leave to it. */
double titan_layers(const titan_settings *s, int64_t layers, int64_t part);
