#include "room.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/half.h"
#include "base/units.h"

const device *gpu;
uint64_t room_used;
static device_pool pool;

void die(const char *why) {
    fprintf(stderr, "%s\n", why);
    exit(2);
}

void room_open(const char *device_name, uint64_t bytes) {
    if (device_find(device_name, &gpu) != STATUS_OK) die(status_message());
    if (!gpu->apart) die("this device is no GPU");
    if (gpu->open(gpu, &pool, bytes) != STATUS_OK) die(status_message());
}

void room_close(void) { gpu->close(gpu, &pool); }

uint64_t room_bytes(const op_arg *x) { return (uint64_t)shape_elements(&x->shape) * dtype_bytes(x->dtype); }

op_arg room(dtype type, shape s) {
    op_arg x = { .shape = s, .dtype = type };
    room_used = units_align(room_used, 256);
    x.data = (char *)pool.data + room_used;
    room_used += room_bytes(&x);
    if (room_used > pool.bytes) die("the pool is too small");
    return x;
}

void *room_host(uint64_t bytes) {
    void *at = malloc(bytes ? bytes : 1);
    if (!at) die("no memory");
    return at;
}

static float draw(void) {
    static uint64_t state = 88172645463325252ull;
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (float)(state >> 40) * 0x1p-23f - 1.0f;
}

static void put(void *to, int64_t i, dtype type, float most) {
    float x = draw();
    if (type == DTYPE_I32)
        ((int32_t *)to)[i] = (int32_t)((x + 1) * 0.5f * most);
    else if (type == DTYPE_BF16)
        ((uint16_t *)to)[i] = half_to_bf16(x * most);
    else if (type == DTYPE_F16)
        ((uint16_t *)to)[i] = half_to_f16(x * most);
    else
        ((float *)to)[i] = x * most;
}

op_arg room_numbers(dtype type, shape s, float most) {
    op_arg x = room(type, s);
    void *drawn = room_host(room_bytes(&x));
    for (int64_t i = 0, n = shape_elements(&s); i < n; i++) put(drawn, i, type, most);
    gpu->put(gpu, x.data, drawn, room_bytes(&x));
    free(drawn);
    return x;
}

uint64_t room_hash(const op_arg *x, uint64_t hash) {
    uint64_t bytes = room_bytes(x);
    unsigned char *at = room_host(bytes);
    gpu->get(gpu, at, x->data, bytes);
    for (uint64_t i = 0; i < bytes; i++) hash = (hash ^ at[i]) * 1099511628211ull;
    free(at);
    return hash;
}
