/* snug devices: what is here, what is free, and the rates that predictions use. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "base/instructions.h"
#include "base/threads.h"
#include "base/units.h"
#include "cli/cli.h"
#include "comm/comm.h"
#include "comm/links.h"
#include "device/cpu/memory_nodes.h"
#include "device/device_file.h"
#include "device/device_gpu.h"
#include "device/library_attention.h"
#include "io/json.h"
#include "lower/measure.h"
#include "lower/measure_library.h"
#include "run/links.h"
#include "run/rates.h"
#include "run/shapes.h"

/* ---- measuring ---- */

static const double MEASURE_SECONDS = 12; /* all together */

typedef struct {
    output *out;
    int threads;
    char last[32];
} measuring;

static void told(void *context, const char *what, double part) {
    measuring *m = context;
    (void)part;
    if (!m->out->file || strcmp(m->last, what) == 0) return;
    snprintf(m->last, sizeof m->last, "%s", what);
    if (m->out->terminal)
        output_add(m->out, "\r\033[Kmeasuring with %d thread%s: %s", m->threads, m->threads > 1 ? "s" : "",
                   what);
    else
        output_add(m->out, "measuring with %d thread%s: %s\n", m->threads, m->threads > 1 ? "s" : "", what);
    output_flush(m->out);
}

static status measure(output *people, int threads, const char *folder) {
    rates_measured found = { .count = threads > 1 ? 2 : 1, .threads = { 1, threads } };
    measuring m = { .out = people };
    measure_result result;
    int disturbed = 0, samples = 0;
    measure_observer o = { .context = &m, .told = told, .seconds = MEASURE_SECONDS / found.count };
    for (int i = 0; i < found.count; i++) {
        m.threads = found.threads[i], m.last[0] = 0;
        TRY(measure_rates(found.threads[i], &o, &found.rates[i], &result));
        disturbed += result.disturbed, samples += result.samples;
    }
    if (folder) {
        device_file_rates disk;
        TRY(device_file_measure(folder, &disk));
        for (int i = 0; i < found.count; i++)
            found.rates[i].file_read = disk.read, found.rates[i].file_written = disk.written;
    }
    if (people->terminal) output_add(people, "\r\033[K");
    if (people->file && disturbed)
        output_add(people,
                   "other work had the processors during %d of %d samples: these count with the time that "
                   "they had themselves, which says less\n",
                   disturbed, samples);
    return rates_store(&found);
}

/* ---- libraries of a GPU's maker ---- */

static const double LIBRARY_SECONDS = 6; /* for each */

/* What was measured of one. `why`: it is not to be had; "": `pairs` are. */
typedef struct {
    char name[48], why[256];
    measure_pair pairs[MEASURE_PAIRS];
    int count;
} measured_library;

static status measure_libraries(const device *gpu, measured_library found[DEVICE_LIBRARIES]) {
    for (int i = 0; i < DEVICE_LIBRARIES; i++) {
        measured_library *m = &found[i];
        *m = (measured_library){ 0 };
        if (gpu->library(gpu, (device_library)i) != STATUS_OK) {
            snprintf(m->why, sizeof m->why, "%s", status_message());
            continue;
        }
        snprintf(m->name, sizeof m->name, "%s",
                 i == DEVICE_LIBRARY_ATTENTION ? library_attention_name() : library_name());
        TRY(measure_library(gpu, (device_library)i, LIBRARY_SECONDS, m->pairs, &m->count));
    }
    shapes_measured of[DEVICE_LIBRARIES];
    for (int i = 0; i < DEVICE_LIBRARIES; i++)
        of[i] = (shapes_measured){ found[i].name, found[i].pairs, found[i].count };
    return shapes_store(gpu, of);
}

static void print_pair(output *out, const measure_pair *x) {
    char own[UNITS_TEXT_BYTES], library[UNITS_TEXT_BYTES], sizes[96];
    const int64_t *n = x->sizes;
    if (x->by == DEVICE_LIBRARY_PRODUCTS)
        snprintf(sizes, sizeof sizes, "%lld x %lld x %lld", (long long)n[0], (long long)n[1],
                 (long long)n[2]);
    else
        snprintf(sizes, sizeof sizes, "%lld x %lld, %lld heads of %lld", (long long)n[0], (long long)n[1],
                 (long long)n[2], (long long)n[3]);
    output_add(out, "  %-14s %-28s own %10s", x->what, sizes, units_seconds_text(x->own, own));
    if (x->by_library > 0)
        output_add(out, "   library %10s%s\n", units_seconds_text(x->by_library, library),
                   x->by_library < x->own ? "   the library wins" : "");
    else
        output_add(out, "   the library declines it\n");
}

