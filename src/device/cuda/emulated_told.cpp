#include "device/cuda/emulated_told.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/cuda/device_emulated.h"
#include "device/cuda/emulate_order.h"

namespace {

char counts_path[512];

void write_counts() {
    FILE *file = fopen(counts_path, "w");
    if (!file) return;
    const emulated_counts &c = emulated_seen;
    const struct {
        const char *name;
        uint64_t value;
    } rows[] = { { "pool_bytes", c.most_bytes },
                 { "pinned_bytes", c.pinned_most_bytes },
                 { "pools", c.pools },
                 { "pinned_pools", c.pinned_pools },
                 { "launches", c.launches },
                 { "products", c.products },
                 { "attentions", c.attentions },
                 { "captured", c.captured },
                 { "replayed", c.replayed },
                 { "by_host", c.by_host },
                 { "copies", c.copies },
                 { "copied_bytes", c.copied_bytes },
                 { "calls", c.calls },
                 { "moves", c.moves },
                 { "put_bytes", c.put_bytes },
                 { "got_bytes", c.got_bytes },
                 { "operations", c.operations },
                 { "waits", c.waits },
                 { "carried", c.carried },
                 { "carried_bytes", c.carried_bytes } };
    const char *before = "{";
    for (const auto &r : rows) {
        fprintf(file, "%s\"%s\": %llu", before, r.name, (unsigned long long)r.value);
        before = ", ";
    }
    fprintf(file, "}\n");
    fclose(file);
}

[[noreturn]] void refuse(const char *word) {
    fprintf(stderr, "SNUG_EMULATED: '%s' says nothing\n", word);
    abort();
}

/* The place of a word among some, which end with NULL. */
int place_of(const char *const *among, const char *value, const char *word) {
    for (int i = 0; among[i]; i++)
        if (strcmp(among[i], value) == 0) return i;
    refuse(word);
}

uint64_t number_of(const char *value, const char *word) {
    char *end;
    uint64_t number = strtoull(value, &end, 10);
    if (!*value || *end) refuse(word);
    return number;
}

struct reading {
    emulated_told told = { 0, UINT64_MAX, UINT64_MAX, UINT64_MAX, 0, 0, 90 };
    int pace = EMULATED_EAGER;
    uint64_t seed = 1;
};

void read_word(reading &r, const char *word) {
    static const char *const orders[] = { "forward", "reversed", "shuffled", NULL };
    static const char *const paces[] = { "eager", "late-copies", "late-kernels", "random", NULL };
    const char *is = strchr(word, '=');
    if (!is) refuse(word);
    auto names = [&](const char *name) {
        return strlen(name) == (size_t)(is - word) && strncmp(word, name, strlen(name)) == 0;
    };
    if (names("order"))
        emulate_order_set((emulate_order)place_of(orders, is + 1, word));
    else if (names("pace"))
        r.pace = place_of(paces, is + 1, word);
    else if (names("seed"))
        r.seed = number_of(is + 1, word);
    else if (names("lost"))
        r.told.lost = number_of(is + 1, word);
    else if (names("memory"))
        r.told.memory = number_of(is + 1, word);
    else if (names("capture"))
        r.told.capture = number_of(is + 1, word);
    else if (names("pinned"))
        r.told.pinned = number_of(is + 1, word);
    else if (names("gpu"))
        r.told.gpu = number_of(is + 1, word);
    else if (names("capability"))
        r.told.capability = (uint32_t)number_of(is + 1, word);
    else if (names("transport"))
        r.told.transport = number_of(is + 1, word);
    else if (names("counts") &&
             (size_t)snprintf(counts_path, sizeof counts_path, "%s", is + 1) < sizeof counts_path)
        atexit(write_counts);
    else
        refuse(word);
}

emulated_told read_all() {
    const char *said = getenv("SNUG_EMULATED");
    if (!said) return reading().told;
    char words[1024], *rest = words;
    if ((size_t)snprintf(words, sizeof words, "%s", said) >= sizeof words) refuse(said);
    reading r;
    for (char *word; (word = strtok_r(rest, " ", &rest));) read_word(r, word);
    emulated_pace_set((emulated_pace)r.pace, r.seed);
    return r.told;
}

} // namespace

const emulated_told &emulated_told_get() {
    static const emulated_told told = read_all();
    return told;
}
