/* What a resumed run knows of its steps before: losses and validations as metrics.jsonl has them, where
 * numbers come back bit for bit. A lost or damaged line leaves its loss unknown; of what is computed only
 * stopping early (options.patience) depends on it. */
#pragma once

#include "train/train.h"

/* Adds a validation to r->evaluations and r->best, where there is room for so many. They are planned for by
 * this start's options; where an earlier one validated more often the oldest gives way. */
void history_add(train_result *r, uint32_t room, int64_t step, double loss);

/* Fills r->losses of steps 1 … `done` (NAN: unknown) and r->evaluations from the metrics in folder `out`, if
 * it has any. Fails where they can't be read. */
status history_recall(const char *out, int64_t done, uint32_t room, train_result *r);
