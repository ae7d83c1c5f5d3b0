/* The one table of options: parsing, --help, manual pages, completion in shells, keys of configuration files,
 * names of environment variables and what is said of mistakes all come from it. Options of techniques come
 * from their registry, so a new technique has its option by existing.
 *
 * What is said nearer to the run wins: the command line over the file of --config, the file over the
 * environment, the environment over the defaults. */
#pragma once

#include <stddef.h>

#include "estimate/emit/emit.h"
#include "io/yaml.h"
#include "run/setup.h"

typedef enum {
    COMMAND_PLAN = 1,
    COMMAND_TRAIN = 2,
    COMMAND_GENERATE = 4,
    COMMAND_PROFILE = 8,
    COMMAND_DEVICES = 16,
    COMMAND_COMPLETION = 32,
    COMMAND_MANUAL = 64,
    COMMAND_STATUS = 128,
    COMMAND_COMPARE = 256,
    COMMAND_MERGE = 512,
    COMMAND_QUANTIZE = 1024,
    COMMAND_ESTIMATE = 2048,
    COMMAND_EXPLAIN = 4096,
    COMMAND_EXPORT = 8192,
    COMMAND_TOKENIZE = 16384,
    COMMAND_SERVE = 32768,
    COMMAND_SNAPSHOT = 65536,
    COMMAND_ADMIT = 131072
} command;
enum { COMMAND_EVERY = ~0 };

/* What an OPTION_LIST gathers, in the order in which it was said. */
enum { OPTION_LIST_MOST = TEXT_LIST_MOST };
typedef text_list option_list;

/* Of estimate, in the words of those whose settings they are. */
typedef struct {
    framework_name framework;
    const char *device;
    enum { SOLVE_FITS, SOLVE_MEMORY, SOLVE_BATCH, SOLVE_CONTEXT, SOLVE_MODEL, SOLVE_GPUS, SOLVE_GPU } solve;
    const char *family; /* of --fit */
    const char *cluster;
    torch_types types;
    enum { ATTENTION_AUTO, ATTENTION_FLASH, ATTENTION_EAGER, ATTENTION_FLASH_ATTN } attention;
    enum { UPDATE_AUTO, UPDATE_FOREACH, UPDATE_FUSED, UPDATE_SINGLE } update;
    torch_shard shard;
    torch_host_keeps host_keeps;
    enum { LOSS_PLAIN, LOSS_FUSED } loss;
    enum { TRAINER_PLAIN, TRAINER_GRPO } trainer;
    torch_rollouts rollouts;                             /* of GRPO: */
    int64_t completion, generations, iterations, passes; /* completion, passes: 0: not said */
    double beta, engine_share;
    torch_matrices matrices; /* of a recorded step: */
    int64_t state_rank;
    bool in_backward, averages;
    int64_t state_bits, base_bits, adapter_rank, gpus, workers, steps;
    double tokens, share; /* 0: not given */
    /* Of the nodes that --cluster has chosen, what the job has of one; 0: not known. No options. */
    uint64_t node_memory;
    int64_t node_gpus;
    bool says_base;              /* --base-bits stands on this run. No option */
    uint64_t overhead, measured; /* 0: not given */
    const char *adapter_targets;
    double adapter_dropout;
    bool magnitudes;
    enum { SCALES_TWICE, SCALES_PLAIN } scales;
    enum { LIBRARIES_CURRENT, LIBRARIES_OLDER } libraries;
    torch_version torch;
    const char *checkpoint_saves; /* of a recorded step; NULL: nothing */
    int64_t loss_chunks;
    bool checkpointing, reentrant, holds_output, keeps_gradients, strict;
    bool expandable, padded, compiled, benchmarks;
    int64_t shortest; /* tokens of a sample; 0: all have the context's */
    enum {
        STEP_RECIPE_NONE,
        STEP_RECIPE_PLAIN,
        STEP_RECIPE_HF,
        STEP_RECIPE_LIGHTNING,
        STEP_RECIPE_TRAINER,
        STEP_RECIPE_SFT,
        STEP_RECIPE_DPO,
        STEP_RECIPE_PEFT,
        STEP_RECIPE_ACCELERATE,
        STEP_RECIPE_DIFFUSERS,
        STEP_RECIPE_TIMM
    } recipe;
    int64_t labels;                   /* of an encoder's classifier; 0: it has the head that fills gaps */
    served_quantization quantization; /* serving: */
    vllm_cache cache;
    double utilization;
    int64_t batched, sequences, block, requests;
    gguf_mix mix;
    int cache_keys, cache_values; /* of llama_cpp_cache_types */
    int64_t ubatch, gpu_layers;
    bool eager, serves, no_graphs;
    double static_fraction, free_fraction;             /* of SGLang, 0: it chooses; of TensorRT-LLM */
    int64_t chunk, running, graph_batch, page;         /* of SGLang; 0: it chooses */
    int64_t step_tokens, step_texts, tokens_per_block; /* of TensorRT-LLM */
    megatron_settings megatron;
    titan_settings titan;
    bool batch_assumed; /* nobody said --batch */
    emit_name emit;
} estimate_options;

