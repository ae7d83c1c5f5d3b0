/* The buffers of a run's data, known before the plan, and the loader that is opened in them after. */
#pragma once

#include "data/loader.h"
#include "run/decision.h"

/* Fills run->buffers: "loader", which reads ahead, and "sample", where validation reads a sample and has
 * scratch. Of the run's data; without data (plan alone) of samples as the model takes them. */
status loader_plan_buffers(const setup *s, compose_run *run);

/* What is hidden of samples, where the model learns to fill gaps. What validation hides depends on no option,
 * so that runs can be compared. */
data_masking loader_plan_masking(const setup *s, bool validation);

/* `first_sample`: where to begin; a resumed run goes on where it stopped. */
status loader_plan_open(const setup *s, const decision *d, void *memory, uint64_t first_sample, loader **l);
