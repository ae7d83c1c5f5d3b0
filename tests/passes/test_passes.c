/* Techniques as options and as plans: texts, pins that contradict each other, and golden plans: what
 * well-known models need, which must not get worse. Plans only; nothing is allocated or run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/memory.h"
#include "base/threads.h"
#include "chain/compose_graphs.h"
#include "ir/print.h"
#include "oracle/reach.h"
#include "run/decision.h"

static const pass *find_pass(const char *name) {
    for (int i = 0; pass_table[i]; i++)
        if (strcmp(pass_table[i]->name, name) == 0) return pass_table[i];
    fail_msg("there is no technique '%s'", name);
    return NULL;
}

static void must(status result) {
    if (result != STATUS_OK) fail_msg("%s", status_message());
}

/* ---- texts ---- */

static void same_text(const pass *p, const char *written) {
    pass_setting s, again;
    must(p->parse(written, &s));
    assert_string_equal(s.text, written);
    must(p->parse(s.text, &again));
    assert_memory_equal(s.value, again.value, sizeof s.value);
    assert_int_equal(s.class, again.class);
    assert_true(s.class <= p->class);
}

static const struct {
    const char *name, *texts[12];
} good[] = {
    { "lora",
      { "rank=8", "rank=4096,alpha=1", "rank=2,target=c_attn+attn.c_proj",
        "rank=1,alpha=0.5,target=c_fc,dropout=0.25", "rank=8,target=c_fc,base=nf4", "rank=8,base=int8" } },
    { "fuse", { "on" } },
    { "qat", { "int8" } },
    { "quantize", { "int8", "int8:static", "int8:all", "int8:static:all", "int4", "int4:all" } },
    { "precision",
      { "mixed-bf16", "mixed-f16", "mixed-f16:100", "bf16", "bf16:nearest", "int8", "int8-mixed", "fp8-mixed",
        "weights-bf16", "weights-f16", "products-bf16" } },
    { "gelu_epilogue", { "on" } },
    { "attention", { "flash" } },
    { "library_attention", { "on", "forward" } },
    { "library_products", { "on" } },
    { "chunk_loss", { "1", "100", "256", "16777216" } },
    { "compress_activations", { "8bit" } },
    { "recompute",
      { "cheap", "block", "2", "98", "cheap:3", "block:4096+98", "2:1+cheap", "block:4096+block" } },
    { "update_early", { "on", "twice" } },
    { "quantize_state", { "8bit", "8bit:all", "bf16" } },
    { "offload", { "optimizer", "activations", "optimizer+activations", "optimizer+master+gradients" } },
    { "sharding",
      { "copies", "gradients", "weights", "weights:ahead=0", "weights:keep=3", "weights:ahead=8:keep=12",
        "weights:group=8", "weights:ahead=0:keep=2:group=65536", "gradients:group=4",
        "gradients:late=1:group=4" } },
    { "accumulate", { "defer", "add" } },
};

static void texts_round_trip(void **state) {
    (void)state;
    for (int i = 0; pass_table[i]; i++) {
        size_t k = 0;
        while (k < sizeof good / sizeof *good && strcmp(good[k].name, pass_table[i]->name) != 0) k++;
        if (k == sizeof good / sizeof *good) fail_msg("no texts to try for '%s'", pass_table[i]->name);
        for (int t = 0; good[k].texts[t]; t++) same_text(pass_table[i], good[k].texts[t]);
    }
    pass_setting s;
    must(find_pass("attention")->parse("plain", &s)); /* another way to say off */
    assert_string_equal(s.text, "off");
}

