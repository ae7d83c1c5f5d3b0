#include "oracle/oracle.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    oracle_tensor *weight, *bias;
} affine;

/* One block: its parameters, and what its forward leaves for its backward. N = B*T rows. */
typedef struct {
    affine norm1, attend, project, norm2, up, down;
    double *in;          /* (N,C) */
    double *normed1;     /* (N,C) */
    double *qkv;         /* (N,3C) */
    double *probability; /* (B,H,T,T) */
    double *mixed;       /* (N,C) */
    double *middle;      /* (N,C), after the attention's residual */
    double *normed2;     /* (N,C) */
    double *hidden;      /* (N,4C) */
    double *active;      /* (N,4C) */
} block;

struct oracle {
    oracle_config config;
    oracle_tensor *tensors;
    int count, steps;
    oracle_tensor *token, *position, *head;
    affine norm;
    block *blocks;
    double *out, *normed;             /* (N,C): the last block's output, and normed */
    double *logits;                   /* (V), one row */
    double *dx, *dy, *dwide, *dwide2; /* (N,C), (N,C), (N,4C), (N,4C): gradients on their way down */
};

/* ---- parameters ---- */

static void *take(size_t count, size_t size) {
    void *memory = calloc(count, size);
    if (!memory) abort();
    return memory;
}

static double *take_numbers(int64_t count) { return take((size_t)count, sizeof(double)); }

static oracle_tensor *add_parameter(oracle *o, const char *prefix, const char *name, int64_t rows,
                                    int64_t columns) {
    oracle_tensor *t = &o->tensors[o->count++];
    *t = (oracle_tensor){ .rank = columns ? 2 : 1,
                          .dim = { rows, columns },
                          .count = rows * (columns ? columns : 1) };
    snprintf(t->name, sizeof t->name, "%s%s", prefix, name);
    t->value = take_numbers(t->count);
    t->gradient = take_numbers(t->count);
    t->moment1 = take_numbers(t->count);
    t->moment2 = take_numbers(t->count);
    return t;
}

static affine add_norm(oracle *o, const char *prefix, const char *name) {
    char full[64];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    oracle_tensor *weight = add_parameter(o, full, ".weight", o->config.channels, 0);
    return (affine){ weight, add_parameter(o, full, ".bias", o->config.channels, 0) };
}

static affine add_linear(oracle *o, const char *prefix, const char *name, int64_t in, int64_t out) {
    char full[64];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    oracle_tensor *weight = add_parameter(o, full, ".weight", in, out);
    return (affine){ weight, add_parameter(o, full, ".bias", out, 0) };
}

static void open_block(oracle *o, int layer) {
    block *l = &o->blocks[layer];
    int64_t t = o->config.context, c = o->config.channels, n = o->config.batch * t;
    char prefix[32];
    snprintf(prefix, sizeof prefix, "transformer.h.%d.", layer);
    l->norm1 = add_norm(o, prefix, "ln_1");
    l->attend = add_linear(o, prefix, "attn.c_attn", c, 3 * c);
    l->project = add_linear(o, prefix, "attn.c_proj", c, c);
    l->norm2 = add_norm(o, prefix, "ln_2");
    l->up = add_linear(o, prefix, "mlp.c_fc", c, 4 * c);
    l->down = add_linear(o, prefix, "mlp.c_proj", 4 * c, c);
    l->in = take_numbers(n * c);
    l->normed1 = take_numbers(n * c);
    l->qkv = take_numbers(n * 3 * c);
    l->probability = take_numbers(n * t * o->config.heads);
    l->mixed = take_numbers(n * c);
    l->middle = take_numbers(n * c);
    l->normed2 = take_numbers(n * c);
    l->hidden = take_numbers(n * 4 * c);
    l->active = take_numbers(n * 4 * c);
}

