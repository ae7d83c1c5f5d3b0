/* Which of these files does a piece of 64 bytes come from? A small network learns it, inside a memory budget,
 * with nothing but the public API of snug:
 *
 *     example-classify [MEBIBYTES [FOLDER [OUT]]]
 *
 * FOLDER (/usr/share/common-licenses) holds the files, one class each. Every fifth stretch of a file is kept
 * from training and tells at the end how well the network does on text that it has not seen. The weights go
 * to OUT (classify-out). Exit codes are those of the library: 3 when the budget is too small. */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <snug/snug.h>

enum { PIECE = 64, WIDTH = 16, HIDDEN = 256, MAX_FILES = 64, STRETCH = 320, EVERY = 5, PIECES = 1000 };

/* ---- the files ---- */

typedef struct {
    char name[256];
    char *bytes;
    long count; /* of stretches; a rest is left out */
} source_file;

typedef struct {
    source_file files[MAX_FILES];
    int count;
} library;

static int read_file(const char *folder, const char *name, source_file *f) {
    char path[1024];
    struct stat about;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (lstat(path, &about) != 0 || !S_ISREG(about.st_mode) || about.st_size < EVERY * STRETCH) return 0;
    FILE *file = fopen(path, "rb");
    if (!file) return 0;
    f->bytes = malloc((size_t)about.st_size);
    size_t got = f->bytes ? fread(f->bytes, 1, (size_t)about.st_size, file) : 0;
    fclose(file);
    snprintf(f->name, sizeof f->name, "%s", name);
    f->count = (long)got / STRETCH;
    return f->count >= EVERY;
}

static int read_folder(const char *folder, library *l) {
    struct dirent **entries;
    int n = scandir(folder, &entries, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        if (l->count < MAX_FILES) l->count += read_file(folder, entries[i]->d_name, &l->files[l->count]);
        free(entries[i]);
    }
    if (n >= 0) free(entries);
    return l->count;
}

/* ---- samples ---- */

/* Mixes a number's bits, so that sample i comes from anywhere, and always from the same place. */
static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 31) * 0x7fb5d329728ea185u;
    x = (x ^ x >> 27) * 0x81dadef4bc2dd44du;
    return x ^ x >> 33;
}

/* Piece i: out of a stretch that validates, or of one that doesn't. */
static void cut_piece(const library *l, int64_t i, int validates, int32_t *text, int32_t *from) {
    int class = (int)(i % l->count);
    const source_file *f = &l->files[class];
    uint64_t chance = mix((uint64_t)i * 2 + (uint64_t)validates + 1);
    long group = (long)(chance % (uint64_t)(f->count / EVERY)), place = EVERY - 1;
    chance /= 4096;
    if (!validates) place = (long)(chance % (EVERY - 1));
    chance /= 4096;
    const char *stretch = f->bytes + (group * EVERY + place) * STRETCH;
    const char *piece = stretch + chance % (STRETCH - PIECE + 1);
    for (int k = 0; k < PIECE; k++) text[k] = (unsigned char)piece[k];
    *from = class;
}

static int read_training(void *context, int64_t i, void *const fields[]) {
    cut_piece(context, i, 0, fields[0], fields[1]);
    return 0;
}

static int read_validation(void *context, int64_t i, void *const fields[]) {
    cut_piece(context, i, 1, fields[0], fields[1]);
    return 0;
}

/* ---- the network ---- */

static void build(void *context, snug_graph *g) {
    const library *l = context;
    snug_tensor text = snug_input(g, "text"); /* (samples, 64) */
    snug_tensor table = snug_parameter(g, "bytes", SNUG_SHAPE(256, WIDTH), 0, 0.5);
    snug_tensor x = snug_reshape(g, snug_embedding(g, text, table), SNUG_SHAPE(PIECE * WIDTH));
    x = snug_gelu(g, snug_linear(g, "hidden", x, HIDDEN));
    x = snug_linear(g, "classes", snug_dropout(g, x, 0.2), l->count);
    snug_cross_entropy(g, x, snug_input(g, "from"));
    snug_output(g, x);
}