static void nonsense_is_refused(void **state) {
    (void)state;
    static const char *const bad[] = {
        "",
        " ",
        "nonsense",
        "-1",
        "0",
        "on ",
        "ON",
        "+",
        ":",
        "cheap:",
        "cheap:0",
        "block:2+",
        "+cheap",
        "cheap+block",
        "2:3:4",
        "1.5",
        "0x10",
        "256 rows",
        "99999999999999999999",
        "block:4097",
        "99",
        "a long text that no technique has any use for, longer than every buffer that it might be copied to"
    };
    for (int i = 0; pass_table[i]; i++) {
        char option[PASS_OPTION_BYTES], dashed[PASS_OPTION_BYTES + 2];
        snprintf(dashed, sizeof dashed, "--%s", pass_option(pass_table[i], option));
        for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
            pass_setting s;
            STATUS_IGNORED(status_set(STATUS_OK, "nothing yet")); /* so that a sentence is seen to be new */
            status result = pass_table[i]->parse(bad[k], &s);
            if (result == STATUS_OK && strcmp(pass_table[i]->name, "chunk_loss") == 0 &&
                strcmp(bad[k], "99") == 0)
                continue; /* 99 rows are fine */
            if (result != STATUS_INVALID) fail_msg("%s: '%s' is %d", dashed, bad[k], result);
            if (!strstr(status_message(), dashed)) fail_msg("'%s' does not say %s", status_message(), dashed);
        }
    }
}

/* So is a text that begins well. */
static void what_follows_a_text_is_read(void **state) {
    (void)state;
    static const char *const more[] = { ",nonsense", ",nonsense=1", "nonsense", " ", "+nonsense" };
    for (size_t k = 0; k < sizeof good / sizeof *good; k++)
        for (int t = 0; t < 8 && good[k].texts[t]; t++)
            for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
                char written[2 * PASS_SETTING_BYTES];
                pass_setting s;
                bool target = strstr(good[k].texts[t], "target=") && more[i][0] != ',';
                if (target) continue; /* which may have any name */
                snprintf(written, sizeof written, "%s%s", good[k].texts[t], more[i]);
                if (find_pass(good[k].name)->parse(written, &s) != STATUS_INVALID)
                    fail_msg("%s: '%s' is taken", good[k].name, written);
            }
}

/* A text for which there is just no room is refused, not cut. */
static void long_texts_are_not_cut(void **state) {
    (void)state;
    static const char begin[] = "mixed-f16:";
    for (int length = PASS_SETTING_BYTES - 1; length < PASS_SETTING_BYTES + 2; length++) {
        char written[PASS_SETTING_BYTES + 2];
        pass_setting s;
        snprintf(written, sizeof written, "%s%0*d", begin, length - (int)strlen(begin), 16);
        status result = find_pass("precision")->parse(written, &s);
        assert_int_equal(result, length < PASS_SETTING_BYTES ? STATUS_OK : STATUS_INVALID);
        if (result == STATUS_OK) assert_string_equal(s.text, written);
    }
}

/* ---- plans ---- */

typedef struct {
    const char *model;
    int64_t batch, micro_batch;
    double clip;
} request;

static void open_setup(setup *s, const request *r) {
    setup_options o = setup_defaults();
    o.model = r->model, o.batch = r->batch, o.context = 256, o.threads = 2, o.optimizer.clip = r->clip;
    o.micro_batch = r->micro_batch;
    must(setup_open(&o, NULL, s));
}

static void pin(setup *s, const char *name, const char *written) {
    for (int i = 0; pass_table[i]; i++) {
        if (strcmp(pass_table[i]->name, name) != 0) continue;
        s->request.pins[i].kind = SEARCH_PINNED;
        must(pass_table[i]->parse(written, &s->request.pins[i].setting));
    }
}

/* What every technique itself offers is what can be written, and is kept when it is. */
static void offers_can_be_pinned(void **state) {
    (void)state;
    int offered = 0;
    for (int64_t micro = 2; micro <= 4; micro += 2) {
        setup s;
        open_setup(&s, &(request){ .model = "char-small", .batch = 4, .micro_batch = micro, .clip = 1 });
        search_front f;
        must(search_run(&s.request, NULL, &f));
        for (uint32_t i = 0; i < f.count; i++)
            for (int k = 0; pass_table[k]; k++) {
                const pass_setting *x = &f.points[i].choice.settings[k];
                if (x->text[0]) same_text(pass_table[k], x->text), offered++;
            }
        search_close(&f);
        setup_close(&s);
    }
    assert_true(offered > 20);
}

static void refused(setup *s, const char *part) {
    search_front f;
    assert_int_equal(search_run(&s->request, NULL, &f), STATUS_INVALID);
    if (!strstr(status_message(), part)) fail_msg("'%s' does not say '%s'", status_message(), part);
    setup_close(s);
}