oracle *oracle_open(const oracle_config *config) {
    oracle *o = take(1, sizeof *o);
    int64_t c = config->channels, v = config->vocabulary, n = (int64_t)config->batch * config->context;
    o->config = *config;
    o->tensors = take((size_t)config->layers * 12 + 5, sizeof *o->tensors);
    o->blocks = take((size_t)config->layers, sizeof *o->blocks);
    o->token = add_parameter(o, "transformer.", "wte.weight", v, c);
    o->position = add_parameter(o, "transformer.", "wpe.weight", config->context, c);
    for (int i = 0; i < config->layers; i++) open_block(o, i);
    o->norm = add_norm(o, "transformer.", "ln_f");
    o->head = config->tied ? o->token : add_parameter(o, "", "lm_head.weight", v, c);
    o->out = take_numbers(n * c);
    o->normed = take_numbers(n * c);
    o->logits = take_numbers(v);
    o->dx = take_numbers(n * c);
    o->dy = take_numbers(n * c);
    o->dwide = take_numbers(n * 4 * c);
    o->dwide2 = take_numbers(n * 4 * c);
    return o;
}

void oracle_close(oracle *o) {
    for (int i = 0; i < o->count; i++) {
        oracle_tensor *t = &o->tensors[i];
        free(t->value), free(t->gradient), free(t->moment1), free(t->moment2);
    }
    for (int i = 0; i < o->config.layers; i++) {
        block *l = &o->blocks[i];
        free(l->in), free(l->normed1), free(l->qkv), free(l->probability), free(l->mixed);
        free(l->middle), free(l->normed2), free(l->hidden), free(l->active);
    }
    free(o->tensors), free(o->blocks), free(o->out), free(o->normed), free(o->logits);
    free(o->dx), free(o->dy), free(o->dwide), free(o->dwide2);
    free(o);
}

int oracle_count(const oracle *o) { return o->count; }
oracle_tensor *oracle_tensor_at(oracle *o, int i) { return &o->tensors[i]; }

oracle_tensor *oracle_find(oracle *o, const char *name) {
    for (int i = 0; i < o->count; i++)
        if (strcmp(o->tensors[i].name, name) == 0) return &o->tensors[i];
    return NULL;
}

/* ---- layers, forward and backward ---- */

/* y (n,out) = x (n,in) w + b */
static void linear(affine a, int64_t n, const double *x, double *y) {
    int64_t in = a.weight->dim[0], out = a.weight->dim[1];
    for (int64_t r = 0; r < n; r++, x += in, y += out) {
        memcpy(y, a.bias->value, (size_t)out * sizeof *y);
        for (int64_t i = 0; i < in; i++)
            for (int64_t j = 0; j < out; j++) y[j] += x[i] * a.weight->value[i * out + j];
    }
}

/* Adds to the gradients of w and b; sets dx (n,in). */
static void linear_backward(affine a, int64_t n, const double *x, const double *dy, double *dx) {
    int64_t in = a.weight->dim[0], out = a.weight->dim[1];
    for (int64_t r = 0; r < n; r++, x += in, dx += in, dy += out) {
        for (int64_t j = 0; j < out; j++) a.bias->gradient[j] += dy[j];
        for (int64_t i = 0; i < in; i++) {
            dx[i] = 0;
            for (int64_t j = 0; j < out; j++) {
                a.weight->gradient[i * out + j] += x[i] * dy[j];
                dx[i] += dy[j] * a.weight->value[i * out + j];
            }
        }
    }
}

static void row_statistics(int64_t c, const double *x, double *mean, double *inverse) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < c; i++) sum += x[i];
    *mean = sum / (double)c;
    for (int64_t i = 0; i < c; i++) squares += (x[i] - *mean) * (x[i] - *mean);
    *inverse = 1 / sqrt(squares / (double)c + 1e-5);
}

static void normalise(affine a, int64_t n, const double *x, double *y) {
    int64_t c = a.weight->count;
    for (int64_t r = 0; r < n; r++, x += c, y += c) {
        double mean, inverse;
        row_statistics(c, x, &mean, &inverse);
        for (int64_t i = 0; i < c; i++)
            y[i] = (x[i] - mean) * inverse * a.weight->value[i] + a.bias->value[i];
    }
}

