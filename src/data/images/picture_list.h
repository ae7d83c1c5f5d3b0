/* Which pictures data is made of, and of what class each is: from folders, or from tables. */
#pragma once

#include "base/status.h"
#include <stdint.h>

/* Told of each class as it is met, with what is between tables and folders alike; strings last for the call.
 */
typedef struct {
    status (*class_folder)(void *context, const char *name); /* before its pictures; NULL: not wanted */
    /* `class` NULL: of the folder that was told last. */
    status (*picture)(void *context, const char *path, const char *class, uint64_t class_bytes);
    void *context;
    const char *image, *label; /* columns; `image` NULL: paths are not wanted */
    uint64_t most;             /* bytes that reading a table may take */
} picture_visitor;

/* Ends with the first that fails. STATUS_INVALID where there is nothing of the kind, or a class has none. */
status picture_list(const char *path, const picture_visitor *v);
