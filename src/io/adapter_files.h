/* Adapters as the PEFT library writes them: adapter_config.json and adapter_model.safetensors in a folder,
 * keys "base_model.model." and the parameter's name. The weights that they stand beside are not among them;
 * adapter_base.json says what those were held in and which they are, { "base": "nf4", "digest":
 * "93c6c6e6fa3ae8d7" }. Where it is absent they were f32, and without a digest they are whichever are named.
 *
 * A head that judges samples (models/head.h) is trained beside adapters as a whole, and is in their file:
 * PEFT's modules_to_save. adapter_base.json then says what config.json would of it.
 *
 * Only what this program computes is read: plain low-rank adapters of linear products, without biases, scaled
 * by alpha / rank. Everything else is STATUS_INVALID with file and key. */
#pragma once

#include "models/families.h"
#include "passes/pass.h"

/* Moves the model's own weights to the front of the list, in their order, and what a pass has added behind
 * them; returns how many are the model's. */
uint32_t adapter_files_own(model_weight *weights, uint32_t count);

/* The pass that reads this folder and its setting. STATUS_INVALID where there is no adapter in it, and where
 * it brings a head, unless the caller takes that (adapter_head.h). */
status adapter_files_read(const char *directory, bool takes_head, const pass **p, pass_setting *s);

/* STATUS_INVALID where `base`, a model directory, does not hold the weights that the adapter was trained
 * beside. One that doesn't say which those were is taken beside any. */
status adapter_files_check_base(const char *directory, const char *base);

/* STATUS_INVALID where this folder, which has no config.json, holds an adapter: it was named as a model. */
status adapter_files_check_model(const char *directory);

/* Weights of which some are an adapter's: those that passes have added, and the head's of a model that
 * judges. */
typedef struct {
    const model_weight *weights;
    uint32_t count;
    const model *judge; /* NULL: it does not */
    bool *filled; /* NULL: the folder must have all; else it may lack parts of the head, and this says which
                     weights it had */
} adapter_files_part;

/* Fills these; a folder that lacks one or has more is STATUS_INVALID. */
status adapter_files_load(const char *directory, const adapter_files_part *part);

/* Writes the files, the weights first: those that adapter_files_load would fill. `base`: the folder of the
 * model that they stand beside. */
typedef struct {
    const pass *pass;
    const pass_setting *setting;
    const char *base;
    uint64_t base_digest;       /* of its weights (io/weight_files.h); 0: not known */
    bool in_out;                /* those weights lie as (in, out) */
    bool continues;             /* the model continues a text */
    const model *judge;         /* whose head is trained as a whole; NULL: none is */
    const model_config *config; /* of that one */
} adapter_files_about;
status adapter_files_save(const char *directory, const adapter_files_about *about,
                          const model_weight *weights, uint32_t count);
