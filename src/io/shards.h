/* Tensors in several files, as Hugging Face has them: STEM-00001-of-00004.safetensors and so on, beside an
 * index STEM.safetensors.index.json that says where each tensor is; one file is STEM.safetensors, without an
 * index. Which tensor is in which file follows from their order and their bytes alone, so that several
 * processes come to the same without a word. */
#pragma once

#include <stdint.h>

#include "base/status.h"

enum { SHARDS_MOST = 64, SHARDS_NAME_BYTES = 96 };

/* In how many files so many writers put so many bytes of so many tensors: none is worth it for a few bytes,
 * and none is empty. */
int shards_files(uint64_t bytes, uint64_t tensors, int writers);

/* File k (from 0) of so many, and what is to be opened to have all of them. */
const char *shards_name(const char *stem, int k, int files, char name[SHARDS_NAME_BYTES]);
const char *shards_all(const char *stem, int files, char name[SHARDS_NAME_BYTES]);

/* Tensors, one after the other: each goes to the file that has the fewest bytes so far. Begins with `files`
 * alone. */
typedef struct {
    int files;
    uint64_t filled[SHARDS_MOST];
} shards_division;
int shards_next(shards_division *d, uint64_t bytes);

/* Writes the index of files that are in the folder, from their headers, one file after the other. */
status shards_index(const char *folder, const char *stem, int files);

/* Moves the files and their index from a folder within `folder` to it, and removes what it had of this stem
 * before, then the empty folder. In between it has no index, so no reader meets files of both; one file that
 * it had before stays until all is there. Where it ends in between, shards_finish goes on. */
status shards_replace(const char *from, const char *folder, const char *stem, int files);

/* What shards_replace was kept from: where `from` is there and its files are whole (it has, or had, an
 * index), they are moved, and else it is removed. */
status shards_finish(const char *from, const char *folder, const char *stem);

/* Removes the index and the files that it names; fine where there is none. One file is left alone. */
status shards_remove(const char *folder, const char *stem);
