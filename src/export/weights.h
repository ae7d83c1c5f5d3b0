/* The tensors of a GGUF file, made of those of a model directory while they are written: through buffers of a
 * fixed size, in whichever order of rows and type the file has. */
#pragma once

#include "export/architecture.h"
#include "ir/graph.h"

typedef struct export_weights export_weights;

/* Looks at the directory's tensors and plans the file's. `type` is that of products and tables; norms, biases
 * and positions stay F32, and so does what the type has no rows for in Q8_0, as F16. STATUS_INVALID for a
 * tensor that is missing, of another shape or of no use. Close in any case. */
status export_weights_open(const char *directory, const architecture *a, const model_config *c,
                           gguf_write_type type, export_weights **w);
void export_weights_close(export_weights *w); /* NULL is fine */

const gguf_tensor *export_weights_tensors(const export_weights *w, uint32_t *count);
uint32_t export_weights_odd(const export_weights *w);  /* how many are F16 for want of whole blocks */
uint64_t export_weights_read(const export_weights *w); /* bytes of the tensors that are read */
/* What an open one holds of memory. */
uint64_t export_weights_held(const export_weights *w);
