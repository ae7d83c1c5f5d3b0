/* What the program around the library holds, so that plans speak of the whole process. */
#pragma once

#include <stdint.h>

/* Bytes resident now beyond what every plan reserves for code, in steps of 1 MiB. */
uint64_t reserve_measure(void);
