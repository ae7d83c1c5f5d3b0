/* What is said where the host's memory ran out, and by those who guard it. */
#include <ctype.h>
#include <string.h>

#include "estimate/oom/readers.h"

static bool read_torch_cpu(span s, span all, oom *o) {
    (void)all;
    o->backend = OOM_ON_HOST;
    o->tried = span_size(span_behind(s, "tried to allocate "));
    return o->tried > 0;
}

/* Unable to allocate 58.0 GiB for an array: numpy. Its "201. GiB" has no digit behind the point. */
static bool read_array(span s, span all, oom *o) {
    (void)all;
    o->backend = OOM_ON_HOST;
    o->tried = span_size(s);
    return span_behind(s, "array").at;
}

/* model requires more system memory (12.3 GiB) than is available (8.0 GiB): Ollama. */
static bool read_requires(span s, span all, oom *o) {
    (void)all;
    o->backend = OOM_ON_HOST;
    o->tried = span_size(s);
    o->free = span_size(span_behind(s, "available ("));
    o->free_said = o->free > 0;
    return o->tried > 0;
}

static bool read_pinned(span s, span all, oom *o) {
    (void)all;
    o->backend = OOM_ON_HOST;
    o->tried = span_size(span_behind(s, "of size: "));
    if (!o->tried) o->tried = (uint64_t)span_count(span_behind(s, "of size: "), 0);
    return true;
}

/* Extensions throw it for the device's memory too, and say so. */
static bool read_memory_error(span s, span all, oom *o) {
    (void)all;
    span line = span_line(&s);
    o->backend = OOM_ON_HOST;
    return !span_has(line, "cuda");
}

static bool read_host(span s, span all, oom *o) {
    (void)s, (void)all;
    o->backend = OOM_ON_HOST;
    return true;
}

static bool killed_by(oom_kill how, oom *o) {
    o->backend = OOM_ON_HOST;
    o->kill = how;
    return true;
}

static bool read_limit(span s, span all, oom *o) {
    (void)s, (void)all;
    return killed_by(OOM_KILL_LIMIT, o);
}

/* Docker's and Kubernetes': also said of what was not. */
static bool read_flag(span s, span all, oom *o) {
    (void)all;
    static const char no[] = "\": false";
    size_t n = sizeof no - 1;
    if ((size_t)(s.end - s.at) >= n && memcmp(s.at, no, n) == 0) return false;
    return killed_by(OOM_KILL_LIMIT, o);
}

/* PBS: job killed: mem 38427376kb exceeded limit 33554432kb; Torque's without a unit are bytes. */
static uint64_t bytes_or_count(span s) {
    uint64_t bytes = span_size(s);
    return bytes || !s.at ? bytes : (uint64_t)span_count(s, 0);
}

static bool read_pbs(span s, span all, oom *o) {
    (void)all;
    span mem = span_behind(s, "mem "), job = span_behind(s, "mem job total ");
    o->tried = bytes_or_count(job.at ? job : mem);
    o->allowed = bytes_or_count(span_behind(s, "exceeded limit "));
    o->units = span_behind(s, "kb").at ? OOM_KB : OOM_GIB;
    return mem.at && killed_by(OOM_KILL_LIMIT, o);
}

/* Killed process 25315 (python3) total-vm:..., anon-rss:31451456kB: of the kernel, for a control group or the
 * machine. */
static bool read_kernel(span s, span all, oom *o) {
    o->process = span_size(span_behind(s, "anon-rss:"));
    bool group = span_behind(all, "emory cgroup out of memory").at || span_behind(all, "CONSTRAINT_MEMCG").at;
    return killed_by(group ? OOM_KILL_LIMIT : OOM_KILL_SYSTEM, o);
}

static bool read_signal(span s, span all, oom *o) {
    (void)s, (void)all;
    return killed_by(OOM_KILL_SIGNAL, o);
}

/* DeepSpeed's launcher ends the other processes after any failure: it is memory only where none is told. */
static bool read_launcher(span s, span all, oom *o) {
    if (span_behind(all, "Error").at || span_behind(all, "Traceback").at) return false;
    return read_signal(s, all, o);
}

/* The shell's: line 28: 8156 Killed python3 main.py */
static bool read_shell(span s, span all, oom *o) {
    double line, id;
    (void)all;
    if (!span_number(&s, &line) || s.at == s.end || *s.at != ':') return false;
    s.at++;
    static const char word[] = " Killed ";
    size_t n = sizeof word - 1;
    if (!span_number(&s, &id) || (size_t)(s.end - s.at) < n || memcmp(s.at, word, n) != 0) return false;
    return killed_by(OOM_KILL_SIGNAL, o);
}

