#include "models/label_names.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

struct label_entry {
    char *name;
    uint32_t id;
};

bool label_names_number(const char *word, uint64_t bytes, double *value) {
    char copy[64], *end;
    if (!bytes || bytes >= sizeof copy) return false;
    memcpy(copy, word, bytes);
    copy[bytes] = 0;
    if (strspn(copy, "+-.0123456789eE") != bytes) return false;
    *value = strtod(copy, &end);
    return end != copy && !*end && isfinite(*value);
}

/* The place of a name in the list, or where it belongs. */
static uint32_t place_of(const label_names *n, const char *name, uint64_t bytes, bool *there) {
    uint32_t low = 0, high = n->count;
    *there = false;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = strncmp(n->list[middle].name, name, bytes);
        if (!order && n->list[middle].name[bytes]) order = 1;
        if (!order) {
            *there = true;
            return middle;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static status make_room(label_names *n) {
    if (n->count < n->room) return STATUS_OK;
    uint32_t larger = n->room ? 2 * n->room : 8;
    label_entry *list = memory_resize(n->list, larger, sizeof *list);
    if (list) n->list = list;
    const char **name = list ? memory_resize(n->name, larger, sizeof *name) : NULL;
    if (!name) return status_set(STATUS_FAILED, "no memory for the names of %u labels", larger);
    n->name = name;
    n->held_bytes += (larger - n->room) * (sizeof *list + sizeof *name);
    n->room = larger;
    return STATUS_OK;
}

status label_names_add(label_names *n, const char *name, uint64_t bytes, uint32_t *id) {
    bool there = false;
    double value;
    if (!bytes) return status_set(STATUS_INVALID, "a label is empty");
    if (bytes > LABEL_NAMES_BYTES)
        return status_set(STATUS_INVALID, "a label has %llu bytes; there may be %d",
                          (unsigned long long)bytes, LABEL_NAMES_BYTES);
    if (memchr(name, 0, bytes)) return status_set(STATUS_INVALID, "a label holds a zero");
    uint32_t at = place_of(n, name, bytes, &there);
    if (there) {
        if (id) *id = n->list[at].id;
        return STATUS_OK;
    }
    if (n->count == LABEL_NAMES_MOST)
        return status_set(STATUS_INVALID, "there are more than %d labels", LABEL_NAMES_MOST);
    char *copy = memory_new(bytes + 1, 1);
    status result = copy ? make_room(n) : status_set(STATUS_FAILED, "no memory for the name of a label");
    if (result != STATUS_OK) {
        memory_free(copy);
        return result;
    }
    memcpy(copy, name, bytes);
    memmove(n->list + at + 1, n->list + at, (n->count - at) * sizeof *n->list);
    n->list[at] = (label_entry){ copy, n->count };
    n->name[n->count] = copy;
    n->any_number |= label_names_number(copy, bytes, &value);
    n->held_bytes += bytes + 1;
    if (id) *id = n->count;
    n->count++;
    return STATUS_OK;
}

/* ---- order ---- */

static double value_of(const char *name) {
    double value = 0;
    label_names_number(name, strlen(name), &value);
    return value;
}

static int by_value(const void *a, const void *b) {
    const label_entry *x = a, *y = b;
    double p = value_of(x->name), q = value_of(y->name);
    return p < q ? -1 : p > q ? 1 : strcmp(x->name, y->name);
}

static int by_bytes(const void *a, const void *b) {
    return strcmp(((const label_entry *)a)->name, ((const label_entry *)b)->name);
}

void label_names_sort(label_names *n) {
    bool numbers = n->count > 0;
    double value;
    for (uint32_t i = 0; i < n->count; i++)
        numbers &= label_names_number(n->list[i].name, strlen(n->list[i].name), &value);
    if (!n->count || n->ordered) return;
    if (numbers) qsort(n->list, n->count, sizeof *n->list, by_value);
    for (uint32_t i = 0; i < n->count; i++) n->list[i].id = i, n->name[i] = n->list[i].name;
    qsort(n->list, n->count, sizeof *n->list, by_bytes);
}

int64_t label_names_find(const label_names *n, const char *name, uint64_t bytes) {
    bool there = false;
    double value;
    if (!bytes || memchr(name, 0, bytes)) return -1;
    uint32_t at = place_of(n, name, bytes, &there);
    if (there) return n->list[at].id;
    bool is_id = !n->any_number && label_names_number(name, bytes, &value) && value >= 0 &&
                 value < n->count && floor(value) == value;
    return is_id ? (int64_t)value : -1;
}

void label_names_close(label_names *n) {
    for (uint32_t i = 0; i < n->count; i++) memory_free(n->list[i].name);
    memory_free(n->list);
    memory_free((void *)n->name);
    *n = (label_names){ 0 };
}