static void contradictions(void **state) {
    (void)state;
    setup s;
    open_setup(&s, &(request){ .model = "char-small", .batch = 4, .micro_batch = 2 });
    pin(&s, "update_early", "on");
    refused(&s, "--update-early cannot be combined with gradient accumulation");
    open_setup(&s, &(request){ .model = "char-small", .batch = 4, .micro_batch = 2, .clip = 1 });
    pin(&s, "update_early", "twice");
    refused(&s, "--update-early cannot be combined with gradient accumulation");
    open_setup(&s, &(request){ .model = "char-small", .batch = 4, .clip = 1 });
    pin(&s, "update_early", "on");
    refused(
        &s,
        "--update-early on cannot clip by the norm of all gradients; use --update-early twice or --clip off");
}

/* A pin that only some micro-batches allow leaves those. */
static void pins_choose_micro_batches(void **state) {
    (void)state;
    setup s;
    search_front f;
    open_setup(&s, &(request){ .model = "char-small", .batch = 4 });
    pin(&s, "update_early", "on");
    must(search_run(&s.request, NULL, &f));
    for (uint32_t i = 0; i < f.count; i++) assert_int_equal(f.points[i].choice.micro_batch, 4);
    search_close(&f);
    setup_close(&s);
}

/* Where no norm is waited for, "twice" would compute gradients that nobody reads: it is as "on". */
static void twice_is_for_clipping_only(void **state) {
    (void)state;
    search_front f[2];
    for (int twice = 0; twice < 2; twice++) {
        setup s;
        open_setup(&s, &(request){ .model = "char-small", .batch = 4 });
        pin(&s, "update_early", twice ? "twice" : "on");
        must(search_run(&s.request, NULL, &f[twice]));
        setup_close(&s);
    }
    assert_int_equal(f[0].count, f[1].count);
    for (uint32_t i = 0; i < f[0].count; i++) {
        assert_int_equal(f[0].points[i].peak_bytes, f[1].points[i].peak_bytes);
        double on = f[0].points[i].seconds, as_on = f[1].points[i].seconds;
        assert_true(on <= as_on && on >= as_on);
    }
    search_close(&f[0]);
    search_close(&f[1]);
}

/* ---- what passes say of themselves ---- */

static void bytes_by_role(const graph *g, uint64_t bytes[ROLE_RESULT + 1]) {
    memset(bytes, 0, (ROLE_RESULT + 1) * sizeof *bytes);
    for (tensor_id t = 1; t < g->tensors.count; t++) {
        const tensor *x = graph_tensor(g, t);
        if (!x->producer && !x->away) bytes[x->role] += graph_tensor_bytes(g, t);
    }
}

static char *printed(const graph *g) {
    text t = { 0 };
    print_graph(g, &t);
    return t.data;
}

/* One setting of a step pass on a graph before step passes. */
static void try_setting(const pass *p, const graph *g, const pass_setting *s, pass_context c) {
    uint64_t before[ROLE_RESULT + 1], after[ROLE_RESULT + 1];
    graph out, other;
    bytes_by_role(g, before);
    must(graph_open(&out));
    must(p->run(g, s, &c, &out));
    bytes_by_role(&out, after);
    for (int k = ROLE_PARAMETER; k <= ROLE_RESULT; k++)
        if (after[k] < before[k] && !(p->frees >> k & 1))
            fail_msg("%s %s leaves less of role %d in memory, which it does not say", p->name, s->text, k);
    c.accumulating = true;
    must(graph_open(&other));
    must(p->run(g, s, &c, &other));
    char *one = printed(&out), *two = printed(&other);
    if (!p->by_program) assert_string_equal(one, two);
    memory_free(one);
    memory_free(two);
    graph_close(&out);
    graph_close(&other);
}

/* Bounds of what a choice takes, and what its programs share, rest on what passes say that they leave alone.
 */
