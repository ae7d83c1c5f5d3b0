/* Templates of our own against what Jinja makes of them (snippets.expected), learned bytes against answers by
 * hand, and bounds. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "text/chat_json.h"
#include "text/published_forms.h"
#include "text/template/filter.h"

enum { NOW = 1767225599 };

static status render(const char *source, size_t length, const template_value *variables, template_options o,
                     template_output *out) {
    template *t;
    time_t now = NOW;
    o.at = &now;
    *out = (template_output){ 0 };
    status result = template_parse("chat", source, length, &t);
    if (result == STATUS_OK) result = template_render(t, variables, &o, out);
    template_close(t);
    return result;
}

static size_t unescape(char *line) {
    size_t n = 0;
    for (char *p = line; *p && !(*p == '\n'); p++) {
        bool escape = p[0] == '\\' && p[1] == 'n';
        line[n++] = escape ? '\n' : *p;
        p += escape;
    }
    return n;
}

static void check(const char *source, size_t length, const template_value *variables,
                  struct json_object *expected) {
    template_output out;
    status result = render(source, length, variables, (template_options){ 0 }, &out);
    if (!expected) {
        if (result != STATUS_INVALID) fail_msg("%.*s\ngives %s", (int)length, source, out.text);
        if (strncmp(status_message(), "chat: line ", 11) != 0) fail_msg("%s", status_message());
        return;
    }
    if (result != STATUS_OK) fail_msg("%.*s\n%s", (int)length, source, status_message());
    if (out.length != (size_t)json_object_get_string_len(expected) ||
        memcmp(out.text, json_object_get_string(expected), out.length) != 0)
        fail_msg("%.*s\ngives %s\ninstead of %s", (int)length, source, out.text,
                 json_object_get_string(expected));
    size_t at = 0;
    for (size_t i = 0; i < out.range_count; i++) {
        assert_int_equal(out.ranges[i].begin, at);
        assert_true(out.ranges[i].end > at);
        at = out.ranges[i].end;
    }
    assert_int_equal(at, out.length);
    template_output_close(&out);
}

static void snippets_are_jinjas(void **state) {
    (void)state;
    FILE *sources = fopen(SNUG_ROOT "/tests/text/snippets.txt", "r"),
         *expected = fopen(SNUG_ROOT "/tests/text/snippets.expected", "r");
    struct json_object *chats = json_object_from_file(SNUG_ROOT "/tests/text/chats.json");
    assert_true(sources && expected && chats);
    char *line = NULL, *answer = NULL;
    size_t line_room = 0, answer_room = 0, checked = 0;
    while (getline(&line, &line_room, sources) > 0) {
        if (line[0] == '\n' || strncmp(line, "#!", 2) == 0) continue;
        assert_true(getline(&answer, &answer_room, expected) > 0);
        struct json_object *texts = json_tokener_parse(answer);
        size_t length = unescape(line), i = 0;
        json_object_object_foreach(chats, name, chat) {
            (void)name;
            template_value variables = chat_json_value(chat);
            check(line, length, &variables, json_object_array_get_idx(texts, i++));
            chat_json_free(&variables);
            checked++;
        }
        json_object_put(texts);
    }
    assert_true(getline(&answer, &answer_room, expected) < 0);
    assert_true(checked > 500);
    free(line), free(answer);
    fclose(sources), fclose(expected);
    json_object_put(chats);
}

/* Each filter stands in the snippets behind a '|', or as a name that map is given. */
static void every_filter_is_compared(void **state) {
    (void)state;
    static char all[1 << 16];
    FILE *sources = fopen(SNUG_ROOT "/tests/text/snippets.txt", "r");
    assert_non_null(sources);
    size_t n = fread(all, 1, sizeof all - 1, sources);
    assert_true(n < sizeof all - 1);
    fclose(sources);
    const filter_row *const tables[] = { filter_of_texts, filter_of_lists };
    for (int k = 0; k < 2; k++)
        for (const filter_row *row = tables[k]; row->name; row++) {
            char piped[64], quoted[64];
            snprintf(piped, sizeof piped, "| %s", row->name);
            snprintf(quoted, sizeof quoted, "'%s'", row->name);
            if (row->apply && !strstr(all, piped) && !strstr(all, quoted))
                fail_msg("no snippet has %s", row->name);
        }
}

/* ---- what is learned ---- */

static template_value member(const char *key, template_value v) {
    v.key = key;
    v.key_length = strlen(key);
    return v;
}