/* Adds to the gradients of the parameters and to dx. */
static void normalise_backward(affine a, int64_t n, const double *x, const double *dy, double *dx) {
    int64_t c = a.weight->count;
    for (int64_t r = 0; r < n; r++, x += c, dy += c, dx += c) {
        double mean, inverse, sum = 0, product = 0;
        row_statistics(c, x, &mean, &inverse);
        for (int64_t i = 0; i < c; i++) {
            double unit = (x[i] - mean) * inverse, slope = dy[i] * a.weight->value[i];
            a.weight->gradient[i] += dy[i] * unit;
            a.bias->gradient[i] += dy[i];
            sum += slope;
            product += slope * unit;
        }
        for (int64_t i = 0; i < c; i++) {
            double unit = (x[i] - mean) * inverse, slope = dy[i] * a.weight->value[i];
            dx[i] += inverse * (slope - sum / (double)c - unit * product / (double)c);
        }
    }
}

static double gelu_inside(double x) { return sqrt(2 / acos(-1.0)) * (x + 0.044715 * x * x * x); }
static double gelu(double x) { return 0.5 * x * (1 + tanh(gelu_inside(x))); }
static double gelu_slope(double x) {
    double t = tanh(gelu_inside(x)), inner = sqrt(2 / acos(-1.0)) * (1 + 3 * 0.044715 * x * x);
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner;
}

/* One head of one sample. qkv points at its first query: keys lie c, values 2c further, rows 3c apart. */
static void attend(int64_t time, int64_t c, int64_t d, const double *qkv, double *probability, double *out) {
    for (int64_t t = 0; t < time; t++) {
        const double *q = qkv + t * 3 * c;
        double *p = probability + t * time, most = -INFINITY, sum = 0;
        for (int64_t s = 0; s <= t; s++) {
            const double *k = qkv + s * 3 * c + c;
            p[s] = 0;
            for (int64_t i = 0; i < d; i++) p[s] += q[i] * k[i];
            p[s] /= sqrt((double)d);
            most = fmax(most, p[s]);
        }
        for (int64_t s = 0; s <= t; s++) sum += p[s] = exp(p[s] - most);
        for (int64_t i = 0; i < d; i++) out[t * c + i] = 0;
        for (int64_t s = 0; s <= t; s++) {
            p[s] /= sum;
            for (int64_t i = 0; i < d; i++) out[t * c + i] += p[s] * qkv[s * 3 * c + 2 * c + i];
        }
    }
}

typedef struct {
    int64_t time, c, d;
    const double *qkv, *probability, *dout;
    double *dqkv; /* is added to */
} attention;

static void attend_backward(const attention *a) {
    int64_t row = 3 * a->c;
    for (int64_t t = 0; t < a->time; t++) {
        const double *p = a->probability + t * a->time, *dout = a->dout + t * a->c;
        double mean = 0;
        for (int64_t s = 0; s <= t; s++)
            for (int64_t i = 0; i < a->d; i++) mean += p[s] * dout[i] * a->qkv[s * row + 2 * a->c + i];
        for (int64_t s = 0; s <= t; s++) {
            const double *q = a->qkv + t * row, *k = a->qkv + s * row + a->c, *v = k + a->c;
            double *dq = a->dqkv + t * row, *dk = a->dqkv + s * row + a->c, *dv = dk + a->c, dp = 0;
            for (int64_t i = 0; i < a->d; i++) dp += dout[i] * v[i];
            double dscore = p[s] * (dp - mean) / sqrt((double)a->d);
            for (int64_t i = 0; i < a->d; i++) {
                dv[i] += p[s] * dout[i];
                dq[i] += dscore * k[i];
                dk[i] += dscore * q[i];
            }
        }
    }
}

