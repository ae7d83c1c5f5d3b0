#include "io/published.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "base/text.h"
#include "io/json.h"
#include "io/model_config.h"

static bool read_config(const published_model *p, model_config *c) {
    return model_config_parse(p->name, p->text, c) == STATUS_OK;
}

double published_parameters(const published_model *p) {
    json_document d;
    double count = 0;
    if (json_parse(p->name, p->text, strlen(p->text), &d) != STATUS_OK) return 0;
    if (json_get_number(d.root, "parameters", 1, 1e15, &count) != STATUS_OK) count = 0;
    json_close(&d);
    return count;
}

/* A number and M, B or T; 0: it is none. */
static double size_of(const char *said) {
    char *end;
    double n = strtod(said, &end);
    double unit = *end == 'B' || *end == 'b'   ? 1e9
                  : *end == 'M' || *end == 'm' ? 1e6
                  : *end == 'T' || *end == 't' ? 1e12
                                               : 0;
    return end != said && unit > 0 && !end[1] && n > 0 && n < 1e6 ? n * unit : 0;
}

static bool is_decoder(const model_config *c) {
    return c->family == FAMILY_GPT2 || c->family == FAMILY_DECODER;
}

static bool is_dense_decoder(const model_config *c) {
    return is_decoder(c) && !(c->family == FAMILY_DECODER && c->decoder.experts.count);
}

/* ---- names ---- */

static char lower(char c) { return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c); }

/* As published models are called here: of "meta-llama/Llama-3.1-8B" what stands behind the organisation, in
 * small letters. "" for a path. */
static void plain_name(const char *said, char out[NEAREST_BYTES]) {
    const char *slash = strchr(said, '/');
    const char *second = slash ? strchr(slash + 1, '/') : NULL;
    bool path = *said == '.' || slash == said || (second && second[1]);
    const char *name = path ? "" : slash ? slash + 1 : said;
    size_t n = 0;
    for (; name[n] && name[n] != '/' && n + 1 < NEAREST_BYTES; n++) out[n] = lower(name[n]);
    bool whole = !name[n] || strcmp(name + n, "/") == 0;
    out[whole ? n : 0] = 0;
    if (strncmp(out, "meta-llama", 10) == 0) memmove(out, out + 5, strlen(out + 5) + 1);
}

/* Is `part` a word of the name, between hyphens? */
static bool has_word(const char *name, const char *part) {
    size_t length = strlen(part);
    for (const char *at = name; (at = strstr(at, part)); at++)
        if ((at == name || at[-1] == '-') && (at[length] == '-' || !at[length])) return true;
    return false;
}

/* The longest name that `plain` goes on from, as "mistral-7b" of "mistral-7b-v0.1". Such variants of texts'
 * models have the same shape; of images' they may not, as with patches of another size. */
static const published_model *find_variant(const char *plain, bool of_images) {
    const published_model *best = NULL;
    size_t most = 0;
    model_config c;
    for (const published_model *p = published_models; p->name; p++) {
        size_t length = strlen(p->name);
        if (length <= most || strncmp(plain, p->name, length) != 0 || plain[length] != '-') continue;
        if (!strchr(p->name, '-')) continue; /* behind gpt2 there stands a size */
        bool reads = read_config(p, &c) && (is_decoder(&c) || families_fills(&c) || c.family == FAMILY_T5);
        if (reads || of_images) best = p, most = length;
    }
    return best;
}

static const published_model *find_name(const char *plain) {
    for (const published_model *p = published_models; p->name; p++)
        if (strcmp(p->name, plain) == 0) return p;
    return NULL;
}

/* ---- sizes ---- */

/* How far a model is from being meant by a size: those that have it in their names come first, of these
 * Llama's, which most people mean by it; then the parameters decide. */
static double apart(const published_model *p, const model_config *c, const char *size, double wanted) {
    const double unnamed = 1e6, other = 1e3;
    double away = fabs(log(published_parameters(p) / wanted));
    bool named = has_word(p->name, size);
    bool llama = c->family == FAMILY_DECODER && strcmp(c->decoder.kind->type, "llama") == 0;
    return away + (!named ? unnamed : llama ? 0 : other);
}

static const published_model *find_size(const char *size, double wanted) {
    const published_model *near = NULL;
    double best = INFINITY;
    model_config c;
    for (const published_model *p = published_models; p->name; p++) {
        if (!read_config(p, &c) || !is_dense_decoder(&c)) continue;
        double away = apart(p, &c, size, wanted);
        if (away < best) best = away, near = p;
    }
    return near;
}

/* Beyond twice as large or small a shape says nothing of what was meant. */
static bool is_near(const published_model *p, double wanted) {
    return fabs(log(published_parameters(p) / wanted)) <= log(2);
}

/* ---- finding ---- */

published_match published_find(const char *said, model_config *c, const char **name) {
    char plain[NEAREST_BYTES];
    double size = size_of(said);
    plain_name(said, plain);
    published_match match = PUBLISHED_NAME;
    const published_model *found = find_name(plain);
    if (!found) match = PUBLISHED_VARIANT, found = find_variant(plain, false);
    if (!found && size > 0) {
        match = PUBLISHED_SIZE, found = find_size(plain, size);
        if (found && !is_near(found, size)) found = NULL;
    }
    if (!found || !read_config(found, c)) return PUBLISHED_NONE;
    *name = found->name;
    return match;
}

status published_unknown(const char *said) {
    char plain[NEAREST_BYTES], near[NEAREST_BYTES];
    double size = size_of(said);
    text list = { 0 };
    plain_name(said, plain);
    if (size > 0)
        return status_set(STATUS_INVALID,
                          "'%s' is far from all published shapes, of which %s is nearest; give a config.json "
                          "of that size",
                          said, find_size(plain, size)->name);
    text_add(&list, "%s", families_preset_names());
    for (const published_model *p = published_models; p->name; p++) text_add(&list, ", %s", p->name);
    nearest_listed(*plain ? plain : said, list.failed ? "" : list.data, near);
    text_close(&list);
    const published_model *shorter = find_variant(plain, true);
    if (!*near && shorter) snprintf(near, sizeof near, "%s", shorter->name);
    return status_set(STATUS_INVALID,
                      "'%s' is no preset (%s), no published model, and no file or directory%s%s%s", said,
                      families_preset_names(), *near ? "; did you mean " : "", near, *near ? "?" : "");
}
