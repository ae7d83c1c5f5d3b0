/* Each call for memory fails once: reading and rendering a template say so, and nothing is kept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "text/template/template_json.h"

void *__real_realloc(void *block, size_t bytes);
void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
char *__real_strdup(const char *text);
void __real_free(void *block);
void *__wrap_realloc(void *block, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
char *__wrap_strdup(const char *text);
void __wrap_free(void *block);

static int until_failure = -1, held; /* calls that succeed; blocks that are not freed */

static bool fails(void) { return until_failure >= 0 && until_failure-- == 0; }

void *__wrap_realloc(void *block, size_t bytes) {
    if (fails()) return NULL;
    held += !block;
    return __real_realloc(block, bytes);
}

/* What compilers make of realloc(NULL, bytes). */
void *__wrap_malloc(size_t bytes) {
    if (fails()) return NULL;
    held++;
    return __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes) {
    if (fails()) return NULL;
    held++;
    return __real_calloc(count, bytes);
}

char *__wrap_strdup(const char *text) {
    if (fails()) return NULL;
    held++;
    return __real_strdup(text);
}

void __wrap_free(void *block) {
    held -= block != NULL;
    __real_free(block);
}

static const char source[] =
    "{% for m in messages %}<{{ m.role }}>{{ m.content | upper }}{{ 'x' * 90000 }}</>\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";

/* The status, after everything was given back. */
static status run_once(void) {
    static const char chat[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"},"
                               "{\"role\": \"assistant\", \"content\": \"b\"}]}";
    const json_source from = json_source_memory(chat, sizeof chat - 1, "chat.json", "the chat");
    template_json *j = NULL;
    template_memory *keep = NULL;
    template *t = NULL;
    template_output out = { 0 };
    status result = template_json_open(&from, UINT64_MAX, &j);
    if (result == STATUS_OK) result = template_parse("chat", source, sizeof source - 1, &t);
    if (result == STATUS_OK) result = template_memory_open(&keep);
    for (int i = 0; i < 4 && result == STATUS_OK; i++) { /* twice alone, twice with what is kept */
        template_output_close(&out);
        result = template_render(t, template_json_value(j),
                                 &(template_options){ .keep = i > 1 ? keep : NULL }, &out);
    }
    template_close(t);
    template_output_close(&out);
    template_memory_close(keep);
    template_json_close(j);
    return result;
}

static void each_call_fails_once(void **state) {
    (void)state;
    int calls = 0;
    for (status result = STATUS_FAILED; result != STATUS_OK; calls++) {
        int before = held;
        until_failure = calls;
        result = run_once();
        bool failed = until_failure < 0;
        until_failure = -1;
        assert_int_equal(held, before);
        assert_int_equal(result, failed ? STATUS_FAILED : STATUS_OK);
        if (failed) assert_non_null(strstr(status_message(), "no memory"));
        assert_true(calls < 1000);
    }
    assert_true(calls > 10);
}

int main(void) {
    const struct CMUnitTest tests[] = { cmocka_unit_test(each_call_fails_once) };
    return cmocka_run_group_tests_name("template_memory", tests, NULL, NULL);
}
