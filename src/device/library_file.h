/* How a library of the GPU's maker is opened when the program runs: which files hold it, its version, its
 * calls by their names. What is opened stays open until the process ends. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct {
    const char *title;          /* "cuBLASLt" */
    const char *called;         /* "libcublasLt", for sentences */
    const char *package;        /* that has it: "libcublas" */
    const char *const files[3]; /* the newest first; ends with NULL */
    const char *version_call;   /* a function that returns it: 130100 or 92600 is 13.1.0 or 9.26.0 */
    size_t least_version;       /* 12, 9 */
} library_file;

/* By name; `to`: where the pointer to the function goes. */
typedef struct {
    const char *name;
    void *to;
} library_call;

enum { LIBRARY_NAME_BYTES = 48 };

/* *name: "cuBLASLt 13.1.0". `emulated`: only a stand-in will do, which says that it is one by a symbol.
 * INVALID: it is not to be had, with a sentence; then nothing is open. */
status library_file_open(const library_file *f, bool emulated, const library_call *calls, size_t count,
                         void **library, char name[LIBRARY_NAME_BYTES]);
void library_file_close(void **library);