/* ---- training, and what came of it ---- */

static void stepped(void *context, const snug_progress *p) {
    (void)context;
    if (p->step % 100 == 0 || p->step == 1)
        printf("step %5lld of %lld  loss %.4f  %.1f ms a step  %.1f of %.1f MiB\n", (long long)p->step,
               (long long)p->steps, p->loss, 1e3 * p->seconds, (double)p->resident_bytes / (1 << 20),
               (double)p->planned_bytes / (1 << 20));
}

static void evaluated(void *context, int64_t step, double loss) {
    (void)context;
    printf("step %5lld  loss %.4f on pieces it has not seen\n", (long long)step, loss);
}

static int try_out(const snug_network *network, library *l, const char *weights) {
    snug_predictor *p = snug_load(network, weights, 0, 0);
    if (!p) {
        fprintf(stderr, "classify: %s\n", snug_error());
        return SNUG_FAILED;
    }
    int asked[MAX_FILES] = { 0 }, right[MAX_FILES] = { 0 }, sum = 0;
    for (int i = 0; i < PIECES; i++) {
        int32_t text[PIECE], from;
        cut_piece(l, i, 1, text, &from);
        const float *score = snug_predict(p, (const void *const[]){ text, NULL }, NULL);
        int best = 0;
        for (int k = 1; score && k < l->count; k++)
            if (score[k] > score[best]) best = k;
        asked[from]++, right[from] += best == from, sum += best == from;
    }
    for (int k = 0; k < l->count; k++)
        printf("  %-20s %3d of %3d told right\n", l->files[k].name, right[k], asked[k]);
    printf("%d of %d unseen pieces told right; guessing would get %d\n", sum, PIECES, PIECES / l->count);
    snug_unload(p);
    return SNUG_OK;
}

static int train(const snug_network *network, library *l, const snug_options *options) {
    snug_data training = { .samples = 1 << 18, .read = read_training, .context = l };
    snug_data validation = { .samples = 1024, .read = read_validation, .context = l };
    snug_observer observer = { .stepped = stepped, .evaluated = evaluated };
    snug_run *run;
    snug_status status = snug_plan(network, &training, &validation, options, &run);
    if (run) printf("%s\n", snug_run_text(run));
    if (status == SNUG_OK) status = snug_train(run, &observer, NULL);
    if (status != SNUG_OK) fprintf(stderr, "classify: %s\n", snug_error());
    snug_close(run);
    return (int)status;
}

int main(int argc, char **argv) {
    const char *folder = argc > 2 ? argv[2] : "/usr/share/common-licenses";
    static library l;
    if (read_folder(folder, &l) < 2) {
        fprintf(stderr, "classify: %s has no two files of %d bytes or more\n", folder, EVERY * STRETCH);
        return SNUG_INVALID;
    }
    const snug_network network = {
        .name = "classify",
        .fields = { { "text", SNUG_SHAPE(PIECE), SNUG_I32 }, { .name = "from", .type = SNUG_I32 } },
        .labels = "from",
        .build = build,
        .context = &l,
    };
    snug_options options = snug_defaults();
    options.memory = (uint64_t)(argc > 1 ? strtoull(argv[1], NULL, 10) : 64) << 20;
    options.batch = 256;
    options.steps = 1000;
    options.learning_rate = 2e-3;
    options.eval_every = 500;
    options.eval_samples = 1024;
    options.out = argc > 3 ? argv[3] : "classify-out";
    options.overwrite = true; /* what the last try of this program has left may go */
    int status = train(&network, &l, &options);
    if (status == SNUG_OK) status = try_out(&network, &l, options.out);
    for (int i = 0; i < l.count; i++) free(l.files[i].bytes);
    return status;
}
