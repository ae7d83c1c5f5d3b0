#define _GNU_SOURCE
#include "comm/presence.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "comm/comm_apart.h"

enum { PATH_BYTES = 4096, NAP = 2000 /* microseconds */ };
static const double GRACE = 1, PATIENCE = 2, EACH = 0.5 /* a record is written again after so long */;

/* What one rank writes and the others read. A sentence is whole before `failed` is set. */
typedef struct {
    atomic_ullong moves, beats; /* movements begun; how often it has looked while it waited */
    atomic_int failed, spoke;
    char sentence[COMM_SENTENCE];
} record;

/* What ranks tell each other at first. */
typedef struct {
    char host[COMM_HOST_BYTES];
    uint64_t processes; /* the space of numbers that `pid` is one of; 0: not known */
    int pid, file;
} place;

static struct {
    comm_ranks ranks;
    char (*hosts)[COMM_HOST_BYTES];
    struct pollfd *others; /* by rank: readable once it has ended; -1: not known */
    double ended_since;    /* when that was first seen; 0: all are there */

    record *shared; /* of all ranks of one host, or NULL */
    record own;     /* else this one's, and */
    int file;       /* where it is written */
    char folder[PATH_BYTES];
    double written;
} all = { .file = -1 };

static bool has_records(void) { return all.shared || all.file >= 0; }

static record *mine(void) { return all.shared ? &all.shared[all.ranks.rank] : &all.own; }

/* ---- records in files ---- */

static bool path_of(int rank, char path[PATH_BYTES]) {
    return snprintf(path, PATH_BYTES, "%s/%d", all.folder, rank) < PATH_BYTES;
}

/* Whoever opens a file of a network's anew sees what was synced before. A record that is not there is one of
 * a rank that has done nothing. */
static void read_record(int rank, record *r) {
    char path[PATH_BYTES];
    memset(r, 0, sizeof *r);
    if (all.shared) {
        memcpy(r, &all.shared[rank], sizeof *r);
        return;
    }
    int file = path_of(rank, path) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    if (pread(file, r, sizeof *r, 0) != (ssize_t)sizeof *r) memset(r, 0, sizeof *r);
    close(file);
}

/* A record that can't be written is an old one, and no reason to end. */
static bool write_own(bool synced) {
    if (all.file < 0) return true;
    all.written = clock_seconds();
    bool written = pwrite(all.file, &all.own, sizeof all.own, 0) == (ssize_t)sizeof all.own;
    return written && (!synced || fdatasync(all.file) == 0);
}

/* ---- what is written ---- */

static void add(atomic_ullong *to) { /* nobody else writes it */
    atomic_store_explicit(to, atomic_load_explicit(to, memory_order_relaxed) + 1, memory_order_relaxed);
}

void presence_comes_on(void) {
    if (has_records()) add(&mine()->moves);
}

/* Others may ask from their own limit on, which some reach earlier: from half of it on records are synced. */
void presence_waits(double waited, double limit) {
    if (!has_records()) return;
    add(&mine()->beats);
    if (all.file >= 0 && clock_seconds() > all.written + EACH) write_own(waited > limit / 2);
}

void presence_names(const char *sentence) {
    record *r = mine();
    if (!has_records() || atomic_load(&r->failed)) return;
    snprintf(r->sentence, sizeof r->sentence, "%s", sentence);
    atomic_store(&r->failed, 1);
    write_own(true);
}

void presence_fails(const char *sentence) {
    char whole[COMM_SENTENCE];
    if (!has_records()) return;
    int rank = all.ranks.rank;
    int n = snprintf(whole, sizeof whole, "rank %d on %s: ", rank, all.hosts[rank]);
    snprintf(whole + n, sizeof whole - (size_t)n, "%s", sentence);
    presence_names(whole);
}

void presence_speaks(void) {
    if (!has_records()) return;
    atomic_store(&mine()->spoke, 1);
    write_own(true);
}

/* ---- what is read ---- */

static int first_ended(void) {
    if (!all.others || poll(all.others, (nfds_t)all.ranks.world, 0) <= 0) return -1;
    for (int r = 0; r < all.ranks.world; r++)
        if (all.others[r].revents) return r;
    return -1;
}

