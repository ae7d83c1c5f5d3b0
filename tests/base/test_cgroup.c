/* Limits of control groups, read from trees of files that look like those of Linux. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "../io/scratch.h"
#include "base/cgroup.h"

/* A file of the tree `root`, with the folders above it. */
static void put(const char *root, const char *path, const char *text) {
    char whole[512];
    snprintf(whole, sizeof whole, "%s/%s", root, path);
    for (char *at = whole + 1; (at = strchr(at, '/')); at++) {
        *at = 0;
        mkdir(whole, 0777);
        *at = '/';
    }
    scratch_write(whole, text, strlen(text));
}

static void nothing_to_read_limits_nothing(void **state) {
    (void)state;
    cgroup_limits l = cgroup_read("nowhere");
    assert_true(l.processors <= 0 && l.memory == UINT64_MAX && l.memory_left == UINT64_MAX);
}

/* The process is three groups deep; each has less of something than the others. */
static void version_2_counts_every_level(void **state) {
    (void)state;
    put("v2", "proc/self/cgroup", "0::/a/b/c\n");
    put("v2", "proc/self/mountinfo",
        "22 1 0:5 / /proc rw - proc proc rw\n31 22 0:28 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 "
        "cgroup2 rw,nsdelegate\n");
    put("v2", "sys/fs/cgroup/a/cpu.max", "150000 100000\n");
    put("v2", "sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    put("v2", "sys/fs/cgroup/a/b/c/cpu.max", "400000 100000\n");
    put("v2", "sys/fs/cgroup/a/memory.max", "5000\n");
    put("v2", "sys/fs/cgroup/a/memory.current", "4600\n");
    put("v2", "sys/fs/cgroup/a/memory.stat", "anon 12\ninactive_file 100\nactive_file 7\n");
    put("v2", "sys/fs/cgroup/a/b/memory.max", "max\n");
    put("v2", "sys/fs/cgroup/a/b/c/memory.max", "3000\n");
    put("v2", "sys/fs/cgroup/a/b/c/memory.current", "1000\n");
    put("v2", "sys/fs/cgroup/a/b/c/memory.stat", "inactive_file 900\n");
    cgroup_limits l = cgroup_read("v2");
    assert_true(l.processors > 1.49 && l.processors < 1.51);
    assert_int_equal(l.memory, 3000);
    assert_int_equal(l.memory_left, 500); /* of the outer group; the inner one has 2900 */
}

/* A container's view: the mount shows its own branch only, the path is the one outside. */
static void a_mounted_branch_is_found(void **state) {
    (void)state;
    put("box", "proc/self/cgroup", "0::/docker/0123/inner\n");
    put("box", "proc/self/mountinfo", "31 22 0:28 /docker/0123 /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
    put("box", "sys/fs/cgroup/inner/cpu.max", "300000 100000\n");
    put("box", "sys/fs/cgroup/cpu.max", "200000 100000\n");
    cgroup_limits l = cgroup_read("box");
    assert_true(l.processors > 1.99 && l.processors < 2.01);
    put("box", "proc/self/cgroup", "0::/../elsewhere\n"); /* not below the mount: its top counts */
    l = cgroup_read("box");
    assert_true(l.processors > 1.99 && l.processors < 2.01);
}

static void version_1_has_a_tree_for_each(void **state) {
    (void)state;
    put("v1", "proc/self/cgroup", "4:memory:/job/step\n3:cpuacct,cpu:/job\n1:name=systemd:/\n0::/\n");
    put("v1", "proc/self/mountinfo",
        "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
        "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
        "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    put("v1", "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
    put("v1", "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    put("v1", "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "250000\n");
    put("v1", "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
    put("v1", "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("v1", "sys/fs/cgroup/memory/job/memory.limit_in_bytes", "7000\n");
    put("v1", "sys/fs/cgroup/memory/job/memory.usage_in_bytes", "1500\n");
    put("v1", "sys/fs/cgroup/memory/job/memory.stat", "inactive_file 1\ntotal_inactive_file 500\n");
    put("v1", "sys/fs/cgroup/memory/job/step/memory.limit_in_bytes", "8000\n");
    put("v1", "sys/fs/cgroup/memory/job/step/memory.usage_in_bytes", "100\n");
    cgroup_limits l = cgroup_read("v1");
    assert_true(l.processors > 2.49 && l.processors < 2.51);
    assert_int_equal(l.memory, 7000);
    assert_int_equal(l.memory_left, 6000);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(nothing_to_read_limits_nothing),
                                        cmocka_unit_test(version_2_counts_every_level),
                                        cmocka_unit_test(a_mounted_branch_is_found),
                                        cmocka_unit_test(version_1_has_a_tree_for_each) };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
