/* Chat templates: the Jinja that published models write them in, read and run as transformers sets it up
 * (jinja2 3.1: an immutable sandbox, trim_blocks, lstrip_blocks, loop controls, `tojson` that keeps letters
 * as they are, `raise_exception`, `strftime_now`, `{% generation %}`).
 *
 * A template is parsed once, into tables whose size is known from its text. Rendering has bounds on steps,
 * depth, memory and output, so any template ends. Every string carries which message it came from, through
 * every filter and method, so the output says which bytes are of which message and which of them are learned
 * (template_range). Where Jinja fails, rendering fails, with a sentence of ours that has line and column.
 *
 * What differs from Jinja is refused by a sentence: whole numbers beyond 64 bits, `include` and its kin
 * (there is no other template), names of characters (`\N{...}`), halves of surrogate pairs, printing what has
 * no text of its own but an address (generators, macros), and a few filters of web pages. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/status.h"

typedef struct template template;

typedef enum {
    TEMPLATE_NONE,
    TEMPLATE_BOOL,
    TEMPLATE_INTEGER,
    TEMPLATE_NUMBER,
    TEMPLATE_TEXT,
    TEMPLATE_LIST,
    TEMPLATE_OBJECT
} template_kind;

/* A value as JSON has them, lent by the caller while a template is rendered. */
typedef struct template_value template_value;
struct template_value {
    template_kind kind;
    const char *key; /* UTF-8, not terminated; of members of an object */
    size_t key_length;
    union {
        bool yes;
        int64_t integer;
        double number;
        struct {
            const char *bytes; /* UTF-8, not terminated; zero bytes are fine */
            size_t length;
        } text;
        struct {
            const template_value *items; /* of a list, or the members of an object in their order */
            size_t count;
        } list;
    };
};

/* Where renderings, one at a time, put their values, so that not each asks for memory anew. It is as large as
 * the largest of them needed. Close it; NULL is fine. */
typedef struct template_memory template_memory;
status template_memory_open(template_memory **out); /* STATUS_FAILED without memory */
void template_memory_close(template_memory *m);
/* Holds what renderings may take whose bound on memory is `bytes`, three times as much: none takes more then.
 * It is asked for when it is first needed. Between renderings. */
void template_memory_reserve(template_memory *m, size_t bytes);
/* Held between renderings. One that needs more takes more, up to three times its bound on memory, and this
 * grows by what it needed. */
uint64_t template_memory_bytes(const template_memory *m);

/* Bounds of one rendering; 0 stands for the constant of the same name. */
typedef struct {
    uint64_t steps;   /* nodes evaluated, items of loops, and 64 bytes of text read or written */
    uint32_t depth;   /* expressions, statements and macros within each other */
    size_t memory;    /* bytes for values while it runs */
    size_t output;    /* bytes of text, and of ranges (TEMPLATE_OUTPUT_ROOM) */
    bool may_grow;    /* reaching a bound on memory or output is STATUS_NO_FIT: the caller has a larger one */
    bool plain;       /* nobody asks for ranges: the output has none */
    bool by_message;  /* what is learned follows from the messages, also where {% generation %} says it */
    const time_t *at; /* what strftime_now takes for now, in UTC; NULL: the clock, local time */
    template_memory *keep; /* NULL: each rendering takes its memory and gives it back */
} template_options;

enum {
    TEMPLATE_STEPS = 20000000,
    TEMPLATE_DEPTH = 1500,
    TEMPLATE_MEMORY = 256 << 20,
    TEMPLATE_OUTPUT = 64 << 20,
    TEMPLATE_SOURCE = 1 << 20 /* the longest template, bytes */
};

/* A piece of the output. Pieces follow one another and cover it. */
typedef struct {
    size_t begin, end; /* bytes */
    int64_t message;   /* its place among the messages; -1: of none */
    bool learned;      /* a model that is trained on this chat learns to write it */
} template_range;

typedef struct {
    char *text; /* UTF-8, terminated */
    size_t length;
    template_range *ranges;
    size_t range_count;
} template_output;

/* Reads a template; `name` stands before sentences. STATUS_INVALID where Jinja does not compile it, or for
 * what snug refuses (above); STATUS_FAILED without memory. template_close frees it. */
status template_parse(const char *name, const char *source, size_t length, template **out);
void template_close(template *t);           /* NULL is fine */
uint64_t template_bytes(const template *t); /* memory that it holds */

/* Does it say itself, by {% generation %}, what is learned? */
bool template_marks_learned(const template *t);

/* Renders with the members of the object `variables`: messages, tools, documents, add_generation_prompt,
 * bos_token, eos_token and whatever else the template asks for. STATUS_INVALID where Jinja raises an error or
 * a bound is reached; STATUS_FAILED without memory. What is learned: docs/formats.md. Free the output with
 * template_output_close. One template may be rendered by several threads at once. */
/* The output takes at most so many bytes while it is made, of which a third is text. */
#define TEMPLATE_OUTPUT_ROOM(output) (3 * (uint64_t)(output) + 4096)
status template_render(const template *t, const template_value *variables, const template_options *o,
                       template_output *out);
void template_output_close(template_output *out); /* fine on a zeroed one */