static bool has_ended(char sentence[COMM_SENTENCE], double grace) {
    int ended = first_ended();
    if (ended < 0) return false;
    if (all.ended_since <= 0) all.ended_since = clock_seconds();
    if (clock_seconds() < all.ended_since + grace) return false;
    snprintf(sentence, COMM_SENTENCE, "rank %d on %s has ended, and others wait for it", ended,
             all.hosts[ended]);
    return true;
}

/* In its words, so that all say the same. */
static bool has_failed(char sentence[COMM_SENTENCE]) {
    for (int r = 0; r < all.ranks.world; r++) {
        record other;
        read_record(r, &other);
        if (r == all.ranks.rank || !other.failed) continue;
        snprintf(sentence, COMM_SENTENCE, "%s", other.sentence);
        return true;
    }
    return false;
}

/* What is in files is read where somebody is about to be named, and not each time. */
bool presence_is_over(bool at_once, char sentence[COMM_SENTENCE]) {
    bool over = ((all.shared || (at_once && has_records())) && has_failed(sentence)) ||
                has_ended(sentence, at_once ? 0 : GRACE);
    if (over) presence_names(sentence);
    return over;
}

/* One that goes on while it is looked at is there, whatever it waits for. */
static bool all_go_on(const record *before, bool *there) {
    bool so_far = true;
    for (int r = 0; r < all.ranks.world; r++) {
        record now;
        if (there[r]) continue;
        read_record(r, &now);
        there[r] = now.beats != before[r].beats || now.moves != before[r].moves;
        so_far &= there[r];
    }
    return so_far;
}

static int least_far(const record *list, const bool *there) {
    int least = COMM_ALL_ANSWER;
    for (int r = 0; r < all.ranks.world; r++)
        if (!there[r] && (least < 0 || list[r].moves < list[least].moves)) least = r;
    return least;
}

static void look(const record *before, bool *there) {
    there[all.ranks.rank] = true;
    for (double end = clock_seconds() + PATIENCE; clock_seconds() < end && !all_go_on(before, there);) {
        presence_waits(1, 0);
        usleep(NAP);
    }
}

int presence_find_silent(void) {
    size_t world = (size_t)all.ranks.world;
    record *before = has_records() ? memory_new(world, sizeof *before) : NULL;
    bool *there = before ? memory_new(world, sizeof *there) : NULL;
    int silent = COMM_NOBODY_ASKED;
    for (int r = 0; there && r < all.ranks.world; r++) read_record(r, &before[r]);
    if (there) look(before, there), silent = least_far(before, there);
    memory_free(before);
    memory_free(there);
    return silent;
}

const char *presence_host(int rank) { return all.hosts ? all.hosts[rank] : NULL; }

bool presence_has_spoken(void) {
    for (int r = 0; has_records() && r < all.ranks.world; r++) {
        record other;
        read_record(r, &other);
        if (other.spoke) return true;
    }
    return false;
}

int presence_before(void) {
    int count = 0;
    if (!has_records()) return COMM_NOBODY_ASKED;
    first_ended();
    for (int r = 0; r < all.ranks.rank; r++) count += !all.others[r].revents;
    return count;
}

/* ---- beginning ---- */

/* Containers of one host may number their processes each by itself. */
static uint64_t space_of_processes(void) {
    struct stat is;
    return stat("/proc/self/ns/pid", &is) == 0 ? (uint64_t)is.st_ino : 0;
}

static bool beside(const place *a, const place *b) {
    return strcmp(a->host, b->host) == 0 && a->processes && a->processes == b->processes;
}

/* Without it there are no records, on any rank. */
static bool take_room(void) {
    size_t world = (size_t)all.ranks.world;
    all.hosts = memory_new(world, sizeof *all.hosts);
    all.others = all.hosts ? memory_new(world, sizeof *all.others) : NULL;
    return all.others;
}

/* The number of a process is another one's once it has ended: what is opened here stays what it is of. All
 * are there, since they speak. */
static void know(const place *list) {
    const place *own = &list[all.ranks.rank];
    for (int r = 0; r < all.ranks.world; r++) {
        memcpy(all.hosts[r], list[r].host, COMM_HOST_BYTES);
        all.others[r] = (struct pollfd){ .fd = -1, .events = POLLIN };
        if (r != all.ranks.rank && beside(&list[r], own))
            all.others[r].fd = (int)syscall(SYS_pidfd_open, list[r].pid, 0);
    }
}

