/* What an adapter's configuration may say: everything that would make it compute something else is refused,
 * each by its name. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "io/adapter_files.h"
#include "io/scratch.h"
#include "io/spoil.h"
#include "passes/adapting.h"

static status read_with(const char *more, pass_setting *s) {
    char json[1024];
    const pass *p = NULL;
    int bytes = snprintf(json, sizeof json, "{\"peft_type\": \"LORA\", \"r\": 4%s}", more);
    scratch_write("ad/adapter_config.json", json, (size_t)bytes);
    status result = adapter_files_read("ad", false, &p, s);
    if (result == STATUS_OK) assert_string_equal(p->name, "lora");
    return result;
}

static void taken(const char *more, const char *setting) {
    pass_setting s;
    if (read_with(more, &s) != STATUS_OK) fail_msg("%s: %s", more, status_message());
    assert_string_equal(s.text, setting);
}

static void refused(const char *more, const char *says) {
    pass_setting s;
    assert_int_equal(read_with(more, &s), STATUS_INVALID);
    if (!strstr(status_message(), says)) fail_msg("%s: %s", more, status_message());
}

#define ALL ", \"target_modules\": \"all-linear\""

static void what_it_says_is_read(void **state) {
    (void)state;
    taken(", \"target_modules\": [\"q\", \"v\"]", "rank=4,target=q+v");
    taken(", \"target_modules\": [\"q\"], \"lora_alpha\": 16", "rank=4,alpha=16,target=q");
    taken(ALL ", \"lora_dropout\": 0.25", "rank=4,dropout=0.25");
    taken(ALL ", \"bias\": \"none\"", "rank=4");
    refused("", "target_modules");
    refused(", \"target_modules\": []", "is empty");
    refused(", \"target_modules\": 7", "target_modules");
    refused(", \"target_modules\": \".*attn\"", "all-linear");
    refused(", \"target_modules\": [\"q\", 7]", "target_modules");
    refused(ALL ", \"lora_alpha\": 0", "lora_alpha");
    refused(ALL ", \"lora_dropout\": 1", "lora_dropout");
    refused(ALL ", \"bias\": \"all\"", "'all'; only none");
}

/* Names for which there is just no room are refused, not cut. */
static void names_are_not_cut(void **state) {
    (void)state;
    enum { ROOM = sizeof((pass_adapter *)0)->targets };
    char more[2 * ROOM], name[ROOM];
    memset(name, 'n', sizeof name);
    for (int length = ROOM; length < ROOM + 3; length++) { /* of both, with the '+' between them */
        snprintf(more, sizeof more, ", \"target_modules\": [\"q\", \"%.*s\"]", length - 2, name);
        refused(more, "more names than can be told apart");
    }
}

static void other_kinds_are_refused(void **state) {
    (void)state;
    static const char *const flags[] = { "use_rslora", "use_dora", "lora_bias", "alora_invocation_tokens" };
    static const char *const lists[] = { "rank_pattern", "alpha_pattern", "modules_to_save",
                                         "layers_to_transform", "target_parameters" };
    char more[128];
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        snprintf(more, sizeof more, ALL ", \"%s\": false", flags[i]);
        taken(more, "rank=4");
        snprintf(more, sizeof more, ALL ", \"%s\": null", flags[i]);
        taken(more, "rank=4");
        snprintf(more, sizeof more, ALL ", \"%s\": true", flags[i]);
        refused(more, flags[i]);
        snprintf(more, sizeof more, ALL ", \"%s\": [3]", flags[i]);
        refused(more, flags[i]);
    }
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        static const char *const empty[] = { "null", "[]", "{}" }, *const full[] = { "[1]", "{\"q\": 1}",
                                                                                     "1" };
        for (int k = 0; k < 3; k++) {
            snprintf(more, sizeof more, ALL ", \"%s\": %s", lists[i], empty[k]);
            taken(more, "rank=4");
            snprintf(more, sizeof more, ALL ", \"%s\": %s", lists[i], full[k]);
            refused(more, lists[i]);
        }
    }
}