static template_value text(const char *words) {
    return (template_value){ .kind = TEMPLATE_TEXT, .text = { words, strlen(words) } };
}

enum { MOST_MESSAGES = 8 };

/* A chat of roles and contents: "u" and what the user says, "a" and the answer, "t" what a tool says. */
typedef struct {
    template_value parts[MOST_MESSAGES][2], messages[MOST_MESSAGES], variables[2];
    template_value all;
} chat;

static const template_value *make_chat(chat *c, const char *const *lines) {
    size_t n = 0;
    for (; lines[n]; n++) {
        char role = lines[n][0];
        c->parts[n][0] = member("role", text(role == 'u'   ? "user"
                                             : role == 'a' ? "assistant"
                                             : role == 's' ? "system"
                                                           : "tool"));
        c->parts[n][1] = member("content", text(lines[n] + 1));
        c->messages[n] = (template_value){ .kind = TEMPLATE_OBJECT, .list = { c->parts[n], 2 } };
    }
    c->variables[0] =
        member("messages", (template_value){ .kind = TEMPLATE_LIST, .list = { c->messages, n } });
    c->variables[1] = member("eos_token", text("</s>"));
    c->all = (template_value){ .kind = TEMPLATE_OBJECT, .list = { c->variables, 2 } };
    return &c->all;
}

/* The text with « » around what is learned. */
static void mark(const template_output *out, char *marked) {
    *marked = 0;
    for (size_t i = 0; i < out->range_count; i++) {
        const template_range *g = &out->ranges[i];
        if (g->learned) strcat(marked, "«");
        strncat(marked, out->text + g->begin, g->end - g->begin);
        if (g->learned) strcat(marked, "»");
    }
}

#define TURNS(assistant_head, more)                                                                          \
    "{% for m in messages %}{% if m.role == 'user' %}<u>{{ m.content }}</u>\n{% else %}" assistant_head      \
    "{{ m.content }}</a>\n{% endif %}{% endfor %}{% if add_generation_prompt %}<a>" more "{% endif %}"

static const char *const silent[] = { "uHi", "a", "uBye", "a \n", NULL };
static const char *const tool[] = { "uHi", "aask(it)", "tit", "aIt is it", NULL };

static const learned_answer answers[] = {
    { TURNS("<a>", ""), three, "<u>Hi</u>\n<a>«Hello</a>»\n<u>Bye</u>\n<a>«See you</a>»\n" },
    /* Nothing said is still a turn that ends. */
    { TURNS("<a>", ""), silent, "<u>Hi</u>\n<a>«</a>»\n<u>Bye</u>\n<a>« \n</a>»\n" },
    /* The prompt may hold more than earlier turns do: they agree up to a marker's end. */
    { TURNS("<a>", "<t>"), three, "<u>Hi</u>\n<a>«Hello</a>»\n<u>Bye</u>\n<a>«See you</a>»\n" },
    { TURNS("<a><x>", "<t>"), three, "<u>Hi</u>\n<a>«<x>Hello</a>»\n<u>Bye</u>\n<a>«<x>See you</a>»\n" },
    /* What a chat ends with where it is not prompted is no part of the prompt. */
    { "{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% else %}{{ eos_token }}{% endif %}",
      silent, "<user>Hi</><assistant>«</>»<user>Bye</><assistant>« \n</>»</s>" },
    /* Without a prompt learning begins with the message's own bytes, and the blanks before them. */
    { "{% for m in messages %}{{ '[' + m.content + ']' if m.role == 'user' else ' ' + m.content + eos_token "
      "}}{% endfor %}",
      three, "[Hi]« Hello</s>»[Bye]« See you</s>»" },
    /* The role is the message's, but nothing that is said. */
    { "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}{{ eos_token }}\n{% endfor %}", three,
      "<user>Hi</s>\n<assistant>«Hello</s>»\n<user>Bye</s>\n<assistant>«See you</s>»\n" },
    /* A turn that begins with the message's own bytes, and an end in pieces. */
    { "{% for m in messages %}{{ m.content }}{{ '.' }}{{ eos_token }}{% endfor %}", three,
      "Hi.</s>«Hello.</s>»Bye.</s>«See you.</s>»" },
    /* Blanks behind the end, written in pieces. */
    { "{% for m in messages %}{{ m.content }}{{ '</a>' }} {{ '\\n' }}{% if true %}\n \n{% endif %}{% endfor "
      "%}",
      three, "Hi</a> \n \n«Hello</a>» \n \nBye</a> \n \n«See you</a>» \n \n" },
    /* Through filters, methods, macros and captured text. */
    { "{% macro say(m) %}{% set c = m.content.split('l') | join('L') | upper %}{{ c[::-1][::-1] }}{% "
      "endmacro %}"
      "{% for m in messages %}{% set s %}{{ say(m) }}{% endset %}{{ '%s|' % s }}{% endfor %}",
      three, "HI|«HELLO|»BYE|«SEE YOU|»" },
    /* As JSON: quotes and escapes are of what they quote. */
    { "{% for m in messages %}{{ {'c': m.content} | tojson }};{% endfor %}", three,
      "{\"c\": \"Hi\"};{\"c\": «\"Hello\"};»{\"c\": \"Bye\"};{\"c\": «\"See you\"};»" },
    /* All at once, outside of any loop: what is between a message's own bytes is nobody's. */
    { "{{ messages[0].content }} and {{ messages[1].content }}!", three, "Hi and «Hello»!" },
    /* What is quoted of an earlier answer is not said again. */
    { "{% for m in messages %}[{% if m.role == 'tool' %}{{ messages[loop.index0 - 1].content }} -> {% endif "
      "%}"
      "{{ m.content }}]{% endfor %}",
      tool, "[Hi][«ask(it)]»[ask(it) -> it][«It is it]»" },
    /* A tool's answer within the turn that asked: the first piece behind the turn's last byte closes it. */
    { "{% for m in messages if m.role != 'tool' %}[{{ m.content }}{{ ')' }}{% if loop.nextitem and m.role == "
      "'assistant' %}"
      "{{ '(' }}{{ messages[2].content }}{{ ')' }}{% endif %}]{% endfor %}",
      tool, "[Hi)][«ask(it))»(it)][«It is it)]»" },
    /* {% generation %} is obeyed, and nothing else. */
    { "{% for m in messages %}{{ m.content }}{% generation %}<{{ m.role }}>{% endgeneration %}{% endfor %}",
      three, "Hi«<user>»Hello«<assistant>»Bye«<user>»See you«<assistant>»" },
};