/* Of serve. */
typedef struct {
    const char *host, *key_file, *name; /* name NULL: the folder's */
    int64_t port, text_length, texts, rows, queue, connections, default_tokens, stall_seconds, drain_seconds;
    enum { SERVE_AUTO, SERVE_F32, SERVE_BF16, SERVE_F16, SERVE_INT8 } cache;
    enum { SERVE_CERTAIN, SERVE_EXPECTED } admission;
    enum { SERVE_BY_KEY, SERVE_BY_ALL, SERVE_BY_NONE } share;
    int64_t guesses;
    int solve;          /* serve_solve */
    double utilization; /* 0: --memory says */
    bool dry_run, eager, no_formats;
} serve_words;
extern const serve_words options_serve; /* its defaults */

/* Of snapshot. */
typedef struct {
    int64_t at;      /* an instant; -1: the peak */
    uint64_t memory; /* of the device; 0: not said */
    option_list files;
    enum { RECIPE_NONE, RECIPE_PLAIN, RECIPE_HF, RECIPE_LIGHTNING, RECIPE_TORCHTITAN } recipe;
    bool each, anonymous;
} snapshot_words;

enum { OPTIONS_LINE_MOST = 256 };
/* Of admit. */
typedef struct {
    enum { POLICY_REFUSE, POLICY_WARN } policy;
    bool script_only;
    int64_t seconds; /* 0: no limit */
    /* What stands behind the script, as on sbatch's line: its options, then the script's arguments. Behind
     * "--" the script's name as well. */
    const char *line[OPTIONS_LINE_MOST];
    int line_count;
    bool whole; /* the line has the script's name */
} admit_words;

/* What a command line says, at its defaults before. */
typedef struct {
    const char *subject; /* MODEL or DIR */
    const char *config;  /* file of --config */
    yaml_file file;      /* what it says; texts point into it */
    setup_options run;
    option_list
        sources; /* files and folders of --data, with their weights; but for tokenize `run` has them */
    setup_part parts[OPTION_LIST_MOST]; /* run.parts, and their paths where a weight stood behind them */
    char *paths[OPTION_LIST_MOST];
    const char *columns; /* of documents */
    enum { LEARN_ANSWERS, LEARN_ALL } learn;
    bool replace;
    const char *of_documents;   /* which of these three was said of this run; NULL: none */
    option_list prompts, stops; /* generate: */
    option_list adapters;       /* serve: NAME=DIR */
    const char *prompt_file, *chat_file, *system;
    int64_t tokens, top_k;
    double temperature, top_p, min_p, repetition_penalty, presence_penalty, frequency_penalty;
    int64_t profile_steps; /* profile: */
    const char *trace;
    enum { PRODUCTS_AUTO, PRODUCTS_F32, PRODUCTS_BF16, PRODUCTS_F16 } products; /* generate, serve */
    const char *adapter;                                                        /* generate, merge: */
    enum {
        QUANTIZE_TO_UNSAID = -1,
        QUANTIZE_TO_INT8,
        QUANTIZE_TO_INT8_STATIC,
        QUANTIZE_TO_INT8_ALL,
        QUANTIZE_TO_INT8_STATIC_ALL,
        QUANTIZE_TO_INT4,
        QUANTIZE_TO_INT4_ALL
    } to; /* quantize: */
    enum { QUANTIZE_AS_TO, QUANTIZE_DYNAMIC, QUANTIZE_STATIC } mode;
    const char *calibrate;
    enum { EXPORT_TO_UNSAID = -1, EXPORT_TO_GGUF } export_to; /* export: */
    enum { EXPORT_F16, EXPORT_BF16, EXPORT_F32, EXPORT_Q8_0 } export_type;
    int64_t compare_steps; /* compare: */
    const char *svg;
    const char *html; /* of commands with a report: where its page goes */
    estimate_options estimate;
    serve_words serve;
    snapshot_words snapshot;
    admit_words admit;
    const char *for_model; /* explain-oom, snapshot: */
    const char *gpu;       /* that plans are for; NULL: --device says */
    enum { PIN_AUTO, PIN_OFF } pin_threads;
    enum { EAGER_AUTO, EAGER_YES, EAGER_NO } eager;
    const char *instructions; /* base/instructions.h; NULL: auto */
    bool chat, json, measure, listing, follow, quiet, help;
} options;

