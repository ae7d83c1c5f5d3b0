/* A rule is a set of characters that the piece may begin with and a set that all others of it are in. It
 * holds where each match that begins with the first is greedy over the others and ends with the run of them
 * or behind it, and ends at the same place when it begins at one of them. That is so for one `[set]+` behind
 * at most one other character, if no alternative before it matches at two of the set.
 *
 * Runs are cut where two more of their characters follow: the last of a row of blanks or signs may belong to
 * the letters behind it. Blanks without line breaks and line breaks are two rules: `\s*[\r\n]+` ends with the
 * last line break of all blanks. Where a piece begins with signs, line breaks are no run: they end it. */
#include "text/tokenizer/runs.h"

#include <string.h>

#include "text/tokenizer/unicode.h"

/* What patterns tell apart; one of them for each character. */
enum {
    UPPER = 1 << 0,  /* Lu, Lt */
    LOWER = 1 << 1,  /* Ll */
    LETTER = 1 << 2, /* Lm, Lo that is not HAN */
    HAN = 1 << 3,    /* letters of U+3040-U+30FF and U+4E00-U+9FA5 */
    MARK = 1 << 4,
    NUMBER = 1 << 5,
    BLANK = 1 << 6, /* ' ' */
    SPACE = 1 << 7, /* other \s */
    LINE = 1 << 8,  /* \r and \n */
    SIGN = 1 << 9,  /* punctuation and symbols */
    REST = 1 << 10,
    EDGE = 1 << 11, /* what else is in HAN's ranges: in no rule */
    LETTERS = UPPER | LOWER | LETTER | HAN,
    BLANKS = BLANK | SPACE,
};

enum { RULES = 7 };
struct run_rules {
    const char *pattern;
    bool anywhere; /* rules hold wherever the piece begins: of a pattern before the last */
    struct {
        unsigned first, inside;
    } rule[RULES]; /* inside 0: no more */
};

#define WORDS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define BREAKS "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define CL100K(count)                                                                                        \
    WORDS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" count "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" BREAKS
#define UPPERS "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWERS "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define BEFORE "[^\\r\\n\\p{L}\\p{N}]?"

/* Rules of blanks and line breaks where BREAKS ends the pattern. */
#define BLANK_RULES                                                                                          \
    { BLANKS, BLANKS }, { BLANKS | LINE, LINE }
#define CL100K_RULES                                                                                         \
    {                                                                                                        \
        { LETTERS | MARK | BLANKS | SIGN | REST, LETTERS },                                                  \
            { MARK | SIGN | REST | BLANK, MARK | SIGN | REST }, BLANK_RULES                                  \
    }

#define DEEPSEEK(quote)                                                                                      \
    "[!" quote                                                                                               \
    "#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "        \
    "?[\\p{P}\\p{S}]+[\\r\\n]*|" BREAKS
#define DEEPSEEK_RULES                                                                                       \
    { { LETTERS | MARK | BLANKS, LETTERS | MARK }, { SIGN | BLANK, SIGN }, BLANK_RULES }

