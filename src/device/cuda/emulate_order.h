/* What tests choose of the emulation: in which order the threads of a block, and its blocks, run. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

typedef enum { EMULATE_FORWARD, EMULATE_REVERSED, EMULATE_SHUFFLED, EMULATE_ORDERS } emulate_order;
void emulate_order_set(emulate_order order);

#ifdef __cplusplus
}
#endif
