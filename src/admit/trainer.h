/* Programs that train or serve, and what their options say: one row a program in trainer_rows.c, with a
 * table of the names of its options. A name that no table has is a hole in what is known, and is said so,
 * unless it is of those that have nothing to do with memory. */
#pragma once

#include "admit/recipe.h"
#include "admit/shell.h"

/* Files that a command names: NULL: none may be opened. */
typedef struct {
    bool may_open;
    char folder[4096];   /* where relative names begin; "": here */
    const shell *script; /* which may write some itself; NULL: there is none */
} trainer_files;

/* What follows the program's own name. Words are in order; those that are unsure have '?' in them. */
typedef struct {
    const char *const *words;
    const bool *unsure;
    uint32_t count;
} trainer_words;

/* Which program it is, by the last part of its name and the first words behind it; NULL: none that is known.
 * `*skip`: how many words that was. */
typedef struct trainer trainer;
bool trainer_is_own(const trainer *t); /* somebody's own program, which may train or not */
const trainer *trainer_find(const trainer_words *w, uint32_t *skip);

/* Reads the options into a recipe of its own beginning: `processes`, sharding and types that the launcher
 * says are kept. */
void trainer_read(const trainer *t, const trainer_words *w, const trainer_files *files, recipe *out);

/* The file of a launcher: DeepSpeed's JSON or accelerate's YAML. */
void trainer_read_deepspeed(const char *path, const trainer_files *files, recipe *out);
void trainer_read_accelerate(const char *path, const trainer_files *files, recipe *out);

void trainer_take_sharing(const char *name, const char *value, recipe *out);

/* A path as it is opened. False: it may not be, or it is too long; the recipe has a sentence then. */
bool trainer_path(const char *name, const trainer_files *files, char out[4096], recipe *r);
