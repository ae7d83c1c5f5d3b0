/* What the files of this folder share.
 *
 * A tokenizer is four lists of parts (normalizers, pre-tokenizers, post-processors, decoders) and a model. A
 * part is a kind and its options; a kind has the fields that are read for it and one function that does its
 * work. Sequences are put flat into their list. Nobody asks for a kind but by its functions.
 *
 * Text flows one way and in pieces: text between added tokens is normalized as a whole, then each
 * pre-tokenizer cuts what it is given and hands every piece on to the next at once, and the model adds ids to
 * the work. So no list of pieces exists. */
#pragma once

#include "text/tokenizer/pattern.h"
#include "text/tokenizer/tokenizer.h"

enum {
    TOKENIZER_STAGES = 32,        /* pre-tokenizers one behind the other */
    TOKENIZER_PATTERN = 16 << 10, /* bytes of a pattern */
    TOKENIZER_KEYS = 32,          /* of an object that is not a vocabulary */
    TOKENIZER_KEY = 48,
    PLACES_BITS = 1 << 14, /* of tokenizer.added_pairs */
    WORK_PLACES = 256,
};

typedef struct {
    const char *data; /* NULL: not given */
    uint32_t bytes;
} span;

/* The bytes of a text that a byte stands for: see spans.h. */
typedef struct {
    uint32_t begin, end;
} origin;

typedef struct {
    char *data;
    size_t used, room;
    origin *from; /* of each byte, where spans are asked for; as much room as needed so far */
    size_t from_room;
} buffer;

/* ---- parts ---- */

typedef enum { CUT_REMOVED, CUT_ISOLATED, CUT_PREVIOUS, CUT_NEXT, CUT_CONTIGUOUS } cut_behavior;
typedef enum { PREPEND_FIRST, PREPEND_NEVER, PREPEND_ALWAYS } prepend_scheme;
enum { UNSAID = 2 }; /* of an option that is true, false or null */

typedef struct part_kind part_kind;

typedef struct {
    const part_kind *kind;
    span content, prefix, suffix, unknown;
    pattern *find;            /* Split, Replace, ByteLevel, Whitespace */
    struct precompiled *map;  /* Precompiled */
    uint32_t *before, *after; /* ids that a post-processor puts around the text */
    uint32_t before_count, after_count;
    uint32_t *pair;           /* and around two texts: all ids, then the type of each */
    uint32_t pair_counts[3];  /* before the first text, between them, behind the second */
    uint32_t pair_types[2];   /* of the texts */
    bool adds_pair, odd_pair; /* odd: it is not the first text and then the second */
    uint32_t letter; /* a character: what is replaced, cut at or stripped; also of `find` where that is one */
    uint64_t length, start, stop;
    uint32_t unknown_id; /* of a Unigram; TOKENIZER_NONE */
    uint8_t behavior, scheme;
    bool invert, split, prefix_space, use_regex, individual, left, right, cleanup;
    bool clean_text, chinese, lowercase, joins_unknown, bytes, whole_words;
    uint8_t accents, old_prefix_space; /* true, false or UNSAID */
    bool finds_blanks;                 /* `find` finds rows of blanks alone */
    char finds_signs[8];               /* `find` finds these, one behind the other; "": other than ASCII */
} part;

typedef enum {
    FIELD_BOOL,    /* bool */
    FIELD_MAYBE,   /* uint8_t: true, false; null is UNSAID */
    FIELD_WHOLE,   /* uint64_t */
    FIELD_TEXT,    /* span; null leaves it */
    FIELD_LETTER,  /* uint32_t, of a string of one character */
    FIELD_CHOICE,  /* uint8_t, the place in `choices` */
    FIELD_PATTERN, /* pattern *: {"String": ...} or {"Regex": ...} */
    FIELD_SPECIAL, /* `read` does it */
} field_type;

struct opener;
typedef struct {
    const char *name;
    field_type type;
    uint32_t offset;            /* of the option in part */
    bool required;              /* else what `init` says stays */
    const char *const *choices; /* ends with NULL */
    status (*read)(struct opener *o, part *p);
} part_field;
#define PART_FIELD(name_, type_, member_) .name = name_, .type = type_, .offset = offsetof(part, member_)