static void they_leave_alone_what_they_say(void **state) {
    (void)state;
    int tried = 0;
    for (int64_t micro = 2; micro <= 4; micro += 2) {
        setup s;
        graph g;
        open_setup(&s, &(request){ .model = "char-small", .batch = 4, .micro_batch = micro, .clip = 1 });
        compose_choice choice = { .micro_batch = micro };
        pass_context c = compose_context(&s.request.run, &choice);
        c.away = true;
        must(compose_graph(&s.request.run, &choice, PASS_STEP, &g));
        for (int i = 0; pass_table[i]; i++) {
            pass_setting offered[64];
            pass_without without = PASS_OPTIONAL;
            if (pass_table[i]->stage != PASS_STEP) continue;
            uint32_t count = pass_table[i]->settings(&g, &c, offered, 64, &without);
            for (uint32_t k = 0; k < count; k++, tried++) try_setting(pass_table[i], &g, &offered[k], c);
        }
        graph_close(&g);
        setup_close(&s);
    }
    assert_true(tried > 20);
}

/* Sizes of a graph's room, from one that has no place for anything to one that has for all. */
static void try_rooms(const pass *p, const graph *g, const pass_setting *s, const pass_context *c) {
    graph whole;
    must(graph_open(&whole));
    must(p->run(g, s, c, &whole));
    graph_room room = plan_graph_room(1);
    uint64_t all = 2 * plan_growing_bytes(&whole);
    int refused = 0;
    for (room.bytes = 1; room.bytes < all; room.bytes += 1 + all / 9) {
        graph out;
        graph_limit(&room);
        must(graph_open(&out));
        status result = p->run(g, s, c, &out);
        graph_limit(&(graph_room){ 0 });
        assert_int_equal(result, graph_status(&out));
        if (result == STATUS_OK) assert_int_equal(out.nodes.count, whole.nodes.count);
        refused += result != STATUS_OK;
        graph_close(&out);
    }
    if (!refused) fail_msg("%s %s has room for all", p->name, s->text);
    graph_close(&whole);
}

/* A graph that has become too large is a failure of the pass that makes it, from the first node to the last.
 */
static void no_pass_hides_a_failure(void **state) {
    (void)state;
    int tried = 0;
    for (int64_t micro = 2; micro <= 4; micro += 2) {
        setup s;
        open_setup(&s, &(request){ .model = "char-small", .batch = 4, .micro_batch = micro, .clip = 1 });
        compose_choice choice = { .micro_batch = micro };
        pass_context c = compose_context(&s.request.run, &choice);
        c.away = true;
        for (int i = 0; pass_table[i]; i++) {
            graph g;
            pass_setting offered[64];
            pass_without without = PASS_OPTIONAL;
            must(compose_graph(&s.request.run, &choice, pass_table[i]->stage, &g));
            uint32_t count = pass_table[i]->settings(&g, &c, offered, 64, &without);
            for (uint32_t k = 0; k < count; k++, tried++) try_rooms(pass_table[i], &g, &offered[k], &c);
            graph_close(&g);
        }
        setup_close(&s);
    }
    assert_true(tried > 20);
}

static uint32_t count_of(const graph *g, const char *op) {
    uint32_t count = 0;
    for (node_id n = 1; n < g->nodes.count; n++) count += strcmp(graph_node(g, n)->op->name, op) == 0;
    return count;
}

/* In backward always, in forward where nothing is kept for backward. */
static void gelu_goes_to_the_end_of_products(void **state) {
    (void)state;
    setup s;
    plan p;
    open_setup(&s, &(request){ .model = "char-small", .batch = 4 });
    compose_choice c = { .micro_batch = 4 };
    for (int i = 0; pass_table[i]; i++)
        if (strcmp(pass_table[i]->name, "gelu_epilogue") == 0)
            must(pass_table[i]->parse("on", &c.settings[i]));
    s.request.run.eval_samples = 4;
    must(compose_plan(&s.request.run, &c, &p));
    assert_non_null(reach_planned(&p, "evaluate"));
    const graph *step = &reach_planned(&p, "step")->graph;
    const graph *evaluate = &reach_planned(&p, "evaluate")->graph;
    assert_int_equal(count_of(step, "gelu_backward"), 0);
    assert_int_equal(count_of(step, "matmul_gelu_backward"), 4);
    assert_true(count_of(step, "gelu") >= 4);
    assert_int_equal(count_of(step, "matmul_gelu"), 0);
    assert_int_equal(count_of(evaluate, "gelu"), 0);
    assert_int_equal(count_of(evaluate, "matmul_gelu"), 4);
    plan_close(&p);
    setup_close(&s);
}

