/* From what people write to what is stored, and back. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/nearest.h"
#include "base/units.h"
#include "cli/options.h"

const char *options_environment(const option *row, char buffer[OPTION_NAME_BYTES]) {
    snprintf(buffer, OPTION_NAME_BYTES, "SNUG_%s", row->name);
    for (char *c = buffer; *c; c++)
        *c = (char)(*c == '-' ? '_' : *c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c);
    return buffer;
}

/* ---- defaults ---- */

/* The i-th of "one, two, three" into `buffer`; false: there are fewer. */
static bool word_of(const char *words, int i, char buffer[OPTION_NAME_BYTES]) {
    for (; i > 0 && words; i--) {
        words = strstr(words, ", ");
        if (words) words += 2;
    }
    if (!words) return false;
    snprintf(buffer, OPTION_NAME_BYTES, "%.*s", (int)strcspn(words, ","), words);
    return true;
}

const char *options_choice(const option *row, const options *o, char word[OPTION_NAME_BYTES]) {
    int choice;
    memcpy(&choice, (const char *)o + row->offset, sizeof choice);
    word_of(row->words, choice, word);
    return word;
}

const char *options_default(const option *row, const options *defaults, char buffer[OPTION_NAME_BYTES]) {
    const char *field = (const char *)defaults + row->offset;
    int64_t whole;
    double number;
    buffer[0] = 0;
    if (row->fallback) return row->fallback;
    switch (row->kind) {
    case OPTION_INTEGER:
        memcpy(&whole, field, sizeof whole);
        if (row->word && (double)whole == row->meaning) return row->word;
        snprintf(buffer, OPTION_NAME_BYTES, "%lld", (long long)whole);
        break;
    case OPTION_NUMBER:
        memcpy(&number, field, sizeof number);
        if (row->word && number == row->meaning) return row->word;
        snprintf(buffer, OPTION_NAME_BYTES, "%g", number);
        break;
    case OPTION_CHOICE: return options_choice(row, defaults, buffer);
    case OPTION_FLAG:
    case OPTION_TEXT:
    case OPTION_SETTING:
    case OPTION_LIST:
    case OPTION_MAYBE:
    case OPTION_COUNT:
    case OPTION_RANKS:
    case OPTION_BYTES: break;
    }
    return buffer;
}

/* ---- as they were given ---- */

static size_t size_of(const option *row) {
    switch (row->kind) {
    case OPTION_FLAG: return sizeof(bool);
    case OPTION_CHOICE: return sizeof(int);
    case OPTION_INTEGER:
    case OPTION_BYTES: return sizeof(int64_t);
    case OPTION_COUNT:
    case OPTION_NUMBER: return sizeof(double);
    case OPTION_TEXT:
    case OPTION_MAYBE:
    case OPTION_SETTING: return sizeof(const char *);
    case OPTION_RANKS: return 2 * sizeof(int64_t);
    case OPTION_LIST: break;
    }
    return 0;
}

static void add_number(const option *row, const char *field, text *out) {
    int64_t whole;
    double number;
    memcpy(&whole, field, sizeof whole);
    memcpy(&number, field, sizeof number);
    int64_t pair[2] = { 0 };
    if (row->kind == OPTION_RANKS) memcpy(pair, field, sizeof pair);
    bool real = row->kind == OPTION_NUMBER || row->kind == OPTION_COUNT;
    bool word = row->word && (real ? number : (double)whole) == row->meaning;
    if (word)
        text_add(out, "%s", row->word);
    else if (real)
        text_add(out, "%.17g", number);
    else
        text_add(out, "%lld", (long long)whole);
    if (pair[1]) text_add(out, "x%lld", (long long)pair[1]);
}

static void add_given(const option *row, const options *o, text *out) {
    const char *field = (const char *)o + row->offset, *value = NULL;
    char word[OPTION_NAME_BYTES];
    bool on = row->kind == OPTION_FLAG && *(const bool *)field;
    text_add(out, " --%s%s", row->kind == OPTION_FLAG && !on ? "no-" : "", row->name);
    if (row->kind == OPTION_FLAG) return;
    if (row->kind == OPTION_CHOICE)
        value = options_choice(row, o, word);
    else if (size_of(row) == sizeof value && row->kind != OPTION_INTEGER && row->kind != OPTION_NUMBER &&
             row->kind != OPTION_COUNT && row->kind != OPTION_RANKS && row->kind != OPTION_BYTES)
        memcpy(&value, field, sizeof value);
    if (row->kind == OPTION_MAYBE && !value) return;
    text_add(out, " ");
    if (value)
        text_add_quoted(out, value);
    else
        add_number(row, field, out);
}

