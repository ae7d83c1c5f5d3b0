/* What a file of documents is for, by the names of its columns, where nobody said it. */
#pragma once

#include "data/documents/documents.h"

/* How the columns are called; NULL: as these words are. */
typedef struct {
    const char *text, *prompt, *completion, *messages;
} document_form_names;

enum { DOCUMENT_FORM_COLUMNS = 3 };

/* Looks at the file and says which columns to ask for: `text`, `prompt` and `completion`, or `messages`. The
 * names are those of `names`, or constant. STATUS_INVALID with the names that are there when none of the
 * three is, or several are. Of JSON the first record decides, also whether prompt and completion are texts or
 * lists. */
status document_form_find(const document_options *o, const document_form_names *names,
                          document_column columns[DOCUMENT_FORM_COLUMNS], uint32_t *count);
/* The same where it is a prompt and its completion, whatever else is there. One that is missing is left to
 * whoever reads them. */
status document_form_pair(const document_options *o, const document_form_names *names,
                          document_column columns[DOCUMENT_FORM_COLUMNS], uint32_t *count);
