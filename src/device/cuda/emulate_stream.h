/* A stream of the emulated GPU, as a library sees it that works there: the lane on which ranks move
 * (device.stream), or that of kernels (device.library). A stand-in for such a library puts functions there,
 * and the lane comes to them when events and pace have it do so. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct emulated_stream emulated_stream;
struct emulated_stream {
    /* `context`, of so many bytes, is copied. The device's memory is open to the function, and to nobody
     * else. It is called until it is over, and says whether it is: it waits for nobody. */
    void (*give)(emulated_stream *s, bool (*function)(void *context), const void *context, uint64_t bytes);
    bool (*is_in_pool)(const void *at, uint64_t bytes); /* are these bytes the device's? */
};
