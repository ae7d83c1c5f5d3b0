/* Slurm's plugin job_submit/snug: what `snug admit` says of a job, asked for by the controller as the job is
 * submitted. It warns or refuses as /etc/slurm/snug-admit.yaml says (beside slurm.conf): docs/admit.md.
 *
 * The controller holds its locks while this runs, so nothing here waits without a limit, and whatever goes
 * wrong admits the job: no program, no answer in time, an answer that is none. The program is a process of
 * its own with the script on its standard input; it opens no file that the script names, as the controller's
 * user may read what the job's may not. Nothing of the script is executed by either.
 *
 * Of Slurm only <slurm/slurm.h> is needed (libslurm-dev): the interface of job_submit plugins is the symbols
 * below. Sentences for the user are freed by Slurm, so they come from its own allocator. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef SNUG_PROGRAM
#define SNUG_PROGRAM "/usr/local/bin/snug"
#endif

#define SEEN __attribute__((visibility("default")))
SEEN extern const char plugin_name[], plugin_type[];
SEEN extern const uint32_t plugin_version;
const char plugin_name[] = "Jobs that surely do not fit their GPUs";
const char plugin_type[] = "job_submit/snug";
const uint32_t plugin_version = SLURM_VERSION_NUMBER;

SEEN int init(void);
SEEN int fini(void);
SEEN int job_submit(job_desc_msg_t *job, uint32_t user, char **sentence);
SEEN int job_modify(job_desc_msg_t *job, void *record, uint32_t user);

enum {
    MOST_ARGUMENTS = 128,
    VALUE_BYTES = 256,
    SAID_BYTES = 4096,
    SCRIPT_BYTES = 4 << 20,
    DEFAULT_SECONDS = 2,
    MOST_SECONDS = 8, /* sbatch itself waits for ten: MessageTimeout */
    EXIT_NO_FIT = 3
};

/* ---- the site's configuration ---- */

typedef struct {
    char file[512]; /* which the program reads too */
    const char *program;
    int seconds;
} site;

/* "key: value" of a line that says so. The program checks the file as a whole. */
static bool read_key(const char *line, const char *key, char *out, size_t room) {
    size_t n = strlen(key);
    if (strncmp(line, key, n) != 0 || line[n] != ':') return false;
    line += n + 1;
    line += strspn(line, " \t\"'");
    snprintf(out, room, "%.*s", (int)strcspn(line, "\"'#\r\n"), line);
    for (size_t end = strlen(out); end && (out[end - 1] == ' ' || out[end - 1] == '\t');) out[--end] = 0;
    return *out != 0;
}

/* Beside slurm.conf. False: there is no such file, and nothing is asked of any job. */
static bool read_site(site *s) {
    const char *conf = getenv("SLURM_CONF"), *slash = conf ? strrchr(conf, '/') : NULL;
    const char *program = getenv("SNUG_PROGRAM"); /* of the controller's own environment */
    char line[1024], seconds[32];
    *s = (site){ .program = program && *program ? program : SNUG_PROGRAM, .seconds = DEFAULT_SECONDS };
    if (slash)
        snprintf(s->file, sizeof s->file, "%.*s/snug-admit.yaml", (int)(slash - conf), conf);
    else
        snprintf(s->file, sizeof s->file, "/etc/slurm/snug-admit.yaml");
    FILE *f = fopen(s->file, "re");
    if (!f) return false;
    while (fgets(line, sizeof line, f))
        if (read_key(line, "seconds", seconds, sizeof seconds)) s->seconds = atoi(seconds);
    fclose(f);
    if (s->seconds < 1) s->seconds = DEFAULT_SECONDS;
    if (s->seconds > MOST_SECONDS) s->seconds = MOST_SECONDS;
    return true;
}

/* ---- the line ---- */

typedef struct {
    const char *words[MOST_ARGUMENTS + 1];
    int count;
    char values[16][VALUE_BYTES + 64];
    int used;
    bool full; /* something found no room: the job is not asked about */
} line;

static void add(line *l, const char *word) {
    if (l->count < MOST_ARGUMENTS)
        l->words[l->count++] = word;
    else
        l->full = true;
}

static void add_text(line *l, const char *name, const char *value) {
    if (!value || !*value) return;
    if (strlen(value) >= VALUE_BYTES || l->used == 16) {
        l->full = true;
        return;
    }
    snprintf(l->values[l->used], sizeof l->values[0], "--%s=%s", name, value);
    add(l, l->values[l->used++]);
}

static void add_count(line *l, const char *name, uint32_t value) {
    char digits[32];
    if (value == NO_VAL || value == INFINITE || value == NO_VAL16 || value == INFINITE16 || !value) return;
    snprintf(digits, sizeof digits, "%u", value);
    add_text(l, name, digits);
}

/* What the job asks for, as options of sbatch; the controller has them from sbatch's line and the script. */
static void make_line(const site *s, const job_desc_msg_t *job, line *l) {
    *l = (line){ .count = 0 };
    add(l, s->program);
    add(l, "admit");
    add_text(l, "config", s->file);
    add_text(l, "seconds", "30"); /* this process ends it sooner */
    add(l, "--script-only");
    add(l, "--");
    add_text(l, "gres", job->tres_per_node);
    add_text(l, "gpus", job->tres_per_job);
    add_text(l, "gpus-per-task", job->tres_per_task);
    add_text(l, "partition", job->partition);
    add_text(l, "constraint", job->features);
    add_count(l, "nodes", job->min_nodes);
    add_count(l, "ntasks", job->num_tasks);
    add_count(l, "ntasks-per-node", job->ntasks_per_node);
    add(l, "-");
    for (uint32_t i = 1; job->argv && i < job->argc; i++) add(l, job->argv[i] ? job->argv[i] : "");
    l->words[l->count] = NULL;
}