/* Bytes that a program moves between memory and the file. */
static uint64_t bytes_moved(const plan *p, const char *name) {
    uint64_t bytes = 0;
    if (!reach_planned(p, name)) return 0;
    const graph *g = &reach_planned(p, name)->graph;
    for (node_id n = 1; n < g->nodes.count; n++)
        if (strcmp(graph_node(g, n)->op->name, "move") == 0)
            bytes += graph_tensor_bytes(g, node_in(g, graph_node(g, n), 0));
    return bytes;
}

/* Each gradient once in each program. What moves more is slower, what moves less holds more in memory. */
static void offload_moves_these_bytes(void **state) {
    (void)state;
    static const struct {
        const char *offload, *precision;
        int64_t micro_batch;
        double clip;
        uint64_t step, accumulate;
    } rows[] = {
        { "gradients", NULL, 4, 0, 3407872, 0 },
        { "gradients", NULL, 4, 1, 3407872, 0 },
        { "gradients", NULL, 2, 0, 3407872, 3407872 },
        { "gradients", NULL, 2, 1, 3407872, 3407872 },
        { "optimizer+gradients", NULL, 2, 1, 3407872, 3407872 },
        { "optimizer", NULL, 4, 0, 0, 0 }, /* read and changed in the file, piece by piece */
        { "activations", NULL, 4, 0, 100663296, 0 },
        { "optimizer+master+gradients", "mixed-bf16", 2, 1, 3538944, 3538944 },
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        setup s;
        plan p;
        open_setup(&s, &(request){ .model = "char-small",
                                   .batch = 4,
                                   .micro_batch = rows[r].micro_batch,
                                   .clip = rows[r].clip });
        compose_choice c = { .micro_batch = rows[r].micro_batch };
        s.request.run.folder = ".";
        for (int i = 0; pass_table[i]; i++) {
            if (strcmp(pass_table[i]->name, "offload") == 0)
                must(pass_table[i]->parse(rows[r].offload, &c.settings[i]));
            if (strcmp(pass_table[i]->name, "precision") == 0 && rows[r].precision)
                must(pass_table[i]->parse(rows[r].precision, &c.settings[i]));
        }
        must(compose_plan(&s.request.run, &c, &p));
        uint64_t step = bytes_moved(&p, "step"), accumulate = bytes_moved(&p, "accumulate");
        if (step != rows[r].step || accumulate != rows[r].accumulate)
            fail_msg(
                "%s of micro-batches of %d, clipped at %g: %llu and %llu bytes are moved, not %llu and %llu",
                rows[r].offload, (int)rows[r].micro_batch, rows[r].clip, (unsigned long long)step,
                (unsigned long long)accumulate, (unsigned long long)rows[r].step,
                (unsigned long long)rows[r].accumulate);
        plan_close(&p);
        setup_close(&s);
    }
}

/* A setting leaves no less of what persists, but of the roles that it says. */
static uint32_t check_frees(const setup *s, const compose_choice *c, int i) {
    const pass *p = pass_table[i];
    const pass_context context = compose_context(&s->request.run, c);
    pass_setting offered[64];
    uint32_t count = 0, freed = 0;
    graph g, out;
    must(search_offers(&s->request.run, c, i, offered, 64, &count));
    must(compose_graph(&s->request.run, c, PASS_STEP, &g));
    for (uint32_t k = 0; k < count; k++) {
        const uint32_t frees = pass_frees(p, &offered[k]);
        assert_int_equal(frees & ~p->frees, 0);
        must(graph_open(&out));
        must(p->run(&g, &offered[k], &context, &out));
        for (unsigned which = 0; which <= ROLE_RESULT; which++) {
            const uint64_t before = compose_persistent_bytes(&g, ~(1u << which)),
                           after = compose_persistent_bytes(&out, ~(1u << which));
            if (after < before && !(frees >> which & 1))
                fail_msg("%s %s leaves less of role %u and does not say so", p->name, offered[k].text, which);
            freed += after < before;
        }
        graph_close(&out);
    }
    graph_close(&g);
    return freed;
}

