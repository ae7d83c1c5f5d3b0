/* The texts of a pickle, each once: a table of numbers by hash, open addressing. */
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "io/pickle.h"

enum { MOST_TEXTS = 1 << PICKLE_BITS, FIRST_ROOM = 1 << 12 };

static const uint32_t MOST_BYTES = UINT32_C(4000000000);

static const uint32_t *starts(const pickle_texts *t) { return t->starts.data; }

/* starts[0] belongs to the text number 0, which is empty; of each text the end is the next one's start. */
status pickle_texts_open(pickle_texts *t) {
    *t = (pickle_texts){ 0 };
    status result = array_open(&t->bytes, 1, MOST_BYTES);
    if (result == STATUS_OK) result = array_open(&t->starts, sizeof(uint32_t), MOST_TEXTS);
    uint32_t index = 0;
    if (result == STATUS_OK) result = array_add(&t->starts, 1, &index);
    if (result == STATUS_OK) ((uint32_t *)t->starts.data)[1] = t->bytes.count;
    t->table = memory_new(FIRST_ROOM, sizeof *t->table);
    t->room = FIRST_ROOM;
    if (result == STATUS_OK && !t->table) result = status_set(STATUS_FAILED, "no memory for texts");
    if (result != STATUS_OK) pickle_texts_close(t);
    return result;
}

void pickle_texts_close(pickle_texts *t) {
    array_close(&t->bytes);
    array_close(&t->starts);
    memory_free(t->table);
    *t = (pickle_texts){ 0 };
}

const char *pickle_texts_at(const pickle_texts *t, uint32_t number) {
    return (const char *)t->bytes.data + (number ? starts(t)[number] : 0);
}

size_t pickle_texts_length(const pickle_texts *t, uint32_t number) {
    return number ? starts(t)[number + 1] - starts(t)[number] - 1 : 0;
}

static uint32_t hash_of(const char *bytes, size_t count) {
    uint32_t hash = hash_bytes(bytes, count);
    return hash ^ hash >> 15;
}

static status grow(pickle_texts *t) {
    uint32_t room = 2 * t->room, *table = memory_new(room, sizeof *table);
    if (!table) return status_set(STATUS_FAILED, "no memory for %u texts", room / 2);
    for (uint32_t n = 1; n + 1 < t->starts.count; n++) {
        uint32_t at = hash_of(pickle_texts_at(t, n), pickle_texts_length(t, n)) & (room - 1);
        while (table[at]) at = (at + 1) & (room - 1);
        table[at] = n;
    }
    memory_free(t->table);
    t->table = table, t->room = room;
    return STATUS_OK;
}

status pickle_texts_add(pickle_texts *t, const char *bytes, size_t count, uint32_t *number) {
    if (t->starts.count > t->room / 2) TRY(grow(t));
    uint32_t at = hash_of(bytes, count) & (t->room - 1);
    for (; t->table[at]; at = (at + 1) & (t->room - 1)) {
        *number = t->table[at];
        if (pickle_texts_length(t, *number) == count &&
            memcmp(pickle_texts_at(t, *number), bytes, count) == 0)
            return STATUS_OK;
    }
    uint32_t first, next;
    TRY(array_add(&t->bytes, (uint32_t)count + 1, &first));
    TRY(array_add(&t->starts, 1, &next));
    if (count) memcpy((char *)t->bytes.data + first, bytes, count);
    ((uint32_t *)t->starts.data)[next] = t->bytes.count;
    t->table[at] = *number = next - 1;
    return STATUS_OK;
}
