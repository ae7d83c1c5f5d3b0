/* What was found once, by a key of bytes, for any number of threads. */
#pragma once

#include <stddef.h>

typedef struct memo memo;

/* It takes about `most` bytes and then keeps nothing more. NULL: no memory. */
memo *memo_open(size_t most);
void memo_close(memo *m); /* NULL is fine */

/* Bytes of all that is kept. */
size_t memo_bytes(memo *m);

/* What was kept with this key, and how many bytes it has; it stays there until memo_close. NULL: nothing. */
const void *memo_find(memo *m, const void *key, size_t key_bytes, size_t *bytes);

/* Copies key and value, unless there is one with this key, or no room. */
void memo_keep(memo *m, const void *key, size_t key_bytes, const void *value, size_t bytes);