static void compare_learned(const learned_answer *list, size_t count) {
    for (size_t i = 0; i < count; i++) {
        chat c;
        template_output out;
        char marked[4096];
        const template_value *variables = make_chat(&c, list[i].chat);
        if (render(list[i].template, strlen(list[i].template), variables, (template_options){ 0 }, &out))
            fail_msg("%zu: %s", i, status_message());
        mark(&out, marked);
        if (strcmp(marked, list[i].learned) != 0)
            fail_msg("%zu: %s\ninstead of %s", i, marked, list[i].learned);
        template_output_close(&out);
    }
}

static void learned_bytes_are_those_by_hand(void **state) {
    (void)state;
    compare_learned(answers, sizeof answers / sizeof *answers);
}

/* ---- what is learned of the forms that published models use ---- */

static void learned_bytes_of_published_forms(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof published_forms / sizeof *published_forms; i++)
        compare_learned(&published_forms[i].bytes, 1);
}

/* ---- bounds ---- */

static const struct {
    const char *template, *said;
    template_options limits;
} endless[] = {
    { "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
      "steps",
      { .steps = 100000 } },
    { "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "levels", { 0 } },
    { "{% set ns = namespace(x='a') %}{% for a in range(999) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
      "bytes",
      { 0 } },
    { "{{ 'a' * 1000000000000 }}", "steps", { 0 } },
    { "{{ [0] * 1000000000000 }}", "items", { 0 } },
    { "{% for a in range(9999) %}aaaaaaaaaaaaaaaa{% endfor %}",
      "writes more than 1000 bytes",
      { .output = 1000 } },
    { "{% for a in range(9) recursive %}{{ loop([1]) }}{% endfor %}", "levels", { 0 } },
    { "{% set ns = namespace(x=[]) %}{% for a in range(9999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}",
      "levels",
      { 0 } },
    { "{% set ns = namespace(x=[]) %}{% for a in range(9999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x | "
      "tojson }}",
      "levels",
      { 0 } },
    { "{% set ns = namespace(x=[]) %}{% for a in range(9999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x == "
      "[ns.x] }}",
      "levels",
      { 0 } },
    { "{% set ns = namespace(x=[1]) %}{% for a in range(9999) %}{% set ns.x = ns.x | map('string') %}{% "
      "endfor %}{{ ns.x | list }}",
      "levels",
      { 0 } },
    { "{{ '%99999d' % 1 }}", "field", { 0 } },
    { "{{ 9223372036854775807 + 1 }}", "64 bits", { 0 } },
    { "{{ 99999999999999999999 }}", "64 bits", { 0 } },
    { "{{ 'a' | indent(999999999999) }}", "", { .memory = 1 << 20 } },
    { "{{ '\\ud800' }}", "surrogate", { 0 } },
    { "{{ [1] | map('upper') }}", "address", { 0 } },
};

static void every_template_ends(void **state) {
    (void)state;
    chat c;
    const template_value *variables = make_chat(&c, three);
    for (size_t i = 0; i < sizeof endless / sizeof *endless; i++) {
        template_output out;
        status result =
            render(endless[i].template, strlen(endless[i].template), variables, endless[i].limits, &out);
        if (result == STATUS_OK && !*endless[i].said)
            template_output_close(&out);
        else if (result != STATUS_INVALID || !strstr(status_message(), endless[i].said))
            fail_msg("%s\nsaid: %s", endless[i].template, status_message());
    }
}

static void nesting_ends_with_a_sentence(void **state) {
    (void)state;
    static const char *const pieces[][2] = { { "(", ")" },   { "[", "]" },           { "-", "" },
                                             { "not ", "" }, { "1+", "" },           { "x.", "" },
                                             { "f(", ")" },  { "1 if 1 else ", "" }, { "1 if ", " else 1" } };
    chat c;
    const template_value *variables = make_chat(&c, three);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        char *source = calloc(1, 400000), *p = source + sprintf(source, "{{ ");
        for (int k = 0; k < 20000; k++) p = stpcpy(p, pieces[i][0]);
        p = stpcpy(p, "1");
        for (int k = 0; k < 20000; k++) p = stpcpy(p, pieces[i][1]);
        stpcpy(p, " }}");
        template_output out;
        assert_int_equal(render(source, strlen(source), variables, (template_options){ 0 }, &out),
                         STATUS_INVALID);
        free(source);
    }
    char *source = calloc(1, 1 << 20), *p = source;
    for (int k = 0; k < 20000; k++) p = stpcpy(p, k ? "{% elif x %}" : "{% if x %}");
    stpcpy(p, "{% else %}end{% endif %}");
    template_output out;
    assert_int_equal(render(source, strlen(source), variables, (template_options){ 0 }, &out), STATUS_OK);
    assert_string_equal(out.text, "end");
    template_output_close(&out);
    p = source;
    for (int k = 0; k < 20000; k++) p = stpcpy(p, "{% if 1 %}");
    assert_int_equal(render(source, strlen(source), variables, (template_options){ 0 }, &out),
                     STATUS_INVALID);
    free(source);
}

