/* What the processor is, and rates for machines that nobody has measured: of one core of each class, as seen
 * on a few machines. */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/instructions.h"
#include "device/device.h"

const char *device_instructions(void) {
    if (instructions_usable(INSTRUCTIONS_AVX512)) return "AVX-512";
    if (instructions_usable(INSTRUCTIONS_AVX2)) return "AVX2";
    return "plain C";
}

const char *device_processor(char name[DEVICE_NAME_BYTES]) {
    snprintf(name, DEVICE_NAME_BYTES, "unknown processor");
    FILE *file = fopen("/proc/cpuinfo", "r");
    if (!file) return name;
    char line[256], family[16] = "", model[16] = "", called[DEVICE_NAME_BYTES - 40] = "";
    while (fgets(line, sizeof line, file) && line[0] != '\n') {
        char *value = strchr(line, ':');
        if (!value) continue;
        value += strspn(value, ": \t");
        value[strcspn(value, "\n")] = 0;
        if (strncmp(line, "cpu family", 10) == 0) snprintf(family, sizeof family, "%.15s", value);
        if (strncmp(line, "model\t", 6) == 0) snprintf(model, sizeof model, "%.15s", value);
        if (strncmp(line, "model name", 10) == 0) snprintf(called, sizeof called, "%.55s", value);
    }
    fclose(file);
    if (!called[0]) return name;
    if (family[0])
        snprintf(name, DEVICE_NAME_BYTES, "%s (family %s, model %s)", called, family, model);
    else
        snprintf(name, DEVICE_NAME_BYTES, "%s", called);
    return name;
}

/* Of the largest cache that one core uses, as Linux says it; the processor's own word is of the whole package
 * on some virtual machines. */
static double cache_bytes(void) {
    for (int level = 3; level >= 2; level--) {
        char path[80];
        unsigned long kib = 0;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", level);
        FILE *file = fopen(path, "r");
        if (!file) continue;
        int fields = fscanf(file, "%luK", &kib);
        fclose(file);
        if (fields == 1 && kib > 0) return (double)kib * 1024;
    }
    return 8e6;
}

/* Widened numbers go to the kernels of f32. Of pairs, and of tiles, less than half of what the instruction
 * does more in a cycle: it was seen on no machine. */
static double half_of(double wide) {
    if (instructions_usable(INSTRUCTIONS_AMX)) return 6 * wide;
    return instructions_usable(INSTRUCTIONS_AVX512_BF16) ? 1.5 * wide : wide;
}

/* Between processes of a host as seen on one machine with direct copies; between hosts Ethernet of 10 Gbit/s.
 */
static links default_links(void) {
    return (links){ .of = { [LINK_WITHIN] = { 90e-6, 10e9, 40e-6, 0.1e-9 },
                            [LINK_BETWEEN] = { 100e-6, 1.25e9, 60e-6, 0.5e-9 } } };
}

/* AVX-512 is a Zen 5 server; the others are scaled by what their registers hold and their clocks allow.
 * Per core, but for bandwidth, of which one core alone gets a good part. */
device_rates device_rates_default(int threads) {
    double t = threads;
    device_rates r = { .flops = { 2e9 * t, 2e9 * t, 12e9 * t, 4e9 * t, 11e9 * t },
                       .draws = 0.1e9 * t,
                       .moved = 4e9 * t,
                       .cached = 10e9 * t,
                       .bandwidth = 8e9 + 2e9 * t,
                       .fetched = 3e9 * t };
    const char *name = device_instructions();
    if (strcmp(name, "AVX2") == 0)
        r = (device_rates){ .flops = { 50e9 * t, 25e9 * t, 95e9 * t, 80e9 * t, 120e9 * t },
                            .draws = 0.5e9 * t,
                            .moved = 30e9 * t,
                            .cached = 50e9 * t,
                            .bandwidth = 14e9 + 4e9 * t,
                            .fetched = 7e9 * t };
    if (strcmp(name, "AVX-512") == 0)
        r = (device_rates){ .flops = { 165e9 * t, 61e9 * t, 300e9 * t, 280e9 * t, 120e9 * t },
                            .draws = 1.75e9 * t,
                            .moved = 56e9 * t,
                            .cached = 135e9 * t,
                            .bandwidth = 60e9 + 20e9 * t,
                            .fetched = 20e9 * t };
    if (instructions_usable(INSTRUCTIONS_AVX512_VNNI))
        r.flops[WORK_CODES] = 900e9 * t;
    else if (instructions_usable(INSTRUCTIONS_AVX_VNNI))
        r.flops[WORK_CODES] = 280e9 * t;
    r.flops[WORK_PRODUCTS_HALF] = half_of(r.flops[WORK_PRODUCTS]);
    r.flops[WORK_ATTENTION_HALF] =
        (instructions_usable(INSTRUCTIONS_AMX) ? 2.5 : 1) * r.flops[WORK_ATTENTION];
    r.flops[WORK_ARITHMETIC_HALF] = r.flops[WORK_ARITHMETIC];
    r.flops[WORK_FUNCTIONS_HALF] = r.flops[WORK_FUNCTIONS];
    r.cache_bytes = cache_bytes();
    r.call_seconds = threads > 1 ? 3e-6 : 1e-6;
    r.scale = 1;
    r.links = default_links();
    r.copied = r.bandwidth;               /* of no CPU: a device apart has a rate of its own */
    r.file_read = r.file_written = 0.5e9; /* of a disk without moving parts, and not the fastest */
    snprintf(r.source, sizeof r.source, "built-in table: %s", name);
    return r;
}