/* ---- the program ---- */

static int left_until(const struct timespec *end) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    long long ms = (long long)(end->tv_sec - now.tv_sec) * 1000 + (end->tv_nsec - now.tv_nsec) / 1000000;
    return ms < 0 ? 0 : (int)ms;
}

static bool start(const line *l, int in, int out, pid_t *child) {
    static char *const environment[] = { "PATH=/usr/bin:/bin", "SNUG_RATES=built-in", "LC_ALL=C.UTF-8",
                                         NULL };
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t none, all;
    sigemptyset(&none), sigfillset(&all);
    if (posix_spawn_file_actions_init(&files)) return false;
    if (posix_spawnattr_init(&how)) {
        posix_spawn_file_actions_destroy(&files);
        return false;
    }
    posix_spawn_file_actions_adddup2(&files, in, 0);
    posix_spawn_file_actions_adddup2(&files, out, 1);
    posix_spawn_file_actions_addopen(&files, 2, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addchdir_np(&files, "/");
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setsigmask(&how, &none);
    posix_spawnattr_setsigdefault(&how, &all);
    int failed = posix_spawn(child, l->words[0], &files, &how, (char *const *)l->words, environment);
    posix_spawnattr_destroy(&how);
    posix_spawn_file_actions_destroy(&files);
    return !failed;
}

/* Writes the script and reads the answer, whichever goes on, until both are done or the time is over. */
static void talk(int in, int out, const char *script, const struct timespec *end, char said[SAID_BYTES]) {
    size_t left = strlen(script), used = 0;
    bool reads = true;
    while (reads) {
        struct pollfd p[] = { { out, POLLIN, 0 }, { left ? in : -1, POLLOUT, 0 } };
        int ready = poll(p, 2, left_until(end));
        if (ready < 0 && errno == EINTR) continue;
        if (ready <= 0) break;
        if (p[1].revents) {
            ssize_t n = write(in, script, left);
            if (n > 0) script += n, left -= (size_t)n;
            if (n < 0 && errno != EAGAIN && errno != EINTR) left = 0;
            if (!left) close(in), in = -1;
        }
        if (p[0].revents) {
            char rest[512];
            bool room = used < SAID_BYTES - 1;
            ssize_t n = read(out, room ? said + used : rest, room ? SAID_BYTES - 1 - used : sizeof rest);
            if (n > 0 && room) used += (size_t)n;
            reads = n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
        }
    }
    said[used] = 0;
    if (in >= 0) close(in);
}

/* The exit code; -1: none came in time. */
static int wait_until(pid_t child, const struct timespec *end) {
    int how = 0;
    for (;;) {
        pid_t ended = waitpid(child, &how, WNOHANG);
        if (ended == child) return WIFEXITED(how) ? WEXITSTATUS(how) : -1;
        if (ended < 0 && errno != EINTR) return -1;
        if (!left_until(end)) break;
        nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
    }
    kill(child, SIGKILL);
    while (waitpid(child, &how, 0) < 0 && errno == EINTR) {}
    return -1;
}

/* Writes to a program that has left end in an error, not in SIGPIPE: sockets can be told so, pipes can't. */
static int ask(const site *s, const job_desc_msg_t *job, char said[SAID_BYTES]) {
    line l;
    int in[2], out[2], code = -1;
    pid_t child;
    struct timespec end;
    sigset_t pipes, before;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += s->seconds;
    make_line(s, job, &l);
    if (l.full) return -1;
    if (pipe2(in, O_CLOEXEC)) return -1;
    if (pipe2(out, O_CLOEXEC)) {
        close(in[0]), close(in[1]);
        return -1;
    }
    sigemptyset(&pipes), sigaddset(&pipes, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipes, &before);
    fcntl(in[1], F_SETFL, O_NONBLOCK);
    bool started = start(&l, in[0], out[1], &child);
    close(in[0]), close(out[1]);
    if (started) {
        talk(in[1], out[0], job->script, &end, said);
        code = wait_until(child, &end);
    } else {
        close(in[1]);
    }
    close(out[0]);
    sigtimedwait(&pipes, NULL, &(struct timespec){ 0 }); /* one of ours, if there was one */
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code;
}

/* ---- what Slurm calls ---- */

static void tell(char **sentence, const char *said) {
    char *(*copy)(const char *) = (char *(*)(const char *))dlsym(RTLD_DEFAULT, "slurm_xstrdup");
    if (sentence && !*sentence && copy) *sentence = copy(said);
}

/* Is there something in the answer that a user should hear of a job that is admitted? */
static bool warns(const char *said) { return strstr(said, "does not fit ") != NULL; }

int init(void) { return SLURM_SUCCESS; }
int fini(void) { return SLURM_SUCCESS; }

int job_submit(job_desc_msg_t *job, uint32_t user, char **sentence) {
    char said[SAID_BYTES] = "";
    site s;
    (void)user;
    bool asks = job->tres_per_node || job->tres_per_job || job->tres_per_task || job->tres_per_socket;
    if (!job->script || !asks || strlen(job->script) > SCRIPT_BYTES || !read_site(&s)) return SLURM_SUCCESS;
    int code = ask(&s, job, said);
    bool refused = code == EXIT_NO_FIT && *said;
    if (refused || (code == 0 && warns(said))) tell(sentence, said);
    return refused ? ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE : SLURM_SUCCESS;
}

int job_modify(job_desc_msg_t *job, void *record, uint32_t user) {
    (void)job, (void)record, (void)user;
    return SLURM_SUCCESS;
}
