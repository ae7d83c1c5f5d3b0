#include "lower/lanes.h"

void lanes_pass(lanes *l, double seconds) {
    for (int i = 0; i < LANES_ALL; i++) l->free[i] += seconds;
}
