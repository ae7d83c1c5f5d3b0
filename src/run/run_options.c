#include "run/run_options.h"

static const char *schedule_word(int choice) {
    static const char *const words[] = {
        [SCHEDULE_COSINE] = "cosine", [SCHEDULE_LINEAR] = "linear", [SCHEDULE_CONSTANT] = "constant"
    };
    return words[choice];
}

const char *run_options_pack_word(int choice) {
    static const char *const words[] = { [PACK_AUTO] = "auto",
                                         [PACK_DOCUMENTS] = "documents",
                                         [PACK_WHOLE] = "whole",
                                         [PACK_PAD] = "pad",
                                         [PACK_CROSS] = "cross" };
    return words[choice];
}

/* Whole documents stood in order once: a run that began so is another one. */
static const char *packed_word(int choice) {
    return choice == PACK_WHOLE ? "whole by size" : run_options_pack_word(choice);
}

static const char *augment_word(int choice) { return choice == AUGMENT_OFF ? "off" : "on"; }

static const char *save_word(int choice) {
    static const char *const words[] = {
        [SAVE_AS_TRAINED] = "as-trained", [SAVE_F32] = "f32", [SAVE_BF16] = "bf16", [SAVE_F16] = "f16"
    };
    return words[choice];
}

static const char *optimizer_word(int choice) { return optimizer_name((optimizer_kind)choice); }

#define ROW(said, type, role, member)                                                                        \
    {                                                                                                        \
        .name = (said), .kind = RUN_OPTION_##type, .part = RUN_OPTION_##role,                                \
        .offset = offsetof(setup_options, member), .bytes = sizeof(((setup_options *)0)->member)             \
    }
#define CHOICE(said, role, member, names)                                                                    \
    {                                                                                                        \
        .name = (said), .kind = RUN_OPTION_CHOICE, .part = RUN_OPTION_##role,                                \
        .offset = offsetof(setup_options, member), .bytes = sizeof(((setup_options *)0)->member),            \
        .word = (names)                                                                                      \
    }

const run_option run_options[] = {
    ROW("batch", INTEGER, FIXED, batch),
    ROW("unit", INTEGER, KNOWN, unit), /* by a fact of its own, where there is one */
    ROW("context", INTEGER, FIXED, context),
    ROW("seed", INTEGER, FIXED, seed),
    ROW("lr", NUMBER, FIXED, learning_rate),
    CHOICE("schedule", FIXED, schedule, schedule_word),
    ROW("warmup", INTEGER, FIXED, warmup),
    ROW("steps", INTEGER, FALLING, steps),
    ROW("minimum-rate", NUMBER, FALLING, minimum_rate),
    CHOICE("optimizer", FIXED, optimizer.kind, optimizer_word),
    ROW("weight-decay", NUMBER, FIXED, optimizer.weight_decay),
    ROW("clip", NUMBER, FIXED, optimizer.clip),
    ROW("beta1", NUMBER, FIXED, optimizer.beta1),
    ROW("beta2", NUMBER, FIXED, optimizer.beta2),
    ROW("epsilon", NUMBER, FIXED, optimizer.eps),
    ROW("momentum", NUMBER, FIXED, optimizer.momentum),

    ROW("epochs", NUMBER, KNOWN, epochs), /* by the steps */
    ROW("model", POINTER, KNOWN, model),
    ROW("head", POINTER, KNOWN, head), /* by the model's facts */
    ROW("dropout", NUMBER, KNOWN, dropout),
    ROW("data", POINTER, KNOWN, data),
    ROW("parts", POINTER, KNOWN, parts), /* by the data's shares */
    ROW("part-count", BYTES, KNOWN, part_count),
    ROW("text-column", POINTER, KNOWN, text_column),
    ROW("image-column", POINTER, KNOWN, image_column),
    ROW("label-column", POINTER, KNOWN, label_column),
    ROW("pair-column", POINTER, KNOWN, pair_column),
    ROW("add-token", POINTER, KNOWN, add_tokens), /* by the model's facts */
    ROW("language", POINTER, KNOWN, language),
    ROW("data-kind", CHOICE, KNOWN, data_kind),
    CHOICE("pack", FIXED, pack, packed_word), /* as it is settled: never auto */
    CHOICE("augment", FIXED, augment, augment_word),
    ROW("source", POINTER, KNOWN, source),
    ROW("eval-data", POINTER, KNOWN, eval_data), /* without it the last tenth of the data is not trained on */

    /* what is validated, saved and shown */
    ROW("eval-source", POINTER, FREE, eval_source),
    ROW("eval-every", INTEGER, FREE, eval_every),
    ROW("eval-samples", INTEGER, FREE, eval_samples),
    ROW("eval-only", FLAG, FREE, eval_only), /* then nothing is trained */
    ROW("patience", INTEGER, FREE, patience),
    ROW("keep-best", FLAG, FREE, keep_best),
    ROW("out", POINTER, FREE, out),
    CHOICE("save-dtype", FREE, save_dtype, save_word),
    ROW("save-every", INTEGER, FREE, save_every),
    ROW("keep", INTEGER, FREE, keep),
    ROW("resume", FLAG, FREE, resume),
    ROW("resume-from", POINTER, FREE, resume_from),
    ROW("overwrite", FLAG, FREE, overwrite),

    /* how the plan is made: the checkpoint has its choices, and what becomes of them is said */
    ROW("memory", BYTES, FREE, memory),
    ROW("memory-auto", FLAG, FREE, memory_auto),
    ROW("rank-timeout", INTEGER, FREE, rank_timeout),
    ROW("ranks", INTEGER, FREE, ranks),
    ROW("transport-memory", BYTES, FREE, transport_memory),
    ROW("ranks-of-host", INTEGER, FREE, of_host),
    ROW("ranks-of-each-host", INTEGER, FREE, of_each_host),
    ROW("ranks-of-processors", INTEGER, FREE, sharing),
    ROW("links", POINTER, FREE, links),
    ROW("micro-batch", INTEGER, FREE, micro_batch),
    ROW("accumulate", INTEGER, FREE, accumulate),
    ROW("eval-batch", INTEGER, FREE, eval_batch),
    ROW("exact", FLAG, FREE, exact),
    ROW("allow", POINTER, FREE, allow),
    ROW("techniques", POINTER, FREE, passes),
    ROW("offload-to", POINTER, FREE, folder),
    ROW("offload-limit", BYTES, FREE, away_limit),
    ROW("device", POINTER, FREE, device),
    ROW("gpu", POINTER, FREE, on),
    ROW("threads", INTEGER, FREE, threads),
    ROW("workers", INTEGER, FREE, workers),
    ROW("rates", CHOICE, FREE, rates),
    { 0 },
};