/* An integer may be said that is the default one: what it clears tells. */
static bool is_given(const option *row, const options *o, const options *usual) {
    const char *field = (const char *)o + row->offset, *other = (const char *)usual + row->offset;
    const bool *flag = (const bool *)((const char *)o + row->word_flag);
    if (memcmp(field, other, size_of(row)) != 0) return true;
    return row->kind == OPTION_INTEGER && row->word_flag &&
           *flag != *(const bool *)((const char *)usual + row->word_flag);
}

void options_add_given(unsigned from, unsigned to, const options *o, text *out) {
    option_table t;
    options usual = options_defaults();
    options_table(&t);
    for (const option *row = t.rows; row < t.rows + t.count; row++) {
        if (!(row->commands & from) || !(row->commands & to) || row->group == GROUP_OUTPUT) continue;
        if (is_given(row, o, &usual)) add_given(row, o, out);
    }
}

/* ---- values ---- */

static status store_word(const option *row, char *field, options *o) {
    int64_t whole = (int64_t)row->meaning;
    if (row->kind == OPTION_NUMBER)
        memcpy(field, &row->meaning, sizeof row->meaning);
    else
        memcpy(field, &whole, sizeof whole);
    if (row->word_flag) *((char *)o + row->word_flag) = true;
    return STATUS_OK;
}

/* The word of the choice that others call so; else what was said. */
static const char *meant(const option *row, const char *said, char word[OPTION_NAME_BYTES]) {
    for (int i = 0; row->also && word_of(row->also, i, word); i++) {
        char *is = strchr(word, '=');
        *is = 0;
        if (strcasecmp(word, said) == 0) return is + 1;
    }
    return said;
}

const char *options_implied(const option *row, const char *value, char word[OPTION_NAME_BYTES]) {
    const char *is = row->kind == OPTION_CHOICE ? meant(row, value, word) : value;
    const char *other = is != value ? strchr(is, '+') : NULL;
    return other ? other + 1 : NULL;
}

/* Of "2.2.1+cu121" what the words have is "2.2". */
static size_t version_length(const char *value) {
    static const char digits[] = "0123456789";
    size_t n = strspn(value, digits);
    if (value[n] == '.') n += 1 + strspn(value + n + 1, digits);
    return value[n] == '.' || value[n] == '+' ? n : strlen(value);
}

static status store_choice(const option *row, const char *name, const char *value, char *field) {
    char word[OPTION_NAME_BYTES], other[OPTION_NAME_BYTES];
    const char *wanted = meant(row, value, other);
    size_t length = wanted != value ? strcspn(wanted, "+") : strlen(value);
    if (row->versions) length = version_length(wanted);
    for (int i = 0; word_of(row->words, i, word); i++)
        if (strlen(word) == length && strncasecmp(word, wanted, length) == 0) {
            memcpy(field, &i, sizeof i);
            return STATUS_OK;
        }
    char near[NEAREST_BYTES];
    if (!strchr(row->words, ','))
        return status_set(STATUS_INVALID, "%s: there is no '%s'; there is %s", name, value, row->words);
    nearest_listed(value, row->words, near);
    return status_set(STATUS_INVALID, "%s: '%s' is none of %s%s%s%s", name, value, row->words,
                      *near ? "; did you mean " : "", near, *near ? "?" : "");
}

/* The technique reads its settings again when the run is set up; here a wrong one is found while it is known
 * where it stands. Its sentence begins "--option: ", in place of which comes `name`. */
static status store_setting(const option *row, const char *name, const char *value, char *field) {
    pass_setting read;
    char near[NEAREST_BYTES], sentence[512];
    memcpy(field, &value, sizeof value);
    if (strcmp(value, "auto") == 0 || strcmp(value, "off") == 0) return STATUS_OK;
    if (pass_table[(int)row->meaning]->parse(value, &read) == STATUS_OK) return STATUS_OK;
    nearest_listed(value, row->words, near);
    snprintf(sentence, sizeof sentence, "%s", status_message());
    const char *said = strncmp(sentence, "--", 2) == 0 ? strstr(sentence, ": ") : NULL;
    return status_set(STATUS_INVALID, "%s: %s%s%s%s", name, said ? said + 2 : sentence,
                      *near ? "; did you mean " : "", near, *near ? "?" : "");
}

