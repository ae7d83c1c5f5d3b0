/* Which pieces share a window: a bin packing of their lengths.
 *
 * Best fit decreasing: the longest piece comes first, and each goes into the window whose room it leaves
 * least of, among like ones the window that was last put into; where none has room it opens one. At most 11/9
 * of the fewest windows there can be, and some. Next fit takes the pieces in their order, and looks at the
 * last window alone. It stays where best fit saves no window, so there are never more than it has.
 *
 * The result is a function of the lengths. Paper: Johnson, Demers, Ullman, Garey, Graham, "Worst-case
 * performance bounds for simple one-dimensional packing algorithms", 1974. */
#pragma once

#include <stdint.h>

enum { FILL_NONE = UINT16_MAX, FILL_MOST = UINT16_MAX - 1 };

/* The lists lie in memory of the caller's; each has room for all pieces. */
typedef struct {
    uint16_t *opens;        /* of the piece that opened a window: the first piece there; else FILL_NONE */
    uint16_t *next;         /* the one behind it in its window, in the order of pieces; or FILL_NONE */
    uint16_t *home, *order; /* for its own use */
    uint32_t *room;
} fill;

/* The bytes of the lists for so many pieces (<= FILL_MOST), and the lists in them; aligned to 4. */
uint64_t fill_bytes(uint32_t most);
fill fill_lists(void *memory, uint32_t most);

/* How many windows of `context` hold the pieces, each of 1 to `context`. */
uint32_t fill_windows(const fill *f, const uint32_t *lengths, uint32_t count, uint32_t context);
/* Each piece has a window of its own. */
uint32_t fill_alone(const fill *f, uint32_t count);