static size_t shared_bytes(void) { return (size_t)all.ranks.world * sizeof(record); }

/* Rank 0's file, by the name that the system has for it while that rank has it open. */
static record *open_shared(const place *of) {
    char path[100];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", of->pid, of->file);
    int file = of->file < 0 ? -1 : open(path, O_RDWR | O_CLOEXEC);
    record *at = file < 0 ? NULL : memory_shared(file, shared_bytes());
    if (file >= 0) close(file);
    return at;
}

/* All or none. */
static status agree_on(bool works, bool *all_do) {
    const void *heard;
    *all_do = true;
    TRY(comm_hear(&works, sizeof works, &heard));
    const bool *list = heard;
    for (int r = 0; r < all.ranks.world; r++) *all_do &= list[r];
    return STATUS_OK;
}

static status share_with(const place *list) {
    bool one_host = true, all_do;
    for (int r = 1; r < all.ranks.world; r++) one_host &= beside(&list[0], &list[r]);
    record *at = one_host && all.others ? open_shared(&list[0]) : NULL;
    TRY(agree_on(at != NULL, &all_do));
    if (all_do)
        all.shared = at;
    else
        memory_unshare(at, shared_bytes());
    return STATUS_OK;
}

static int make_file(void) {
    int file = memfd_create("snug's ranks", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, (off_t)shared_bytes()) == 0) return file;
    close(file);
    return -1;
}

/* `list` is there until anything is said again. */
static status settle(const place *own) {
    const void *list;
    bool all_do;
    TRY(comm_hear(own, sizeof *own, &list));
    if (take_room()) know(list);
    TRY(share_with(list));
    TRY(agree_on(all.others != NULL, &all_do));
    if (!all_do) presence_close();
    return STATUS_OK;
}

status presence_open(void) {
    all.ranks = comm_world();
    place own = { .processes = space_of_processes(), .pid = getpid(), .file = -1 };
    if (gethostname(own.host, sizeof own.host - 1) != 0) strcpy(own.host, "its host");
    if (!all.ranks.rank) own.file = make_file();
    status result = settle(&own);
    if (own.file >= 0) close(own.file);
    return result;
}

/* ---- in a folder ---- */

/* What a run that was killed has left. */
static void clear_folder(void) {
    char path[PATH_BYTES];
    for (int r = 0; r < all.ranks.world || (path_of(r, path) && access(path, F_OK) == 0); r++)
        if (path_of(r, path)) unlink(path);
}

static bool open_own(void) {
    char path[PATH_BYTES];
    all.own = (record){ 0 };
    all.file = path_of(all.ranks.rank, path) ? open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666) : -1;
    return all.file >= 0 && write_own(true);
}

status presence_in(const char *folder) {
    bool ready = true, all_do;
    if (!all.others || all.shared || !folder) return STATUS_OK;
    ready = snprintf(all.folder, sizeof all.folder, "%s/.ranks", folder) < (int)sizeof all.folder;
    if (ready && !all.ranks.rank) mkdir(all.folder, 0777), clear_folder();
    TRY(agree_on(ready, &all_do));
    TRY(agree_on(all_do && open_own(), &all_do));
    if (all_do || all.file < 0) return STATUS_OK;
    close(all.file);
    all.file = -1;
    return STATUS_OK;
}

/* The last one takes the folder away. That one has spoken of a failure others have to see. */
static void leave_folder(void) {
    char path[PATH_BYTES];
    close(all.file);
    if (all.own.failed && all.own.spoke) return;
    if (path_of(all.ranks.rank, path)) unlink(path);
    rmdir(all.folder);
}

void presence_close(void) {
    if (all.file >= 0) leave_folder();
    memory_unshare(all.shared, shared_bytes());
    for (int r = 0; all.others && r < all.ranks.world; r++)
        if (all.others[r].fd >= 0) close(all.others[r].fd);
    memory_free(all.others);
    memory_free(all.hosts);
    memset(&all, 0, sizeof all);
    all.file = -1;
}
