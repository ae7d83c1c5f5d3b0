/* How things fail. Every fallible function returns a status; the place that fails records one sentence
 * (what, where, the offending numbers, what to do) for its thread, callers pass the status up.
 * The values are the program's exit codes. */
#pragma once

typedef enum {
    STATUS_OK = 0,
    STATUS_FAILED = 1,       /* after work began: disk full, non-finite loss, device lost */
    STATUS_INVALID = 2,      /* wrong input, usage or contradictory pins */
    STATUS_NO_FIT = 3,       /* needs more memory than there is */
    STATUS_INTERRUPTED = 130 /* asked to stop; the state was saved */
} status;

/* Records the sentence (replacing the last one of this thread) and returns `code`, so that
 * `return status_set(STATUS_INVALID, "...")` is the whole of failing. It may quote status_message(). */
status status_set(status code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts "prefix: " before the recorded sentence; returns `code`. For callers that know where. */
status status_prefix(status code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The last recorded sentence of this thread; never NULL. */
const char *status_message(void);

/* Pass a failure to the caller. */
#define TRY(call)                                                                                            \
    do {                                                                                                     \
        status try_status_ = (call);                                                                         \
        if (try_status_ != STATUS_OK) return try_status_;                                                    \
    } while (0)

/* The same where something must be freed first: needs a local `status result` and a label. */
#define TRY_OR(label, call)                                                                                  \
    do {                                                                                                     \
        result = (call);                                                                                     \
        if (result != STATUS_OK) goto label;                                                                 \
    } while (0)
