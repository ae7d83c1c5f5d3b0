/* Head and loss of a recorded step in pieces of rows: the product that makes logits, and the loss over
 * classes, computed a piece after the other, each within torch.utils.checkpoint. Logits are then never there
 * as a whole; in backward each piece is computed once more. The policy that `snug estimate --emit torch`
 * writes does it so. */
#pragma once

#include "estimate/recorded/edit.h"

enum { RECORDED_MOST_CHUNKS = 4096 };

/* Calls are those of forward; 0: there is none. Storages are named by their numbers. */
typedef struct {
    uint32_t narrows;       /* autocast's copy of the rows */
    uint32_t product;       /* of rows and weight: logits */
    uint32_t widens;        /* their copy in f32 */
    uint32_t softmax, loss; /* _log_softmax and nll_loss_forward */
    uint32_t recasts;       /* what softmax makes, in f32: autocast of a CPU does that for the loss */
    uint32_t given, weight, bias, target;
    uint32_t module; /* whose product it is */
    double rows,
        of; /* rows that the loss is of, and those that the head has: more where code cuts some off */
    double width, classes; /* numbers of a row, before and behind the head */
    bool gathers;          /* the rows that are left are copied */
} recorded_head;

/* STATUS_INVALID with what is in the way. */
status recorded_head_find(const recorded_edit *e, recorded_head *h);

/* In so many pieces; fewer where there are fewer rows. `wide_gradients`: each piece's gradients of weights
 * are cast to f32 before they are added up. */
status recorded_chunk(recorded_edit *e, const recorded_head *h, int64_t chunks, bool wide_gradients);
