/* SHA-256 (FIPS 180-4) of a text in memory. */
#pragma once

#include <stddef.h>

/* As a page's own policy names a script or a style: "sha256-" and 44 letters of base64. */
enum { SHA256_SOURCE_BYTES = 52 };
const char *sha256_source(const void *data, size_t bytes, char source[SHA256_SOURCE_BYTES]);
