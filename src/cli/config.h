/* Configuration files: a flat map in YAML, as in
 *
 *   # what we train every night
 *   model: char-small
 *   batch: 16
 *   memory: 96MiB
 *   prompt: [once, upon]
 *
 * Keys are options' names. What a value means is the option table's to say: here it is text. Everything that
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
} config_entry;

typedef struct {
    config_entry *entries;
    uint32_t count, room;
} config_file;

/* Reads the text of a file; `name` is for sentences, which begin "NAME:LINE: ". With STATUS_OK end with
 * config_close; otherwise the file is empty, and closing it again does no harm. */
status config_read(const char *name, const char *text, size_t bytes, config_file *file);
void config_close(config_file *file);

/* The same with the file at `path`. */
status config_open(const char *path, config_file *file);