static void print_libraries(output *out, const measured_library found[DEVICE_LIBRARIES]) {
    for (int i = 0; i < DEVICE_LIBRARIES; i++) {
        const measured_library *m = &found[i];
        output_add(out, "Library     %s%s\n", m->why[0] ? "none: " : m->name, m->why);
        for (int k = 0; k < m->count; k++) print_pair(out, &m->pairs[k]);
    }
}

static void put_libraries(json_writer *w, const measured_library *found) {
    json_begin_array(w, "libraries");
    for (int i = 0; found && i < DEVICE_LIBRARIES; i++) {
        const measured_library *m = &found[i];
        json_begin_object(w, NULL);
        json_put_string(w, "name", m->name);
        json_put_string(w, "why", m->why);
        json_begin_array(w, "shapes");
        for (int k = 0; k < m->count; k++) {
            const measure_pair *x = &m->pairs[k];
            json_begin_object(w, NULL);
            json_put_string(w, "what", x->what);
            json_begin_array(w, "sizes");
            for (int n = 0; n < 4 && x->sizes[n]; n++) json_put_integer(w, NULL, x->sizes[n]);
            json_end_array(w);
            json_put_number(w, "own_seconds", x->own);
            json_put_number(w, "library_seconds", x->by_library);
            json_end_object(w);
        }
        json_end_array(w);
        json_end_object(w);
    }
    json_end_array(w);
}

/* ---- between ranks ---- */

/* Of several processes what passes between them is measured, and rank 0 keeps it. What a processor does is
 * measured by one, which has it alone. */
static status measure_links(const launch *l) {
    links found;
    enum { PATIENCE = 60 }; /* seconds: whoever does not answer is named */
    TRY(comm_open(l));
    comm_limit(PATIENCE);
    TRY(comm_measure(&found));
    return comm_agree(l->rank ? STATUS_OK : links_store(&found));
}

static const char *const link_names[LINK_COUNT] = { "a host   ", "hosts    " };
static const char *const link_keys[LINK_COUNT] = { "within_a_host", "between_hosts" };

static void print_links(output *out, const links *l) {
    for (int i = 0; i < LINK_COUNT; i++) {
        const link_rates *x = &l->of[i];
        output_add(out, "  %s %.2f GB/s, and %.0f microseconds a movement; a processor for %.2f ns a byte\n",
                   link_names[i], 1e-9 * x->rate, 1e6 * x->seconds, 1e9 * x->busy_seconds);
    }
}

static void put_links(json_writer *w, const links *l) {
    json_begin_object(w, "links");
    for (int i = 0; i < LINK_COUNT; i++) {
        json_begin_object(w, link_keys[i]);
        json_put_number(w, "seconds", l->of[i].seconds);
        json_put_number(w, "bytes", l->of[i].rate);
        json_put_number(w, "busy_seconds", l->of[i].busy);
        json_put_number(w, "busy_seconds_a_byte", l->of[i].busy_seconds);
        json_end_object(w);
    }
    json_end_object(w);
}

/* ---- showing ---- */

enum { GPU_WHY_BYTES = 256 };

static void print_sets(output *out) {
    text t = { 0 };
    for (int set = 0; set < INSTRUCTION_SETS; set++)
        if (instructions_present((instruction_set)set))
            text_add(&t, "%s%s", t.length ? ", " : "", instructions_name((instruction_set)set));
    output_add(out, "  sets      %s\n", t.data);
    text_close(&t);
}

static void put_sets(json_writer *w) {
    json_begin_array(w, "instruction_sets");
    for (int set = 0; set < INSTRUCTION_SETS; set++)
        if (instructions_present((instruction_set)set))
            json_put_string(w, NULL, instructions_name((instruction_set)set));
    json_end_array(w);
    json_put_string(w, "bf16_products", instructions_kind());
}

