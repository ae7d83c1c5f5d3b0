#include "train/one_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/comm.h"
#include "io/checkpoint_folder.h"
#include "io/lock.h"

enum { WORDS_BYTES = 128 };

/* Who holds the lock, as its file says it; empty where there is none. */
static void read_lock(const char *path, char words[WORDS_BYTES]) {
    memset(words, 0, WORDS_BYTES);
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) return;
    ssize_t n = pread(file, words, WORDS_BYTES - 1, 0);
    words[n > 0 ? n : 0] = 0;
    close(file);
}

/* Making it fails where it is there. It is also how a file system of the network, which remembers for a while
 * that there was none, learns of it. */
static bool is_missing(const char *out) {
    if (mkdir(out, 0777) != 0) return errno != EEXIST;
    rmdir(out);
    return true;
}

/* For some seconds: what another host has written may take a moment to be seen. */
static bool finds_lock(const char *out, const char *path, const char *held) {
    enum { PATIENCE = 5, NAP = 50000 };
    char words[WORDS_BYTES];
    if (is_missing(out)) return false;
    for (double began = clock_seconds();; usleep(NAP)) {
        read_lock(path, words);
        if (strcmp(words, held) == 0) return true;
        if (clock_seconds() - began > PATIENCE) return false;
    }
}

status one_folder_check(const char *out) {
    char path[CHECKPOINT_PATH_BYTES], held[WORDS_BYTES];
    comm_ranks ranks = comm_world();
    if (!out || ranks.world < 2) return STATUS_OK;
    bool named = snprintf(path, sizeof path, "%s/" LOCK_OF_FOLDER, out) < (int)sizeof path;
    memset(held, 0, sizeof held);
    if (named) read_lock(path, held);
    TRY(comm_tell(held, sizeof held)); /* the same movement for all, before anybody leaves */
    if (!named) return status_set(STATUS_INVALID, "%.60s... is too long for the name of a folder", out);
    if (!held[0] || !ranks.rank || finds_lock(out, path, held)) return STATUS_OK; /* no words: a full disk */
    return status_set(STATUS_INVALID,
                      "--out %s is not the folder that rank 0 writes to: it has to be one folder for all",
                      out);
}
