#define _GNU_SOURCE
#include "cli/ranks_alike.h"

#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/instructions.h"
#include "base/memory.h"
#include "comm/comm.h"
#include "run/products.h"
#include "run/run_options.h"

/* ---- the build ---- */

enum { WORD_BYTES = 64 };

/* What ranks compare first, and so the same in all versions. */
typedef struct {
    char host[WORD_BYTES], version[WORD_BYTES], build[WORD_BYTES];
} who;

/* The linker's note of the program: 20 bytes that no other build has. */
static int find_build(struct dl_phdr_info *object, size_t size, void *context) {
    (void)size;
    char *build = context;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        if (part->p_type != PT_NOTE) continue;
        const char *at = (const char *)object->dlpi_addr + part->p_vaddr, *end = at + part->p_memsz;
        while (at + sizeof(ElfW(Nhdr)) <= end) {
            const ElfW(Nhdr) *note = (const void *)at;
            const unsigned char *digits = (const unsigned char *)(note + 1) + ((note->n_namesz + 3u) & ~3u);
            if (note->n_type == NT_GNU_BUILD_ID)
                for (uint32_t k = 0; k < note->n_descsz && 2 * k + 2 < WORD_BYTES; k++)
                    snprintf(build + 2 * k, 3, "%02x", digits[k]);
            at = (const char *)digits + ((note->n_descsz + 3u) & ~3u);
        }
    }
    return 1; /* the first object is the program */
}

static const char *name_of(const who *w) { return w->host[0] ? w->host : "its host"; }

static status check_builds(const who *all, int world) {
    const who *first = &all[0];
    for (int r = 1; r < world; r++) {
        const who *w = &all[r];
        if (strcmp(w->version, first->version) == 0 && strcmp(w->build, first->build) == 0) continue;
        return status_set(STATUS_INVALID,
                          "rank %d on %s is another build of snug (%s, %.8s) than rank 0 on %s (%s, %.8s)", r,
                          name_of(w), w->version, w->build, name_of(first), first->version, first->build);
    }
    return STATUS_OK;
}

/* ---- the options ---- */

enum { MOST_OPTIONS = 96 };

/* Budgets are of each host, and some are settled among ranks. What is KNOWN is compared by its content. */
static bool is_compared(const run_option *x) {
    static const char *const own[] = { "memory-auto", "ranks-of-host", "threads", "rates" };
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strcmp(x->name, own[i]) == 0) return false;
    return x->kind != RUN_OPTION_BYTES && x->part != RUN_OPTION_KNOWN;
}

/* Of texts those that are words; others are paths, which hosts may have in different places, if at all. */
static uint64_t digest_of(const setup_options *o, const run_option *x) {
    const char *at = (const char *)o + x->offset;
    uint64_t sum = 0;
    bool words = strcmp(x->name, "allow") == 0 || strcmp(x->name, "techniques") == 0;
    if (!is_compared(x)) return 0;
    if (x->kind == RUN_OPTION_POINTER && !words) {
        const void *path;
        memcpy(&path, at, sizeof path);
        return path != NULL;
    }
    if (x->kind != RUN_OPTION_POINTER) {
        for (size_t i = 0; i < x->bytes; i++) sum = sum * 31 + (unsigned char)at[i] + 1;
        return sum;
    }
    for (size_t i = 0; i < x->bytes; i += sizeof(char *)) {
        const char *word;
        memcpy(&word, at + i, sizeof word);
        sum = sum * 31 + hash_name(word ? word : "");
    }
    return sum;
}

static status check_options(const setup_options *o, const who *names, int world) {
    uint64_t mine[MOST_OPTIONS] = { 0 };
    const void *heard;
    for (int i = 0; run_options[i].name && i < MOST_OPTIONS; i++) mine[i] = digest_of(o, &run_options[i]);
    TRY(comm_hear(mine, sizeof mine, &heard));
    const uint64_t *all = heard;
    for (int r = 1; r < world; r++)
        for (int i = 0; i < MOST_OPTIONS; i++)
            if (all[r * MOST_OPTIONS + i] != all[i])
                return status_set(
                    STATUS_INVALID, "rank %d on %s was given other options than rank 0: %s%s differs", r,
                    name_of(&names[r]), strcmp(run_options[i].name, "techniques") == 0 ? "one of the " : "--",
                    run_options[i].name);
    return STATUS_OK;
}

/* ---- products of 16 bits ---- */

/* With --exact nobody's bits are changed: the plan shows whether there are such products (ranks_agree). */
static status settle_kinds(const options *o, const who *names, int world, output *people) {
    char mine[WORD_BYTES] = "";
    const void *heard;
    snprintf(mine, sizeof mine, "%s", instructions_kind());
    TRY(comm_hear(mine, sizeof mine, &heard));
    const char *all = heard;
    int other = 0;
    for (int r = 1; r < world && !other; r++)
        if (strcmp(all + r * WORD_BYTES, all) != 0) other = r;
    bool widen = other && !o->run.exact;
    if (widen)
        output_add(people,
                   "note: rank %d on %s multiplies bf16 another way than rank 0 (%s, and not %s): all of "
                   "them widen it to f32\n",
                   other, name_of(&names[other]), all + other * WORD_BYTES, all);
    return widen && strcmp(mine, PRODUCTS_WIDENED) != 0 ? instructions_pin(PRODUCTS_WIDENED) : STATUS_OK;
}

status ranks_alike(const options *o, output *people) {
    int world = comm_world().world;
    who mine = { 0 }, *all = memory_new((size_t)world, sizeof *all);
    TRY(comm_agree(all ? STATUS_OK : status_set(STATUS_FAILED, "no memory to compare ranks")));
    if (gethostname(mine.host, sizeof mine.host - 1) != 0) mine.host[0] = 0;
    snprintf(mine.version, sizeof mine.version, "%s", SNUG_VERSION);
    dl_iterate_phdr(find_build, mine.build);
    status result = comm_share(&mine, all, sizeof mine);
    if (result == STATUS_OK) result = check_builds(all, world);
    if (result == STATUS_OK) result = check_options(&o->run, all, world);
    if (result == STATUS_OK) result = settle_kinds(o, all, world, people);
    memory_free(all);
    return result;
}