static status store_item(const char *name, const char *value, char *field) {
    option_list *list = (option_list *)field;
    if (list->count == OPTION_LIST_MOST)
        return status_set(STATUS_INVALID, "%s: given more than %d times", name, OPTION_LIST_MOST);
    list->items[list->count++] = value;
    return STATUS_OK;
}

static status store_flag(const char *name, const char *value, char *field) {
    static const char *const yes[] = { "1", "yes", "true", "on" }, *const no[] = { "0", "no", "false", "off",
                                                                                   "" };
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        if (strcmp(value, yes[i]) == 0) {
            *field = true;
            return STATUS_OK;
        }
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        if (strcmp(value, no[i]) == 0) {
            *field = false;
            return STATUS_OK;
        }
    return status_set(STATUS_INVALID, "%s: '%s' is neither yes nor no", name, value);
}

/* "yes" and "no" as a flag has them, or the text. */
static status store_maybe(const option *row, const char *value, char *field, options *o) {
    char *given = (char *)o + row->word_flag;
    const char *none = NULL;
    bool word = store_flag(row->name, value, given) == STATUS_OK;
    if (!word) *given = true;
    memcpy(field, word ? &none : &value, sizeof value);
    return STATUS_OK;
}

static status store_number(const option *row, const char *name, const char *value, char *field) {
    int64_t whole;
    double number;
    uint64_t bytes;
    if (row->kind == OPTION_BYTES) {
        TRY(units_parse_bytes(value, name, &bytes));
        memcpy(field, &bytes, sizeof bytes);
    } else if (row->kind == OPTION_INTEGER) {
        TRY(units_parse_integer(value, name, (int64_t)row->low, (int64_t)row->high, &whole));
        memcpy(field, &whole, sizeof whole);
    } else {
        TRY((row->kind == OPTION_COUNT ? units_parse_count : units_parse_number)(value, name, row->low,
                                                                                 row->high, &number));
        memcpy(field, &number, sizeof number);
    }
    return STATUS_OK;
}

/* "8", or "8x4": on two hosts. */
static status store_ranks(const option *row, const char *name, const char *value, char *field) {
    char first[OPTION_NAME_BYTES];
    int64_t pair[2] = { 0 };
    size_t length = strcspn(value, "x");
    snprintf(first, sizeof first, "%.*s", (int)(length < sizeof first ? length : sizeof first - 1), value);
    TRY(units_parse_integer(first, name, (int64_t)row->low, (int64_t)row->high, &pair[0]));
    if (value[length]) TRY(units_parse_integer(value + length + 1, name, 1, (int64_t)row->high, &pair[1]));
    if (pair[1] > pair[0])
        return status_set(STATUS_INVALID, "%s: %lld ranks on each host are more than %lld in all", name,
                          (long long)pair[1], (long long)pair[0]);
    memcpy(field, pair, sizeof pair);
    return STATUS_OK;
}

status options_store(const option *row, const char *name, const char *value, options *o) {
    char *field = (char *)o + row->offset;
    if (row->word_flag)
        *((char *)o + row->word_flag) = false; /* a number takes back the word of a weaker layer */
    if (row->word && strcmp(value, row->word) == 0) return store_word(row, field, o);
    switch (row->kind) {
    case OPTION_FLAG: return store_flag(name, value, field);
    case OPTION_CHOICE: return store_choice(row, name, value, field);
    case OPTION_SETTING: return store_setting(row, name, value, field);
    case OPTION_LIST: return store_item(name, value, field);
    case OPTION_MAYBE: return store_maybe(row, value, field, o);
    case OPTION_RANKS: return store_ranks(row, name, value, field);
    case OPTION_TEXT: memcpy(field, &value, sizeof value); return STATUS_OK;
    case OPTION_INTEGER:
    case OPTION_NUMBER:
    case OPTION_COUNT:
    case OPTION_BYTES: break;
    }
    status result = store_number(row, name, value, field);
    if (result == STATUS_OK || !row->word) return result;
    char sentence[512];
    snprintf(sentence, sizeof sentence, "%s", status_message());
    return status_set(result, "%s; or write %s", sentence, row->word);
}
