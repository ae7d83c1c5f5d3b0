#include "api/reserve.h"

#include "base/memory.h"
#include "base/units.h"
#include "device/device.h"

uint64_t reserve_measure(void) {
    device_runtime_host(0);
    memory_trim();
    uint64_t code = device_runtime_reserve(1).code, resident = units_align(device_resident(), 1u << 20);
    return resident > code ? resident - code : 0;
}