struct part_kind {
    const char *name;
    const part_field *fields;                   /* ends with a zeroed one; NULL: none */
    part init;                                  /* options that need not be said */
    const char *known_by;                       /* a model without a type that has this key and all that are
                                                 * required is of this kind; NULL: needs a type */
    const part_kind *then;                      /* a second part that always follows; NULL: none */
    status (*check)(struct opener *o, part *p); /* when all fields are read; may be NULL */
    bool at_beginning; /* a normalizer: puts something before a text and nothing else */
    bool replaces;     /* replaces `letter` by `content`, where `letter` is not 0 */
    bool before_blank; /* a normalizer: see blanks.c */
    uint8_t reach;     /* a normalizer: a normalizer_reach */
    bool trims;        /* a normalizer: takes blanks away, only those at the ends */
    bool before_ascii; /* a normalizer: what stands before an ASCII character does not depend on it */
    /* One of them, by the list that the kind is in. */
    status (*normalize)(const part *p, tokenizer_work *w, span *text, buffer *out);
    status (*cut)(const part *p, tokenizer_work *w, uint32_t stage, span text, bool first);
    status (*decode)(const part *p, tokenizer_work *w);
    status (*encode)(const part *p, tokenizer_work *w, span text);
    /* A pre-tokenizer: does it part two characters, and is that all it looks at? NULL: no. */
    bool (*parts)(const part *p, uint32_t a, uint32_t b);
    /* A model: as encode, of a word that goes on behind the window: see work_window. NULL: not known. */
    status (*settle)(const part *p, tokenizer_work *w, span text);
};

/* How far a normalizer looks: at one character, or further and takes it apart, or joins what it found. */
typedef enum { REACH_NONE, REACH_DECOMPOSES, REACH_JOINS } normalizer_reach;

typedef struct {
    part *items;
    uint32_t count;
} part_list;

extern const part_kind *const normalizer_kinds[], *const pre_tokenizer_kinds[],
                                                      *const post_processor_kinds[],
                                                          *const token_decoder_kinds[],
                                                              *const model_kinds[]; /* each ends with NULL */

/* ---- tables ---- */

typedef struct {
    char *text;
    uint32_t *start, *length;  /* by id; length UINT32_MAX: a hole */
    uint32_t *slots;           /* id + 1, and bits of its hash above that; 0: free */
    uint32_t mask, count, ids; /* ids: the largest and one */
    uint32_t longest;          /* bytes of a token */
} vocabulary;

/* Is this the token of the id? */
bool vocabulary_is(const vocabulary *v, uint32_t id, const char *token, size_t bytes);
enum { VOCABULARY_SLOT_IDS = 1 << 25 };
static inline uint32_t vocabulary_slot_id(uint32_t slot) { return slot % VOCABULARY_SLOT_IDS - 1; }
/* It will be asked for soon. */
void vocabulary_expect(const vocabulary *v, const char *token, size_t bytes);
uint32_t vocabulary_find(const vocabulary *v, const char *token,
                         size_t bytes); /* TOKENIZER_NONE: not in it */

/* How large a table for so many must be: a power of two, of which at most two thirds are taken. */
uint64_t vocabulary_slots(uint64_t count);

typedef struct {
    uint32_t left, right, rank, id; /* left TOKENIZER_NONE: free */
} merge;

typedef struct {
    span content, seen; /* seen: as it is found in text, which is normalized where `normalized` says so */
    uint32_t id;
    bool single_word, lstrip, rstrip, normalized, special;
    bool skipped; /* where special tokens are left out of decoded text */
} added_token;

/* Some added tokens, ordered by what is seen of them; begins[c] .. begins[c + 1] begin with byte c. */
typedef struct {
    uint32_t *order, count;
    uint32_t begins[257];
} added_list;

