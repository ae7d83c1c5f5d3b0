/* What a technique is. One constant of this type per folder under passes/; only passes.def names them. A pass
 * is a function from graph to graph; what passes have to do with each other is visible in the graph, and
 * their order is that of passes.def. */
#pragma once

#include "ir/graph.h"

typedef enum {
    PASS_EXACT,         /* bit-identical losses and weights */
    PASS_REASSOCIATING, /* the same mathematics in another order of summation */
    PASS_LOSSY          /* numerics change; only when the user names it */
} pass_class;
const char *pass_class_name(pass_class c);

typedef enum { PASS_FORWARD, PASS_STEP } pass_stage; /* before, after differentiation and optimizer */

/* One way to apply a technique. The text is what the user writes to pin it and what plans print. */
enum { PASS_SETTING_BYTES = 128 }; /* room for the names of all products of a block */
typedef struct {
    char text[PASS_SETTING_BYTES];
    int64_t value[4]; /* the pass's own reading of the text */
    pass_class class;
} pass_setting;

/* What doing without a technique is, where it applies. */
typedef enum {
    PASS_OPTIONAL, /* worth trying as well */
    PASS_FREE,  /* pointless: the technique costs nothing. Without it only when the user or a class says so */
    PASS_NEEDED /* impossible: this micro-batch cannot run without it */
} pass_without;

/* What surrounds the graph that is rewritten. */
typedef struct {
    bool training;     /* false: a program without backward */
    bool accumulating; /* this program adds to gradients that others share, and does not update; false but for
                          passes that are by_program */
    int64_t batch;     /* samples of an optimizer step */
    int64_t micro_batch; /* samples of the common micro-batch; smaller than batch: there are several */
    int64_t tokens;      /* rows per sample that sums run over (context length) */
    bool clipping;       /* updates wait for a norm of all gradients */
    bool folder;         /* there is one for what does not stay in memory */
    bool narrow_weights; /* the optimizer takes weights of 16 bits */
} pass_context;

enum { PASS_PARAMETER_BYTES = 160 };
/* Of a pass that puts small matrices beside the model's weights and trains those alone. */
typedef struct {
    int64_t rank;
    double alpha, dropout;
    char targets[PASS_SETTING_BYTES]; /* names of products with '+' between them; "all" */
    char base[8];                     /* the form that the model's matrices are held in; "f32" */
} pass_adapter;
typedef struct {
    status (*describe)(const pass_setting *s, pass_adapter *out);
    status (*setting)(const pass_adapter *a, pass_setting *out); /* the other way; with a sentence */

    /* Is this parameter one that the pass adds? Then it begins normal with this deviation; 0: all zero. */
    bool (*begins)(const char *parameter, const shape *s, float *deviation);

    /* The parameters that the pass adds beside a weight of the model's; false: none. */
    bool (*beside)(const char *weight, char a[PASS_PARAMETER_BYTES], char b[PASS_PARAMETER_BYTES]);

    /* Adds what they do to w (of shape s), so that the model does it without them. `by_rows`: w lies as
     * (out, in), not as (in, out). */
    void (*merge)(const pass_adapter *d, const shape *s, bool by_rows, const float *a, const float *b,
                  float *w);
} pass_adapting;

typedef struct {
    const char *name; /* folder, and option: "chunk_loss" is --chunk-loss */
    const char
        *option;      /* NULL: the name with hyphens; without "--", where that means something else already */
    const char *help; /* one line for --help */
    const char *values; /* what may be written: "auto, off, cheap, block" */
    const char *paper;
    pass_class class; /* the most that its settings do */
    pass_stage stage;
    bool training_only; /* leaves programs without backward as they are */
    bool by_program; /* looks at context.accumulating; the others do the same in each program that trains */
    bool follows;    /* changes what earlier passes keep: beside it, their choices show in results */
    uint32_t frees; /* of a step pass, a bit per role: persistent tensors of which it may leave less in memory
                       than it finds; of all others it only adds some */
    bool asked_for; /* decides what is trained, which no budget does: used where it is pinned, and never
                       up to --allow */

    /* Reads the user's text; STATUS_INVALID with a sentence. "auto" and "off" never get here. */
    status (*parse)(const char *text, pass_setting *out);

    /* The settings worth trying on g in this context, at most `room`, applicable ones only; `*without` is
     * PASS_OPTIONAL at entry. */
    uint32_t (*settings)(const graph *g, const pass_context *c, pass_setting *out, uint32_t room,
                         pass_without *without);

    /* Is a pinned setting possible on g? NULL: always. */
    status (*check)(const graph *g, const pass_setting *s, const pass_context *c);

    /* `out` is open and empty. */
    status (*run)(const graph *in, const pass_setting *s, const pass_context *c, graph *out);

    const char *stores; /* how files of weights that only this pass reads are called in their configuration,
                           where its setting stands too; NULL: weights are plain */
    /* Rewrites once more when all passes have run, where that depends on what they have made; NULL: never. */
    status (*finish)(const graph *in, const pass_setting *s, const pass_context *c, graph *out);

    /* Does training with this setting begin at weights that are stored so: under such a name, with that
     * setting? NULL: at plain ones alone. `goes_on` is a setting that does from some, for sentences. */
    bool (*begins_at)(const pass_setting *s, const char *stores, const char *setting);
    const char *goes_on;

    /* What people might expect of this setting and don't get, in one line; NULL: nothing. */
    const char *(*remark)(const pass_setting *s);

    const pass_adapting *adapting; /* NULL: all parameters are the model's */
} pass;

/* All passes in the order in which they run, ending with NULL. */
extern const pass *const pass_table[];
enum { PASS_MAX = 32 }; /* more than there are */

/* The pass that adds this parameter to the model's; NULL: it is the model's own. */
const pass *pass_of_parameter(const char *parameter, const shape *s, float *deviation);

/* The pass's option, without "--", into `text`; returns it. */
enum { PASS_OPTION_BYTES = 32 };
const char *pass_option(const pass *p, char text[PASS_OPTION_BYTES]);