/* ---- the model ---- */

static void forward_block(const oracle *o, block *l, const oracle_batch *b, double *out) {
    int64_t c = o->config.channels, h = o->config.heads, d = c / h, t = b->time, n = b->samples * t;
    normalise(l->norm1, n, l->in, l->normed1);
    linear(l->attend, n, l->normed1, l->qkv);
    for (int64_t i = 0; i < b->samples * h; i++) {
        int64_t row = i / h * t, column = i % h * d;
        attend(t, c, d, l->qkv + row * 3 * c + column, l->probability + i * t * t,
               l->mixed + row * c + column);
    }
    linear(l->project, n, l->mixed, l->middle);
    for (int64_t i = 0; i < n * c; i++) l->middle[i] += l->in[i];
    normalise(l->norm2, n, l->middle, l->normed2);
    linear(l->up, n, l->normed2, l->hidden);
    for (int64_t i = 0; i < n * 4 * c; i++) l->active[i] = gelu(l->hidden[i]);
    linear(l->down, n, l->active, out);
    for (int64_t i = 0; i < n * c; i++) out[i] += l->middle[i];
}

/* o->dx: the gradient of the block's output at entry, of its input at return. */
static void backward_block(oracle *o, const block *l, const oracle_batch *b) {
    int64_t c = o->config.channels, h = o->config.heads, d = c / h, t = b->time, n = b->samples * t;
    linear_backward(l->down, n, l->active, o->dx, o->dwide);
    for (int64_t i = 0; i < n * 4 * c; i++) o->dwide[i] *= gelu_slope(l->hidden[i]);
    linear_backward(l->up, n, l->normed2, o->dwide, o->dy);
    normalise_backward(l->norm2, n, l->middle, o->dy, o->dx);
    linear_backward(l->project, n, l->mixed, o->dx, o->dy);
    memset(o->dwide2, 0, (size_t)(n * 3 * c) * sizeof(double));
    for (int64_t i = 0; i < b->samples * h; i++) {
        int64_t row = i / h * t, column = i % h * d;
        attend_backward(&(attention){ t, c, d, l->qkv + row * 3 * c + column, l->probability + i * t * t,
                                      o->dy + row * c + column, o->dwide2 + row * 3 * c + column });
    }
    linear_backward(l->attend, n, l->normed1, o->dwide2, o->dy);
    normalise_backward(l->norm1, n, l->in, o->dy, o->dx);
}

static void embed(const oracle *o, const oracle_batch *b, double *x) {
    int64_t c = o->config.channels;
    for (int64_t r = 0; r < (int64_t)b->samples * b->time; r++)
        for (int64_t i = 0; i < c; i++)
            x[r * c + i] = o->token->value[b->tokens[r] * c + i] + o->position->value[r % b->time * c + i];
}

static void embed_backward(oracle *o, const oracle_batch *b) {
    int64_t c = o->config.channels;
    for (int64_t r = 0; r < (int64_t)b->samples * b->time; r++)
        for (int64_t i = 0; i < c; i++) {
            o->token->gradient[b->tokens[r] * c + i] += o->dx[r * c + i];
            o->position->gradient[r % b->time * c + i] += o->dx[r * c + i];
        }
}

/* Projects one row on the vocabulary; leaves its probabilities in o->logits and returns -log p[label]. */
static double row_loss(oracle *o, const double *x, int32_t label) {
    int64_t c = o->config.channels, v = o->config.vocabulary;
    double most = -INFINITY, sum = 0;
    for (int64_t j = 0; j < v; j++) {
        o->logits[j] = 0;
        for (int64_t i = 0; i < c; i++) o->logits[j] += x[i] * o->head->value[j * c + i];
        most = fmax(most, o->logits[j]);
    }
    for (int64_t j = 0; j < v; j++) sum += exp(o->logits[j] - most);
    double loss = most + log(sum) - o->logits[label];
    for (int64_t j = 0; j < v; j++) o->logits[j] = exp(o->logits[j] - most) / sum;
    return loss;
}

