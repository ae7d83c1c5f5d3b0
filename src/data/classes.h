/* Names of classes that files of data give themselves (document_options.classes). */
#pragma once

#include "data/documents/documents.h"
#include "models/label_names.h"

/* Hands the names that the file gives to its only column to `each`, in their order, and notes in `names`, to
 * which `each` adds them, that this is the order of their ids; `*told`: it gives some. STATUS_INVALID where
 * names without an order are there already. */
status classes_of_file(label_names *names, const document_options *o, document_class *each, void *context,
                       bool *told);

/* Adds the class of a record. Where `names` have an order of their own it has to be there. */
status classes_add(label_names *names, const char *name, uint64_t bytes);
