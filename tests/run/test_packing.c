/* Documents that stand one behind the other in a sample, told apart: they train as if each stood alone, under
 * techniques too; without being told apart they don't. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "models/encoder.h"
#include "models/modernbert.h"
#include "run/lab.h"

enum { DOCUMENTS = 3, LENGTH = 16, SAMPLES = 4, STEPS = 3 };

/* Tokens by their number in the batch, so that samples of one document each have those of samples of more. */
static int64_t per_sample;
static int32_t token(int step, int64_t sample, int64_t time) {
    uint32_t n = (uint32_t)(step * 7919 + sample * per_sample * LENGTH + time) * 2654435761u;
    return (int32_t)(n >> 16) % 41;
}
static int32_t next(int step, int64_t sample, int64_t time) {
    return time % LENGTH == LENGTH - 1 ? -100 : token(step, sample, time + 1);
}

typedef struct {
    const char *family; /* NULL: GPT-2 */
    int64_t documents;  /* in a sample */
    bool apart;
    const char *settings;
    int64_t micro_batch; /* of packed samples; 0: all */
} question;

static encoder_config encoder; /* the model points at it */

static void set_encoder(lab *l, const char *type) {
    encoder = (encoder_config){ .kind = encoder_kind_find(type),
                                .layers = 2,
                                .heads = 2,
                                .channels = 16,
                                .inner = 24,
                                .positions = DOCUMENTS * LENGTH + 2,
                                .vocabulary = 41,
                                .types = 1,
                                .padding = 1,
                                .mask = 40,
                                .epsilon = 1e-5,
                                .deviation = 0.1 };
    assert_int_equal(encoder_check(&encoder), STATUS_OK);
    encoder_model(&encoder, "lab", &l->model);
}

/* Windows of 5 to both sides, which end within a document; the first layer sees all. */
static const modernbert_config windowed = { .layers = 2,
                                            .heads = 2,
                                            .channels = 16,
                                            .inner = 24,
                                            .context = DOCUMENTS * LENGTH,
                                            .vocabulary = 41,
                                            .local = 10,
                                            .far = { 1 },
                                            .theta = 100,
                                            .near_theta = 20,
                                            .tied = true,
                                            .mask = 40,
                                            .epsilon = 1e-5,
                                            .deviation = 0.5 };

/* The same documents whatever `documents` is. */
static void run(const question *q, lab_result *out) {
    lab l;
    const char *type = q->family;
    bool modern = type && strcmp(type, "modernbert") == 0, fills = type && encoder_kind_find(type);
    per_sample = q->documents;
    lab_open(&l, &(lab_sizes){ .layers = 2,
                               .heads = 2,
                               .channels = 16,
                               .context = DOCUMENTS * LENGTH,
                               .vocabulary = 41,
                               .batch = SAMPLES * DOCUMENTS / q->documents,
                               .optimizer = OPTIMIZER_SGD,
                               .decoder = fills || modern ? NULL : type });
    if (fills) set_encoder(&l, type);
    if (modern) modernbert_model(&windowed, "lab", &l.model);
    if (q->apart) lab_pack(&l, q->documents);
    l.run.context = q->documents * LENGTH;
    l.token = token, l.label = next;
    compose_choice c = lab_choose(&l, q->micro_batch, q->settings);
    lab_run(&l, &c, 0, STEPS, out);
    lab_assert_exact_bytes(out, q->settings);
    out->evaluation = 0; /* over other samples */
}

static const char *const families[] = { NULL,   "llama",   "qwen2",      "gemma2",
                                        "bert", "roberta", "distilbert", "modernbert" };
enum { FAMILIES = sizeof families / sizeof *families };

static double distance(const question *a, const question *b) {
    lab_result x, y;
    run(a, &x);
    run(b, &y);
    double away = lab_distance(&x, &y);
    lab_result_close(&x);
    lab_result_close(&y);
    return away;
}

static void a_document_among_others_is_alone(void **state) {
    (void)state;
    for (int i = 0; i < FAMILIES; i++) {
        question alone = { families[i], 1, false, "", 0 }, packed = { families[i], DOCUMENTS, true, "", 0 },
                 cross = { families[i], DOCUMENTS, false, "", 0 };
        double near = distance(&alone, &packed), far = distance(&alone, &cross);
        if (near > 1e-5) fail_msg("%s: %g from those alone", families[i] ? families[i] : "gpt2", near);
        if (far < 1e-3)
            fail_msg("%s: %g though they see each other", families[i] ? families[i] : "gpt2", far);
    }
}

static void techniques_tell_them_apart_too(void **state) {
    (void)state;
    static const struct {
        const char *settings;
        int64_t micro_batch;
        double distance;
    } cases[] = { { "attention=flash", 0, 1e-5 },
                  { "attention=flash recompute=block chunk_loss=100", 0, 1e-5 },
                  { "recompute=cheap accumulate=add fuse=on", 1, 1e-5 },
                  { "attention=flash accumulate=defer update_early=twice", 2, 1e-5 },
                  { "precision=bf16 attention=flash", 0, 0.1 },
                  { "compress_activations=8bit", 0, 0.1 },
                  { "qat=int8", 0, 0.5 } };
    for (int i = 0; i < FAMILIES; i++)
        for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
            question alone = { families[i], 1, false, "", 0 },
                     packed = { families[i], DOCUMENTS, true, cases[k].settings, cases[k].micro_batch };
            double away = distance(&alone, &packed);
            if (!(away < cases[k].distance))
                fail_msg("%s, %s: %g away", families[i] ? families[i] : "gpt2", cases[k].settings, away);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_document_among_others_is_alone),
        cmocka_unit_test(techniques_tell_them_apart_too),
    };
    return cmocka_run_group_tests_name("packing", tests, NULL, NULL);
}
