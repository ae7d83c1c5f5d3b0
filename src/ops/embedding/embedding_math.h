/* Which row of the table of embedding.h an id reads. */
#pragma once

#include <stdint.h>

#include "base/vector.h"

/* Ids outside of the table read row 0. */
VECTOR_INLINE int64_t embedding_row(int32_t id, int64_t rows) { return id >= 0 && id < rows ? id : 0; }
