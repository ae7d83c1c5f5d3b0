/* A question on hardware and frameworks that are elsewhere, from options to what is said of it. */
#pragma once

#include "cli/cli.h"

typedef struct {
    const options *o;
    const char *hub; /* the model's name on the hub, where it was named so; else NULL */
    model_config config;
    recording recorded;   /* a step; then config says nothing */
    megatron_shape shape; /* of a model that Megatron-LM alone is asked of; likewise */
    model model;
    hardware hardware;
    framework_subject subject;
    const framework *framework; /* NULL: snug, of which the plan is the answer */
    framework_settings settings;
    framework_result result;
    text notes; /* sentences for people */
} estimate_question;

/* The model, the device, and the settings of the framework that is asked, checked. Close it in any case; it
 * must not move. */
status estimate_open(const options *o, const char *model, estimate_question *e);
void estimate_close(estimate_question *e);
/* Other options for the same model, device and framework, checked. Not for snug, which has no settings. */
status estimate_settle(estimate_question *e, const options *o);

/* From options to a framework's settings, in a file for each that has settings of its own. */
void estimate_settle_torch(estimate_question *e);
void estimate_settle_vllm(estimate_question *e);
void estimate_settle_llama_cpp(estimate_question *e);
void estimate_settle_sglang(estimate_question *e);
void estimate_settle_trtllm(estimate_question *e);
void estimate_settle_megatron(estimate_question *e);
void estimate_settle_titan(estimate_question *e);
status estimate_settle_recorded(estimate_question *e); /* STATUS_INVALID: what can't be asked of one */

/* The longest context of the model, whoever has read its sizes. */
int64_t estimate_most_context(const estimate_question *e);

/* --batch counts a step's, or a device's where neither --micro-batch nor --accumulate cuts it. */
int64_t estimate_step_of(const setup_options *run, int64_t gpus);

/* --recipe: the program that records a step. */
status estimate_recipe(const options *o, cli_streams *streams);

/* A recorded step within a budget: its plan is the answer. STATUS_NO_FIT: there is none, which is said. */
bool estimate_is_planned(const estimate_question *e);
status estimate_plan(estimate_question *e, cli_streams *streams);

/* --solve and --fit: how much at most, how few at least, on what. STATUS_NO_FIT: nothing fits, which is said.
 */
status estimate_solve(const options *o, cli_streams *streams);

/* The answer, with what would help where it does not fit. */
void estimate_say(text *t, const estimate_question *e, const framework_advice *a);
/* The configuration that fits, as it was asked or as advised, in the words of --emit. Nothing where nothing
 * fits. `people` gets what is to be known beside it. */
status estimate_emit(text *t, const estimate_question *e, const framework_advice *a, text *people);
/* A sentence where these settings fit with next to no room; `out` stays empty where they have some. */
status estimate_say_tight(text *out, const estimate_question *e, const framework_settings *s,
                          const framework_result *r);
/* What is said behind changes: "" or " (changes what is trained)". */
const char *estimate_altered(const framework_advice *a);
void estimate_put_json(text *t, const estimate_question *e, const framework_advice *a);
