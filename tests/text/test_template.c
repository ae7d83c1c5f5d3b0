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

static const char *const three[] = { "uHi", "aHello", "uBye", "aSee you", NULL };
static const char *const silent[] = { "uHi", "a", "uBye", "a \n", NULL };
static const char *const tool[] = { "uHi", "aask(it)", "tit", "aIt is it", NULL };

typedef struct {
    const char *template;
    const char *const *chat;
    const char *learned; /* worked out by hand */
} learned_answer;

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

/* ---- what is learned of the forms that published models use, in templates of our own ---- */

static const char *const kind[] = { "sBe kind.", "uHi", "aHello", "uBye", "aSee you", NULL };
static const char *const thought[] = { "uHi", "a<think>\nhm\n</think>\n\nHello", "uBye",
                                       "a<think>\nso\n</think>\n\nSee you", NULL };

/* Every message: its role within a head, the content, an end; the prompt is the head of an answer. */
#define EACH(before, head, head_end, end)                                                                    \
    before "{% for m in messages %}" head "{{ m.role }}" head_end "{{ m.content | trim }}" end               \
           "{% endfor %}{% if add_generation_prompt %}" head "assistant" head_end "{% endif %}"

/* The system's words go before the first question. */
#define SYSTEM_FIRST                                                                                         \
    "{% set s = messages[0].content if messages[0].role == 'system' else '' %}"                              \
    "{% for m in messages if m.role != 'system' %}"

/* The thoughts of earlier answers are dropped. */
#define WITHOUT_THOUGHTS                                                                                     \
    "{% set c = m.content %}{% if '</think>' in c and not loop.last %}"                                      \
    "{% set c = c.split('</think>')[-1].lstrip('\n') %}{% endif %}"

