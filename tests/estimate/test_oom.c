/* Messages on memory that ran out, in the spellings of several versions: what is read of them, and why it
 * was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "estimate/oom/oom.h"

#define MIB (1 << 20)
#define GIB (UINT64_C(1) << 30)

static oom read_text(const char *message) {
    oom m;
    assert_true(oom_read(message, strlen(message), &m));
    return m;
}

static bool near(uint64_t bytes, double gib) {
    double has = (double)bytes / (double)GIB;
    return has > gib - 0.006 && has < gib + 0.006;
}

static void old_messages_are_read(void **state) {
    (void)state;
    oom m = read_text(
        "RuntimeError: CUDA out of memory. Tried to allocate 236.00 MiB (GPU 3; 15.78 GiB total capacity; "
        "14.25 GiB already allocated; 183.50 MiB free; 14.34 GiB reserved in total by PyTorch)\n");
    assert_int_equal(m.kind, OOM_TORCH);
    assert_int_equal(m.gpu, 3);
    assert_true(m.tried == 236u * MIB && near(m.total, 15.78) && near(m.allocated, 14.25));
    assert_true(near(m.unallocated, 0.09) && near(m.free, 0.179));
    assert_int_equal(oom_why(&m).cause, OOM_FULL);
    m = read_text(
        "Tried to allocate 8.13 GiB (GPU 0; 10.76 GiB total capacity; 643.57 MiB already allocated; 8.20 GiB "
        "free; 32.43 MiB cached)");
    assert_true(near(m.unallocated, 0.0317) && oom_short(&m) == 0);
    m = read_text(
        "OutOfMemoryError: CUDA out of memory. Tried to allocate 50.00 MiB (GPU 0; 31.75 GiB total capacity; "
        "5.22 GiB already allocated; 44.69 MiB free; 5.22 GiB reserved in total by PyTorch)");
    assert_int_equal(oom_why(&m).cause, OOM_OTHERS); /* 26 GiB that nobody accounts for */
}

static void new_messages_are_read(void **state) {
    (void)state;
    oom m = read_text("[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 14.06 GiB. GPU "
                      "2 has a total capacity of "
                      "79.25 GiB of which 6.96 GiB is free. Including non-PyTorch memory, this process has "
                      "72.28 GiB memory in use. Of "
                      "the allocated memory 56.70 GiB is allocated by PyTorch, and 14.15 GiB is reserved by "
                      "PyTorch but unallocated.");
    assert_int_equal(m.gpu, 2);
    assert_true(near(m.tried, 14.06) && near(m.total, 79.25) && near(m.free, 6.96) && near(m.process, 72.28));
    assert_true(near(m.allocated, 56.70) && near(m.unallocated, 14.15) && m.others == 0);
    assert_int_equal(oom_why(&m).cause, OOM_FRAGMENTED);
    m = read_text(
        "Tried to allocate 57.93 GiB. GPU 0 has a total capacty of 79.35 GiB of which 17.27 GiB is free. "
        "Process 41187 has 62.08 GiB memory in use. Process 7 has 1.00 GiB memory in use. Of the allocated "
        "memory 60.67 GiB is allocated by PyTorch, and 11.17 MiB is reserved by PyTorch but unallocated.");
    assert_true(near(m.total, 79.35) && near(m.process, 62.08) && near(m.others, 1));
    assert_int_equal(oom_why(&m).cause, OOM_FULL);
    m = read_text(
        "Tried to allocate 2.00 GiB. GPU 0 has a total capacty of 79.35 GiB of which 1.27 GiB is free. "
        "Process 41187 has 62.08 GiB memory in use. Process 7 has 1.00 GiB memory in use. Of the allocated "
        "memory 14.00 GiB is allocated by PyTorch, and 11.17 MiB is reserved by PyTorch but unallocated.");
    assert_true(near(m.others, 63.08) && m.process == 0);
    assert_int_equal(oom_why(&m).cause, OOM_OTHERS);
    m = read_text(
        "HIP out of memory. Tried to allocate 80.00 GiB. GPU 0 has a total capacity of 39.50 GiB of which 0 "
        "bytes is free. Of the allocated memory 28.34 GiB is allocated by PyTorch, with 19.83 GiB allocated "
        "in "
        "private pools (e.g., CUDA Graphs), and 2.63 GiB is reserved by PyTorch but unallocated.");
    assert_true(near(m.pools, 19.83) && near(m.unallocated, 2.63) && m.free == 0);
    assert_int_equal(oom_why(&m).cause, OOM_TOO_LARGE);
}