/* An adapter that does not say which weights it stands beside is taken beside any. */
static void without_a_digest_any_base_does(void **state) {
    (void)state;
    taken(ALL, "rank=4");
    assert_int_equal(adapter_files_check_base("ad", "nowhere"), STATUS_OK);
    scratch_write("ad/adapter_base.json", "{\"base\": \"nf4\"}", 15);
    taken(ALL, "rank=4,base=nf4");
    assert_int_equal(adapter_files_check_base("ad", "nowhere"), STATUS_OK);
    static const char with[] = "{\"base\": \"nf4\", \"digest\": \"93c6c6e6fa3ae8d7\"}";
    scratch_write("ad/adapter_base.json", with, sizeof with - 1);
    assert_int_equal(adapter_files_check_base("ad", "nowhere"), STATUS_INVALID);
    if (strstr(status_message(), "holds others"))
        fail_msg("of a base that is not there: %s", status_message());
    scratch_write("ad/adapter_base.json", "[]", 2);
    assert_int_equal(adapter_files_check_base("ad", "nowhere"), STATUS_INVALID);
    assert_int_equal(unlink("ad/adapter_base.json"), 0);
}

static void lists_are_no_configuration(void **state) {
    (void)state;
    const pass *p;
    pass_setting s;
    scratch_write("ad/adapter_config.json", "[1]", 3);
    assert_int_equal(adapter_files_read("ad", false, &p, &s), STATUS_INVALID);
    if (!strstr(status_message(), "object")) fail_msg("%s", status_message());
}

static void folders_are_named(void **state) {
    (void)state;
    static char folder[5000];
    const pass *p;
    pass_setting s;
    memset(folder, 'x', sizeof folder - 1);
    assert_int_equal(adapter_files_read(folder, false, &p, &s), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "the path 'xxx"));
    STATUS_IGNORED(status_set(STATUS_OK, "nothing yet")); /* so that a sentence is seen to be new */
    assert_int_equal(adapter_files_check_model(folder), STATUS_INVALID); /* and not taken for no adapter */
    assert_non_null(strstr(status_message(), "the path 'xxx"));
    assert_int_equal(adapter_files_read("absent", false, &p, &s), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "absent/adapter_config.json"));
}

/* Each value of both files, spoiled or left out, is refused by its key; but for those that say what is usual.
 */
static void every_value_is_checked(void **state) {
    (void)state;
    static const char *const names[] = { "ad/adapter_config.json", "ad/adapter_base.json" };
    static const char *const texts[] = {
        "{\"peft_type\": \"LORA\", \"r\": 4, \"lora_alpha\": 16, \"lora_dropout\": 0.25, \"bias\": \"none\", "
        "\"target_modules\": [\"q\", \"v\"]}",
        "{\"base\": \"nf4\", \"digest\": \"93c6c6e6fa3ae8d7\"}",
    };
    static spoil_text t;
    for (int f = 0; f < 2; f++) {
        for (int k = 0; k < 2; k++) scratch_write(names[k], texts[k], strlen(texts[k]));
        spoil_read(&t, texts[f]);
        for (int i = 0; i < t.count; i++)
            for (int k = 0; k < 3; k++) {
                char key[SPOIL_KEY];
                const pass *p;
                pass_setting s;
                if (k == 2 && i == 0) continue;
                const char *with = k == 0   ? spoil_replaced(&t, i, "7e30")
                                   : k == 1 ? spoil_replaced(&t, i, "{")
                                            : spoil_left_out(&t, i);
                scratch_write(names[f], with, strlen(with));
                status result = adapter_files_read("ad", false, &p, &s);
                spoil_key(&t, i, key);
                bool usual = f == 1 || strcmp(key, "lora_alpha") == 0 || strcmp(key, "lora_dropout") == 0 ||
                             strcmp(key, "bias") == 0 || !t.at[i].key;
                if (k == 2 && usual) continue;
                assert_int_equal(result, STATUS_INVALID);
                const char *says = k == 1   ? "is not JSON"
                                   : k == 2 ? "is missing"
                                   : i      ? "must be"
                                            : "an object";
                if (!strstr(status_message(), says) || (k != 1 && !strstr(status_message(), key)))
                    fail_msg("%s: %s", with, status_message());
            }
    }
    assert_int_equal(unlink("ad/adapter_base.json"), 0);
}

/* An adapter that is named where a model is wanted says what it was trained beside, if that can be read. */
static void an_adapter_is_no_model(void **state) {
    (void)state;
    static const struct {
        const char *json, *says;
    } rows[] = { { "{\"base_model_name_or_path\": \"some/model\"}", "generate some/model --adapter ad" },
                 { "{}", "generate MODEL --adapter ad" },
                 { "{\"base_model_name_or_path\": 7}", "'base_model_name_or_path' is 7" },
                 { "{", "is not JSON" },
                 { "[]", "must be an object" } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        scratch_write("ad/adapter_config.json", rows[i].json, strlen(rows[i].json));
        assert_int_equal(adapter_files_check_model("ad"), STATUS_INVALID);
        if (!strstr(status_message(), rows[i].says)) fail_msg("%s: %s", rows[i].json, status_message());
    }
    assert_int_equal(adapter_files_check_model("."), STATUS_OK);
}

