/* Memory of servers with several nodes: which nodes a process computes on, and that pages are dealt to them.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <linux/mempolicy.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../io/scratch.h"
#include "device/cpu/memory_nodes.h"

static void put_node(unsigned node, const char *processors) {
    char path[128];
    mkdir("sys", 0777), mkdir("sys/devices", 0777), mkdir("sys/devices/system", 0777);
    mkdir("sys/devices/system/node", 0777);
    snprintf(path, sizeof path, "sys/devices/system/node/node%u", node);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "sys/devices/system/node/node%u/cpulist", node);
    scratch_write(path, processors, strlen(processors));
}

static void put_mask(cpu_set_t *mask, unsigned first, unsigned last) {
    CPU_ZERO(mask);
    for (unsigned cpu = first; cpu <= last; cpu++) CPU_SET(cpu, mask);
}

/* Two sockets with the second processors of their cores at the end, a node of memory alone, and one far away.
 */
static void nodes_are_those_of_the_processors(void **state) {
    (void)state;
    cpu_set_t mask;
    uint64_t nodes[MEMORY_NODES_WORDS];
    put_mask(&mask, 0, 63);
    assert_int_equal(memory_nodes_of("./nowhere", &mask, nodes), 0);
    put_node(0, "0-15,32-47\n"), put_node(1, "16-31,48-63\n"), put_node(2, "\n"), put_node(70, "900\n");
    assert_int_equal(memory_nodes_of(".", &mask, nodes), 2);
    assert_true(nodes[0] == 3 && nodes[1] == 0);
    put_mask(&mask, 20, 31);
    assert_int_equal(memory_nodes_of(".", &mask, nodes), 1);
    assert_true(nodes[0] == 2);
    put_mask(&mask, 48, 48);
    assert_int_equal(memory_nodes_of(".", &mask, nodes), 1);
    assert_true(nodes[0] == 2);
    put_mask(&mask, 47, 47), CPU_SET(900, &mask);
    assert_int_equal(memory_nodes_of(".", &mask, nodes), 2);
    assert_true(nodes[0] == 1 && nodes[1] == 1 << 6);
    put_node(0, "damaged"), put_node(1, "3-"), put_node(70, "1-900000000\n");
    put_mask(&mask, 900, 900);
    assert_int_equal(memory_nodes_of(".", &mask, nodes), 1);
    assert_true(nodes[0] == 0 && nodes[1] == 1 << 6);
}

/* What the system says of the page there. */
static int policy_at(void *page) {
    int mode = -1;
    return syscall(SYS_get_mempolicy, &mode, NULL, 0, page, MPOL_F_ADDR) == 0 ? mode : -1;
}

/* This machine's first node stands for several: the call is the same. */
static void pages_are_dealt(void **state) {
    (void)state;
    enum { BYTES = 1 << 20 };
    uint64_t nodes[MEMORY_NODES_WORDS] = { 1 }, none[MEMORY_NODES_WORDS] = { 0 };
    char *pages = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED);
    if (policy_at(pages) < 0) {
        print_message("skipped: the system tells no policy of memory: %s\n", strerror(errno));
        munmap(pages, BYTES);
        skip();
    }
    assert_int_equal(policy_at(pages), MPOL_DEFAULT);
    assert_false(memory_nodes_deal(pages, BYTES, none));
    assert_int_equal(policy_at(pages), MPOL_DEFAULT);
    assert_true(memory_nodes_deal(pages, BYTES, nodes));
    assert_int_equal(policy_at(pages), MPOL_INTERLEAVE);
    memset(pages, 1, BYTES);
    munmap(pages, BYTES);
}

/* A page of a process that two nodes share: the policy it got. */
static int policy_of_new(int shared) {
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(page != MAP_FAILED);
    assert_int_equal(memory_nodes_shared("."), shared);
    assert_int_equal(memory_nodes_spread(".", page, 4096), shared);
    int policy = policy_at(page);
    munmap(page, 4096);
    return policy;
}

/* Who began this process with `numactl` has said where memory is to lie. Both nodes have all processors, and
 * of the second there is none here: the system takes what there is. */
static void the_users_wish_stays(void **state) {
    (void)state;
    uint64_t nodes[MEMORY_NODES_WORDS] = { 1 };
    put_node(0, "0-1023\n"), put_node(1, "0-1023\n"), put_node(2, "\n"), put_node(70, "\n");
    if (syscall(SYS_set_mempolicy, MPOL_BIND, nodes, MEMORY_NODES_MOST + 1) != 0) {
        print_message("skipped: the system takes no policy of memory: %s\n", strerror(errno));
        skip();
    }
    assert_int_not_equal(policy_of_new(1), MPOL_INTERLEAVE);
    assert_int_equal(syscall(SYS_set_mempolicy, MPOL_DEFAULT, NULL, 0), 0);
    assert_int_equal(policy_of_new(2), MPOL_INTERLEAVE);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(nodes_are_those_of_the_processors),
                                        cmocka_unit_test(pages_are_dealt),
                                        cmocka_unit_test(the_users_wish_stays) };
    return cmocka_run_group_tests(tests, scratch_open, scratch_close);
}
