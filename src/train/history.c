#include "train/history.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "io/checkpoint_folder.h"
#include "io/file.h"
#include "io/json.h"

enum { BLOCK_BYTES = 8192 };

void history_add(train_result *r, uint32_t room, int64_t step, double loss) {
    bool better = r->best.step < 0 || loss < r->best.loss;
    r->best.since = better ? 0 : r->best.since + 1;
    if (better) r->best.step = step, r->best.loss = loss;
    if (r->evaluation_count == room)
        memmove(r->evaluations, r->evaluations + 1, --r->evaluation_count * sizeof *r->evaluations);
    r->evaluations[r->evaluation_count].step = step;
    r->evaluations[r->evaluation_count++].loss = loss;
}

static void recall_line(const char *line, size_t length, int64_t done, uint32_t room, train_result *r) {
    json_document d;
    int64_t step;
    double value;
    if (json_parse("metrics.jsonl", line, length, &d) != STATUS_OK) return;
    if (json_as_object(d.root) == STATUS_OK && json_has(d.root, "step") &&
        json_get_integer(d.root, "step", 1, done, &step) == STATUS_OK) {
        if (json_has(d.root, "loss") && json_get_number(d.root, "loss", -1e300, 1e300, &value) == STATUS_OK)
            r->losses[step - 1] = value;
        if (json_has(d.root, "eval_loss") &&
            json_get_number(d.root, "eval_loss", -1e300, 1e300, &value) == STATUS_OK)
            history_add(r, room, step, value);
    }
    json_close(&d);
}

status history_recall(const char *out, int64_t done, uint32_t room, train_result *r) {
    char path[CHECKPOINT_PATH_BYTES], block[BLOCK_BYTES];
    int file;
    uint64_t bytes;
    for (int64_t i = 0; i < done; i++) r->losses[i] = NAN;
    if (!out) return STATUS_OK;
    if (snprintf(path, sizeof path, "%s/metrics.jsonl", out) >= (int)sizeof path || access(path, F_OK) != 0)
        return STATUS_OK;
    TRY(io_open(path, &file, &bytes));
    status result = STATUS_OK;
    for (uint64_t at = 0; at < bytes && result == STATUS_OK;) {
        uint64_t n = bytes - at < sizeof block ? bytes - at : sizeof block, used = 0;
        if ((result = io_read_at(file, path, at, block, n)) != STATUS_OK) break;
        for (const char *end; (end = memchr(block + used, '\n', (size_t)(n - used)));) {
            recall_line(block + used, (size_t)(end - block) - (size_t)used, done, room, r);
            used = (uint64_t)(end - block) + 1;
        }
        at += used ? used : n; /* a line longer than a block is none of ours */
    }
    close(file);
    return result;
}
