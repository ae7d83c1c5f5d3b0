/* A shell's script as it is walked over: what shell.c (commands), shell_words.c (words and what they expand
 * to) and shell_blocks.c (loops, functions, brackets) share. */
#pragma once

#include "admit/shell.h"

enum {
    SHELL_BETWEEN = 0x1f, /* ends a word within a value */
    SHELL_HERE_MOST = 8,
    SHELL_NAME_BYTES = 64,
    SHELL_MOST_BLOCKS = 32, /* within one another */
    SHELL_MOST_TURNS = 32,  /* of one loop that is followed turn by turn */
    SHELL_MOST_NESTED = 8   /* ${A:-${B:-...}} */
};

/* Brackets within brackets, from one on. Those of a deeper branch are not counted: there they may be of a
 * pattern ("x)"), and all of it is unsure anyway. */
typedef struct {
    uint32_t level, depth;
} shell_group;

/* if, while, for, case. What is in it may not run (`unsure`), but for the condition of `if` and the turns of
 * a loop over words that are known, which are read one after the other. */
typedef struct {
    bool loops, turns; /* turns: over words that are known, of which `at` is the next */
    bool unsure;
    bool broken;      /* behind a "break" that may be */
    bool apart;       /* a process of its own: what it sets is gone behind it */
    const char *body; /* behind "do"; NULL: not there yet */
    char name[SHELL_NAME_BYTES];
    char *values; /* ends with the zero of the last */
    size_t at, bytes;
} shell_block;

typedef struct {
    shell *s;
    const char *at, *end;
    shell_command *c;
    char *room;   /* of all words */
    size_t used;  /* up to the end of the word that grows */
    size_t begin; /* of that word */
    bool open;    /* a word has begun */
    bool unsure, quoted;
    uint32_t array_from; /* the word NAME= whose list is read; SHELL_MOST_WORDS: none is */
    shell_block blocks[SHELL_MOST_BLOCKS];
    uint32_t depth;            /* of branches and loops */
    uint32_t braces, function; /* braces that are open; those inside of which a function ends, or 0 */
    char function_name[SHELL_NAME_BYTES];
    const char *opened, *function_body; /* behind the last "do" or "{" that began a command */
    bool chained;                       /* behind && or || */
    bool closed;                        /* a ")" stood last */
    bool waits;               /* an operator stood last, and what it joins may follow on the next line */
    bool rescues;             /* behind || of what succeeds as a rule */
    bool apart;               /* in a pipe or behind &: a process of its own */
    uint32_t apart_braces;    /* of such braces the outermost; 0: none are */
    shell_group chain, child; /* { } or ( ) behind && or ||; ( ) */
    bool maybe, ended;
    shell_end ends;
    uint32_t nested;
    char here[SHELL_HERE_MOST][SHELL_NAME_BYTES];
    bool here_tabs[SHELL_HERE_MOST], here_plain[SHELL_HERE_MOST];
    uint32_t here_count;
    char target[SHELL_NAME_BYTES * 4];  /* of "> FILE"; "": none, or it is not known */
    char written[SHELL_NAME_BYTES * 4]; /* the same of the command that has ended: its document follows */
} shell_reader;

/* ---- words ---- */

void shell_put(shell_reader *r, char c); /* a zero only begins a word */
void shell_put_unsure(shell_reader *r);
void shell_end_word(shell_reader *r);
bool shell_is_assignment(const char *word, size_t *name, const char **value);
bool shell_is_one_of(const char *word, const char *const *words);
size_t shell_name_length(const char *at, const char *end);
bool shell_declares(const char *word); /* export, local and so on */

/* Behind "$"; a quote, a backslash, a plain byte. */
void shell_put_dollar(shell_reader *r, bool in_quotes);
void shell_read_plain(shell_reader *r, char c);
/* What stands between, as between double quotes; of a document, where quotes are plain. */
void shell_put_range(shell_reader *r, const char *from, const char *to, bool in_quotes, bool document);
void shell_skip_balanced(shell_reader *r, char open, char close);

/* A text as it expands, aside of the word that grows; NULL: no memory, or no room. memory_free it. */
char *shell_value_of(shell_reader *r, const char *from, const char *to, bool *unsure);
char *shell_document_of(shell_reader *r, const char *from, const char *to, bool *unsure);
/* Of a list the largest number, or else the last word. */
void shell_likely(const char *list, char *out, size_t room);

/* ---- variables ---- */

void shell_hide(shell *s, const char *name);                         /* "local" */
void shell_write_file(shell *s, const char *name, const char *text); /* NULL: it is not known any more */

/* ---- blocks ---- */

/* Does it depend on something whether the command that ends here runs? */
bool shell_may_not_run(const shell_reader *r);
/* Keywords before a command. False: nothing is left of it. `*again`: a loop begins its next turn, and reading
 * goes on in its body. */
bool shell_take_keywords(shell_reader *r, bool apart, bool *again);
void shell_open_group(shell_group *g, uint32_t depth, bool begins);
void shell_close_group(shell_group *g, uint32_t depth);
/* "name ( )" has been read: what follows is a function's body. */
void shell_begin_function(shell_reader *r, const char *name);
/* break, continue, return. */
void shell_leave(shell_reader *r, const char *name);
/* Is it one of the script's functions? Then it was read with the command's words as its arguments. */
bool shell_call(shell_reader *r);
void shell_end_blocks(shell_reader *r);