static void print(output *out, int threads, const device_rates *r) {
    char name[DEVICE_NAME_BYTES], a[UNITS_TEXT_BYTES], b[UNITS_TEXT_BYTES];
    output_add(out, "Processor   %s\n", device_processor(name));
    output_add(out, "  usable    %d (affinity and quota of the control group)\n", threads_available());
    output_add(out, "  kernels   %s; products of bf16 %s\n", device_instructions(), instructions_kind());
    print_sets(out);
    int nodes = memory_nodes_shared("");
    char dealt[64] = "";
    if (nodes > 1) snprintf(dealt, sizeof dealt, "; pools lie on its %d nodes in turns", nodes);
    output_add(out, "Memory      %s, %s free%s\n", units_bytes_text(device_memory(), a),
               units_bytes_text(device_available(), b), dealt);
    output_add(out, "Rates       %s; with %d thread%s\n", r->source, threads, threads > 1 ? "s" : "");
    output_add(out, "  products  %.0f GFLOP/s, and %.1f GB/s of packing\n", 1e-9 * r->flops[WORK_PRODUCTS],
               1e-9 * r->moved);
    output_add(out, "  16 bits   %.0f GFLOP/s of products, 8 bits %.0f\n",
               1e-9 * r->flops[WORK_PRODUCTS_HALF], 1e-9 * r->flops[WORK_CODES]);
    output_add(out, "  attention %.0f, in 16 bits %.0f, arithmetic %.0f, functions %.0f GFLOP/s\n",
               1e-9 * r->flops[WORK_ATTENTION], 1e-9 * r->flops[WORK_ATTENTION_HALF],
               1e-9 * r->flops[WORK_ARITHMETIC], 1e-9 * r->flops[WORK_FUNCTIONS]);
    output_add(out, "  elements  of 16 bits: arithmetic %.0f, functions %.0f GFLOP/s\n",
               1e-9 * r->flops[WORK_ARITHMETIC_HALF], 1e-9 * r->flops[WORK_FUNCTIONS_HALF]);
    output_add(out, "  random    %.2f numbers a nanosecond\n", 1e-9 * r->draws);
    output_add(out, "  traffic   %.1f GB/s in caches of %s, %.1f GB/s of memory, %.1f for products\n",
               1e-9 * r->cached, units_bytes_text((uint64_t)r->cache_bytes, a), 1e-9 * r->bandwidth,
               1e-9 * r->fetched);
    output_add(out, "  a call    %.2f microseconds\n", 1e6 * r->call_seconds);
    output_add(out, "  disk      %.2f GB/s read, %.2f GB/s written\n", 1e-9 * r->file_read,
               1e-9 * r->file_written);
    output_add(out, "Ranks       what passes between processes of\n");
    print_links(out, &r->links);
}

/* `named`, if that is a GPU, else the one that --device cuda would take. NULL, and `why`: there is none. */
static const device *gpu_here(const device *named, char why[GPU_WHY_BYTES]) {
    const device *gpu = NULL;
    if (named->gpu) return named;
    if (device_find("cuda", &gpu) == STATUS_OK) return gpu;
    const char *said = strstr(status_message(), ": "); /* behind "--device cuda" */
    snprintf(why, GPU_WHY_BYTES, "%s", said ? said + 2 : status_message());
    return NULL;
}

static void print_gpu(output *out, const device *gpu, const char *why) {
    if (!gpu) {
        output_add(out, "GPU         none: %s\n", why);
        return;
    }
    char is[DEVICE_GPU_TEXT_BYTES], bytes[UNITS_TEXT_BYTES];
    device_rates r = rates_find(RATES_KNOWN, gpu, 1);
    output_add(out, "GPU         %s: %s, %s free\n", gpu->gpu->title[0] ? gpu->gpu->title : gpu->name,
               device_gpu_text(gpu->gpu, is), units_bytes_text(gpu->available(gpu), bytes));
    if (gpu->gpu->chosen[0]) output_add(out, "  this is   %s\n", gpu->gpu->chosen);
    output_add(out, "  rates     %s\n", r.source);
    output_add(out, "  products  %.0f GFLOP/s, %.0f GB/s of memory, %.1f to and from the host\n",
               1e-9 * r.flops[WORK_PRODUCTS], 1e-9 * r.bandwidth, 1e-9 * r.copied);
}

static void put_gpu(json_writer *w, const device *gpu, const char *why) {
    if (!gpu) {
        json_put_null(w, "gpu");
        json_put_string(w, "no_gpu", why);
        return;
    }
    json_begin_object(w, "gpu");
    json_put_string(w, "name", gpu->gpu->title);
    json_put_number(w, "capability", gpu->gpu->capability / 10.0);
    json_put_integer(w, "multiprocessors", gpu->gpu->multiprocessors);
    json_put_unsigned(w, "memory_bytes", gpu->gpu->memory);
    json_put_unsigned(w, "free_bytes", gpu->available(gpu));
    json_end_object(w);
    json_put_null(w, "no_gpu");
}

