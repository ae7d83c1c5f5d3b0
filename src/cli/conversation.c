#include "cli/conversation.h"

#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "io/file.h"
#include "io/json_file.h"
#include "language/chat.h"
#include "text/template/template_json.h"

/* Files are read and chats rendered before there is a plan, so what that takes is a share of the budget. */
enum {
    FILE_LIMIT = 4 << 20,
    SHARE = 8,              /* of the budget, for the values of a file and for a rendering each, within */
    SHARE_LEAST = 1 << 20,  /* this */
    SHARE_MOST = 32 << 20,  /* and that */
    OUTPUT_LIMIT = 8 << 20, /* of a rendering; for one of a bounded conversation see below */
    AROUND = 64 << 10,      /* bytes of a text that are said by nobody: what the template adds */
    RENDERED = 32           /* a rendering may take so many for each byte that is said */
};

/* A message of our own: its words stand behind it. */
typedef struct {
    template_value parts[2]; /* role and content */
    char words[];
} message;

struct conversation {
    chat *chat;
    template_json *file; /* NULL: none */
    const template_value *tools;
    template_value *messages; /* lent by the file, or of the blocks below */
    message **own;            /* NULL where the message is the file's */
    size_t count, room;
    uint64_t said, bound; /* bytes of messages with what stands around them; 0: no bound */
    template_output out;
};

static uint64_t room_of(size_t count) { return count * (sizeof(template_value) + sizeof(message *)); }

/* ---- messages ---- */

static status make_room(conversation *c) {
    if (c->count < c->room) return STATUS_OK;
    size_t room = c->room * 2 + 16;
    template_value *messages = memory_resize(c->messages, room, sizeof *messages);
    if (messages) c->messages = messages;
    message **own = messages ? memory_resize(c->own, room, sizeof *own) : NULL;
    if (!own) return status_set(STATUS_FAILED, "no memory for a conversation of %zu messages", c->count);
    c->own = own, c->room = room;
    return STATUS_OK;
}

static status add_value(conversation *c, const template_value *v, message *own) {
    TRY(make_room(c));
    c->messages[c->count] = *v, c->own[c->count] = own;
    c->count++;
    return STATUS_OK;
}

static void set_part(template_value *v, const char *key, const char *bytes, size_t length) {
    *v = (template_value){
        .kind = TEMPLATE_TEXT, .key = key, .key_length = strlen(key), .text = { bytes, length }
    };
}

/* Copies as UTF-8 without zeros; the length of that, also where `to` is NULL. */
static size_t copy_clean(char *to, const char *words, size_t length) {
    static const char unknown[] = "\xef\xbf\xbd";
    size_t used = 0;
    while (length) {
        size_t n = utf8_length(words, length);
        const char *from = n && *words ? words : unknown;
        size_t count = from == words ? n : sizeof unknown - 1;
        if (to) memcpy(to + used, from, count);
        used += count;
        words += n ? n : 1, length -= n ? n : 1;
    }
    return used;
}

/* `clean`: what is no text becomes text; else a template refuses it. */
static status add(conversation *c, const char *from, const char *words, size_t length, bool clean) {
    size_t written = clean ? copy_clean(NULL, words, length) : length;
    uint64_t bytes = sizeof(message) + written + 2 * room_of(1);
    if (c->bound && c->said + bytes > c->bound)
        return status_set(STATUS_INVALID,
                          "the conversation has become longer than %llu bytes, for which memory is planned",
                          (unsigned long long)c->bound);
    message *m = memory_room(1, sizeof *m + written + 1);
    if (!m) return status_set(STATUS_FAILED, "no memory for a message of %zu bytes", written);
    if (clean)
        copy_clean(m->words, words, length);
    else
        memcpy(m->words, words, length);
    m->words[written] = 0;
    set_part(&m->parts[0], "role", from, strlen(from));
    set_part(&m->parts[1], "content", m->words, written);
    status result = add_value(c, &(template_value){ .kind = TEMPLATE_OBJECT, .list = { m->parts, 2 } }, m);
    if (result == STATUS_OK)
        c->said += bytes;
    else
        memory_free(m);
    return result;
}

static void drop_last(conversation *c) {
    const message *m = c->own[c->count - 1];
    c->said -= sizeof *m + m->parts[1].text.length + 2 * room_of(1);
    memory_free(c->own[--c->count]);
}

/* ---- the beginning ---- */

