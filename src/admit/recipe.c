#include "admit/recipe.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void recipe_unseen(recipe *r, const char *format, ...) {
    char sentence[512];
    va_list more;
    va_start(more, format);
    vsnprintf(sentence, sizeof sentence, format, more);
    va_end(more);
    for (char *c = sentence; *c; c++)
        if ((unsigned char)*c < ' ') *c = '?';
    if (r->unseen.length > 4096 || (r->unseen.data && strstr(r->unseen.data, sentence))) return;
    text_add(&r->unseen, "%s\n", sentence);
}

void recipe_close(recipe *r) { text_close(&r->unseen); }

void recipe_pass(recipe *r, const char *name, const char *value) {
    if (r->passed_count + 2 > RECIPE_MOST_PASSED || strlen(value) >= sizeof r->passed[0]) {
        recipe_unseen(r, "--%s is too long to be read", name);
        return;
    }
    snprintf(r->passed[r->passed_count++], sizeof r->passed[0], "--%s", name);
    if (*value) snprintf(r->passed[r->passed_count++], sizeof r->passed[0], "%s", value);
}

bool recipe_yes(const char *value) {
    static const char *const words[] = { "", "true", "1", "yes", "on", "auto" };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasecmp(value, words[i]) == 0) return true;
    return false;
}

int64_t recipe_count(const char *value) {
    char *end;
    errno = 0;
    long long n = strtoll(value, &end, 10);
    return errno || end == value || *end || n < 1 || n > 1 << 30 ? 0 : n;
}

/* ---- as options ---- */

static void add(recipe_options *o, const char *word) {
    if (o->count == RECIPE_OPTIONS) {
        o->room.failed = true;
        return;
    }
    o->words[o->count++] = o->room.data + o->room.length; /* there is room for all: see below */
    text_add(&o->room, "%s", word);
    o->room.length++; /* the zero stays */
}

static void add_pair(recipe_options *o, const char *name, const char *value) {
    if (!*value) return;
    add(o, name);
    add(o, value);
}

static void add_number(recipe_options *o, const char *name, int64_t value) {
    char digits[32];
    snprintf(digits, sizeof digits, "%lld", (long long)value);
    if (value > 0) add_pair(o, name, digits);
}

bool recipe_serves(const recipe *r) {
    static const char *const servers[] = { "vllm", "llama.cpp", "sglang", "tensorrt-llm" };
    bool found = false;
    for (size_t i = 0; r->framework && i < sizeof servers / sizeof *servers; i++)
        found |= strcmp(r->framework, servers[i]) == 0;
    return found;
}

/* Weights of 16 bits are half of what autocast has, and so is what follows from them. */
static const char *types_of(const recipe *r, bool least) {
    static const char *const names[] = { "", "float32", "autocast", "half" };
    if (r->half_weights) return "half";
    if (least && !r->f32_weights) return "half";
    return names[r->types];
}

static void add_training(const recipe *r, int64_t gpus, bool least, recipe_options *o) {
    static const char *const shards[] = { "", "ddp", "zero1", "zero2", "zero3", "fsdp" };
    enum { SHORT = 16 }; /* tokens: no text is shorter than a few words */
    add_number(o, "--batch", r->batch);
    if (r->accumulate > 1) add_number(o, "--accumulate", r->accumulate);
    int64_t context = r->context;
    if (least && (!context || (!r->fixed && context > SHORT))) context = SHORT;
    add_number(o, "--context", context);
    add_pair(o, "--dtype", types_of(r, least));
    add_pair(o, "--optimizer", r->optimizer);
    add_pair(o, "--attn", r->attention);
    if (r->checkpointing || (least && !r->checkpointing_said)) add(o, "--gradient-checkpointing");
    if (r->reentrant && r->checkpointing) add(o, "--reentrant");
    if (r->fused_loss) add_pair(o, "--loss", "fused");
    if (r->compiled) add(o, "--compile");
    if (r->expandable) add(o, "--expandable-segments");
    if (r->adapters) add_number(o, "--adapter-rank", r->rank ? r->rank : 8);
    if (r->adapters) add_number(o, "--base-bits", r->base_bits);
    if (r->adapters) add_pair(o, "--adapter-targets", r->targets);
    add_number(o, "--labels", r->labels);
    const recipe_shard shard = r->shard ? r->shard : RECIPE_DDP;
    bool whole = shard == RECIPE_ZERO3 || shard == RECIPE_FSDP,
         state = shard >= RECIPE_ZERO1 && shard != RECIPE_FSDP;
    bool away = r->host_keeps && !least && (r->host_keeps[0] == 'a' ? whole : state);
    if (gpus > 1 || away) {
        add_number(o, "--gpus", gpus);
        add_pair(o, "--shard", shards[shard]);
    }
    if (away) add_pair(o, "--host-keeps", r->host_keeps);
}

bool recipe_estimate(const recipe *r, int64_t gpus, recipe_reading as, recipe_options *out) {
    *out = (recipe_options){ .count = 0 };
    if (!text_reserve(&out->room, 1 << 14)) return false;
    text_add(&out->room, "%s", "");
    add_pair(out, "--framework", r->framework);
    if (!recipe_serves(r) && strcmp(r->framework, "snug") != 0)
        add_training(r, gpus, as != RECIPE_LIKELY, out);
    if (as == RECIPE_LEAST_OLDER && strcmp(r->framework, "hf") == 0) add_pair(out, "--libraries", "2023");
    for (uint32_t i = 0; i < r->passed_count; i++) add(out, r->passed[i]);
    if (recipe_serves(r) && gpus > 1) add_number(out, "--gpus", gpus);
    return !out->room.failed;
}

void recipe_options_close(recipe_options *o) { text_close(&o->room); }