static const learned_answer families[] = {
    /* ChatML; Yi, Hermes, SmolLM, Falcon 3 */
    { EACH("", "<|im_start|>", "\n", "<|im_end|>\n"), kind,
      "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
      "<|im_start|>assistant\n«Hello<|im_end|>»\n<|im_start|>user\nBye<|im_end|>\n"
      "<|im_start|>assistant\n«See you<|im_end|>»\n" },
    /* Qwen 2.5 */
    { "{% if messages[0].role != 'system' %}<|im_start|>system\nYou help.<|im_end|>\n{% endif %}" EACH(
          "", "<|im_start|>", "\n", "<|im_end|>\n"),
      three,
      "<|im_start|>system\nYou help.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
      "<|im_start|>assistant\n«Hello<|im_end|>»\n<|im_start|>user\nBye<|im_end|>\n"
      "<|im_start|>assistant\n«See you<|im_end|>»\n" },
    /* Qwen 3: empty thoughts are written before the last answer */
    { "{% for m in messages %}" WITHOUT_THOUGHTS
      "<|im_start|>{{ m.role }}\n{% if loop.last and m.role == 'assistant' and '</think>' not in c %}"
      "{{ '<think>\n\n</think>\n\n' }}{% endif %}{{ c }}<|im_end|>\n"
      "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
      three,
      "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n«Hello<|im_end|>»\n<|im_start|>"
      "user\nBye"
      "<|im_end|>\n<|im_start|>assistant\n«<think>\n\n</think>\n\nSee you<|im_end|>»\n" },
    { "{% for m in messages %}" WITHOUT_THOUGHTS "<|im_start|>{{ m.role }}\n{{ c }}<|im_end|>\n"
      "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
      thought,
      "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n«Hello<|im_end|>»\n<|im_start|>"
      "user\nBye"
      "<|im_end|>\n<|im_start|>assistant\n«<think>\nso\n</think>\n\nSee you<|im_end|>»\n" },
    /* Qwen 3.5 and Kimi K2.5: the template writes the thoughts, and the prompt opens them */
    { "{% for m in messages %}<|im_start|>{{ m.role }}\n{% set c = m.content.split('</think>') %}"
      "{% if c | length > 1 and loop.last %}"
      "{{ '<think>\n' ~ c[0].split('<think>')[-1].strip() ~ '\n</think>\n\n' }}{% endif %}"
      "{{ c[-1].strip() }}<|im_end|>\n"
      "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}",
      thought,
      "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n«Hello<|im_end|>»\n<|im_start|>user\nBye"
      "<|im_end|>\n<|im_start|>assistant\n<think>\n«so\n</think>\n\nSee you<|im_end|>»\n" },
    /* What a message says itself is learned, even where the prompt has said it. */
    { "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
      "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}",
      thought,
      "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n«<think>\nhm\n</think>\n\nHello<|im_end|>»\n"
      "<|im_start|>user\nBye<|im_end|>\n"
      "<|im_start|>assistant\n«<think>\nso\n</think>\n\nSee you<|im_end|>»\n" },
    /* Llama 2 */
    { SYSTEM_FIRST
      "{% if m.role == 'user' %}<s>[INST] {% if loop.first and s %}<<SYS>>\n{{ s }}\n<</SYS>>\n\n{% "
      "endif %}"
      "{{ m.content.strip() }} [/INST]{% else %}{{ ' ' ~ m.content.strip() ~ ' ' ~ eos_token }}{% "
      "endif %}"
      "{% endfor %}",
      kind,
      "<s>[INST] <<SYS>>\nBe kind.\n<</SYS>>\n\nHi [/INST]« Hello </s>»<s>[INST] Bye [/INST]« See "
      "you </s>»" },
    /* Llama 3 */
    { EACH("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>\n\n", "<|eot_id|>"), kind,
      "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe kind.<|eot_id|>"
      "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
      "<|start_header_id|>assistant<|end_header_id|>\n\n«Hello<|eot_id|>»"
      "<|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|>"
      "<|start_header_id|>assistant<|end_header_id|>\n\n«See you<|eot_id|>»" },
    /* Mistral: the system's words come with the last question */
    { "<s>" SYSTEM_FIRST
      "{% if m.role == 'user' %}[INST] {% if s and m is sameas(messages[-2]) %}{{ s ~ '\n\n' }}{% "
      "endif %}"
      "{{ m.content }}[/INST]{% else %} {{ m.content | trim ~ eos_token }}{% endif %}{% endfor %}",
      kind, "<s>[INST] Hi[/INST]« Hello</s>»[INST] Be kind.\n\nBye[/INST]« See you</s>»" },
    /* Gemma */
    { "<bos>" SYSTEM_FIRST "{{ '<start_of_turn>' ~ ('model' if m.role == 'assistant' else m.role) ~ '\n' }}"
      "{% if loop.first and s %}{{ s ~ '\n\n' }}{% endif %}{{ m.content | trim ~ '<end_of_turn>\n' }}"
      "{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}",
      kind,
      "<bos><start_of_turn>user\nBe "
      "kind.\n\nHi<end_of_turn>\n<start_of_turn>model\n«Hello<end_of_turn>»\n"
      "<start_of_turn>user\nBye<end_of_turn>\n<start_of_turn>model\n«See you<end_of_turn>»\n" },
    /* Phi-3 */
    { "{% for m in messages %}{{ '<|' ~ m.role ~ '|>\n' ~ m.content ~ '<|end|>\n' }}{% endfor %}"
      "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}",
      kind,
      "<|system|>\nBe kind.<|end|>\n<|user|>\nHi<|end|>\n<|assistant|>\n«Hello<|end|>»\n"
      "<|user|>\nBye<|end|>\n<|assistant|>\n«See you<|end|>»\n</s>" },
    /* Zephyr */
    { "{% for m in messages %}\n{% if m.role == 'user' %}\n{{ '<|user|>\n' + m.content + eos_token "
      "}}\n"
      "{% elif m.role == 'system' %}\n{{ '<|system|>\n' + m.content + eos_token }}\n{% else %}\n"
      "{{ '<|assistant|>\n' + m.content + eos_token }}\n{% endif %}\n"
      "{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor "
      "%}",
      kind,
      "<|system|>\nBe kind.</s>\n<|user|>\nHi</s>\n<|assistant|>\n«Hello</s>»\n<|user|>\nBye</s>\n"
      "<|assistant|>\n«See you</s>»\n" },
    /* DeepSeek V3 */
    { SYSTEM_FIRST "{% if loop.first %}{{ '<BOS>' ~ s }}{% endif %}{% if m.role == 'user' %}{{ '<|User|>' ~ "
                   "m.content }}"
                   "{% else %}{{ '<|Assistant|>' ~ m.content ~ '<|end|>' }}{% endif %}{% endfor %}"
                   "{% if add_generation_prompt %}{{ '<|Assistant|>' }}{% endif %}",
      kind, "<BOS>Be kind.<|User|>Hi<|Assistant|>«Hello<|end|>»<|User|>Bye<|Assistant|>«See you<|end|>»" },
    /* DeepSeek R1 */
    { "{% for m in messages %}{% if m.role == 'user' %}{{ '<|User|>' ~ m.content }}{% else %}"
      "{{ '<|Assistant|>' ~ m.content.split('</think>')[-1].strip() ~ '<|end|>' }}{% endif %}{% "
      "endfor %}"
      "{% if add_generation_prompt %}{{ '<|Assistant|><think>\n' }}{% endif %}",
      thought, "<|User|>Hi<|Assistant|>«Hello<|end|>»<|User|>Bye<|Assistant|>«See you<|end|>»" },
    /* Command-R */
    { "<BOS_TOKEN>{% for m in messages %}"
      "{{ '<|START_OF_TURN|><|' ~ ('CHATBOT' if m.role == 'assistant' else m.role | upper) ~ "
      "'_TOKEN|>' }}"
      "{{ m.content.strip() ~ '<|END_OF_TURN|>' }}{% endfor %}"
      "{% if add_generation_prompt %}{{ '<|START_OF_TURN|><|CHATBOT_TOKEN|>' }}{% endif %}",
      kind,
      "<BOS_TOKEN><|START_OF_TURN|><|SYSTEM_TOKEN|>Be kind.<|END_OF_TURN|>"
      "<|START_OF_TURN|><|USER_TOKEN|>Hi<|END_OF_TURN|>"
      "<|START_OF_TURN|><|CHATBOT_TOKEN|>«Hello<|END_OF_TURN|>»"
      "<|START_OF_TURN|><|USER_TOKEN|>Bye<|END_OF_TURN|>"
      "<|START_OF_TURN|><|CHATBOT_TOKEN|>«See you<|END_OF_TURN|>»" },
    /* OLMo */
    { "{% for m in messages %}{% if m.role != 'assistant' %}{{ '<|' ~ m.role ~ '|>\n' ~ m.content ~ "
      "'\n' }}"
      "{% else %}{{ '<|assistant|>\n' ~ m.content ~ eos_token }}{% if not loop.last %}{{ '\n' }}{% "
      "endif %}"
      "{% endif %}{% if loop.last and add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}{% "
      "endfor %}",
      kind,
      "<|system|>\nBe kind.\n<|user|>\nHi\n<|assistant|>\n«Hello</s>»\n<|user|>\nBye\n"
      "<|assistant|>\n«See you</s>»" },
    /* Vicuna */
    { SYSTEM_FIRST
      "{% if loop.first %}{{ s }}{% endif %}{% if m.role == 'user' %} USER: {{ m.content }} {% else "
      "%}"
      "ASSISTANT: {{ m.content ~ eos_token }}{% endif %}{% endfor %}"
      "{% if add_generation_prompt %}ASSISTANT:{% endif %}",
      kind, "Be kind. USER: Hi ASSISTANT:« Hello</s>» USER: Bye ASSISTANT:« See you</s>»" },
    /* Granite 3 */
    { EACH("", "<|start_of_role|>", "<|end_of_role|>", "<|end_of_text|>\n"), kind,
      "<|start_of_role|>system<|end_of_role|>Be kind.<|end_of_text|>\n"
      "<|start_of_role|>user<|end_of_role|>Hi<|end_of_text|>\n"
      "<|start_of_role|>assistant<|end_of_role|>«Hello<|end_of_text|>»\n"
      "<|start_of_role|>user<|end_of_role|>Bye<|end_of_text|>\n"
      "<|start_of_role|>assistant<|end_of_role|>«See you<|end_of_text|>»\n" },
    /* gpt-oss */
    { "{% for m in messages %}<|start|>{{ m.role }}{% if m.role == 'assistant' %}<|channel|>final{% "
      "endif %}"
      "<|message|>{{ m.content }}{{ '<|return|>' if loop.last and m.role == 'assistant' else "
      "'<|end|>' }}"
      "{% endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}",
      kind,
      "<|start|>system<|message|>Be kind.<|end|><|start|>user<|message|>Hi<|end|>"
      "<|start|>assistant«<|channel|>final<|message|>Hello<|end|>»<|start|>user<|message|>Bye<|end|>"
      "<|start|>assistant«<|channel|>final<|message|>See you<|return|>»" },
    /* GLM 4: no end but the next role */
    { "[gMASK]<sop>{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}{% endfor %}"
      "{% if add_generation_prompt %}<|assistant|>{% endif %}",
      kind,
      "[gMASK]<sop><|system|>\nBe "
      "kind.<|user|>\nHi<|assistant|>«\nHello»<|user|>\nBye<|assistant|>«\nSee you»" },
};

static void learned_bytes_of_published_forms(void **state) {
    (void)state;
    compare_learned(families, sizeof families / sizeof *families);
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
