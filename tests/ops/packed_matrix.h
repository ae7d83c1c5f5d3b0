/* What products that should have the same bits are made of, for kernels that bring operands in two ways. */
#pragma once

#include <vector>

#include "base/half.h"
#include "ops/matmul/matmul_tensor_cuda.h"

struct two_products {
    int64_t rows, columns, depth;
    bool starts;
};

/* Memory of an operand whose lines begin at 16 bytes, NaN behind each. */
struct packed_matrix {
    std::vector<uint16_t> room;
    tensor_operand of;

    packed_matrix(int64_t high, int64_t wide, int64_t lines, unsigned seed) {
        int64_t stride = (wide + 7) / 8 * 8 + 8;
        room.assign((size_t)(high * stride + 8), 0x7fff);
        size_t first = (16 - (uintptr_t)room.data() % 16) % 16 / 2;
        for (int64_t i = 0; i < high; i++)
            for (int64_t j = 0; j < wide; j++) {
                seed = seed * 1664525u + 1013904223u;
                room[first + (size_t)(i * stride + j)] = half_to_bf16((float)(seed >> 8) * 0x1p-24f - 0.5f);
            }
        of = { room.data() + first, stride * 2, lines };
    }
};