struct tokenizer {
    part_list normalizers, pre_tokenizers, post_processors, decoders;
    part model;
    vocabulary words;
    merge *merges;
    uint64_t *merge_bits; /* see merges_find */
    uint32_t merge_mask, merge_count;
    struct whole_letters *letters; /* BPE of bytes: see whole_letters.h */
    uint32_t byte_ids[256]; /* BPE: of the bytes as ByteLevel writes them, or as <0x41>; TOKENIZER_NONE */
    bool takes_cuts;        /* see cuts.h */
    bool cuts_words;        /* as cuts_word says */
    bool settles;           /* see settle.h */
    uint64_t *beginnings;   /* BPE: bits of what tokens begin with */
    uint64_t *neighbours;   /* BPE: bits of pairs of characters that stand side by side in a token */
    bool takes_blanks, takes_ideographs;         /* see blanks.h */
    bool takes_places, eats_before, eats_behind; /* see places.h; added tokens that take blanks around them */
    uint64_t added_pairs[PLACES_BITS / 64]; /* bits of characters side by side in added tokens, by hash */
    bool takes_windows;                     /* long documents may be cut: see pre_tokenizers_take_windows */
    bool direct_bytes;                      /* BPE gets bytes and not what ByteLevel writes for them */
    double *scores;                         /* Unigram, by id */
    double least_score;
    uint32_t *sorted,
        *pairs; /* Unigram: ids by their text; where those begin that start with two given bytes */
    added_token *added;
    uint32_t added_count, *added_by_id, *added_by_content;
    added_list plain, normal;                         /* looked for before normalizing and behind it */
    bool truncates, truncates_left, truncates_second; /* second: of two texts that one alone */
    uint64_t most_ids;
    bool pads, pads_left;
    uint64_t pad_length, pad_multiple; /* length 0: to a multiple alone */
    uint32_t pad_id;
    uint64_t bytes; /* of the whole block, this struct included */
    pattern_memory patterns;
};

const added_token *added_of(const tokenizer *t, uint32_t id); /* NULL: not an added token */

/* ---- opening ---- */

typedef struct {
    char name[TOKENIZER_KEYS][TOKENIZER_KEY];
    uint64_t place[TOKENIZER_KEYS];
    uint32_t count;
    uint64_t end; /* behind the object */
} object;

typedef struct opener {
    tokenizer *t;
    json_reader json;
    bool counting; /* the first reading: what is read goes to scratch, and memory is only counted */
    char *block;   /* of the second reading */
    uint64_t used, room;
    object file, model;
    const char *role;       /* "normalizer": for sentences */
    bool vocabulary_scores; /* the tokens are a list with scores */
    uint64_t vocabulary_text, vocabulary_count, vocabulary_ids, longest, merge_count; /* from the first */
    uint64_t pattern_bytes; /* what all patterns will hold */
    uint32_t depth, around; /* around: post-processors that add ids */
    object current;         /* whose fields are read */
    char scratch[TOKENIZER_PATTERN];
    part part_scratch;
    added_token token_scratch;
} opener;

