/* Readers of files from strangers, fed with damaged ones.
 *
 * Each fuzz_NAME.c is one reader: it takes any bytes, lets the program read them as such a file, and uses
 * what it gets. Whatever comes, the reader must end with STATUS_OK or with a sentence, touch no memory that
 * is not its own and leave nothing behind; what else must hold is asserted. The sanitizers do the looking.
 *
 * With clang and SNUG_FUZZ the harness is libFuzzer's and searches for as long as it is let:
 *
 *   cmake -S . -B build-fuzz -DCMAKE_C_COMPILER=clang -DSNUG_FUZZ=ON && cmake --build build-fuzz
 *   build-fuzz/fuzz_npy -max_total_time=60 found/ tests/fuzz/corpus/npy
 *
 * Otherwise replay.c is the driver, a test like all others: it reads the corpus (seeds made by hand, and
 * every input that was once a finding) and some thousands of mutations of it, always the same. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Writes the bytes to a file of this name in a folder of the program's own, which goes when it ends. The path
 * is good until the next call. */
const char *fuzz_file(const char *name, const void *data, size_t size);
const char *fuzz_folder(void);

/* Any result but STATUS_OK must have a sentence that is one line's worth; aborts otherwise. Returns result.
 */
status fuzz_said(status result);

/* Reads the file as data: opens it, compares its ids with a vocabulary, reads every sample twice, in and out
 * of order, and expects the same tokens. */
void fuzz_data(const char *path);

/* Reads the file as documents (data/documents): whatever comes, pieces are UTF-8 and stand in records, the
 * memory that was planned is what is used, small pieces give what large ones do, and going on at the last
 * record gives what stands there. */
void fuzz_documents(const char *path);

#define FUZZ_EXPECT(condition) ((condition) ? (void)0 : __builtin_trap())
