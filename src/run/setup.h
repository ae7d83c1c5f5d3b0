/* From what the user said to what can be planned: the model, the data, the request to the search. Shared by
 * plan, train and the public API. */
#pragma once

#include "comm/comm.h"
#include "data/images/pictures.h"
#include "data/labelled_source.h"
#include "data/source.h"
#include "data/text_source.h"
#include "io/wanted_tokens.h"
#include "models/families.h"
#include "run/rates.h"
#include "search/search.h"

/* What becomes of documents that stand one behind the other in a sample. */
typedef enum {
    PACK_AUTO,      /* where the data and the model tell them apart DOCUMENTS, or WHOLE where not all of them
                       is learned; else CROSS */
    PACK_DOCUMENTS, /* attention ends with each, and its positions begin anew */
    PACK_WHOLE,     /* and none is cut that a sample has room for */
    PACK_PAD,       /* and a sample holds one alone */
    PACK_CROSS      /* all is one text */
} pack_kind;

/* Is a part of each picture drawn in training, and every second one mirrored? */
typedef enum { AUGMENT_ON, AUGMENT_OFF } augment_kind;

/* The type of the numbers in the model that is written at the end. */
typedef enum { SAVE_AS_TRAINED, SAVE_F32, SAVE_BF16, SAVE_F16 } save_kind;

typedef enum { SCHEDULE_COSINE, SCHEDULE_LINEAR, SCHEDULE_CONSTANT } schedule_kind;

/* One of several data. */
typedef struct {
    const char *path;
    double weight;    /* above 0; 0: nobody said one */
    const char *name; /* what people call it, where that is another file; or NULL */
} setup_part;

/* All run options; setup_defaults sets them to their defaults. Texts stay the caller's. A field needs a row
 * in train/run_options.c, which says whether a resume may change it. */
typedef struct {
    const char *model;                        /* preset, config.json or Hugging Face directory */
    const char *head;                         /* "classes:3", "score" (run/heads.h); NULL: the model's own */
    const char *data, *eval_data;             /* NULL: none; plan works without */
    const setup_part *parts;                  /* of the data, where they are several: `data` is the first */
    uint64_t part_count;                      /* else 0; of one the name alone may be in `parts` */
    const struct labelled_language *language; /* of texts with labels (run/labelled.h); NULL: bytes alone */
    const data_source *source, *eval_source;  /* samples of the caller's instead of these; may be NULL */
    const char *text_column, *label_column;   /* of data for a head that judges texts; NULL: text, label */
    const char *pair_column;                  /* of a second text that is judged with the first; NULL: none */
    const char *image_column;                 /* of tables of pictures; NULL: image */
    text_list add_tokens;                     /* to the model's tokenizer; none: as it is */
    data_kind data_kind;
    pack_kind pack;
    augment_kind augment;      /* of pictures */
    uint64_t memory;           /* budget in bytes; 0: unlimited */
    bool memory_auto;          /* what is free, less a margin */
    int64_t batch, context;    /* context 0: by the model, its weights and the data (setup.c) */
    int64_t unit;              /* samples whose sums stay together; 0: the batch */
    int64_t rank_timeout;      /* seconds that a rank waits for another */
    int64_t ranks, of_host;    /* processes that a plan is for, 0: those that are; of them on this host, */
    int64_t of_each_host;      /* of those that are, on every host, one after the other; 0: not so */
    int64_t sharing;           /* and on the same processors. 0: all of the host */
    uint64_t transport_memory; /* of a GPU, that ranks may take; 0: as comm_reserve_apart has it */
    int64_t micro_batch, accumulate, eval_batch; /* 0: auto */
    int64_t eval_every;                          /* steps; 0: only at the end */
    int64_t eval_samples;                        /* at most */
    bool eval_only;                              /* validation alone: nothing is trained */
    int64_t steps;                               /* COURSE_UNSAID: by `epochs`, or as run/course.h has it */
    double epochs;                               /* so often through the data; 0: by `steps` */
    int64_t patience;                            /* validations without a new best that end it; 0: none do */
    bool keep_best;                              /* the model of the best validation, in out/best */
    int64_t warmup, seed;               /* COURSE_UNSAID: by what the run begins with, as the learning rate */
    const char *device;                 /* that computes: device_find; NULL: auto */
    const struct device *on;            /* instead of that: a device of the caller's; NULL: none */
    const struct links_said *links;     /* of a cluster (run/links.h); NULL: those that are known here */
    int64_t threads, workers;           /* threads 0: all there are */
    rates_choice rates;                 /* that predictions use */
    double learning_rate, minimum_rate; /* at the end of the schedule, as a part of learning_rate */
    double dropout;                     /* < 0: the model's */
    schedule_kind schedule;
    optimizer_options optimizer;
    bool exact;
    const char *allow;            /* LOSSY techniques that the planner may use: "precision=bf16", "all" */
    const char *passes[PASS_MAX]; /* by pass: "auto" (or NULL), "off" or a setting's text */
    const char *folder;           /* folder for what does not stay in memory; NULL: none */
    uint64_t away_limit;          /* the most bytes that may be there; 0: none is set */
    const char *out;              /* directory; NULL for plan */
    save_kind save_dtype;         /* of the model, not of checkpoints */
    int64_t save_every, keep;     /* steps between checkpoints, 0: only when interrupted; how many stay */
    bool resume;                  /* go on from a checkpoint: of `resume_from`, or, NULL, of `out` */
    const char *resume_from;      /* a run's folder or one of its checkpoints */
    bool overwrite;               /* begin anew in `out`: what is there is removed */
} setup_options;