static void passes_say_what_they_free(void **state) {
    (void)state;
    uint32_t freed = 0;
    for (int mixed = 0; mixed < 2; mixed++) {
        setup s;
        open_setup(&s, &(request){ .model = "char-small", .batch = 4, .micro_batch = 2 });
        compose_choice c = { .micro_batch = 2 };
        s.request.run.folder = ".";
        for (int i = 0; pass_table[i] && mixed; i++)
            if (pass_table[i] == find_pass("precision"))
                must(pass_table[i]->parse("mixed-bf16", &c.settings[i]));
        for (int i = 0; pass_table[i]; i++)
            if (pass_table[i]->stage == PASS_STEP) freed += check_frees(&s, &c, i);
        setup_close(&s);
    }
    assert_true(freed >= 10); /* states of 8 and 16 bits and away, and masters */
}

/* ---- golden plans ---- */

static const double MIB = 1024.0 * 1024.0;

#ifdef __SANITIZE_ADDRESS__
static const bool real_build = false; /* slow, and its reserve for code and libraries is another */
#else
static const bool real_build = true;
#endif

/* The least bytes of a point at most `slower` times as slow as plain. */
static double least_within(const search_front *f, double slower) {
    for (uint32_t i = 0; i < f->count; i++)
        if (f->points[i].seconds <= slower * f->plain.seconds) return (double)f->points[i].peak_bytes / MIB;
    return 1e9;
}

static void at_most(const char *what, double is, double most) {
    print_message("%s: %.1f MiB (golden: %.0f)\n", what, is, most);
    if (real_build && !(is <= most)) fail_msg("%s needs %.1f MiB, more than %.0f", what, is, most);
}

static void packed_tightly(const setup *s, const search_point *x, double *worst) {
    plan p;
    must(compose_plan(&s->request.run, &x->choice, &p));
    double ratio = (double)p.pools[POOL_MEMORY].arena_bytes / (double)p.lower_bound_bytes;
    if (ratio > *worst) *worst = ratio;
    plan_close(&p);
}

static void golden_gpt2(void **state) {
    (void)state;
    setup s;
    search_front f;
    open_setup(&s, &(request){ .model = "gpt2", .batch = 4, .clip = 1 });
    must(search_run(&s.request, NULL, &f));
    at_most("gpt2 4x256 with clipping, least", (double)search_least(&f) / MIB, 2020);
    search_close(&f);
    setup_close(&s);

    open_setup(&s, &(request){ .model = "gpt2", .batch = 4 });
    must(search_run(&s.request, NULL, &f));
    at_most("gpt2 4x256, least", (double)search_least(&f) / MIB, 1747);
    at_most("gpt2 4x256, at most 5 % slower than plain", least_within(&f, 1.05), 2235);
    double worst = 0, each = f.elapsed / (double)f.candidates;
    for (uint32_t i = 0; i < f.count; i++) packed_tightly(&s, &f.points[i], &worst);
    packed_tightly(&s, &f.plain, &worst);
    print_message(
        "gpt2: %llu candidates, %.2f ms each; %u points, arenas at most %.4f times the lower bound\n",
        (unsigned long long)f.candidates, 1e3 * each, f.count, worst);
    assert_true(worst <= 1.01);
    assert_true(each < 0.020 || !real_build); /* 2 ms are meant, but machines are noisy */
    search_close(&f);
    setup_close(&s);
}

static void golden_char_gpt(void **state) {
    (void)state;
    setup s;
    search_front f;
    open_setup(&s, &(request){ .model = "char-gpt", .batch = 12, .clip = 1 });
    must(search_run(&s.request, NULL, &f));
    at_most("char-gpt 12x256, at most 10 % slower than plain", least_within(&f, 1.10), 565);
    search_close(&f);
    setup_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_round_trip),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(what_follows_a_text_is_read),
        cmocka_unit_test(long_texts_are_not_cut),
        cmocka_unit_test(offers_can_be_pinned),
        cmocka_unit_test(contradictions),
        cmocka_unit_test(pins_choose_micro_batches),
        cmocka_unit_test(twice_is_for_clipping_only),
        cmocka_unit_test(they_leave_alone_what_they_say),
        cmocka_unit_test(no_pass_hides_a_failure),
        cmocka_unit_test(gelu_goes_to_the_end_of_products),
        cmocka_unit_test(offload_moves_these_bytes),
        cmocka_unit_test(passes_say_what_they_free),
        cmocka_unit_test(golden_gpt2),
        cmocka_unit_test(golden_char_gpt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
