/* A number that one thread counts up and others wait for. It never goes back. */
#pragma once

#include <stdint.h>

typedef struct counter counter;

counter *counter_new(void); /* at 0; NULL: no memory */
void counter_free(counter *c);

void counter_add(counter *c);
void counter_wait(counter *c, uint64_t value); /* until it is at least that */
uint64_t counter_value(counter *c);