setup_options setup_defaults(void);

/* What computes. */
status setup_device(const setup_options *o, const device **on);

/* What --memory says, in bytes; UINT64_MAX: nothing. `auto` is what this process may have of the device's
 * memory, less a margin for what others ask for in the meantime. */
status setup_budget(const setup_options *o, uint64_t *bytes);

/* The most that may be away, in bytes; 0: no limit. Beside a GPU that is here, with a folder behind the
 * host's memory, that is what this process has of that memory and may still take, less a sixteenth, whether
 * that was said or not: ranks of a host divide what is left. */
uint64_t setup_away_limit(const setup_options *o, const device *on);

/* What the options come to. Not to be moved: parts point at each other. */
typedef struct {
    setup_options options;
    model_config config; /* where the model is no custom one */
    bool custom;
    bool new_head; /* the model's files have another head than `config`, so this one begins anew */
    model model;
    const char *weights;    /* directory to load weights from; NULL: initialise */
    const char *tokenizer;  /* what it is read from, whose tokenizer goes on with it; NULL: none does */
    wanted_tokens wanted;   /* tokens that are added to it */
    int64_t vocabulary_was; /* of the model's files, where tokens have made it larger; else 0 */
    data_source train, validation;    /* zeroed where there is no data */
    struct texts *texts;              /* they, before documents are told apart (run/texts.h); NULL: after */
    label_names names;                /* of classes, where the head tells such and there is data */
    labelled *records, *eval_records; /* of such data: the sources' own */
    pictures *images, *eval_images;   /* the same of pictures (run/pictures.h) */
    prepare_options prepare;          /* what pictures become for the model; channels 0: it sees none */
    comm_ranks comm;                  /* the ranks of the run, or those that it is planned for */
    search_request request;
    uint64_t budget;                 /* UINT64_MAX: unlimited */
    uint64_t margin;                 /* that --memory auto leaves to others */
    bool rate_unsaid, warmup_unsaid; /* options->learning_rate, warmup are those of run/course.h */
    pack_kind pack;                  /* as it is settled: never AUTO */
    const char *context_reason;      /* why the context is what it is; NULL: it was said, or is the model's */
} setup;

/* `custom` (may be NULL): a model built by the caller, used instead of options->model. */
status setup_open(const setup_options *options, const model *custom, setup *s);
void setup_close(setup *s);

/* STATUS_INVALID where the source is text, to be read as bytes, and the model directory has a tokenizer. With
 * --data-kind bytes that is meant. */
status setup_check_text(const data_source *source, const setup_options *options, const char *directory);

/* The same of records by their name, before anything looks at their form: how they could be read as bytes is
 * of no use then. */
status setup_check_records(const setup *s, const char *path);

/* NONE: as it was trained. */
dtype setup_save_dtype(const setup_options *o);

/* Puts the files of the model's tokenizer beside what is made of it (io/tokenizer_files.h). */
status setup_copy_tokenizer(const setup *s, const char *directory);

/* STATUS_INVALID where training cannot begin with the weights as they are stored. setup_open checks that; a
 * resumed run checks it here, since its checkpoint decides some settings. */
status setup_check_begun(const setup *s);
