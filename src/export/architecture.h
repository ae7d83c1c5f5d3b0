/* What llama.cpp calls a family of models, and how it wants it: names of tensors, order of their rows, keys
 * of the metadata. Facts of https://github.com/ggml-org/llama.cpp, of gguf-py/gguf/constants.py and
 * tensor_mapping.py, conversion/ and src/models/.
 *
 * A program of llama.cpp computes what it was written for and looks at few switches, so whatever a
 * configuration chooses that it has no key for is refused here with a sentence: a file that loads and
 * computes something else would be worse than none. */
#pragma once

#include "base/text.h"
#include "io/gguf_write.h"
#include "models/families.h"

typedef struct architecture architecture;

/* The architecture of this model. STATUS_INVALID with a sentence for a family or a choice that llama.cpp has
 * no word for; `directory` names the model there. `notes` gets sentences for people, a line each: what the
 * file can't say and where that would show. */
status architecture_find(const char *directory, const model_config *c, const architecture **a, text *notes);
const char *architecture_name(const architecture *a); /* "llama" */

/* How the rows of a tensor in the file come from the model's. */
typedef enum {
    ROWS_KEPT,
    ROWS_PAIRED,   /* i and i + half of each head, which are turned together, become neighbours */
    ROWS_GATHERED, /* q | k | v of head 0, then of head 1 ...: all q, then all k, then all v */
    ROWS_TURNED,   /* the model's columns */
} architecture_rows;

typedef struct {
    char name[GGUF_NAME_BYTES];
    architecture_rows rows;
    int64_t heads;
    float plus;  /* added to each number: scales of norms are stored as their distance from 1 */
    bool narrow; /* may be of another type than F32 */
} architecture_place;
/* Where a parameter of the model goes. STATUS_FAILED for one that has no place. */
status architecture_place_of(const architecture *a, const model_config *c, const char *parameter,
                             architecture_place *p);

/* Is "token_embd.weight" written a second time as "output.weight", since this architecture has no tied head?
 */
bool architecture_copies_head(const architecture *a, const model_config *c);
/* Factors by which the speeds of pairs are divided, a tensor "rope_freqs.weight" of so many; 0: none. */
int64_t architecture_speeds(const model_config *c);
float architecture_speed(const model_config *c, int64_t pair);

/* Keys of the architecture itself, all but general.* and tokenizer.*. */
void architecture_put(const architecture *a, const model_config *c, gguf_writer *w);
