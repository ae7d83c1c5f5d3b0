/* The public functions that take values apart, put them together and order them anew, and those of images. */
#include <math.h>
#include <stdio.h>

#include "api/network.h"
#include "ops/columns/columns.h"
#include "ops/conv2d/conv2d.h"
#include "ops/join/join.h"
#include "ops/max_pool/max_pool.h"
#include "ops/mean_pool/mean_pool.h"
#include "ops/mean_space/mean_space.h"
#include "ops/reshape/reshape.h"
#include "ops/transpose/transpose.h"

/* Has x this dimension? Samples, dimension 0, stay as they are. */
static bool has_dimension(const snug_graph *g, tensor_id x, int32_t dimension, const char *where) {
    if (!network_has(g, x, where)) return false;
    const shape *s = graph_shape(g->graph, x);
    char is[SHAPE_TEXT_BYTES];
    if (dimension >= 1 && dimension < (int32_t)s->rank) return true;
    graph_fail(g->graph, "%s: dimension %d of %s; it must be from 1 to %d", where, (int)dimension,
               shape_text(s, is), (int)s->rank - 1);
    return false;
}

/* The same numbers as a matrix whose rows begin at `dimension`; 0: a row is too long. */
static tensor_id as_matrix(snug_graph *g, tensor_id x, int32_t dimension, const char *where) {
    const shape *s = graph_shape(g->graph, x);
    shape m = SHAPE(1, 1);
    for (int32_t d = 0; d < (int32_t)s->rank; d++) m.dim[d >= dimension] *= s->dim[d];
    if (m.dim[1] > INT32_MAX)
        return graph_fail(g->graph, "%s: %lld numbers from dimension %d on are too many", where,
                          (long long)m.dim[1], (int)dimension);
    return reshape_apply(g->graph, x, m);
}

/* Numbers behind one index of a dimension. */
static int64_t inner_of(const shape *s, int32_t dimension) {
    int64_t inner = 1;
    for (int32_t d = dimension + 1; d < (int32_t)s->rank; d++) inner *= s->dim[d];
    return inner;
}

snug_tensor snug_slice(snug_graph *g, snug_tensor x, int32_t dimension, int64_t start, int64_t count) {
    if (!has_dimension(g, x, dimension, "slice")) return 0;
    shape s = *graph_shape(g->graph, x);
    char is[SHAPE_TEXT_BYTES];
    if (start < 0 || count < 1 || start > s.dim[dimension] - count)
        return graph_fail(g->graph, "slice: %lld indexes from %lld on are not in dimension %d of %s",
                          (long long)count, (long long)start, (int)dimension, shape_text(&s, is));
    tensor_id m = as_matrix(g, x, dimension, "slice");
    if (!m) return 0;
    int64_t inner = inner_of(&s, dimension);
    columns_attributes a = { .start = (int32_t)(start * inner),
                             .width = (int32_t)(count * inner),
                             .count = 1 };
    s.dim[dimension] = count;
    return reshape_apply(g->graph, columns_apply(g->graph, m, &a), s);
}

/* Are the parts alike in all but one dimension? Their sum there goes to `whole`. */
static bool fit_together(const snug_graph *g, const tensor_id *parts, uint32_t count, int32_t dimension,
                         shape *whole) {
    char is[SHAPE_TEXT_BYTES], should[SHAPE_TEXT_BYTES];
    for (uint32_t i = 0; i < count; i++) {
        if (!has_dimension(g, parts[i], dimension, "concat")) return false;
        const shape *first = graph_shape(g->graph, parts[0]), *s = graph_shape(g->graph, parts[i]);
        shape alike = *s;
        alike.dim[dimension] = first->dim[dimension];
        if (!shape_equal(&alike, first)) {
            graph_fail(g->graph, "concat: part %u is %s, and the first is %s: only dimension %d may differ",
                       i, shape_text(s, is), shape_text(first, should), (int)dimension);
            return false;
        }
        if (i == 0)
            *whole = *s;
        else
            whole->dim[dimension] += s->dim[dimension];
    }
    return true;
}