/* A line that is nothing but that word, as shells print it, whatever is drawn or quoted around it. */
static bool read_word(span s, span all, oom *o) {
    static const char word[] = "Killed";
    for (span line = span_line(&all); line.at; line = span_line(&all)) {
        while (line.at < line.end && !isalnum((unsigned char)*line.at)) line.at++;
        while (line.at < line.end && !isalnum((unsigned char)line.end[-1])) line.end--;
        if ((size_t)(line.end - line.at) == sizeof word - 1 && memcmp(line.at, word, sizeof word - 1) == 0)
            return read_signal(s, all, o);
    }
    return false;
}

/* srun's: error: n7: task 0: Out Of Memory */
static bool read_task(span s, span all, oom *o) {
    return (span_behind(all, "srun").at || span_behind(all, "slurm").at) && read_limit(s, all, o);
}

/* No file of a disk, but one that processes share. */
static bool read_no_space(span s, span all, oom *o) {
    bool shared = span_behind(all, "shm").at || span_behind(all, "torch_").at ||
                  span_behind(all, "haredMemory").at || span_behind(all, "shared memory").at;
    return shared && read_host(s, all, o);
}

static bool read_bus(span s, span all, oom *o) {
    bool shared =
        span_has(all, "worker") || span_has(all, "loader") || span_has(all, "shm") || span_has(all, "docker");
    return shared && read_host(s, all, o);
}

