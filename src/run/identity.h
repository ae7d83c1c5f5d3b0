/* The identity of a run, as named facts: the model and the weights that it begins with, the data, and every
 * option that is not FREE (train/run_options.h). A checkpoint keeps them. A resume must have equal ones; what
 * differs is named. What changes no bit (threads, memory, how often to validate or to save) is not among
 * them. Nor is the choice of techniques, which a checkpoint keeps apart. */
#pragma once

#include "base/digest.h"
#include "io/safetensors.h"
#include "run/setup.h"

typedef enum { IDENTITY_OPTION, IDENTITY_MODEL, IDENTITY_DATA, IDENTITY_KINDS } identity_kind;

/* A number, or a word where `text` is not empty. */
typedef struct {
    identity_kind kind;
    char name[24]; /* of the option without "--", or the key of config.json */
    char text[24];
    double number;
} identity_fact;

enum { IDENTITY_FACTS = 72 };
typedef struct {
    identity_fact facts[IDENTITY_FACTS];
    uint32_t count;
    bool overflows;       /* there was a fact more than there is room for: identity_of fails */
    io_sum base;          /* of the weights that adapters stand beside: of no other use; bytes 0: none do */
    uint64_t base_digest; /* of the same weights, as the adapter keeps it; 0: not known */
} identity;

/* The identity of a setup. Data is represented by its number of samples and a digest of about 1 MiB of them,
 * evenly spread (all of it, if it is small), and of a mix by so many of each part and by the shares; the
 * model's structure by a digest of its graph, its weights by one of some KiB of each. */
status identity_of(const setup *s, identity *out);

/* Adds a fact; `words` empty: a number. For who reads them from a file. One
 * beyond IDENTITY_FACTS is not, and sets `overflows`. */
void identity_add(identity *i, identity_kind kind, const char *name, double number, const char *words);

/* A digest of all facts as text, which a run's history keeps. */
enum { IDENTITY_DIGEST_BYTES = DIGEST_TEXT_BYTES };
const char *identity_digest(const identity *i, char digits[IDENTITY_DIGEST_BYTES]);

/* STATUS_INVALID when they differ, with a sentence that says what was (in the folder `from`) and what is
 * given. */
status identity_compare(const identity *stored, const identity *given, const char *from);

/* Takes the facts of the initial weights from the stored run: for a run whose initial weights may be gone. */
void identity_take_weights(identity *given, const identity *stored);

/* "8", "1e-04", "cosine" */
enum { IDENTITY_VALUE_BYTES = 32 };
const char *identity_value(const identity_fact *f, char out[IDENTITY_VALUE_BYTES]);