/* In a container the driver knows a process by another number than itself does. */
static void who_holds_too_much_is_oneself(void **state) {
    (void)state;
    static const char message[] = "CUDA out of memory. Tried to allocate 2.04 GiB. GPU 0 has a total "
                                  "capacity of 23.64 GiB of which 1.02 GiB is "
                                  "free. Process 12345 has 22.60 GiB memory in use. Of the allocated memory "
                                  "20.10 GiB is allocated by PyTorch, "
                                  "and 1.70 GiB is reserved by PyTorch but unallocated.";
    oom m;
    assert_true(oom_read(message, sizeof message - 1, &m));
    assert_int_equal(m.others, 0);
    assert_true(m.process > m.allocated + m.unallocated);
    assert_int_equal(oom_why(&m).cause, OOM_FULL);
}

/* Of several that are all called by the driver's numbers, the one that PyTorch's bytes fit into best. */
static void ones_own_process_holds_what_one_has(void **state) {
    (void)state;
    static const char form[] =
        "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of "
        "79.15 GiB of which 1.00 GiB is free. Process 9 has 40.00 GiB memory in use. "
        "Process 12 has 21.00 GiB memory in use. Process 14 has 17.00 GiB memory in use. "
        "Of the allocated memory %s GiB is allocated by PyTorch, and 1.50 GiB is reserved "
        "by PyTorch but unallocated.";
    static const struct {
        const char *allocated;
        double process, others, unclear;
    } cases[] = { { "18.50", 21, 57, 0 }, /* neither the largest nor the smallest */
                  { "15.00", 17, 61, 0 },
                  { "30.00", 40, 38, 0 },
                  { "60.00", 0, 0, 78 } }; /* none of them can be it */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char message[1024];
        snprintf(message, sizeof message, form, cases[i].allocated);
        oom m = read_text(message);
        assert_true(near(m.process, cases[i].process) && near(m.others, cases[i].others));
        assert_true(near(m.unclear, cases[i].unclear));
    }
}

static void the_last_message_counts(void **state) {
    (void)state;
    oom m = read_text(
        "Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 8.00 GiB of which 1.00 MiB is free.\n"
        "... then ...\nTried to allocate 2.00 GiB. GPU 1 has a total capacity of 8.00 GiB of which 1.00 MiB "
        "is free.\n");
    assert_true(near(m.tried, 2) && m.gpu == 1);
}

static void vllm_is_read(void **state) {
    (void)state;
    oom m = read_text(
        "ValueError: The model's max seq len (131072) is larger than the maximum number of tokens that can "
        "be stored in KV cache (39024). Try increasing `gpu_memory_utilization`");
    assert_int_equal(m.kind, OOM_VLLM_LENGTH);
    assert_true(m.length == 131072 && m.room == 39024);
    m = read_text(
        "To serve at least one request with the models's max seq len (32768), (4.00 GiB KV cache is needed, "
        "which is larger than the available KV cache memory (3.55 GiB). Based on the available memory, the "
        "estimated maximum model length is 29072.");
    assert_true(m.kind == OOM_VLLM_LENGTH && m.room == 29072 && near(m.needed, 4) && near(m.available, 3.55));
    m = read_text(
        "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`");
    assert_int_equal(m.kind, OOM_VLLM_NO_CACHE);
    m = read_text(
        "ValueError: Free memory on device (12.50/23.64 GiB) on startup is less than desired GPU memory "
        "utilization (0.9, 21.28 GiB).");
    assert_true(m.kind == OOM_VLLM_NOT_FREE && near(m.free, 12.5) && near(m.total, 23.64) &&
                m.utilization == 0.9);
}

