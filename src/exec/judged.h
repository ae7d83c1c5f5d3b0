/* How well a head of classes tells them: of each class how many samples it was told of, how many are of it,
 * and how many of those it was told of. From the logits that a program of validation has kept. */
#pragma once

#include "exec/exec.h"

typedef struct {
    uint64_t right, told, are;
} judged_class;

typedef struct {
    judged_class *list; /* NULL: nothing is counted */
    uint32_t classes;
    int32_t *labels; /* of the samples of a call */
} judged;

/* For calls of at most `most` samples. Takes judged_bytes, which the plan counts. */
status judged_open(judged *j, uint32_t classes, uint64_t most);
void judged_close(judged *j); /* fine on a zeroed one */
uint64_t judged_bytes(int64_t classes, int64_t most);

/* A call of `count` samples is over, whose labels are in j->labels. */
status judged_add(judged *j, exec *e, const exec_value *logits, uint64_t count);

/* All ranks call it: each then has what all have counted. Takes judged_share_bytes for that long. */
status judged_share(judged *j);
uint64_t judged_share_bytes(int64_t classes, int64_t ranks);

/* The mean of F1 = 2 right / (told + are) over all classes that are told or there (macro F1); NAN: none. */
double judged_f1(const judged *j);
