#include "export/cutting.h"

#include <string.h>

enum { MOST_PARTS = 4 };

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define REST "[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define WORDS CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define SIGNS "| ?[^\\s\\p{L}\\p{N}]+"
#define CASES_1 "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+"
#define CASES_2 "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*"
#define SLASHED "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* Patterns that llama.cpp has under a name, as the files of the models have them (its
 * src/llama-vocab.cpp). */
static const struct {
    const char *pattern;
    bool ignores_merges, nearly; /* nearly: it takes letters beyond a to z for small and for capital ones */
    const char *name;
} patterns[] = {
    { "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+" SIGNS "|\\s+(?!\\S)|\\s+", false, false, "gpt-2" },
    { WORDS "\\p{N}{1,3}" SIGNS REST, true, false, "llama-bpe" },
    { WORDS "\\p{N}{1,3}" SIGNS REST, false, false, "dbrx" },
    { WORDS "\\p{N}" SIGNS REST, false, false, "qwen2" },
    { CASES_1 "|" CASES_2 "|\\p{N}" SLASHED, true, true, "tekken" },
    { CASES_1 CONTRACTIONS "?|" CASES_2 CONTRACTIONS "?|\\p{N}{1,3}" SLASHED, false, true, "gpt-4o" },
};
enum { PATTERNS = sizeof patterns / sizeof *patterns };

static bool says(json_value object, const char *key, const char *value) {
    const char *is = "";
    return json_optional_string(object, key, &is) == STATUS_OK && strcmp(is, value) == 0;
}

static bool is(json_value part, const char *type) { return part.object && says(part, "type", type); }

/* An option that is true or false; `silent` where it is not said. */
static bool option_of(json_value part, const char *key, bool silent) {
    return json_optional_bool(part, key, &silent) == STATUS_OK && silent;
}

/* A part, or those of a sequence; -1: there are more. */
static int list_parts(json_value part, const char *items, json_value parts[MOST_PARTS]) {
    json_value list;
    size_t count;
    if (!part.object) return 0;
    if (!is(part, "Sequence")) {
        parts[0] = part;
        return 1;
    }
    if (json_get(part, items, &list) != STATUS_OK || json_as_array(list, &count) != STATUS_OK) return -1;
    if (count > MOST_PARTS) return -1;
    for (size_t i = 0; i < count; i++) parts[i] = json_item(list, i);
    return (int)count;
}

static const char *type_of(json_value part) {
    const char *type = "nothing";
    if (part.object) STATUS_IGNORED(json_optional_string(part, "type", &type)); /* only named */
    return type;
}

static status refuse(const char *path, const char *key, json_value part) {
    return status_set(STATUS_INVALID,
                      "%s: llama.cpp has no %s like this one (%s), so its tokens would be others there", path,
                      key, type_of(part));
}

/* ---- bytes ---- */

static bool is_byte_level(json_value part, bool cuts) {
    return is(part, "ByteLevel") && !option_of(part, "add_prefix_space", true) &&
           option_of(part, "use_regex", true) == cuts;
}

static const char *split_name(json_value part, bool ignores_merges, bool *nearly) {
    json_value pattern;
    if (!is(part, "Split") || !says(part, "behavior", "Isolated") || option_of(part, "invert", false))
        return NULL;
    if (!json_find(part, "pattern", &pattern) || json_as_object(pattern) != STATUS_OK) return NULL;
    for (int i = 0; i < PATTERNS; i++) {
        if (!says(pattern, "Regex", patterns[i].pattern) || patterns[i].ignores_merges != ignores_merges)
            continue;
        *nearly = patterns[i].nearly;
        return patterns[i].name;
    }
    return NULL;
}

static const char *find_name(const cutting *c, bool *nearly) {
    json_value parts[MOST_PARTS];
    int count = list_parts(c->before, "pretokenizers", parts);
    *nearly = false;
    if (count == 1 && is_byte_level(parts[0], true) && !c->ignores_merges) return "gpt-2";
    if (count != 2) return NULL;
    if (is(parts[0], "Digits") && option_of(parts[0], "individual_digits", false) &&
        is_byte_level(parts[1], true) && !c->ignores_merges)
        return "smollm";
    return is_byte_level(parts[1], false) ? split_name(parts[0], c->ignores_merges, nearly) : NULL;
}

status cutting_name(const char *path, const cutting *c, const char **pre, text *notes) {
    bool composes = is(c->normalizer, "NFC"), nearly;
    if (c->normalizer.object && !composes) return refuse(path, "normalizer", c->normalizer);
    *pre = find_name(c, &nearly);
    if (!*pre)
        return refuse(path, c->ignores_merges ? "pre_tokenizer with ignore_merges" : "pre_tokenizer",
                      c->before);
    if (composes)
        text_add(notes, "llama.cpp does not compose letters (NFC): a prompt should have them composed\n");
    if (nearly)
        text_add(notes,
                 "llama.cpp knows the pattern '%s' nearly: words of letters beyond a to z may become other "
                 "tokens there\n",
                 *pre);
    return STATUS_OK;
}

/* ---- characters ---- */

static const char mark[] = "\xe2\x96\x81"; /* what stands for a blank in such tokens */

static bool replaces_blanks(json_value part) {
    json_value pattern;
    return is(part, "Replace") && says(part, "content", mark) && json_find(part, "pattern", &pattern) &&
           json_as_object(pattern) == STATUS_OK && says(pattern, "String", " ");
}

/* Blanks are marks by then, so cutting at blanks finds nothing. */
static bool cuts_nothing(json_value part) {
    json_value pattern;
    if (!part.object) return true;
    return is(part, "Split") && json_find(part, "pattern", &pattern) &&
           json_as_object(pattern) == STATUS_OK && says(pattern, "String", " ");
}

static status read_metaspace(const char *path, json_value part, bool *blank, text *notes) {
    if (!says(part, "replacement", mark) || option_of(part, "split", true))
        return refuse(path, "pre_tokenizer", part);
    if (says(part, "prepend_scheme", "never")) return STATUS_OK;
    if (!says(part, "prepend_scheme", "first") && !says(part, "prepend_scheme", "always"))
        return refuse(path, "pre_tokenizer", part);
    *blank = true;
    text_add(notes, "llama.cpp puts a blank before a prompt that begins with one already, and behind special "
                    "tokens: in such prompts its tokens are others\n");
    return STATUS_OK;
}

status cutting_blank(const char *path, const cutting *c, bool *blank, text *notes) {
    json_value parts[MOST_PARTS];
    int count = list_parts(c->normalizer, "normalizers", parts);
    *blank = false;
    if (c->ignores_merges)
        return status_set(STATUS_INVALID, "%s: llama.cpp has no ignore_merges in BPE of characters", path);
    if (count == 0 && is(c->before, "Metaspace")) return read_metaspace(path, c->before, blank, notes);
    if (!cuts_nothing(c->before)) return refuse(path, "pre_tokenizer", c->before);
    *blank =
        count == 2 && is(parts[0], "Prepend") && says(parts[0], "prepend", mark) && replaces_blanks(parts[1]);
    if (*blank || (count == 1 && replaces_blanks(parts[0]))) return STATUS_OK;
    return refuse(path, "normalizer", c->normalizer);
}
