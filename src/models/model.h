/* What a model is to the rest: a builder of graphs. It is mathematics only; precision, recomputation,
 * sharding and devices are unknown here.
 *
 * Names that the trainer knows: the fields of a sample (below), "loss_scale" (1) f32: the reciprocal of the
 * number of counted labels of the whole batch, "key" (4) i32: philox_key, where something is random;
 * results "loss" (1) f32, summed over calls. With a head of classes, programs of validation keep the number
 * of samples whose class they tell right as "hits", and "logits". */
#pragma once

#include "ir/graph.h"
#include "models/weight.h"

typedef enum {
    MODEL_TRAIN,    /* loss, with dropout */
    MODEL_EVALUATE, /* loss, without */
    MODEL_PREDICT,  /* outputs of whole samples, without a loss: of networks that are built through the API */
    MODEL_ROWS,     /* logits of some of `context` rows, which are tokens of any texts, with their caches in
                       blocks (models/paged.h); batch is 1 */
    MODEL_SOURCES   /* of a model that answers: `context` rows of texts that are read for MODEL_ROWS */
} model_mode;

/* A text goes on from what is in its cache. */
static inline bool model_mode_continues(model_mode m) { return m == MODEL_ROWS; }

typedef struct {
    model_mode mode;
    int64_t batch, context;
    int64_t layers;                  /* of a model whose layers are alike, only so many; 0: all it has */
    const struct paged_sizes *paged; /* of MODEL_ROWS and MODEL_SOURCES */
} model_run;

typedef struct {
    tensor_id loss, logits; /* 0: not in this mode */
    tensor_id hidden; /* of MODEL_ROWS that tell it (models/paged.h): what its head looks at, of all rows */
} model_ports;

/* One input per sample: what the data source delivers. Its tensor has the shape (batch, of...). */
typedef struct {
    const char *name;
    shape of; /* one sample; rank 0: one element */
    dtype dtype;
} model_field;

/* How a parameter begins. */
typedef struct {
    float mean, deviation; /* normal; deviation 0: all equal to the mean */
    uint32_t stream;       /* of the random numbers: one per parameter */
} model_initial;

enum { MODEL_MAX_FIELDS = 8, MODEL_MOST_DECODED = 64 /* texts that generating continues at once */ };

/* What a model of texts ends in. */
typedef enum {
    HEAD_LANGUAGE, /* logits of each token's successor, or of what a gap hides */
    HEAD_CLASSES,  /* logits of a whole sample's class */
    HEAD_SCORE     /* a number for a whole sample */
} model_head_kind;
typedef struct {
    model_head_kind kind;
    int64_t outputs; /* classes; of a score 1; else not read */
} model_head;

/* How transformers writes what mathematics leaves open. Nothing here computes otherwise for it; estimates of
 * its steps count it. */
typedef struct {
    bool gelu_whole;        /* the tanh form of GELU is one call; else it is written out, as "gelu_new" is */
    bool wide_scales;       /* norms multiply by their scales before they go back to 16 bits */
    bool narrow_softmax;    /* of scores that are written out: in the type of the values */
    bool repeats_keys;      /* keys and values that heads share are repeated before any kind of attention */
    bool copies_values;     /* out of what packs them, and what attention makes */
    bool wide_turns;        /* queries and keys turn in f32, whatever type they have ... */
    bool narrow_angles;     /* ... by cosines and sines in the type of the values */
    bool wide_loss;         /* logits go to f32 before the loss, as decoders' do */
    bool unbinds;           /* queries, keys and values, of what packs them, at once */
    bool repeats_angles;    /* each block does, for pairs that stand side by side */
    bool norms_written_out; /* layer norms, call by call, in f32 */
    bool names_attended;    /* a block's function has a variable for what attention returned alone */
} model_spelling;

typedef struct model model;
struct model {
    const char *family; /* "gpt2" */
    char name[64];      /* preset or directory, for people */
    const void *config; /* the family's own */
    int64_t context;    /* longest; 0: samples have no time */
    int64_t vocabulary; /* 0: none */
    int64_t layers;
    bool alike;        /* each layer computes the same of its own weights: with fewer, all else stays */
    int64_t window;    /* every layer sees so many positions, the last ones; 0: not all of them do */
    model_head head;   /* set by head_attach (models/head.h) */
    bool judged_first; /* a head of whole samples looks at the first token, which sees all; else the last */
    bool sees;         /* images, and tells their classes (models/images.h) */
    bool masks;    /* tokens of a sample are hidden, and the labels are what they were (data/masking.h) ... */
    int32_t mask;  /* ... behind this one */
    bool packs;    /* it can tell documents apart that stand one behind the other in a sample */
    bool packed;   /* and does: samples have the field "segments" too. Set before anything is built */
    int64_t types; /* of tokens, by which it tells the first of two texts from the second; 0: it can't */
    bool typed;    /* and its samples say them, in the field "types". Set before anything is built */
    bool answers;  /* a sample is a text and the answer to it (data/answers.h) ... */
    int32_t start; /* ... which begins behind this token */
    bool learned_positions; /* then "positions" as well: where in its document a token stands ... */
    int32_t first_position; /* ... from this number on */
    bool reads_whole;       /* MODEL_ROWS: rows see all of their text; hidden states alone are told */
    const char *no_text;    /* why it can't continue a text, as a clause; NULL: it can */
    model_spelling spelling;
    const char *untrained; /* why it can be planned and not computed, as a clause; NULL: it can */
    void (*build)(const model *m, graph *g, const model_run *run, model_ports *ports);
    void (*initial)(const model *m, const char *parameter, const shape *s, model_initial *out);
    uint32_t (*fields)(const model *m, int64_t context, model_field out[MODEL_MAX_FIELDS]);
};

/* Tools for builders. */
static inline int64_t model_layers(const model_run *run, int64_t all) {
    return run->layers ? run->layers : all;
}
tensor_id model_parameter(graph *g, const char *name, shape s, uint16_t more_flags); /* f32, trainable */
tensor_id model_input(graph *g, const char *name, shape s, dtype type);
tensor_id model_result(graph *g, const char *name); /* (1) f32 */
/* The same numbers, to be kept: a technique may make another node of a product or a norm, which keeps
 * nothing. */
tensor_id model_shown(graph *g, tensor_id x);
/* STATUS_INVALID with a sentence where m can only be planned. */
status model_computes(const model *m);
status model_continues(const model *m); /* likewise where m can't continue a text */
/* For `build`: false, and the graph has failed, where it is to continue a text and can't. */
bool model_may_build(const model *m, graph *g, const model_run *run);
uint32_t model_stream(const char *parameter); /* of its random numbers, from its name */
/* "tokens" and "labels"; where m is packed "segments" too, the number of a token's document in its sample,
 * and "positions". */
uint32_t model_token_fields(const model *m, int64_t context, model_field out[MODEL_MAX_FIELDS]);
/* The inputs (batch, context) of the latter two; 0 where there is none, as in decoding. */
tensor_id model_segments(const model *m, graph *g, const model_run *run);
tensor_id model_positions(const model *m, graph *g, const model_run *run);
