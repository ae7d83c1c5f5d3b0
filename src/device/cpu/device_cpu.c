/* The CPU as a device: anonymous pages, /proc and control groups. */
#define _GNU_SOURCE
#include "device/device.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/threads.h"
#include "base/units.h"
#include "device/cpu/memory_nodes.h"

static const uint64_t PAGE = 4096;

status device_pool_open(device_pool *p, uint64_t bytes) {
    *p = (device_pool){ 0 };
    uint64_t size = units_align(bytes ? bytes : 1, PAGE);
    uint64_t available = device_available(); /* touching more would end the process, or another one */
    if (size > available)
        return status_set(STATUS_NO_FIT,
                          "the machine has %llu bytes of memory left, and the pool takes %llu; plan for what "
                          "there is, with --memory auto",
                          (unsigned long long)available, (unsigned long long)size);
    void *data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED)
        return status_set(STATUS_NO_FIT, "the machine refuses %llu bytes for the pool: %s",
                          (unsigned long long)size, strerror(errno));
    memory_nodes_spread("", data, size);
    madvise(data, size, MADV_HUGEPAGE); /* walks over matrices need fewer translations; may be refused */
    for (uint64_t at = 0; at < size; at += PAGE) ((volatile char *)data)[at] = 0;
    *p = (device_pool){ .data = data, .bytes = size };
    return STATUS_OK;
}

void device_pool_close(device_pool *p) {
    if (p->data) munmap(p->data, p->bytes);
    *p = (device_pool){ 0 };
}

static status open_pool(const device *d, device_pool *p, uint64_t bytes) {
    (void)d;
    return device_pool_open(p, bytes);
}

static void close_pool(const device *d, device_pool *p) {
    (void)d;
    device_pool_close(p);
}

/* Pinned for as long as it computes only: what the caller starts in between, such as threads that read data,
 * may run anywhere, and so may the caller afterwards. */
static void begin(const device *d) {
    (void)d;
    threads_pin();
}

static void end(const device *d) {
    (void)d;
    threads_unpin();
}

static void fill(const device *d, void *at, int byte, uint64_t bytes) {
    (void)d;
    memset(at, byte, bytes);
}

static device_rates rates(const device *d, int threads) {
    (void)d;
    return device_rates_default(threads);
}

static uint64_t available(const device *d) {
    (void)d;
    return device_available();
}

const device device_cpu = { .name = "cpu",
                            .kind = DEVICE_CPU,
                            .rates = rates,
                            .available = available,
                            .open = open_pool,
                            .close = close_pool,
                            .begin = begin,
                            .end = end,
                            .fill = fill };

void *device_block_new(uint64_t bytes) { return aligned_alloc(64, units_align(bytes ? bytes : 1, 64)); }

void device_block_free(void *block) { free(block); }

/* Asked for after every step, so without the buffers of stdio. */
uint64_t device_resident(void) {
    char line[64];
    int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    ssize_t length = read(file, line, sizeof line - 1);
    close(file);
    unsigned long long total, resident;
    line[length > 0 ? length : 0] = '\0';
    return sscanf(line, "%llu %llu", &total, &resident) == 2 ? resident * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

uint64_t device_resident_peak(void) {
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (uint64_t)usage.ru_maxrss * 1024 : 0;
}

/* The number behind a word of a file such as /proc/meminfo, where each line has one; 0: it is not there. */
static uint64_t number_after(const char *path, const char *word) {
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    char line[128], name[64];
    unsigned long long value;
    bool found = false;
    while (!found && fgets(line, sizeof line, file))
        found = sscanf(line, "%63s %llu", name, &value) == 2 && strcmp(name, word) == 0;
    fclose(file);
    return found ? value : 0;
}

/* A line of /proc/meminfo in bytes; UINT64_MAX when it is not there. */
static uint64_t machine_memory(const char *word) {
    uint64_t kib = number_after("/proc/meminfo", word);
    return kib ? kib * 1024 : UINT64_MAX;
}

static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

uint64_t device_memory(void) { return smaller(machine_memory("MemTotal:"), cgroup_read("").memory); }

uint64_t device_available(void) {
    return smaller(machine_memory("MemAvailable:"), cgroup_read("").memory_left);
}

static uint64_t host_bytes, ranks_bytes, ranks_apart;

void device_runtime_host(uint64_t bytes) { host_bytes = bytes; }
void device_runtime_ranks(uint64_t bytes, uint64_t apart) { ranks_bytes = bytes, ranks_apart = apart; }

device_parts device_reserve(const device *d) {
    device_parts p = d->reserve(d);
    p.ranks = ranks_apart;
    return p;
}

device_runtime device_runtime_reserve(int threads) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    uint64_t code = 512u << 20; /* the sanitizer's shadow and quarantine */
#elif defined(SNUG_CUDA_PLANNED)
    uint64_t code = 9u << 20;
#else
    uint64_t code = 10u << 20; /* with kernels for GPUs */
#endif
    return (device_runtime){ .code = code + host_bytes + ranks_bytes,
                             .ranks = ranks_bytes,
                             .threads = (uint64_t)threads << 18,
                             .tables = 4u << 20 };
}