snug_tensor snug_concat(snug_graph *g, const snug_tensor *parts, uint32_t count, int32_t dimension) {
    tensor_id rows[JOIN_MOST];
    shape whole;
    if (!network_is_open(g, "concat")) return 0;
    if (!parts || count < 1 || count > JOIN_MOST)
        return graph_fail(g->graph, "concat: %u parts; it needs from 1 to %d", parts ? count : 0, JOIN_MOST);
    if (!fit_together(g, parts, count, dimension, &whole)) return 0;
    for (uint32_t i = 0; i < count; i++) rows[i] = as_matrix(g, parts[i], dimension, "concat");
    if (g->graph->failed) return 0;
    return reshape_apply(g->graph, join_apply(g->graph, rows, count), whole);
}

snug_tensor snug_transpose(snug_graph *g, snug_tensor x, int32_t first, int32_t second) {
    if (!has_dimension(g, x, first, "transpose") || !has_dimension(g, x, second, "transpose")) return 0;
    if (first == second) return x;
    transpose_attributes a = { first < second ? first : second, first < second ? second : first };
    return transpose_apply(g->graph, x, &a);
}

/* ---- images ---- */

snug_tensor snug_conv2d(snug_graph *g, snug_tensor x, snug_tensor w, snug_tensor bias,
                        const snug_conv2d_options *options) {
    if (!network_is_open(g, "conv2d")) return 0;
    snug_conv2d_options o = options ? *options : (snug_conv2d_options){ 0 };
    conv2d_attributes a = { o.stride ? o.stride : 1, o.padding, o.groups ? o.groups : 1 };
    return conv2d_apply(g->graph, x, w, bias, &a);
}

snug_tensor snug_convolution(snug_graph *g, const char *name, snug_tensor x, int64_t outputs, int64_t size,
                             const snug_conv2d_options *options) {
    if (!network_has(g, x, "convolution")) return 0;
    const shape *s = graph_shape(g->graph, x);
    char part[2 * NETWORK_NAME_BYTES], is[SHAPE_TEXT_BYTES];
    if (!name) return graph_fail(g->graph, "convolution: there is no name for its parameters, but NULL");
    if (s->rank != 4)
        return graph_fail(g->graph, "convolution: %s is no image, which is (samples,height,width,channels)",
                          shape_text(s, is));
    int64_t groups = options && options->groups > 0 ? options->groups : 1, inputs = s->dim[3] / groups;
    snprintf(part, sizeof part, "%.80s.weight", name);
    snug_tensor w = snug_parameter(g, part, SNUG_SHAPE(outputs, inputs, size, size), 0,
                                   1 / sqrt((double)inputs * (double)size * (double)size));
    snprintf(part, sizeof part, "%.80s.bias", name);
    return snug_conv2d(g, x, w, snug_parameter(g, part, SNUG_SHAPE(outputs), 0, 0), options);
}

snug_tensor snug_max_pool(snug_graph *g, snug_tensor x, int32_t size, int32_t stride, int32_t padding) {
    if (!network_is_open(g, "max_pool")) return 0;
    return max_pool_apply(g->graph, x, &(max_pool_attributes){ size, stride, padding });
}

snug_tensor snug_mean_pool(snug_graph *g, snug_tensor x, int32_t size, int32_t stride, int32_t padding) {
    if (!network_is_open(g, "mean_pool")) return 0;
    return mean_pool_apply(g->graph, x, &(mean_pool_attributes){ size, stride, padding });
}

snug_tensor snug_mean_places(snug_graph *g, snug_tensor x) {
    if (!network_has(g, x, "mean_places")) return 0;
    shape s = *graph_shape(g->graph, x);
    char is[SHAPE_TEXT_BYTES];
    if (s.rank == 3) x = reshape_apply(g->graph, x, SHAPE(s.dim[0], s.dim[1], 1, s.dim[2]));
    if (s.rank == 3 || s.rank == 4) return mean_space_apply(g->graph, x);
    return graph_fail(g->graph,
                      "mean_places: %s has no places; it must be (samples,places,channels) or "
                      "(samples,height,width,channels)",
                      shape_text(&s, is));
}
