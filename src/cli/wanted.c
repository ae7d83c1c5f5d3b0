#include "cli/wanted.h"

#include "base/utf8.h"

void wanted_say(output *out, const wanted_tokens *w) {
    static const char *const words[] = {
        [WANTED_TOKEN_NEW] = "is added as token",
        [WANTED_TOKEN_WORD] = "is a word of the vocabulary, and becomes a special token; it stays number",
        [WANTED_TOKEN_THERE] = "is there already, as token",
    };
    char token[UTF8_QUOTE_BYTES];
    for (uint32_t i = 0; i < w->count; i++)
        output_add(out, "note: '%s' %s %u\n", utf8_quote(w->items[i].text, token), words[w->items[i].state],
                   w->items[i].id);
}

void wanted_say_all(output *out, const setup *s) {
    long long was = s->vocabulary_was, is = s->model.vocabulary;
    wanted_say(out, &s->wanted);
    if (was)
        output_add(out,
                   "note: the vocabulary grows from %lld to %lld; new rows begin as the mean of the others\n",
                   was, is);
}