typedef enum {
    GROUP_MEMORY,
    GROUP_MODEL,
    GROUP_TECHNIQUES,
    GROUP_DATA,
    GROUP_TRAINING,
    GROUP_ELSEWHERE,
    GROUP_TEXT,
    GROUP_OUTPUT,
    GROUP_COUNT
} option_group;

/* How a value is read and stored at `offset` in options. */
typedef enum {
    OPTION_FLAG,    /* bool; takes no value */
    OPTION_TEXT,    /* const char * */
    OPTION_INTEGER, /* int64_t */
    OPTION_NUMBER,  /* double */
    OPTION_BYTES,   /* uint64_t */
    OPTION_COUNT,   /* double: 300B, 1.5T, 2e9 */
    OPTION_MAYBE,   /* a text that may be left out; that it was given is noted at word_flag */
    OPTION_CHOICE,  /* an enum, by the order of `words` */
    OPTION_SETTING, /* const char *: auto, off, or what the technique number `meaning` reads */
    OPTION_RANKS,   /* int64_t twice: 8, or 8x4 with those of a host behind; 0: all of them */
    OPTION_LIST,    /* option_list of texts; may be given several times, and as a list in a file */
} option_kind;

typedef struct {
    const char *name, *hint, *help; /* "batch", "N"; one line */
    const char *words;              /* of a choice: "adamw, sgd"; of a technique: its settings */
    const char *also; /* of a choice: what others call its words: "sdpa=flash"; what that says of
                       * another option as well: "adamw_8bit=adamw+optimizer-bits=8" */
    bool versions;    /* of a choice: its words are versions, of which no patch and no build matters */
    const char *(*names)(void); /* what completion offers beside a path: "a10, a100-40"; NULL: nothing */
    const char *word;           /* written instead of a number, and is stored as `meaning` */
    const char *fallback;       /* the default in words, where the stored one says little */
    const char *needs; /* "optimizer=adamw|lion": refused where that choice is another; NULL: always fine */
    bool of_steps;     /* also of a recorded step, whatever `needs` says */
    double meaning, low, high;
    size_t offset;
    size_t word_flag; /* a bool that the word sets as well, and any other value clears; 0: none */
    option_group group;
    option_kind kind;
    unsigned commands;
} option;

enum { OPTIONS_MOST = 238 + PASS_MAX };
typedef struct {
    option rows[OPTIONS_MOST];
    uint32_t count;
    char names[PASS_MAX][PASS_OPTION_BYTES];
} option_table;

extern const option options_device[], options_elsewhere[], options_text[], options_ranks[],
    options_snapshot[], options_megatron[], options_engines[], options_grpo[], options_titan[],
    options_page[]; /* parts of it; end with one without a name */
extern const megatron_settings options_megatron_defaults;
extern const titan_settings options_titan_defaults;
void options_table(option_table *t);
options options_defaults(void);
dtype options_products(const options *o); /* of --dtype; NONE: auto */

/* All layers, see above. `arguments` begin behind the command. STATUS_INVALID with a sentence. Texts stay the
 * caller's, or belong to `o`. End with options_close, also after a failure. */
status options_read(const option_table *t, command c, int count, char **arguments, options *o);
void options_close(options *o);

/* A name that others have for an option of ours. */
typedef struct {
    const char *theirs, *ours; /* without hyphens; of `ours` may follow what to say of it: "base-bits 4" */
    const char *value;         /* it is a flag, and means this value of ours */
    bool same;                 /* it means the same, and is taken for ours; else ours is named */
} option_familiar;
const option_familiar *options_familiar(const char *name); /* NULL: there is none */

enum { OPTION_NAME_BYTES = 64 };

/* Reads one value into its field; `name` is what the sentence calls it ("--batch", "SNUG_BATCH"). */
status options_store(const option *row, const char *name, const char *value, options *o);

/* What a word of others says of another option: "optimizer-bits=8" of "adamw_8bit"; NULL: nothing. */
const char *options_implied(const option *row, const char *value, char word[OPTION_NAME_BYTES]);

/* The word that a choice has in `o`, as in "adamw". */
const char *options_choice(const option *row, const options *o, char word[OPTION_NAME_BYTES]);

/* "SNUG_MICRO_BATCH" of "micro-batch". */
const char *options_environment(const option *row, char buffer[OPTION_NAME_BYTES]);

/* The default as people write it, "" for none. */
const char *options_default(const option *row, const options *defaults, char buffer[OPTION_NAME_BYTES]);
/* " --name value" for every option that both commands have and whose value is not the default, as a shell
 * reads it. Lists are left out, which estimate has none of. */
void options_add_given(unsigned from, unsigned to, const options *o, text *out);
const char *options_group_name(option_group g);