/* Room in the block, aligned to 16; NULL while counting. */
void *open_take(opener *o, uint64_t bytes);
/* The keys of the object that is read next and the places of their values; reads on behind it. */
status open_object(opener *o, object *found);
/* Reads on at the value of a key; false: there is none. */
bool open_go(opener *o, const object *in, const char *key);
status open_text(opener *o, span *out); /* a string that is kept */
status open_pattern(opener *o, const char *text, size_t bytes, pattern **out);
status open_wrong(opener *o, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Parts of a list; read_fields for the model, whose object is known. */
status open_parts(opener *o, const part_kind *const *kinds, const char *children, part_list *list);
status open_kind(opener *o, const object *in, const part_kind *const *kinds, part *p);

status vocabulary_count(opener *o); /* the value that is read next */
status vocabulary_read(opener *o);
status merges_count(opener *o);
status merges_read(opener *o);
status added_read(opener *o);
status precompiled_read(opener *o, part *p);

/* ---- working ---- */

typedef struct {
    buffer text;
    uint32_t *ends; /* of the strings, one behind the other in the text */
    uint32_t count, room;
} string_list;

/* A part of a long document: more text may follow behind it. */
typedef struct {
    bool open;         /* does it? */
    bool goes_on;      /* the text goes on with what an earlier part began: no blank is put before it */
    bool within;       /* and it goes on with a word */
    bool last;         /* the piece that is worked on reaches to the end of what is known */
    bool mapped;       /* normalizing changed the segment: places are found by origins */
    const char *end;   /* of the segment, as it is normalized */
    const char *limit; /* where an added token may begin that goes on behind it */
    const char *data;  /* the stretch between added tokens, as it is normalized */
    const char *
        copy; /* of `data`, in which the pieces stand: ByteLevel put a blank before it; NULL: there is none */
    size_t base;    /* its place in the segment */
    size_t segment; /* that one's place in spans.text */
    /* Of the last segment: up to here pieces are what they are, whatever follows; and so many ids then. */
    size_t decided, ids;
    bool inside; /* it was decided inside of a word */
    /* The window ends inside of a word, at a place of places.h. The model takes ids of it that no later text
     * changes, and says how many bytes of text are left then, or that there are none (stuck). */
    bool places, stuck;
    uint32_t back;
    double score; /* Unigram: of the word up to where the text begins, and then up to where it was settled */
    bool unknown; /* and that the token there is an unknown one that may go on */
} work_window;

/* A place at which a window may end: so many bytes before its end, in the text and as it is normalized. */
typedef struct {
    uint32_t text, normal;
} work_place;

/* Which bytes of the text each id stands for: see spans.h. */
typedef struct {
    bool on;
    const char *text;
    tokenizer_span *at; /* by place in the ids */
    size_t room;
} work_spans;

struct tokenizer_work {
    const tokenizer *t;
    work_window window;
    work_spans spans;
    uint32_t *ids;
    size_t id_count, id_room;
    buffer normal[3];                /* what normalizers write, in turn */
    buffer stages[TOKENIZER_STAGES]; /* what pre-tokenizers write that change text */
    buffer model;                    /* a word as the model sees it, symbols, paths */
    buffer heap;                     /* of merges */
    struct word_cache *cache;
    pattern_match *match;
    work_place places[WORK_PLACES]; /* from the window's end on backwards */
    uint32_t place_count;
    string_list strings[2]; /* decoding: the tokens, and what the next decoder makes of them */
    uint64_t bytes, most;   /* held, and the limit; 0: there is none */
};

/* The one place where a work gets memory: a block of `from` items of `size` bytes grows to `to`. NULL: there
 * is none, or it would be beyond the limit. */
void *work_grow(tokenizer_work *w, void *block, size_t from, size_t to, size_t size);
status work_room(tokenizer_work *w, buffer *b, size_t bytes); /* for so many bytes at least */
status work_add(tokenizer_work *w, buffer *b, const char *data, size_t bytes);
status work_add_point(tokenizer_work *w, buffer *b, uint32_t point);
/* `before` and behind it the text; spans: `before` stands for the text's first character. */
status work_put_before(tokenizer_work *w, buffer *out, span before, span text);
status work_id(tokenizer_work *w, uint32_t id);
status work_more_ids(tokenizer_work *w, size_t most); /* for so many at least, and some more */
/* Hands a piece to the pre-tokenizer of that number, or behind the last to the model. Empty ones are dropped.
 */
status work_piece(tokenizer_work *w, uint32_t stage, span text, bool first);

/* Nothing joins what is before a character with it, whatever the normal form. */
bool work_begins_anew(uint32_t point);

/* All ids so far are those of the last segment up to this place in it, which does not end it; `inside` of a
 * word. */
void work_decide(tokenizer_work *w, const char *at, bool inside);

/* ByteLevel's letters for bytes: writes 1 or 2 bytes of UTF-8; returns how many. */
size_t byte_letters_write(unsigned char byte, char out[2]);
/* Those that can be seen stand for themselves. */
static inline bool byte_letters_seen(uint32_t byte) {
    return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff);
}
/* The byte that a letter stands for; -1: none. Those that can't be seen are 0x00-0x20, 0x7f-0xa0 and 0xad. */
static inline int byte_letters_read(uint32_t point) {
    if (byte_letters_seen(point)) return (int)point;
    if (point < 0x100 || point > 0x143) return -1;
    uint32_t n = point - 0x100;
    return (int)(n <= 0x20 ? n : n < 0x43 ? n - 0x21 + 0x7f : 0xad);
}
