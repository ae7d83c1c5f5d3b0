#include "api/reserve.h"

#include <pthread.h>

#include "base/memory.h"
#include "base/units.h"
#include "device/device.h"

static pthread_mutex_t planning = PTHREAD_MUTEX_INITIALIZER;

static uint64_t measure(void) {
    device_runtime_host(0);
    memory_trim();
    uint64_t code = device_runtime_reserve(1).code, resident = units_align(device_resident(), 1u << 20);
    return resident > code ? resident - code : 0;
}

void reserve_begin(uint64_t program_bytes) {
    pthread_mutex_lock(&planning);
    device_runtime_host(program_bytes ? program_bytes : measure());
}

void reserve_end(void) { pthread_mutex_unlock(&planning); }