/* What is not there can be neither read nor written to. */
static void folders_that_are_not_there_are_named(void **state) {
    (void)state;
    const pass *p;
    pass_setting s;
    taken(ALL, "rank=4");
    assert_int_equal(adapter_files_read("ad", false, &p, &s), STATUS_OK);
    const adapter_files_about about = { .pass = p, .setting = &s };
    assert_int_equal(adapter_files_load("nowhere", &(adapter_files_part){ 0 }), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "nowhere/adapter_model.safetensors"));
    assert_int_equal(adapter_files_save("nowhere", &about, NULL, 0), STATUS_FAILED);
    assert_non_null(strstr(status_message(), "nowhere/adapter_model.safetensors"));
}

/* Of every folder whose names of files are too long it is said, whichever of them is. */
static void paths_that_are_too_long_are_said(void **state) {
    (void)state;
    static char folder[5000];
    memset(folder, 'd', sizeof folder);
    for (size_t length = 4000; length < 4200; length++) {
        folder[length] = 0;
        assert_int_equal(adapter_files_load(folder, &(adapter_files_part){ 0 }), STATUS_INVALID);
        bool fits = length + sizeof "/adapter_model.safetensors" <= 4096;
        if (!strstr(status_message(), "is too long") == !fits) fail_msg("%zu: %s", length, status_message());
        folder[length] = 'd';
    }
}

/* Of a setting that is none nothing is written. */
static void what_is_no_setting_is_not_saved(void **state) {
    (void)state;
    const pass *p;
    pass_setting s;
    taken(ALL, "rank=4");
    assert_int_equal(adapter_files_read("ad", false, &p, &s), STATUS_OK);
    const pass_setting none = { .text = "rank=none", .class = PASS_LOSSY };
    assert_int_equal(mkdir("new", 0700), 0);
    assert_int_equal(
        adapter_files_save("new", &(adapter_files_about){ .pass = p, .setting = &none }, NULL, 0),
        STATUS_INVALID);
    assert_non_null(strstr(status_message(), "rank=none"));
    assert_int_equal(rmdir("new"), 0);
}

/* Of a product whose name has no parts the target is all of the name, and nothing that stands before it. */
static void a_name_may_have_one_part(void **state) {
    (void)state;
    static const char before[] = "xhead.lora_A.weight";
    float number = 0;
    char said[1024];
    const pass *p;
    pass_setting s;
    taken(ALL, "rank=4");
    assert_int_equal(adapter_files_read("ad", false, &p, &s), STATUS_OK);
    const adapter_files_about about = { .pass = p, .setting = &s };
    const model_weight w = { .name = before + 1, .shape = SHAPE(1), .type = DTYPE_F32, .data = &number };
    assert_int_equal(mkdir("parts", 0700), 0);
    if (adapter_files_save("parts", &about, &w, 1) != STATUS_OK) fail_msg("%s", status_message());
    FILE *file = fopen("parts/adapter_config.json", "r");
    assert_non_null(file);
    said[fread(said, 1, sizeof said - 1, file)] = 0;
    fclose(file);
    if (!strstr(said, "\"head\"")) fail_msg("%s", said);
}

static int open_folder(void **state) { return scratch_open(state) == 0 ? mkdir("ad", 0700) : -1; }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_it_says_is_read),
        cmocka_unit_test(names_are_not_cut),
        cmocka_unit_test(other_kinds_are_refused),
        cmocka_unit_test(without_a_digest_any_base_does),
        cmocka_unit_test(lists_are_no_configuration),
        cmocka_unit_test(folders_are_named),
        cmocka_unit_test(every_value_is_checked),
        cmocka_unit_test(an_adapter_is_no_model),
        cmocka_unit_test(folders_that_are_not_there_are_named),
        cmocka_unit_test(paths_that_are_too_long_are_said),
        cmocka_unit_test(what_is_no_setting_is_not_saved),
        cmocka_unit_test(a_name_may_have_one_part),
    };
    return cmocka_run_group_tests(tests, open_folder, scratch_close);
}
