/* Which device a word means. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/nearest.h"
#include "base/text.h"
#include "estimate/hardware_files.h"
#include "io/yaml.h"

enum { MOST_DEVICES = 512 };

static struct {
    char name[NEAREST_BYTES];
    const hardware_file *file;
    bool in_table;
} known[MOST_DEVICES];
static uint32_t known_count;

static void add_known(const char *name, const hardware_file *file, bool in_table) {
    if (known_count == MOST_DEVICES || strlen(name) >= NEAREST_BYTES) return; /* no test passes with such */
    snprintf(known[known_count].name, sizeof known[0].name, "%s", name);
    known[known_count].file = file;
    known[known_count++].in_table = in_table;
}

static void list_all(void) {
    if (known_count) return;
    for (const hardware_file *x = hardware_files; x->name; x++) add_known(x->name, x, false);
    for (const hardware_file *x = hardware_tables; x->name; x++) {
        yaml_file f;
        if (yaml_read(x->name, x->text, strlen(x->text), &f) != STATUS_OK) continue;
        for (uint32_t i = 0; i < f.count; i++)
            if (hardware_is_row(f.entries[i].key, f.entries[i].list)) add_known(f.entries[i].key, x, true);
        yaml_close(&f);
    }
}

uint32_t hardware_count(void) {
    list_all();
    return known_count;
}

const char *hardware_name(uint32_t index) { return index < hardware_count() ? known[index].name : NULL; }

const hardware_file *hardware_text(uint32_t index) {
    return index < hardware_count() ? known[index].file : NULL;
}

bool hardware_in_table(uint32_t index) { return index < hardware_count() && known[index].in_table; }

const char *hardware_names(void) {
    static char names[MOST_DEVICES * 24];
    size_t used = 0;
    for (uint32_t i = 0; i < hardware_count() && used + 1 < sizeof names && !(i == 0 && names[0]); i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", known[i].name);
    return names;
}

/* ---- as people write them ---- */

/* How much of a name is left out: nothing, who made it, and then also how it is plugged in. */
typedef enum { ALL_WORDS, NO_MAKERS, NO_SOCKETS, FOLDINGS } folding;

static bool is_one_of(const char *word, const char *const *words, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(word, words[i]) == 0) return true;
    return false;
}

static bool is_left_out(const char *word, folding how) {
    static const char *const makers[] = {
        "nvidia", "geforce", "amd",      "radeon", "instinct",   "apple",
        "tesla",  "edition", "graphics", "gpu",    "generation", "blackwell"
    };
    static const char *const sockets[] = { "sxm",  "sxm2", "sxm3",  "sxm4", "sxm5",  "sxm6",
                                           "pcie", "hbm2", "hbm2e", "hbm3", "hbm3e", "oam" };
    if (strcmp(word, "gb") == 0) return true; /* "A100 80 GB" is "A100 80" */
    return (how >= NO_MAKERS && is_one_of(word, makers, sizeof makers / sizeof *makers)) ||
           (how >= NO_SOCKETS && is_one_of(word, sockets, sizeof sockets / sizeof *sockets));
}

/* "80gb", "80g" and "80gib" are "80". */
static void drop_unit(char *word) {
    size_t n = strlen(word);
    static const char *const units[] = { "gib", "gb", "g" };
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        size_t u = strlen(units[i]);
        if (n <= u || strcmp(word + n - u, units[i]) != 0 || !isdigit((unsigned char)word[n - u - 1]))
            continue;
        if (strspn(word, "0123456789") == n - u) word[n - u] = 0;
        return;
    }
}

/* Letters and digits in small letters, without what parts words. */
static void fold(const char *name, folding how, char out[NEAREST_BYTES]) {
    size_t used = 0;
    out[0] = 0;
    for (const char *at = name; *at;) {
        char word[NEAREST_BYTES];
        size_t n = 0;
        while (*at && !isalnum((unsigned char)*at)) at++;
        for (; isalnum((unsigned char)*at); at++)
            if (n + 1 < sizeof word) word[n++] = (char)tolower((unsigned char)*at);
        word[n] = 0;
        drop_unit(word);
        const char *said = strcmp(word, "mobile") == 0 ? "laptop" : word;
        if (is_left_out(word, how)) continue;
        used += (size_t)snprintf(out + used, NEAREST_BYTES - used, "%s", said);
        if (used >= NEAREST_BYTES) return;
    }
}