/* Those of shared memory come first: they name what is to be done. */
const oom_message oom_messages_host[] = {
    { OOM_SHARED, "insufficient shared memory", read_host },
    { OOM_SHARED, "out of shared memory", read_host },
    { OOM_SHARED, "is killed by signal: Bus", read_host },
    { OOM_SHARED, "shared memory segment /dev/shm", read_host },
    { OOM_SHARED, "failed to extend /dev/shm", read_host },
    { OOM_SHARED, "unable to write to file </torch_", read_host },
    { OOM_SHARED, "unable to allocate shared memory", read_host },
    { OOM_SHARED, "No space left on device", read_no_space },
    { OOM_SHARED, "Bus error", read_bus },
    { OOM_HOST, "DefaultCPUAllocator: ", read_torch_cpu },
    { OOM_HOST, "not enough memory: you ", read_torch_cpu },
    { OOM_HOST, "MemoryError: Unable to allocate ", read_array },
    { OOM_HOST, "Unable to allocate ", read_array },
    { OOM_HOST, "could not allocate pinned host memory", read_pinned },
    { OOM_HOST, "paging file is too small", read_host },
    { OOM_HOST, "\xe9\xa1\xb5\xe9\x9d\xa2\xe6\x96\x87\xe4\xbb\xb6\xe5\xa4\xaa\xe5\xb0\x8f",
      read_host }, /* Windows' in Chinese: the paging file */
    { OOM_HOST, "memory resources are available", read_host },
    { OOM_HOST, "bytes on host: CUDA_ERROR", read_host },
    { OOM_HOST, "runtime: out of memory", read_host },
    { OOM_HOST, "heap out of memory", read_host },
    { OOM_HOST, "std::bad_alloc", read_host },
    { OOM_HOST, "requires more system memory ", read_requires },
    { OOM_HOST, "annot allocate memory", read_host },
    { OOM_HOST, "\nMemoryError", read_memory_error },
    { OOM_HOST, " MemoryError", read_memory_error },
    { OOM_HOST, ".MemoryError", read_memory_error },
    { OOM_HOST, "ggml_cuda_host_malloc: failed", read_host },
    { OOM_KILLED, "oom_kill event", read_limit },
    { OOM_KILLED, "oom-kill event", read_limit },
    { OOM_KILLED, "cgroup out-of-memory handler", read_limit },
    { OOM_KILLED, "PBS: job killed: ", read_pbs },
    { OOM_KILLED, "exceeded a memory resource limit", read_limit },
    { OOM_KILLED, "xceeded job memory limit", read_limit },
    { OOM_KILLED, "xceeded step memory limit", read_limit },
    { OOM_KILLED, "xceeded memory limit", read_limit },
    { OOM_KILLED, "xceeded virtual memory limit", read_limit },
    { OOM_KILLED, "for exceeding memory limits", read_limit },
    { OOM_KILLED, "OUT_OF_ME+", read_limit },
    { OOM_KILLED, "State: OUT_OF_MEMORY", read_limit },
    { OOM_KILLED, "State=OUT_OF_MEMORY", read_limit },
    { OOM_KILLED, ": Out Of Memory", read_task },
    { OOM_KILLED, "due to memory pressure", read_limit },
    { OOM_KILLED, "Result: oom-kill", read_limit },
    { OOM_KILLED, "result 'oom-kill'", read_limit },
    { OOM_KILLED, "causing the Operating System to kill", read_signal },
    { OOM_KILLED, "subprocesses has abruptly died", read_signal },
    { OOM_KILLED, "process pool was terminated abruptly", read_signal },
    { OOM_KILLED, "kernel appears to have died", read_signal },
    { OOM_KILLED, "TERM_MEMLIMIT", read_limit },
    { OOM_KILLED, "node running low on memory", read_limit },
    { OOM_KILLED, "OOMKilled", read_flag },
    { OOM_KILLED, "Killed process ", read_kernel },
    { OOM_KILLED, "Memory cgroup out of memory", read_kernel },
    { OOM_KILLED, "oom-kill:constraint", read_kernel },
    { OOM_KILLED, "invoked oom-killer", read_kernel },
    { OOM_KILLED, "oom_reaper: reaped process", read_kernel },
    { OOM_KILLED, "low on resource: memory", read_limit },
    { OOM_KILLED, "crashed after using all available RAM", read_limit },
    { OOM_KILLED, "tried to allocate more memory than is available", read_limit },
    { OOM_KILLED, "gone over memory limit", read_limit },
    { OOM_KILLED, "use an instance type with more memory", read_limit },
    { OOM_KILLED, "systemd-oomd killed", read_limit },
    { OOM_KILLED, "(exitcode: -9)", read_signal },
    { OOM_KILLED, "return code = -9", read_signal },
    { OOM_KILLED, "return code of -9", read_signal },
    { OOM_KILLED, "return code -9", read_signal },
    { OOM_KILLED, "\xe7\xa0\x81-9", read_signal }, /* Chinese: code -9 */
    { OOM_KILLED, "exit status -9", read_signal },
    { OOM_KILLED, "Signal 9 (SIGKILL)", read_signal },
    { OOM_KILLED, "is killed by signal: Killed", read_signal },
    { OOM_KILLED, "DataLoader worker (pid(s)", read_signal },
    { OOM_KILLED, "signal 9 (Killed)", read_signal },
    { OOM_KILLED, "SIGKILL", read_signal },
    { OOM_KILLED, "signal: killed", read_signal },
    { OOM_KILLED, "zsh: killed", read_signal },
    { OOM_KILLED, "Killed: 9", read_signal },
    { OOM_KILLED, "Killed", read_word },
    { OOM_KILLED, "killed by kernel", read_signal },
    { OOM_KILLED, "killed by the kernel", read_signal },
    { OOM_KILLED, "killed by the OS", read_signal },
    { OOM_KILLED, "killed by the system", read_signal },
    { OOM_KILLED, "rocess killed", read_signal },
    { OOM_KILLED, "rocess Killed", read_signal },
    { OOM_KILLED, "gets killed", read_signal },
    { OOM_KILLED, "got killed", read_signal },
    { OOM_KILLED, "\"Killed\"", read_signal },
    { OOM_KILLED, "'Killed'", read_signal },
    { OOM_KILLED, "`Killed`", read_signal },
    { OOM_KILLED, "<Signals.SIGKILL", read_signal },
    { OOM_KILLED, "exit code -9", read_signal },
    { OOM_KILLED, "exit code: -9", read_signal },
    { OOM_KILLED, "exitcode -9", read_signal },
    { OOM_KILLED, "exitcode=-9", read_signal },
    { OOM_KILLED, "by signal 9", read_signal },
    { OOM_KILLED, "on signal 9", read_signal },
    { OOM_KILLED, "received signal 9", read_signal },
    { OOM_KILLED, "status=9/KILL", read_signal },
    { OOM_KILLED, "exit code: 137", read_signal },
    { OOM_KILLED, "exit code (137)", read_signal },
    { OOM_KILLED, "returned 137", read_signal },
    { OOM_KILLED, "error code 137", read_signal },
    { OOM_KILLED, "exit code 137", read_signal },
    { OOM_KILLED, "status code 137", read_signal },
    { OOM_KILLED, "exit status 137", read_signal },
    { OOM_KILLED, "exitCode: 137", read_signal },
    { OOM_KILLED, "ExitCode\": 137", read_signal },
    { OOM_KILLED, "with code 137", read_signal },
    { OOM_KILLED, "Exit Code: 137", read_signal },
    { OOM_KILLED, ": line ", read_shell },
    { OOM_KILLED, "Killing subprocess ", read_launcher },
    { 0 }
};
