/* The browser's process. A guard between it and the test holds one end of a pipe, whose other end dies with
 * the test, however that ends: then the guard kills the browser's group and removes its profile. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "browser/browser_internal.h"

bool browser_needed(void) { return getenv("SNUG_TEST_BROWSER") != NULL; }

const char *browser_program(void) {
    static const char *const names[] = { "chromium-headless-shell", "chrome-headless-shell" };
    static char found[4096];
    const char *chosen = getenv("SNUG_BROWSER"), *path = getenv("PATH");
    if (chosen) return chosen;
    for (size_t i = 0; path && i < sizeof names / sizeof *names; i++)
        for (const char *p = path; *p; p += strcspn(p, ":"), p += *p == ':') {
            snprintf(found, sizeof found, "%.*s/%s", (int)strcspn(p, ":"), p, names[i]);
            if (access(found, X_OK) == 0) return found;
        }
    return NULL;
}

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *f) {
    (void)s, (void)kind, (void)f;
    return remove(path);
}

/* Descriptors 3 and 4 are the protocol's; what is written goes to a file of the profile. */
static void become_browser(const char *program, const char *profile, int commands, int answers) {
    char data[96], log[96];
    snprintf(data, sizeof data, "--user-data-dir=%s", profile);
    snprintf(log, sizeof log, "%s/said", profile);
    int high_commands = fcntl(commands, F_DUPFD, 10), high_answers = fcntl(answers, F_DUPFD, 10);
    int said = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0600), none = open("/dev/null", O_RDONLY);
    if (high_commands < 0 || high_answers < 0 || said < 0 || none < 0) _exit(126);
    dup2(none, 0);
    dup2(said, 1);
    dup2(said, 2);
    dup2(high_commands, 3);
    dup2(high_answers, 4);
    for (int fd = 5; fd < 64; fd++) close(fd);
    setenv("HOME", profile, 1);
    setenv("XDG_CONFIG_HOME", profile, 1);
    setenv("XDG_CACHE_HOME", profile, 1);
    setenv("TMPDIR", profile, 1);
    const char *arguments[] = { program,
                                "--headless",
                                "--remote-debugging-pipe",
                                data,
                                "--host-resolver-rules=MAP * ~NOTFOUND",
                                "--disable-background-networking",
                                "--disable-component-update",
                                "--disable-default-apps",
                                "--disable-dev-shm-usage",
                                "--disable-extensions",
                                "--disable-gpu",
                                "--disable-sync",
                                "--force-color-profile=srgb",
                                "--hide-scrollbars",
                                "--no-first-run",
                                "--no-default-browser-check",
                                "about:blank",
                                geteuid() == 0 ? "--no-sandbox" : NULL,
                                NULL };
    execv(program, (char *const *)arguments);
    dprintf(2, "%s can't be started: %s\n", program, strerror(errno));
    _exit(127);
}

/* Never returns. The browser's number goes to `tell`. */
static void be_guard(const char *program, const char *profile, int lifeline, int tell, int commands,
                     int answers) {
    setpgid(0, 0);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    for (int fd = 3; fd < 1024; fd++) /* such as the lifelines of other browsers */
        if (fd != lifeline && fd != tell && fd != commands && fd != answers) close(fd);
    for (int s = 1; s < 32; s++)
        if (s != SIGKILL && s != SIGSTOP && s != SIGCHLD) signal(s, SIG_IGN);
    pid_t process = fork();
    if (process == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (int s = 1; s < 32; s++) signal(s, SIG_DFL);
        setpgid(0, 0);
        become_browser(program, profile, commands, answers);
    }
    close(commands); /* so that the test hears when the browser has ended */
    close(answers);
    int quiet = open("/dev/null", O_RDWR);
    for (int fd = 0; quiet >= 0 && fd < 3; fd++) dup2(quiet, fd);
    if (process > 0) setpgid(process, process);
    char byte;
    if (write(tell, &process, sizeof process) == (ssize_t)sizeof process)
        while (read(lifeline, &byte, 1) < 0 && errno == EINTR) {}
    if (process > 0) {
        kill(-process, SIGKILL);
        while (waitpid(-1, NULL, 0) > 0) {}
    }
    nftw(profile, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    _exit(0);
}

status browser_launch(browser *b, const char *program) {
    const char *folder = getenv("TMPDIR");
    if (!folder || strlen(folder) > 30) folder = "/tmp";
    snprintf(b->profile, sizeof b->profile, "%s/snug-browser-XXXXXX", folder);
    int commands[2], answers[2], lifeline[2], told[2];
    if (!mkdtemp(b->profile))
        return status_set(STATUS_FAILED, "no folder for the browser's profile in %s", folder);
    if (pipe2(commands, O_CLOEXEC) || pipe2(answers, O_CLOEXEC) || pipe2(lifeline, O_CLOEXEC) ||
        pipe2(told, O_CLOEXEC))
        return status_set(STATUS_FAILED, "no pipes for the browser: %s", strerror(errno));
    b->guard = fork();
    if (b->guard == 0) {
        close(lifeline[1]);
        close(commands[1]);
        close(answers[0]);
        close(told[0]);
        be_guard(program, b->profile, lifeline[0], told[1], commands[0], answers[1]);
    }
    close(commands[0]);
    close(answers[1]);
    close(lifeline[0]);
    close(told[1]);
    b->to = commands[1];
    b->from = answers[0];
    b->lifeline = lifeline[1];
    bool started =
        b->guard > 0 && read(told[0], &b->process, sizeof b->process) == (ssize_t)sizeof b->process;
    close(told[0]);
    return started ? STATUS_OK : status_set(STATUS_FAILED, "the browser can't be started: no process");
}

void browser_end(browser *b) {
    if (b->guard <= 0) return;
    close(b->lifeline);
    close(b->to);
    close(b->from);
    waitpid(b->guard, NULL, 0);
    b->guard = 0;
}

void browser_last_words(const browser *b, char *out, size_t bytes) {
    char log[96], line[512];
    snprintf(log, sizeof log, "%s/said", b->profile);
    snprintf(out, bytes, "nothing");
    FILE *f = fopen(log, "r");
    if (!f) return;
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        if (*line) snprintf(out, bytes, "%s", line);
    }
    fclose(f);
}
