#include "data/classes.h"

#include "base/utf8.h"

typedef struct {
    label_names *names;
    const char *path;
    document_class *each;
    void *context;
    bool told;
} telling;

static status tell(void *context, const char *name, uint64_t bytes) {
    telling *t = context;
    if (t->names->count && !t->names->ordered)
        return status_set(STATUS_INVALID,
                          "%s names its classes, and data before it has labels without such names; give all "
                          "files the same names, or none",
                          t->path);
    t->names->ordered = t->told = true;
    return t->each(t->context, name, bytes);
}

status classes_of_file(label_names *names, const document_options *o, document_class *each, void *context,
                       bool *told) {
    telling t = { .names = names, .path = o->path, .each = each, .context = context };
    status result = documents_classes(o, 0, tell, &t);
    *told = t.told;
    return result;
}

status classes_add(label_names *names, const char *name, uint64_t bytes) {
    char shown[UTF8_QUOTE_BYTES], word[LABEL_NAMES_BYTES + 1] = "";
    if (!names->ordered) return label_names_add(names, name, bytes, NULL);
    if (label_names_find(names, name, bytes) >= 0) return STATUS_OK;
    for (uint64_t i = 0; i < bytes && i < LABEL_NAMES_BYTES; i++) word[i] = name[i];
    return status_set(STATUS_INVALID,
                      "the label '%s' is none of the %u classes that files of this data name; give all files "
                      "the same names",
                      utf8_quote(word, shown), names->count);
}
