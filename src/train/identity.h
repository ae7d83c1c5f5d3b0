/* What makes a run this run and no other: the model, the data and the options that its mathematics depend on,
 * as named facts. A checkpoint keeps them; who resumes must bring the same ones, and what differs is said by
 * its name. What leaves every bit alone (threads, memory, techniques that are EXACT, how often to validate or
 * to save) is not among them. */
#pragma once

#include "base/digest.h"
#include "io/safetensors.h"
#include "train/setup.h"

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
    safetensors_sum base; /* of the weights that adapters stand beside: of no other use; bytes 0: none do */
    uint64_t base_digest; /* of the same weights, as the adapter keeps it; 0: not known */
} identity;

/* Of a setup. Data is known by its number of samples and by a digest of about a mebibyte of them, spread
 * evenly, so all of it where it is small; the model's structure by a digest of its graph. */
status identity_of(const setup *s, identity *out);

/* Adds a fact; `words` empty: a number. For who reads them from a file. Beyond IDENTITY_FACTS nothing is
 * added. */
void identity_add(identity *i, identity_kind kind, const char *name, double number, const char *words);

/* All facts as one word, which a run's history keeps: the same for the same run. */
enum { IDENTITY_DIGEST_BYTES = DIGEST_TEXT_BYTES };
const char *identity_digest(const identity *i, char digits[IDENTITY_DIGEST_BYTES]);

/* STATUS_INVALID when they differ, with a sentence of what was (in `from`, a folder) and what is given. */
status identity_compare(const identity *stored, const identity *given, const char *from);

/* "8", "1e-04", "cosine" */
enum { IDENTITY_VALUE_BYTES = 32 };
const char *identity_value(const identity_fact *f, char out[IDENTITY_VALUE_BYTES]);
