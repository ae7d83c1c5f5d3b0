#include "exec/judged.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "comm/comm.h"

uint64_t judged_bytes(int64_t classes, int64_t most) {
    return (uint64_t)classes * sizeof(judged_class) + (uint64_t)most * sizeof(int32_t);
}

status judged_open(judged *j, uint32_t classes, uint64_t most) {
    *j = (judged){ .classes = classes, .list = memory_new(classes, sizeof *j->list) };
    j->labels = memory_new(most, sizeof *j->labels);
    if (j->list && j->labels) return STATUS_OK;
    judged_close(j);
    return status_set(STATUS_FAILED, "no memory to count samples by their classes");
}

void judged_close(judged *j) {
    memory_free(j->list);
    memory_free(j->labels);
    *j = (judged){ 0 };
}

/* Larger numbers have larger keys, whichever of the three types they are of. */
static int64_t key_of(const char *at, uint64_t bytes) {
    uint32_t bits = 0, sign = bytes == 2 ? 0x8000u : 0x80000000u;
    if (bytes == 2) {
        uint16_t narrow;
        memcpy(&narrow, at, sizeof narrow);
        bits = narrow;
    } else {
        memcpy(&bits, at, sizeof bits);
    }
    return bits & sign ? -(int64_t)(bits & ~sign) : (int64_t)bits;
}

static void count(judged *j, int32_t label, uint32_t told) {
    if (label < 0 || (uint32_t)label >= j->classes) return; /* it does not count */
    j->list[label].are++;
    j->list[told].told++;
    j->list[told].right += told == (uint32_t)label;
}

status judged_add(judged *j, exec *e, const exec_value *logits, uint64_t samples) {
    uint64_t each = logits->bytes / (samples * j->classes), number = 0;
    int64_t best_key = 0;
    uint32_t best = 0;
    exec_part part;
    if (each != 2 && each != 4) return STATUS_OK;
    for (uint64_t done = 0; done < logits->bytes; done += part.bytes) {
        TRY(exec_view(e, logits, done, &part));
        for (uint64_t at = 0; at < part.bytes; at += each, number++) {
            uint32_t class = (uint32_t)(number % j->classes);
            int64_t key = key_of((const char *)part.data + at, each);
            if (!class || key > best_key) best = class, best_key = key;
            if (class + 1 == j->classes) count(j, j->labels[number / j->classes], best);
        }
    }
    return STATUS_OK;
}

uint64_t judged_share_bytes(int64_t classes, int64_t ranks) {
    return ranks > 1 ? (uint64_t)(ranks * classes) * sizeof(judged_class) : 0;
}

status judged_share(judged *j) {
    size_t ranks = (size_t)comm_world().world;
    judged_class *all = memory_new(ranks * j->classes, sizeof *all);
    status result =
        comm_agree(all ? STATUS_OK : status_set(STATUS_FAILED, "no memory to speak to other ranks"));
    if (result == STATUS_OK) result = comm_share(j->list, all, j->classes * sizeof *all);
    for (uint32_t c = 0; c < j->classes && result == STATUS_OK; c++) {
        judged_class sum = { 0 };
        for (size_t r = 0; r < ranks; r++) {
            const judged_class *x = &all[r * j->classes + c];
            sum.right += x->right, sum.told += x->told, sum.are += x->are;
        }
        j->list[c] = sum;
    }
    memory_free(all);
    return result;
}

double judged_f1(const judged *j) {
    double sum = 0, met = 0;
    for (uint32_t c = 0; c < j->classes; c++) {
        const judged_class *x = &j->list[c];
        if (!x->told && !x->are) continue;
        sum += 2 * (double)x->right / (double)(x->told + x->are), met++;
    }
    return met > 0 ? sum / met : (double)NAN;
}
