/* How things fail. Every fallible function returns a status; the place that fails records one sentence
 * (what, where, the offending numbers, what to do) for its thread, callers pass the status up.
 * The values are the program's exit codes. */
#pragma once

/* On the type itself: a compiler that knows how warns of every call whose status nobody looks at. */
#if defined(__clang__)
#define STATUS_HEEDED __attribute__((warn_unused_result))
#elif defined(__has_c_attribute)
#if __has_c_attribute(nodiscard)
#define STATUS_HEEDED [[nodiscard]]
#endif
#endif
#ifndef STATUS_HEEDED
#define STATUS_HEEDED
#endif

typedef enum STATUS_HEEDED {
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

enum { STATUS_SENTENCE = 1024 }; /* bytes of the longest one that is kept, with its zero */

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

/* Where going on is right although the call failed: a comment beside it says why. The only way to drop a
 * status; tools/lint lets nothing else be cast to void. */
#define STATUS_IGNORED(call) ((void)(call))
