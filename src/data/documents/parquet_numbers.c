#include "data/documents/parquet_numbers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint32_t parquet_number_bytes(parquet_kind kind) {
    switch (kind) {
    case PARQUET_I32:
    case PARQUET_U32:
    case PARQUET_F32: return 4;
    case PARQUET_I64:
    case PARQUET_U64:
    case PARQUET_F64: return 8;
    case PARQUET_STRING:
    case PARQUET_BOOL: break;
    }
    return 0;
}

int64_t parquet_number_at(parquet_kind kind, const unsigned char *bytes) {
    uint64_t value = 0;
    for (uint32_t i = 0; i < parquet_number_bytes(kind); i++) value |= (uint64_t)bytes[i] << 8 * i;
    return parquet_number_as(kind, (int64_t)value);
}

int64_t parquet_number_as(parquet_kind kind, int64_t value) {
    return kind == PARQUET_I32 ? (int32_t)value : kind == PARQUET_U32 ? (int64_t)(uint32_t)value : value;
}

bool parquet_number_whole(parquet_kind kind) { return kind >= PARQUET_I32 && kind <= PARQUET_U64; }

static int fraction(double value, bool is_float, char letters[PARQUET_LETTERS]) {
    int count = 0;
    for (int digits = 1; digits <= 17; digits++) {
        count = snprintf(letters, PARQUET_LETTERS, "%.*g", digits, value);
        double back = strtod(letters, NULL);
        if (is_float ? (float)back == (float)value : back == value) break;
    }
    return count;
}

uint32_t parquet_number_letters(parquet_kind kind, int64_t value, char letters[PARQUET_LETTERS]) {
    int count;
    uint32_t low = (uint32_t)value;
    float single;
    double real;
    memcpy(&single, &low, sizeof single);
    memcpy(&real, &value, sizeof real);
    switch (kind) {
    case PARQUET_BOOL: count = snprintf(letters, PARQUET_LETTERS, "%s", value ? "true" : "false"); break;
    case PARQUET_U64: count = snprintf(letters, PARQUET_LETTERS, "%" PRIu64, (uint64_t)value); break;
    case PARQUET_F32: count = fraction((double)single, true, letters); break;
    case PARQUET_F64: count = fraction(real, false, letters); break;
    default: count = snprintf(letters, PARQUET_LETTERS, "%" PRId64, value);
    }
    return (uint32_t)count;
}
