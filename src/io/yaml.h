/* Files for people to write: a flat map in YAML, as in
 *
 *   # what we train every night
 *   model: char-small
 *   batch: 16
 *   memory: 96MiB
 *   prompt: [once, upon]
 *
 * What keys and values mean is the reader's to say: here they are text. Everything that
 * YAML has beyond this (maps in maps, anchors, aliases, tags, several documents) and a key given twice is
 * refused with the line. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct {
    char *key;
    char **values;
    uint32_t count, room; /* of values; one where `list` is false */
    uint32_t line;        /* of the key, from 1 */
    bool list;            /* written as a list */
    bool empty;           /* nothing, or null */
} yaml_entry;

typedef struct {
    yaml_entry *entries;
    uint32_t count, room;
} yaml_file;

/* Reads the text of a file; `name` is for sentences, which begin "NAME:LINE: ". With STATUS_OK end with
 * yaml_close; otherwise the file is empty, and closing it again does no harm. */
status yaml_read(const char *name, const char *text, size_t bytes, yaml_file *file);
void yaml_close(yaml_file *file);

/* The same with the file at `path`. */
status yaml_open(const char *path, yaml_file *file);
