#include "lower/lanes.h"

double lanes_add(lanes *l, int which, double event, double seconds) {
    double *free = &l->free[which];
    *free = (*free > event ? *free : event) + seconds;
    return *free;
}

void lanes_pass(lanes *l, double seconds) {
    for (int i = 0; i < LANES_ALL; i++) l->free[i] += seconds;
}