static status take_file(conversation *c, const char *path) {
    const template_value *all = template_json_value(c->file), *messages = all;
    if (all->kind == TEMPLATE_OBJECT) {
        messages = template_value_member(all, "messages");
        c->tools = template_value_member(all, "tools");
    }
    if (!messages || messages->kind != TEMPLATE_LIST)
        return status_set(
            STATUS_INVALID,
            "%s: a conversation is a list of messages, or an object with 'messages' and 'tools'", path);
    for (size_t i = 0; i < messages->list.count; i++) {
        if (messages->list.items[i].kind != TEMPLATE_OBJECT)
            return status_set(STATUS_INVALID, "%s: message %zu is no object", path, i);
        TRY(add_value(c, &messages->list.items[i], NULL));
    }
    return STATUS_OK;
}

static status read_file(conversation *c, const char *path, uint64_t most) {
    int file;
    uint64_t bytes;
    TRY(io_open(path, &file, &bytes));
    json_source source = json_file_source(&file, path, "the conversation", 0, bytes);
    status result = bytes <= FILE_LIMIT ? template_json_open(&source, most, &c->file)
                                        : status_set(STATUS_INVALID, "%s has %llu bytes; at most %d are read",
                                                     path, (unsigned long long)bytes, FILE_LIMIT);
    close(file);
    return result == STATUS_OK ? take_file(c, path) : result;
}

static status open_chat(conversation *c, const options *o) {
    bool there;
    uint64_t share;
    TRY(setup_budget(&o->run, &share));
    share /= SHARE;
    if (share < SHARE_LEAST) share = SHARE_LEAST;
    if (share > SHARE_MOST) share = SHARE_MOST;
    TRY(chat_open(o->subject, &c->chat, &there));
    if (!there)
        return status_set(STATUS_INVALID,
                          "%s has no chat template (chat_template.jinja, or chat_template in "
                          "tokenizer_config.json); without --chat a prompt is the beginning of a text",
                          o->subject);
    chat_limit(c->chat,
               &(template_options){ .memory = (size_t)share, .output = OUTPUT_LIMIT, .plain = true });
    if (o->chat_file) return read_file(c, o->chat_file, share);
    return o->system ? add(c, "system", o->system, strlen(o->system), false) : STATUS_OK;
}

status conversation_open(const options *o, conversation **out) {
    *out = memory_new(1, sizeof **out);
    if (!*out) return status_set(STATUS_FAILED, "no memory for a conversation");
    if (o->chat_file && o->system)
        return status_set(STATUS_INVALID, "--system and --chat-file both say how the conversation begins");
    return open_chat(*out, o);
}

void conversation_close(conversation *c) {
    if (!c) return;
    for (size_t i = 0; i < c->count; i++) memory_free(c->own[i]);
    template_output_close(&c->out);
    template_json_close(c->file);
    chat_close(c->chat);
    memory_free(c->messages);
    memory_free(c->own);
    memory_free(c);
}

/* ---- turns ---- */

static status render(conversation *c, template_output *out) {
    template_value all = { .kind = TEMPLATE_LIST, .list = { c->messages, c->count } };
    TRY(chat_render(c->chat, &all, c->tools, true, out));
    if (!memchr(out->text, 0, out->length)) return STATUS_OK;
    template_output_close(out);
    return status_set(STATUS_INVALID, "the text of the chat has a zero byte");
}

status conversation_once(conversation *c, const char *line, char **written) {
    template_output out;
    *written = NULL;
    if (line) TRY(add(c, "user", line, strlen(line), false));
    status result = render(c, &out);
    if (line) drop_last(c);
    *written = out.text; /* it has no ranges */
    return result;
}

void conversation_bound(conversation *c, uint64_t bytes) {
    c->bound = c->said + bytes;
    uint64_t longest = conversation_longest(c);
    chat_limit(c->chat, &(template_options){
                            .memory = (1 << 20) + RENDERED * longest, .output = longest, .plain = true });
}

/* The file's messages are at most so long as text, too. */
uint64_t conversation_longest(const conversation *c) {
    return c->bound + AROUND + (c->file ? template_json_bytes(c->file) : 0);
}

/* With a bound: messages twice, since their list doubles; the values of a rendering twice, while they outgrow
 * what was kept; and two texts, the rendered one and its copy. */
uint64_t conversation_bytes(const conversation *c) {
    uint64_t bytes = sizeof *c + (c->file ? template_json_bytes(c->file) : 0) + chat_bytes(c->chat);
    if (!c->bound) return bytes + c->said + room_of(c->room) + c->out.length;
    uint64_t longest = conversation_longest(c);
    return bytes + 2 * c->bound + 2 * ((1 << 20) + RENDERED * longest) + 2 * longest;
}

status conversation_say(conversation *c, const char *line, const char **written) {
    TRY(add(c, "user", line, strlen(line), false));
    template_output_close(&c->out);
    TRY(render(c, &c->out));
    *written = c->out.text;
    return STATUS_OK;
}

status conversation_answer(conversation *c, const char *words, size_t bytes) {
    return add(c, "assistant", words, bytes, true);
}