static const run_rules known[] = {
    { "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
      false,
      { { LETTERS | BLANK, LETTERS },
        { NUMBER | BLANK, NUMBER },
        { MARK | SIGN | REST | BLANK, MARK | SIGN | REST },
        { BLANKS | LINE, BLANKS | LINE } } },
    { CL100K("{1,3}"), false, CL100K_RULES },
    { CL100K(""), false, CL100K_RULES },
    /* Letters of no case are in both halves of a word and begin its first one; small letters are in the
     * second alone, large ones in the first. */
    { BEFORE UPPERS "*" LOWERS "+" WORDS "?|" BEFORE UPPERS "+" LOWERS "*" WORDS
                    "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" BREAKS,
      false,
      { { LETTER | HAN | MARK | BLANKS | SIGN | REST, LETTER | HAN | MARK },
        { LETTERS | MARK | BLANKS | SIGN | REST, LOWER },
        { UPPER | BLANKS | SIGN | REST, UPPER },
        { SIGN | REST | BLANK, SIGN | REST },
        BLANK_RULES } },
    /* DeepSeek's three: a sign before letters would take those of ASCII alone, so none is before a run. */
    { "\\p{N}{1,3}", true, { { ~(unsigned)NUMBER, ~(unsigned)NUMBER } } },
    { "[\xe4\xb8\x80-\xe9\xbe\xa5\xe3\x81\x80-\xe3\x82\x9f\xe3\x82\xa0-\xe3\x83\xbf]+",
      true,
      { { HAN, HAN }, { ~(unsigned)(HAN | EDGE), ~(unsigned)(HAN | EDGE) } } },
    { DEEPSEEK("\""), false, DEEPSEEK_RULES },
    { DEEPSEEK("\\\""), false, DEEPSEEK_RULES },
};

const run_rules *runs_of(const char *text, size_t bytes) {
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i].pattern) == bytes && memcmp(known[i].pattern, text, bytes) == 0) return &known[i];
    return NULL;
}

static unsigned by_category(char major, char minor) {
    switch (major) {
    case 'L': return minor == 'u' || minor == 't' ? UPPER : minor == 'l' ? LOWER : LETTER;
    case 'M': return MARK;
    case 'N': return NUMBER;
    case 'P':
    case 'S': return SIGN;
    default: return REST;
    }
}

static unsigned class_of(uint32_t point) {
    const unicode_kind *kind = unicode_of(point);
    const char *name = unicode_table_categories[kind->category];
    bool han = (point >= 0x3040 && point <= 0x30ff) || (point >= 0x4e00 && point <= 0x9fa5);
    if (point == ' ') return BLANK;
    if (point == '\r' || point == '\n') return LINE;
    if (kind->flags & UNICODE_SPACE) return SPACE;
    if (han) return name[0] == 'L' ? HAN : EDGE;
    return by_category(name[0], name[1]);
}

/* By one of the rules: how much of the text is a run. */
static uint32_t run_of(const run_rules *r, span text) {
    size_t length, second;
    unsigned first = class_of(unicode_read(text.data, &length)), next;
    if (length >= text.bytes) return 0;
    next = class_of(unicode_read(text.data + length, &second));
    for (int i = 0; i < RULES && r->rule[i].inside; i++) {
        if (!(r->rule[i].first & first) || !(r->rule[i].inside & next)) continue;
        uint32_t at = (uint32_t)length;
        for (; at < text.bytes; at += (uint32_t)length)
            if (!(class_of(unicode_read(text.data + at, &length)) & r->rule[i].inside)) break;
        return at;
    }
    return 0;
}

bool runs_all(const run_rules *r, span text) { return r && r->anywhere && run_of(r, text) == text.bytes; }

/* Of a pre-tokenizer that looks for one character: up to that. */
static uint32_t before_letter(span text, uint32_t letter) {
    size_t length;
    for (uint32_t at = 0; at < text.bytes; at += (uint32_t)length)
        if (unicode_read(text.data + at, &length) == letter) return at;
    return text.bytes;
}

uint32_t runs_inside(const tokenizer *t, span text) {
    const part_list *l = &t->pre_tokenizers;
    uint32_t last = 0;
    for (uint32_t i = 0; i < l->count; i++)
        if (l->items[i].find) last = i;
    for (uint32_t i = 0; i < l->count; i++) {
        const part *p = &l->items[i];
        if (!p->find) continue; /* ByteLevel's second half; takes_windows and takes_cuts allow no other */
        const run_rules *r = pattern_runs(p->find);
        if (p->letter)
            text.bytes = before_letter(text, p->letter);
        else if (r && (r->anywhere || i == last))
            text.bytes = run_of(r, text);
        else
            return 0;
        if (text.bytes == 0) return 0;
    }
    return text.bytes;
}
