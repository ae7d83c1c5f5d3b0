/* What transfer.c asks of who moves pieces: orders are done one after the other, beside computing. */
#pragma once

#include "exec/transfer.h"

/* Read one piece into a slot, or write it back once it has been computed on. A piece that is only written is
 * "read" too: nothing is moved then, but its turn says that the slot is free. */
typedef struct {
    const plan_program *plan;
    piece piece;
    char *slot;
    uint64_t number; /* of the piece since opening */
    bool writing;
} transfer_order;

typedef struct {
    void (*give)(void *mover, const transfer_order *o);
    void (*compute_after)(void *mover, uint64_t read); /* what is computed from now on begins when so many
                                                          pieces have been read since opening */
    /* A piece will be ordered to be read, after fewer than plan.ring others. NULL: it needs not be known. */
    void (*fetch)(void *mover, const transfer_order *o);
    void (*settle)(void *mover); /* waits until all orders are done; between runs */
    void (*close)(void *mover);
} transfer_mover;

/* A thread that reads and writes a file. Where that is behind a device apart, it moves what is filed of a
 * piece alone. */
typedef struct transfer_file transfer_file;
status transfer_file_open(const plan *p, transfer_file **out);
void transfer_file_close(void *mover); /* NULL is fine */
status transfer_file_failed(const transfer_file *f);
status transfer_file_read(transfer_file *f, uint64_t at, void *into, uint64_t bytes);
status transfer_file_write(transfer_file *f, uint64_t at, const void *from, uint64_t bytes);
uint64_t transfer_file_size(const transfer_file *f);
extern const transfer_mover transfer_by_file;

/* The device's lane of copies to and from the host's memory. What is filed goes on from there: it passes
 * through a ring of slots in the host's memory, and the lane calls who moves it between these and the file
 * (`file`; NULL: nothing is filed), which stays the caller's. */
typedef struct transfer_copy transfer_copy;
status transfer_copy_open(const plan *p, char *host, char *ring, transfer_file *file, transfer_copy **out);
extern const transfer_mover transfer_by_copy;