static void put_rates(json_writer *w, const device_rates *r) {
    json_begin_object(w, "rates");
    json_put_string(w, "source", r->source);
    json_put_number(w, "products_flops", r->flops[WORK_PRODUCTS]);
    json_put_number(w, "products_half_flops", r->flops[WORK_PRODUCTS_HALF]);
    json_put_number(w, "codes_flops", r->flops[WORK_CODES]);
    json_put_number(w, "attention_flops", r->flops[WORK_ATTENTION]);
    json_put_number(w, "attention_half_flops", r->flops[WORK_ATTENTION_HALF]);
    json_put_number(w, "arithmetic_flops", r->flops[WORK_ARITHMETIC]);
    json_put_number(w, "functions_flops", r->flops[WORK_FUNCTIONS]);
    json_put_number(w, "arithmetic_half_flops", r->flops[WORK_ARITHMETIC_HALF]);
    json_put_number(w, "functions_half_flops", r->flops[WORK_FUNCTIONS_HALF]);
    json_put_number(w, "draws", r->draws);
    json_put_number(w, "moved_bytes", r->moved);
    json_put_number(w, "cached_bytes", r->cached);
    json_put_number(w, "memory_bytes", r->bandwidth);
    json_put_number(w, "fetched_bytes", r->fetched);
    json_put_number(w, "call_seconds", r->call_seconds);
    json_put_number(w, "file_read_bytes", r->file_read);
    json_put_number(w, "file_written_bytes", r->file_written);
    json_put_number(w, "scale", r->scale);
    json_end_object(w);
}

static void print_json(output *out, int threads, const device_rates *r, const device *gpu, const char *why,
                       const measured_library *libraries) {
    char name[DEVICE_NAME_BYTES];
    text t = { 0 };
    json_writer w = { .out = &t, .lines = true };
    json_begin_object(&w, NULL);
    json_put_string(&w, "processor", device_processor(name));
    json_put_integer(&w, "usable", threads_available());
    json_put_string(&w, "instructions", device_instructions());
    put_sets(&w);
    json_put_unsigned(&w, "memory_bytes", device_memory());
    json_put_unsigned(&w, "memory_nodes", (uint64_t)memory_nodes_shared(""));
    json_put_unsigned(&w, "free_bytes", device_available());
    json_put_unsigned(&w, "cache_bytes", (uint64_t)r->cache_bytes);
    json_put_integer(&w, "threads", threads);
    put_rates(&w, r);
    put_links(&w, &r->links);
    put_gpu(&w, gpu, why);
    put_libraries(&w, libraries);
    json_end_object(&w);
    text_add(&t, "\n");
    output_text(out, &t);
}

/* Libraries of the GPU that is here are measured by one process, which has it alone. */
static status show(const options *o, cli_streams *streams, int threads, const device_rates *r, bool alone) {
    char why[GPU_WHY_BYTES] = "";
    measured_library found[DEVICE_LIBRARIES];
    const device *named = device_default();
    if (o->run.device) TRY(device_find(o->run.device, &named));
    const device *gpu = gpu_here(named, why);
    bool libraries = o->measure && alone && gpu && gpu->library;
    if (libraries) TRY(measure_libraries(gpu, found));
    if (streams->people.file) {
        print(&streams->people, threads, r), print_gpu(&streams->people, gpu, why);
        if (libraries) print_libraries(&streams->people, found);
    }
    if (o->json) print_json(&streams->result, threads, r, gpu, why, libraries ? found : NULL);
    return STATUS_OK;
}

status cli_devices(const options *o, cli_streams *streams) {
    int threads = o->run.threads ? (int)o->run.threads : threads_available();
    launch l = { .world = 1 };
    if (o->measure) TRY(launch_find(&l));
    if (l.world > 1 && o->run.folder)
        return status_set(STATUS_INVALID,
                          "among several ranks links alone are measured, and no folder's disk; start "
                          "'snug devices --measure' by itself for that");
    if (l.world > 1 && !l.by_mpi)
        return status_set(STATUS_INVALID,
                          "%s started %d processes; links between processors are measured by MPI: start them "
                          "with mpirun -n %d",
                          l.launcher, l.world, l.world);
    if (l.world > 1)
        TRY(measure_links(&l));
    else if (o->measure)
        TRY(measure(&streams->people, threads, o->run.folder));
    device_rates r = rates_find(o->measure ? RATES_KNOWN : o->run.rates, device_default(), threads);
    char links_why[DEVICE_SOURCE_BYTES] = "";
    if (o->measure || o->run.rates != RATES_BUILT_IN) links_known(&r.links, links_why);
    if (links_why[0] && streams->people.file)
        output_add(&streams->people, "measured links are left out: %s\n", links_why);
    return show(o, streams, threads, &r, l.world == 1);
}