static uint32_t find_folded(const char *wanted, folding how) {
    char has[NEAREST_BYTES];
    for (uint32_t i = 0; i < hardware_count() && *wanted; i++) {
        fold(known[i].name, how, has);
        if (strcmp(has, wanted) == 0) return i;
    }
    return known_count;
}

/* Other names for the same thing. */
static const char *other_name(const char *folded) {
    static const struct {
        const char *said, *name;
    } others[] = { { "h100nvl", "h100-94" },
                   { "h200nvl", "h200" },
                   { "gh200120", "gh200-96" }, /* drivers name it by the memory of its processor */
                   { "gh200480", "gh200-96" },
                   { "mi250xmi250", "mi250x" },
                   { "thor", "jetson-thor" },
                   { "rtx30504laptop", "rtx-3050-laptop" },
                   { "quadrortx3000", "quadro-rtx-3000-laptop" },
                   { "h100pcie", "h100-80-pcie" },
                   { "dgxspark", "gb10" },
                   { "rtx8000", "quadro-rtx-8000" },
                   { "rtxpro6000workstation", "rtx-pro-6000" },
                   { "rtxpro6000server", "rtx-pro-6000-server" },
                   { "rtxpro6000maxqworkstation", "rtx-pro-6000-max-q" } };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(folded, others[i].said) == 0) return others[i].name;
    return NULL;
}

uint32_t hardware_meant(const char *name) {
    static const char *const before[] = { "rtx ", "rx ", "gtx " };
    char wanted[NEAREST_BYTES], longer[NEAREST_BYTES + 8];
    uint32_t found = hardware_count();
    for (int how = 0; how < FOLDINGS && found == hardware_count(); how++) {
        fold(name, (folding)how, wanted);
        const char *other = other_name(wanted);
        if (other) fold(other, ALL_WORDS, wanted);
        found = find_folded(wanted, other ? ALL_WORDS : (folding)how);
    }
    for (size_t i = 0; i < sizeof before / sizeof *before && found == hardware_count(); i++) {
        fold(name, NO_SOCKETS, wanted);
        snprintf(longer, sizeof longer, "%s%s", before[i], wanted);
        if (strlen(wanted) > 1) fold(longer, NO_SOCKETS, wanted), found = find_folded(wanted, NO_SOCKETS);
    }
    return found;
}

/* ---- of words that name none ---- */

enum { MOST_MEANT = 12 };

/* What drivers say of a chip that is sold with several sizes of memory. */
static const char *chip_of(const char *folded) {
    static const struct {
        const char *said, *name;
    } chips[] = { { "8060s", "strixhalo" }, { "ryzenaimax", "strixhalo" }, { "orin", "jetson" } };
    for (size_t i = 0; i < sizeof chips / sizeof *chips; i++)
        if (strstr(folded, chips[i].said)) return chips[i].name;
    return folded;
}

/* Those that begin so, whole devices before parts of one: "h100-80 or h100-94" of "h100". */
static void add_beginnings(const char *wanted, text *out) {
    char has[NEAREST_BYTES];
    uint32_t count = 0;
    for (int parts = 0; parts < 2 && !count && *wanted; parts++)
        for (uint32_t i = 0; i < hardware_count(); i++) {
            fold(known[i].name, NO_SOCKETS, has);
            bool part = strstr(known[i].name, "-mig-") != NULL;
            if (part != (parts == 1) || strncmp(has, wanted, strlen(wanted)) != 0) continue;
            if (count++ < MOST_MEANT) text_add(out, "%s%s", out->length ? " or " : "", known[i].name);
        }
    if (count > MOST_MEANT) text_add(out, " or %u more that begin so", count - MOST_MEANT);
}

status hardware_unknown(const char *name) {
    char folded[NEAREST_BYTES], near[NEAREST_BYTES];
    text meant = { 0 };
    fold(name, NO_SOCKETS, folded);
    add_beginnings(chip_of(folded), &meant);
    nearest_listed(folded, hardware_names(), near);
    if (!meant.length && *near) text_add(&meant, "%s", near);
    status result =
        status_set(STATUS_INVALID,
                   "there is no device '%.60s'%s%s%s %u devices have a name, as h100-80, rtx-4090, "
                   "mi300x or m4-max-64 (docs/devices.md); what begins so is listed for a beginning, "
                   "as rtx-40; files of your own (*.yaml) are read",
                   name, meant.length ? "; did you mean " : "", meant.length ? meant.data : "",
                   meant.length ? "?" : ";", hardware_count());
    text_close(&meant);
    return result;
}