static void what_is_no_text_is_refused(void **state) {
    (void)state;
    template_value bad = member("x", (template_value){ .kind = TEMPLATE_TEXT, .text = { "a\xff", 2 } }),
                   all = { .kind = TEMPLATE_OBJECT, .list = { &bad, 1 } }, list = { .kind = TEMPLATE_LIST };
    template_output out;
    assert_int_equal(render("{{ x }}", 7, &all, (template_options){ 0 }, &out), STATUS_INVALID);
    assert_non_null(strstr(status_message(), "not UTF-8"));
    assert_int_equal(render("{{ x }}", 7, &list, (template_options){ 0 }, &out), STATUS_INVALID);
    assert_int_equal(render("a\xff", 2, &list, (template_options){ 0 }, &out), STATUS_INVALID);
    assert_string_equal(status_message(), "chat: line 1, column 2: a byte that is not UTF-8");
    assert_int_equal(render("a\n{{ 1 + 'x' }}", 15, &(template_value){ .kind = TEMPLATE_OBJECT },
                            (template_options){ 0 }, &out),
                     STATUS_INVALID);
    assert_string_equal(status_message(), "chat: line 2, column 4: a int + a str is nothing that there is");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(snippets_are_jinjas),
        cmocka_unit_test(every_filter_is_compared),
        cmocka_unit_test(learned_bytes_are_those_by_hand),
        cmocka_unit_test(learned_bytes_of_published_forms),
        cmocka_unit_test(every_template_ends),
        cmocka_unit_test(nesting_ends_with_a_sentence),
        cmocka_unit_test(what_is_no_text_is_refused),
    };
    return cmocka_run_group_tests_name("template", tests, NULL, NULL);
}
