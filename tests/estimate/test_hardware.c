/* Devices that have a name: all are read, what they say is possible, and words that people type find them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/text.h"
#include "estimate/hardware_files.h"

#define GIB 1073741824.0
#define MIB 1048576.0

static hardware device(const char *name) {
    hardware h;
    if (hardware_find(name, &h) != STATUS_OK) fail_msg("%s: %s", name, status_message());
    return h;
}

/* The smallest size that is sold and not less than what is reported. */
static double sold(double gib) {
    static const int sizes[] = { 4,  6,  8,  10, 11, 12,  16,  18,  20,  24,  32,  36,  40,  44,  48, 64,
                                 70, 72, 80, 94, 96, 128, 141, 144, 180, 186, 192, 256, 268, 288, 512 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (gib <= sizes[i]) return sizes[i];
    return 0;
}

static void every_device_is_read_and_possible(void **state) {
    (void)state;
    assert_true(hardware_count() >= 290);
    for (uint32_t i = 0; i < hardware_count(); i++) {
        const char *name = hardware_name(i);
        hardware h = device(name);
        double reported = (double)(h.memory + h.leaves) / GIB;
        assert_string_equal(h.name, name);
        if (strstr(name, "-mig-")) continue; /* a part of a device has no size of its own */
        if (reported < 0.9 * sold(reported)) fail_msg("%s: %.2f GiB is no size that is sold", name, reported);
        if (!(h.bandwidth > 5e10 && h.bandwidth < 1e13)) fail_msg("%s: bandwidth %g", name, h.bandwidth);
        if ((h.f32 && h.f32 < 1e12) || (h.f16 && h.f16 < h.f32 / 70) || (h.f8 && h.f8 < h.f16))
            fail_msg("%s: %g, %g, %g operations a second", name, h.f32, h.f16, h.f8);
        assert_true(h.context[0] > 0 && h.context[0] <= h.context[1] && h.context[1] <= h.context[2]);
        assert_true(h.context[2] < h.memory / 2);
    }
}

/* "rtx-3080-12" reports at most 12 GiB, and no size that is sold lies between. */
static void a_size_in_the_name_is_the_device_s(void **state) {
    (void)state;
    for (uint32_t i = 0; i < hardware_count(); i++) {
        const char *name = hardware_name(i), *last = strrchr(name, '-');
        char *end;
        if (!last || strstr(name, "-mig-")) continue;
        long size = strtol(last + 1, &end, 10);
        hardware h = device(name);
        double reported = (double)(h.memory + h.leaves) / GIB;
        if (*end || end == last + 1 || size > 1024) continue; /* rtx-4090 */
        if (reported > (double)size || reported < 0.9 * (double)size)
            fail_msg("%s reports %.2f GiB", name, reported);
    }
}

static void no_two_are_one(void **state) {
    (void)state;
    static hardware all[512];
    assert_true(hardware_count() < 512);
    for (uint32_t i = 0; i < hardware_count(); i++) {
        all[i] = device(hardware_name(i));
        assert_int_equal(hardware_meant(hardware_name(i)), i);
        for (uint32_t j = 0; j < i; j++) assert_string_not_equal(all[i].title, all[j].title);
        assert_non_null(strstr(hardware_names(), hardware_name(i)));
    }
}

/* "about" is the mark of a value that nobody published: the interval is wider for it, by a part of the
 * memory. */
static void memory_by_a_rule_widens_the_interval(void **state) {
    (void)state;
    int by_rule = 0;
    for (uint32_t i = 0; i < hardware_count(); i++) {
        hardware h = device(hardware_name(i));
        uint64_t above = h.context[2] - h.context[1], wider = (h.memory + h.leaves) / 64;
        if (!h.memory_by_rule) continue;
        by_rule++;
        if (above < wider) fail_msg("%s: its interval is no wider", h.name);
    }
    assert_true(by_rule > 0);
}

/* Of NVIDIA's the driver keeps 360 MiB and 4.5 MiB a GiB, which is what the published ones say within 1.5 %.
 */
static void published_memory_is_near_the_rule(void **state) {
    (void)state;
    int published = 0;
    for (uint32_t i = 0; i < hardware_count(); i++) {
        hardware h = device(hardware_name(i));
        const hardware_file *table = hardware_text(i);
        if (strncmp(table->name, "geforce", 7) != 0 || h.memory_by_rule) continue;
        double gib = sold((double)h.memory / GIB), rule = gib * GIB - (360 + 4.5 * gib) * MIB;
        published++;
        if ((double)h.memory < 0.985 * rule || (double)h.memory > 1.03 * rule)
            fail_msg("%s: %.3f of the rule", h.name, (double)h.memory / rule);
    }
    assert_true(published >= 4);
}

/* Each table says where its figures come from, and each row that is not by a rule where its memory does. */
static void every_source_is_named(void **state) {
    (void)state;
    for (const hardware_file *x = hardware_files; x->name; x++) assert_non_null(strstr(x->text, "# http"));
    for (const hardware_file *x = hardware_tables; x->name; x++) {
        char line[1024];
        bool unified = strstr(x->text, "leaves,") != NULL; /* its head says it for all sizes */
        assert_non_null(strstr(x->text, "# http"));
        for (const char *at = x->text; *at; at += strcspn(at, "\n"), at += *at == '\n') {
            snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
            char *row = strstr(line, ": [");
            if (line[0] == '#' || !row || strncmp(line, "each", 4) == 0 || strncmp(line, "cannot", 6) == 0 ||
                strncmp(line, "context", 7) == 0)
                continue;
            if (!unified && !strstr(row, "about ") && !strstr(row, "https://"))
                fail_msg("no source: %s", line);
        }
    }
}

static const struct {
    const char *said, *name;
} typed[] = {
    { "4090", "rtx-4090" },
    { "RTX 4090", "rtx-4090" },
    { "RTX4090", "rtx-4090" },
    { "NVIDIA GeForce RTX 4090", "rtx-4090" },
    { "NVIDIA GeForce RTX 4090 Laptop GPU", "rtx-4090-laptop" },
    { "4090 mobile", "rtx-4090-laptop" },
    { "2080ti", "rtx-2080-ti" },
    { "3060 12GB", "" }, /* "rtx-3060" has 12 already */
    { "3080 12GB", "rtx-3080-12" },
    { "rtx_4070_ti_super", "rtx-4070-ti-super" },
    { "a100-80gb", "a100-80" },
    { "A100 40G", "a100-40" },
    { "NVIDIA A100-SXM4-80GB", "a100-80" },
    { "NVIDIA A100-PCIE-40GB", "a100-40" },
    { "NVIDIA H100 80GB HBM3", "h100-80" },
    { "NVIDIA H100 NVL", "h100-94" },
    { "Tesla V100-SXM2-16GB", "v100-16" },
    { "Tesla T4", "t4" },
    { "AMD Instinct MI300X", "mi300x" },
    { "MI250", "mi250" },
    { "7900 XTX", "rx-7900-xtx" },
    { "AMD Radeon RX 7900 XTX", "rx-7900-xtx" },
    { "A6000", "rtx-a6000" },
    { "NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada" },
    { "NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "rtx-pro-6000" },
    { "NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000-server" },
    { "RTX 8000", "quadro-rtx-8000" },
    { "NVIDIA H100 PCIe", "h100-80-pcie" },
    { "NVIDIA GB10", "gb10" },
    { "DGX Spark", "gb10" },
    { "Apple M2 Max 64GB", "m2-max-64" },
    { "m4 max 128", "m4-max-128" },
    { "Tesla P100-PCIE-16GB", "p100-16" },
    { "NVIDIA A30", "a30" },
    { "1080 Ti", "gtx-1080-ti" },
    { "NVIDIA GeForce GTX 1660 SUPER", "gtx-1660-super" },
    { "1660 super", "gtx-1660-super" },
    { "NVIDIA GeForce GTX 1060 6GB", "gtx-1060-6" },
    { "NVIDIA H200 NVL", "h200" },
    { "NVIDIA GH200 480GB", "gh200-96" },
    { "NVIDIA GH200 120GB", "gh200-96" },
    { "NVIDIA A100-SXM-64GB", "a100-64" },
    { "AMD Instinct MI250X/MI250", "mi250x" },
    { "NVIDIA Thor", "jetson-thor" },
    { "NVIDIA RTX PRO 4000 Blackwell", "rtx-pro-4000" },
    { "NVIDIA RTX PRO 5000 Blackwell Generation Laptop GPU", "rtx-pro-5000-laptop" },
    { "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "rtx-pro-6000-max-q" },
    { "NVIDIA GeForce RTX 3050 4GB Laptop GPU", "rtx-3050-laptop" },
    { "AMD Radeon RX 6700M", "rx-6700m" },
};

static void words_that_people_type(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof typed / sizeof *typed; i++) {
        uint32_t found = hardware_meant(typed[i].said);
        const char *name = found < hardware_count() ? hardware_name(found) : "";
        if (strcmp(name, typed[i].name) != 0) fail_msg("%s is %s", typed[i].said, name);
    }
}

static void what_is_not_known_is_answered_with_the_nearest(void **state) {
    (void)state;
    static const struct {
        const char *said, *near;
    } words[] = { { "A100", "did you mean a100-40 or a100-80 or a100-64?" },
                  { "AMD Ryzen AI MAX+ 395 w/ Radeon 8060S", "did you mean strix-halo-128 or" },
                  { "Radeon 8060S Graphics", "did you mean strix-halo-128 or" },
                  { "Orin", "jetson-agx-orin-64 or" },
                  { "M2 Max", "did you mean m2-max-32 or m2-max-64 or m2-max-96?" },
                  { "NVIDIA V100", "did you mean v100-16 or v100-32 or v100s-32?" },
                  { "rtx-4091", "did you mean rtx-4090?" },
                  { "rtx-40", "more that begin so?" },
                  { "quantum", "devices have a name" } };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        hardware h;
        assert_int_equal(hardware_find(words[i].said, &h), STATUS_INVALID);
        if (!strstr(status_message(), words[i].near)) fail_msg("%s", status_message());
    }
}

/* ---- docs/devices.md ---- */

static const char PAGE[] = SNUG_ROOT "/docs/devices.md",
                  HEAD[] = "| device | what it is | reports | left to the machine |\n|---|---|---|---|\n";

static void make_list(text *t) {
    for (uint32_t i = 0; i < hardware_count(); i++) {
        hardware h = device(hardware_name(i));
        text_add(t, "| `%s` | %s | %s%.2f GiB | ", h.name, h.title, h.memory_by_rule ? "about " : "",
                 (double)(h.memory + h.leaves) / GIB);
        text_add(t, h.leaves ? "%.2f GiB |\n" : "|\n", (double)h.leaves / GIB);
    }
}

static void the_page_lists_all_devices(void **state) {
    (void)state;
    static char all[1 << 17];
    text list = { 0 };
    FILE *f = fopen(PAGE, "r");
    assert_non_null(f);
    all[fread(all, 1, sizeof all - 1, f)] = 0;
    fclose(f);
    char *begin = strstr(all, HEAD);
    assert_non_null(begin);
    begin += strlen(HEAD);
    make_list(&list);
    bool same = strcmp(begin, list.data) == 0;
    if (!same && getenv("SNUG_WRITE_DEVICES")) {
        f = fopen(PAGE, "w");
        assert_non_null(f);
        fprintf(f, "%.*s%s", (int)(begin - all), all, list.data);
        assert_int_equal(fclose(f), 0);
    } else if (!same) {
        fail_msg("docs/devices.md is not what devices/ has; SNUG_WRITE_DEVICES=1 %s writes it",
                 "build/test_hardware");
    }
    text_close(&list);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_device_is_read_and_possible),
        cmocka_unit_test(a_size_in_the_name_is_the_device_s),
        cmocka_unit_test(no_two_are_one),
        cmocka_unit_test(memory_by_a_rule_widens_the_interval),
        cmocka_unit_test(published_memory_is_near_the_rule),
        cmocka_unit_test(every_source_is_named),
        cmocka_unit_test(words_that_people_type),
        cmocka_unit_test(what_is_not_known_is_answered_with_the_nearest),
        cmocka_unit_test(the_page_lists_all_devices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