static const struct {
    oom_kind kind;
    uint64_t tried;
    int64_t gpu;
    bool killed;
    const char *text;
} tools[] = {
    { OOM_KILLED, 0, -1, true,
      "slurmstepd: error: Detected 1 oom_kill event in StepId=77.batch. Some of the step tasks have been "
      "OOM "
      "Killed." },
    { OOM_KILLED, 0, -1, true, "error: Detected 2 oom-kill event(s) in step 77.0 cgroup.\n" },
    { OOM_KILLED, 0, -1, true,
      "Some of your processes may have been killed by the cgroup out-of-memory handler." },
    { OOM_CUDA, 0, -1, false, "RuntimeError: CUDA error: out of memory\nCUDA kernel errors might be ..." },
    { OOM_CUDA, 0, -1, false, "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`" },
    { OOM_KILLED, 0, -1, true, "CUDA driver error: out of memory\n1 oom_kill event in StepId=7" },
    { OOM_LLAMA_CPP, 1294467072, 1, false,
      "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 1234.50 MiB on device 1: cudaMalloc "
      "failed: out "
      "of memory\nllama_model_load: error loading model: unable to allocate CUDA1 buffer" },
    { OOM_LLAMA_CPP, 0, -1, false, "cudaMalloc failed: out of memory" },
    { OOM_LLAMA_CPP, 0, 2, false,
      "CUDA error: out of memory\n  current device: 2, in function alloc at "
      "ggml/src/ggml-cuda/ggml-cuda.cu:1" },
    { OOM_HOST, 137438953472, -1, false,
      "RuntimeError: [enforce fail at alloc_cpu.cpp:75] err == 0. DefaultCPUAllocator: can't allocate "
      "memory: "
      "you tried to allocate 137438953472 bytes. Error code 12 (Cannot allocate memory)" },
    { OOM_XLA, 2147483648, -1, false,
      "XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 2147483648 bytes." },
    { OOM_XLA, 1610612736, -1, false, "RESOURCE_EXHAUSTED: Out of memory allocating 1.5GiB" },
    { OOM_TORCH, 2 * GIB, -1, false, "Tried to allocate 2.00 GiB.\n(exitcode: -9) local_rank: 3" },
    { OOM_TENSORFLOW, 128 * 3 * 8 * 4, 1, false,
      "OOM when allocating tensor with shape[128,3,8] and type float on /job:localhost/device:GPU:1 by "
      "allocator GPU_1_bfc" },
    { OOM_TENSORFLOW, 0, -1, false, "ResourceExhaustedError: OOM when allocating tensor with shape[7,8]" },
    { OOM_NCCL, 6291456, -1, false,
      "include/alloc.h:178 NCCL WARN Cuda failure 'out of memory'\nFailed to CUDA calloc 6291456 bytes" },
    { OOM_BITSANDBYTES, 0, -1, false, "Error out of memory at line 380 in file pythonInterface.c" },
    { OOM_SHARED, 0, -1, false,
      "RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error. It is possible ..." },
    { OOM_HOST, 62277025792, -1, false,
      "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 58.0 GiB for an array with shape (7, "
      "8)" },
    { OOM_HOST, 926 * GIB, -1, false,
      "MemoryError: Unable to allocate 926. GiB for an array with shape (7, 8)" },
    { OOM_HOST, 0, -1, false, "The paging file is too small for this operation to complete." },
    { OOM_KILLED, 39349633024, -1, true, "=>> PBS: job killed: mem 38427376kb exceeded limit 33554432kb" },
    { OOM_KILLED, 3372163072, -1, true, "=>> PBS: job killed: vmem 3372163072 exceeded limit 2147483648" },
    { OOM_KILLED, 0, -1, true, "failed (exitcode: -9) local_rank: 0 (pid: 7) of binary: python" },
    { OOM_KILLED, 0, -1, true, "job/slurm_script: line 28:  8156 Killed                  python3 main.py" },
    { OOM_KILLED, 0, -1, true, "$ python3 main.py\nKilled\n$ " },
    { OOM_WORDS, 0, -1, false, "it ends with CUDA out of memory." },
    { OOM_TORCH, 2 * GIB, -1, true, "Tried to allocate 2.00 GiB.\nslurmstepd: Detected 1 oom_kill event" },
};

