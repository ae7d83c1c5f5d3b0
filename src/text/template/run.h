/* One rendering: its bounds, names and output. */
#pragma once

#include "text/template/builder.h"
#include "text/template/value.h"

/* Names that are set in one scope; outer ones are seen through it. */
typedef struct frame frame;
typedef struct binding binding;
struct binding {
    binding *next;
    const char *name;
    uint32_t length;
    value value;
};
struct frame {
    frame *outer;
    binding *names;
};

typedef enum { LEAVING_NOT, LEAVING_BREAK, LEAVING_CONTINUE } leaving;

/* A chat that is rendered to see what prompts an answer: its first messages, with the prompt or without. */
typedef struct {
    size_t messages;
    bool prompt;
} run_probe;

struct run {
    const template *t;
    template_options limits;
    arena arena;
    uint64_t steps;
    uint32_t depth;
    size_t written; /* bytes of output so far, captured text too */
    frame root, *frame;
    builder *out;
    value_origin turn;   /* of the message that is gone through */
    value_origin marked; /* ORIGIN_MARKED within {% generation %} */
    leaving leaving;
    bool located; /* the failure's sentence has its place */
    const template_value *variables;
    const value *filtered; /* what a filter without a value before it takes: the text of its block */
    uint32_t message_count;
    uint8_t *assistant;     /* of each message: does it come from the assistant? */
    const run_probe *probe; /* NULL: the chat as it is */
};

/* Counts work; STATUS_INVALID when there was too much. */
status run_steps(run *r, uint64_t steps);
status run_deeper(run *r);
status run_take(run *r, size_t bytes, void *out);
/* The status of a bound on memory or output that is reached. */
status run_bounded(const run *r);

const value *run_find(run *r, const char *name, uint32_t length);
status run_set(run *r, frame *f, const char *name, uint32_t length, const value *v);

/* An expression. */
status run_evaluate(run *r, uint32_t n, value *out);
/* Sets the names of a target in the innermost scope. */
status run_assign(run *r, uint32_t target, const value *v);
/* Statements, up to the end of their list or until something is left. */
status run_body(run *r, uint32_t first);
/* What statements write, as a text; in a scope of their own. */
status run_capture(run *r, uint32_t first, value *out);

/* ---- calls ---- */

typedef struct {
    const char *name; /* for sentences */
    value *items;     /* by place */
    uint32_t count;
    const value **names; /* texts */
    value *named;
    uint32_t named_count;
} arguments;

status run_arguments(run *r, uint32_t first, arguments *out);
status run_call(run *r, const value *callee, const arguments *a, value *out);
status run_call_macro(run *r, const macro *m, const arguments *a, value *out);
status run_call_loop(run *r, loop *l, const arguments *a, value *out);
status run_call_function(run *r, unsigned which, const arguments *a, value *out);
status run_call_method(run *r, const method *m, const arguments *a, value *out);
bool run_find_function(const char *name, uint32_t length, value *out);

/* Puts arguments in the order of `parameters` (names between blanks; the ones that may be left out follow a
 * '|'); what is left out is undefined with a NULL message. */
enum { RUN_MOST_PARAMETERS = 6 };
status run_bind(const arguments *a, const char *parameters, value *out);
static inline bool run_given(const value *v) { return v->kind != VALUE_UNDEFINED || v->missing != NULL; }
/* What is given, as a whole number, a text, a boolean by its truth. */
status run_integer(const char *what, const value *v, int64_t otherwise, int64_t *out);
status run_text(const char *what, const value *v);

/* ---- macros, loops, bound methods ---- */

struct macro {
    uint32_t node;
    frame *frame; /* where it was made */
    const char *name;
    uint32_t length;
};

struct loop {
    uint32_t node;
    uint32_t depth; /* 0: the outermost */
    stream *from;
    const value *source;
    int64_t index, length; /* of the current item from 0; -1: not known yet */
    value before, current, after;
    bool has_after, ended;
    value changed;
    frame *frame; /* around a recursive one */
    bool recursive;
};

struct method {
    value of;
    uint8_t which;
    const char *name;
};

/* Is there a method of this name? `known` is its name as it stays. */
bool run_method_known(const value *of, const char *name, size_t length, uint8_t *which, const char **known);
/* The attribute of a value that is no item of it: a method, or what a loop knows. False: there is none. */
status run_attribute(run *r, const value *of, const char *name, size_t length, value *out, bool *there);
status run_get_attribute(run *r, const value *of, const value *name, value *out);
status run_get_item(run *r, const value *of, const value *key, value *out);
status run_loop_attribute(run *r, loop *l, const char *name, size_t length, value *out, bool *there);
status run_slice(run *r, const value *of, const value parts[3], value *out);
status run_operate(run *r, node_kind kind, const value *a, const value *b, value *out);
status run_negate(const value *v, bool negative, value *out);
