/* JSON as values of templates: messages, tools and whatever else a chat comes with, as Python's json reads
 * them for transformers.
 *
 * The text is read twice. The first reading counts, so that all values and their letters are one block whose
 * size is known before it is asked for. Members keep their order. Where a key stands twice both are kept, the
 * last one counts (template_value_member), and a template sees it at the first one's place.
 *
 * What Python takes and this does not, each with a sentence: whole numbers beyond 64 bits, NaN, infinities
 * and numbers too large for a double, halves of surrogate pairs, numbers of more than JSON_READER_NUMBER
 * letters. */
#pragma once

#include "base/json_reader.h"
#include "text/template/template.h"

typedef struct template_json template_json;

enum { TEMPLATE_JSON_DEPTH = 500 }; /* lists and objects within each other */

/* The whole text, one value. STATUS_INVALID where it is no JSON, or would take more than `most` bytes, with
 * the place; STATUS_FAILED without memory. Close it; the source is not needed any more. */
status template_json_open(const json_source *source, uint64_t most, template_json **out);
/* The same in `bytes` bytes of the caller's, aligned to 16, where it stays: nothing else is asked for, and it
 * is not closed. STATUS_INVALID too where template_json_most says more than there are. */
status template_json_place(const json_source *source, void *room, uint64_t bytes, template_json **out);
/* What placing a text takes, at most: of its `count` bytes `marks` are brackets that open or commas, wherever
 * they stand, and there is one value more than such that are no letters. */
uint64_t template_json_most(uint64_t count, uint64_t marks);
bool template_json_is_mark(char c);
/* That placing takes beside, until it is done: one for any number of texts. */
enum { TEMPLATE_JSON_READING = 5120 };
void template_json_close(template_json *j); /* NULL is fine */

const template_value *template_json_value(const template_json *j); /* lives as long as `j` */
uint64_t template_json_bytes(const template_json *j);              /* memory that it holds */

/* The member that counts of an object; NULL: it has none of this name, or is no object. */
const template_value *template_value_member(const template_value *object, const char *key);
/* Is it this text? */
bool template_value_says(const template_value *v, const char *word);
/* A text of letters that end with a zero, and a list or an object, lent as they are. */
template_value template_value_text(const char *words);
template_value template_value_many(template_kind kind, const template_value *items, size_t count);