static void other_tools_are_read(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof tools / sizeof *tools; i++) {
        oom m = read_text(tools[i].text);
        if (m.kind != tools[i].kind || m.tried != tools[i].tried || m.gpu != tools[i].gpu ||
            m.killed != tools[i].killed)
            fail_msg("%s: kind %d, %llu bytes, device %lld, killed %d", tools[i].text, (int)m.kind,
                     (unsigned long long)m.tried, (long long)m.gpu, m.killed);
    }
}

/* A program that knows the words holds them between zeros; numbers that cannot be are no message's. */
static void programs_are_no_messages(void **state) {
    (void)state;
    static const char program[] =
        "\177ELF\0\n\0Tried to allocate 7 GiB\0Free memory on device\0oom_kill event\0"
        "CUBLAS_STATUS_ALLOC_FAILED\0RESOURCE_EXHAUSTED\0emory\0cudaMalloc failed: out of "
        "memory\0No available memory for the cache blocks\0max seq len (7)\0";
    static const char *const texts[] = {
        "Free memory on device",
        "Free memory on device (%.2f/%.2f GiB) GPU memory utilization (",
        "Free memory on device (12.50/23.64 GiB), GPU memory utilization (0, 21.28 GiB)",
        "Free memory on device (12.50/23.64 GiB), GPU memory utilization (1.5, 21.28 GiB)",
        "Free memory on device (12.50/0.00 GiB), GPU memory utilization (0.9, 21.28 GiB)",
        "RESOURCE_EXHAUSTED: quota of requests"
    };
    oom m;
    assert_false(oom_read(program, sizeof program, &m));
    assert_false(oom_read("\noom_kill event\0\n", 17, &m)); /* before and behind, each alone */
    assert_false(oom_read("\n\0oom_kill event\n", 17, &m));
    assert_true(oom_read("\0\noom_kill event\n\0", 18, &m)); /* a log that was cut while it was written */
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (oom_read(texts[i], strlen(texts[i]), &m)) fail_msg("'%s' was read", texts[i]);
    m = read_text("Free memory on device cuda:0 (12.50/23.64 GiB) on startup is less than desired GPU memory "
                  "utilization (1.0, 23.64 GiB)");
    assert_true(near(m.free, 12.5) && m.utilization == 1.0);
}

static void what_is_no_message_is_none(void **state) {
    (void)state;
    static const char *const texts[] = { "",
                                         "Killed by a bug",
                                         "ZOOM and ROOM",
                                         "\"OOMKilled\": false",
                                         "failed to allocate 7 things",
                                         "OOMph, and no space left on device",
                                         "Tried to allocate",
                                         "Tried to allocate x MiB",
                                         "Tried to allocate 0 bytes",
                                         "max seq len (7)",
                                         "Tried to allocate 7 XiB" };
    oom m;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (oom_read(texts[i], strlen(texts[i]), &m)) fail_msg("'%s' was read", texts[i]);
    m = read_text("Tried to allocate 99999999999999999999999.99 TiB"); /* and nothing overflows */
    assert_true(m.tried == UINT64_C(1000000000000000000));
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(old_messages_are_read),
                                        cmocka_unit_test(new_messages_are_read),
                                        cmocka_unit_test(who_holds_too_much_is_oneself),
                                        cmocka_unit_test(ones_own_process_holds_what_one_has),
                                        cmocka_unit_test(the_last_message_counts),
                                        cmocka_unit_test(other_tools_are_read),
                                        cmocka_unit_test(programs_are_no_messages),
                                        cmocka_unit_test(vllm_is_read),
                                        cmocka_unit_test(what_is_no_message_is_none) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
