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

/* Before differentiation, and after it and the optimizer. The third stage is `schedule` below. */
typedef enum { PASS_FORWARD, PASS_STEP } pass_stage;

enum { PASS_NUMBERS = 5 }; /* of a setting, at most */

/* One way to apply a technique. The text is what the user writes to pin it and what plans print. */
enum { PASS_SETTING_BYTES = 128 }; /* room for the names of all products of a block */
typedef struct {
    char text[PASS_SETTING_BYTES];
    int64_t value[PASS_NUMBERS]; /* the text as the pass has read it */
    pass_class class;
    /* For settings of a pass that is of_state: what they do to forward and backward all the same. */
    uint8_t effect; /* settings of one pass with equal numbers do the same; 0: they change nothing there */
    bool gradients; /* gradients live shorter in the arena, or not in it at all */
} pass_setting;

/* Where a technique applies: what it means to do without it. */
typedef enum {
    PASS_OPTIONAL, /* worth trying as well */
    PASS_FREE, /* pointless: the technique costs neither bytes nor time. "off" is tried only where the user
                  says so, or where the allowed class leaves no setting */
    PASS_NEARLY_FREE, /* it costs no time, but sometimes bytes: "off" is tried after all else (search/front.c)
                       */
    PASS_NEEDED       /* impossible: this micro-batch cannot run without it */
} pass_without;

/* What surrounds the graph that is rewritten. */
typedef struct {
    bool training;       /* false: a program without backward */
    bool accumulating;   /* this program adds to the sums of a unit that goes on after it. Only passes that
                            are by_program are told; for the others it is always false */
    int64_t batch;       /* samples of an optimizer step */
    int64_t unit;        /* samples whose sums stay together; those of several units are added afterwards.
                            Equal to batch: there is one */
    int64_t micro_batch; /* samples of the common micro-batch; smaller than batch: there are several */
    int64_t ranks;       /* that train together, each some of the units; 0 or 1: one process */
    int64_t of_host;     /* ranks of each host, whose numbers follow each other; 0: hosts are not alike */
    bool chained;        /* there are no units: sums go on from rank to rank. `unit`: the samples of a rank.
                          * Micro-batches take turns: the first of all ranks come before the second of any */
    int64_t tokens;      /* rows per sample that sums run over (context length) */
    int64_t layers;      /* of the model, whose graph has fewer, all alike; 0: as many as the graph */
    int64_t least_rows;  /* of the sums over the fewest: 1 where a head judges whole samples, else tokens */
    int threads;         /* number of threads that scratch is planned for */
    bool clipping;       /* updates wait for the norm of all gradients */
    bool away;           /* the run has a place for what does not stay in the memory that computes */
    bool narrow_weights; /* the optimizer takes weights of 16 bits */
    const struct pass_adapters *adapters; /* passes/adapting.h; NULL: none */
    const struct device *device;          /* that will compute; NULL: it is not known */
} pass_context;

typedef struct pass_adapting pass_adapting;
typedef struct pass_storing pass_storing;

typedef struct {
    const char *name; /* its folder, and its option: "chunk_loss" is --chunk-loss */
    const char
        *option;      /* without "--": where the name with hyphens means something else already; else NULL */
    const char *help; /* one line for --help */
    const char *values; /* what the user may write: "auto, off, cheap, block" */
    const char *paper;
    pass_class class; /* the least exact class of its settings */
    pass_stage stage;
    bool training_only; /* does not apply to programs without backward */
    bool by_program; /* reads context.accumulating; all other passes do the same in each training program */
    bool follows;    /* changes values that earlier passes keep: next to it their choices show in results */
    uint32_t frees;  /* for a step pass, a bit for each role: it may make persistent tensors of this role
                        smaller, or move them out of memory. Of other roles it only adds tensors */
    uint32_t (*frees_by)(const pass_setting *s); /* of these what this setting does; NULL: any of them */
    bool of_state; /* for a step pass: it rewrites persistent tensors, updates, and what becomes of gradients.
                      It takes neither memory nor time from forward and backward, except as its settings'
                      `effect` and `gradients` say. Bounds of the search rest on this (search/stem.h) */
    bool asked_for; /* it decides what is trained. So it is used only where the user pins it: neither a budget
                       nor --allow brings it in */

    /* It needs something that is not snug's, and opens it: before anything is planned, where the setting is
     * pinned or --allow names it. So it is used only there, whatever its class. INVALID: that is not to be
     * had. NULL: it needs nothing. */
    status (*open)(const struct device *d);

    /* Reads the user's text; STATUS_INVALID with a sentence. "auto" and "off" never get here. */
    status (*parse)(const char *text, pass_setting *out);

    /* Lists the settings worth trying on g in this context: applicable ones only, at most `room`. `*without`
     * is PASS_OPTIONAL at entry. */
    uint32_t (*settings)(const graph *g, const pass_context *c, pass_setting *out, uint32_t room,
                         pass_without *without);

    /* Is this setting, which the user has pinned, possible on g? NULL: always. Of a pass that is to be opened
     * it also says why it has no setting for g. */
    status (*check)(const graph *g, const pass_setting *s, const pass_context *c);

    /* `out` is open and empty. */
    status (*run)(const graph *in, const pass_setting *s, const pass_context *c, graph *out);

    /* Its part in the third stage: a second rewrite, when all passes have run, of where their results wait
     * and in which order they are made. NULL: none. */
    status (*schedule)(const graph *in, const pass_setting *s, const pass_context *c, graph *out);

    /* Of a setting for which the first layers of a model are not as the others: how many are, 0: all are
     * alike; and the same setting for so many. NULL: no setting is such. */
    int64_t (*divides)(const pass_setting *s);
    pass_setting (*divide)(const pass_setting *s, int64_t layers);

    /* What people may expect of this setting and do not get, in one line; NULL: nothing. `planned`: the graph
     * of the plan's first program, with all that passes did to it. */
    const char *(*remark)(const pass_setting *s, const graph *planned);

    const pass_adapting *adapting; /* passes/adapting.h. NULL: all parameters are the model's */
    const pass_storing *storing;   /* passes/storing.h. NULL: it has to do with plain weights alone */
} pass;

/* All passes in the order in which they run, ending with NULL. */
extern const pass *const pass_table[];
enum { PASS_MAX = 32 }; /* more than there are */

enum { PASS_PARAMETER_BYTES = 160 }; /* room for a parameter's name */
/* The pass that adds this parameter to the model's; NULL: it is the model's own. */
const pass *pass_of_parameter(const char *parameter, const shape *s, float *deviation);

/* The roles of which this setting may leave less (pass.frees). */
uint32_t pass_frees(const pass *p, const pass_setting *s);

/* The pass's option, without "--", into `text`; returns it. */
enum { PASS_OPTION_BYTES = 32 };
const char *pass_option(const pass *p, char text[PASS_OPTION_BYTES]);