/* The scaled loss; with `dx` (n,C) also its gradients. */
static double head_loss(oracle *o, const oracle_batch *b, double *dx) {
    int64_t c = o->config.channels;
    double loss = 0;
    for (int64_t r = 0; r < (int64_t)b->samples * b->time; r++) {
        const double *x = o->normed + r * c;
        bool counts = b->labels[r] != -100;
        if (counts) loss += b->scale * row_loss(o, x, b->labels[r]);
        if (dx) memset(dx + r * c, 0, (size_t)c * sizeof *dx);
        if (!dx || !counts) continue;
        for (int64_t j = 0; j < o->config.vocabulary; j++) {
            double slope = b->scale * (o->logits[j] - (j == b->labels[r]));
            for (int64_t i = 0; i < c; i++) {
                o->head->gradient[j * c + i] += slope * x[i];
                dx[r * c + i] += slope * o->head->value[j * c + i];
            }
        }
    }
    return loss;
}

static void forward(oracle *o, const oracle_batch *b) {
    int layers = o->config.layers;
    embed(o, b, layers ? o->blocks[0].in : o->out);
    for (int i = 0; i < layers; i++)
        forward_block(o, &o->blocks[i], b, i + 1 < layers ? o->blocks[i + 1].in : o->out);
    normalise(o->norm, (int64_t)b->samples * b->time, o->out, o->normed);
}

double oracle_loss(oracle *o, const oracle_batch *b) {
    forward(o, b);
    return head_loss(o, b, NULL);
}

double oracle_accumulate(oracle *o, const oracle_batch *b) {
    int64_t n = (int64_t)b->samples * b->time;
    forward(o, b);
    double loss = head_loss(o, b, o->dy);
    memset(o->dx, 0, (size_t)(n * o->config.channels) * sizeof *o->dx);
    normalise_backward(o->norm, n, o->out, o->dy, o->dx);
    for (int i = o->config.layers; i-- > 0;) backward_block(o, &o->blocks[i], b);
    embed_backward(o, b);
    return loss;
}

/* ---- the optimizer ---- */

void oracle_zero(oracle *o) {
    for (int i = 0; i < o->count; i++)
        memset(o->tensors[i].gradient, 0, (size_t)o->tensors[i].count * sizeof(double));
}

double oracle_norm(const oracle *o) {
    double squares = 0;
    for (int i = 0; i < o->count; i++)
        for (int64_t j = 0; j < o->tensors[i].count; j++)
            squares += o->tensors[i].gradient[j] * o->tensors[i].gradient[j];
    return sqrt(squares);
}

double oracle_clip(oracle *o, double most) {
    double norm = oracle_norm(o), factor = fmin(1, most / (norm + 1e-6));
    for (int i = 0; i < o->count; i++)
        for (int64_t j = 0; j < o->tensors[i].count; j++) o->tensors[i].gradient[j] *= factor;
    return norm;
}

void oracle_update(oracle *o, const oracle_adamw *a) {
    o->steps++;
    double correct1 = 1 - pow(a->beta1, o->steps), correct2 = 1 - pow(a->beta2, o->steps);
    for (int i = 0; i < o->count; i++) {
        oracle_tensor *t = &o->tensors[i];
        double decay = t->rank >= 2 ? a->decay : 0;
        for (int64_t j = 0; j < t->count; j++) {
            double g = t->gradient[j];
            t->moment1[j] = a->beta1 * t->moment1[j] + (1 - a->beta1) * g;
            t->moment2[j] = a->beta2 * t->moment2[j] + (1 - a->beta2) * g * g;
            t->value[j] -= a->rate * decay * t->value[j];
            double width = sqrt(t->moment2[j] / correct2) + a->epsilon;
            t->value[j] -= a->rate * t->moment1[j] / correct1 / width;
        }
    }
}
