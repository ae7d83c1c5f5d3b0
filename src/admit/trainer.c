#define _GNU_SOURCE /* strcasestr */
#include "admit/trainer.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "admit/names.h"
#include "admit/settings.h"
#include "admit/trainer_rows.h"

bool trainer_is_own(const trainer *t) { return t->own; }

/* ---- files ---- */

bool trainer_path(const char *name, const trainer_files *files, char out[4096], recipe *r) {
    int n = *name == '/' || !files->folder[0] ? snprintf(out, 4096, "%s", name)
                                              : snprintf(out, 4096, "%s/%s", files->folder, name);
    if (files->may_open && n < 4096 && !strchr(name, '?')) return true;
    recipe_unseen(r, "%s was not read", name);
    return false;
}

typedef struct {
    const trainer *t;
    const trainer_files *files;
    recipe *r;
    int depth;    /* of files that name files */
    bool in_file; /* whose lists come item by item */
    bool written; /* by the script itself: a '?' in it is not known */
} reading;

static void apply(const reading *x, const char *name, const char *value, bool unsure);

static void apply_setting(void *context, const char *key, const char *value) {
    const reading *x = context;
    apply(x, key, value, x->written && strchr(value, '?'));
}

/* A file that the script writes is as it was written, or else has been changed since. */
static void read_settings(const char *name, const trainer_files *files, settings_each *each, void *context,
                          recipe *r) {
    char path[4096];
    const char *own = files->script ? shell_written(files->script, name) : NULL;
    status result = STATUS_OK;
    if (own) {
        recipe_unseen(r, "%s is taken as the script writes it", name);
        result = settings_read_text(name, own, strlen(own), each, context);
    } else if (trainer_path(name, files, path, r)) {
        result = settings_read(path, each, context);
    }
    if (result != STATUS_OK) recipe_unseen(r, "%s could not be read", name);
}

static void read_file(const reading *x, const char *name) {
    reading inner = *x;
    if (x->depth == 2) {
        recipe_unseen(x->r, "%s was not read", name);
        return;
    }
    inner.depth++, inner.in_file = true;
    inner.written = x->files->script && shell_written(x->files->script, name);
    read_settings(name, x->files, apply_setting, &inner, x->r);
}

/* What a file that is not read is likely to say: "ds_z3_config.json", "zero2.yaml", "fsdp.yaml". */
static void guess_by_name(const char *name, recipe *r) {
    static const struct {
        const char *word;
        recipe_shard shard;
    } words[] = { { "zero3", RECIPE_ZERO3 }, { "zero_3", RECIPE_ZERO3 }, { "zero-3", RECIPE_ZERO3 },
                  { "z3", RECIPE_ZERO3 },    { "stage3", RECIPE_ZERO3 }, { "stage_3", RECIPE_ZERO3 },
                  { "zero2", RECIPE_ZERO2 }, { "zero_2", RECIPE_ZERO2 }, { "zero-2", RECIPE_ZERO2 },
                  { "z2", RECIPE_ZERO2 },    { "stage2", RECIPE_ZERO2 }, { "stage_2", RECIPE_ZERO2 },
                  { "zero1", RECIPE_ZERO1 }, { "fsdp", RECIPE_FSDP } };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (!strcasestr(name, words[i].word)) continue;
        r->shard = words[i].shard;
        recipe_unseen(r, "what %s shares out is guessed by its name", name);
        return;
    }
}

/* Does it say that something is kept away from the device? */
static void take_away(recipe *r, const char *key, const char *value) {
    bool away = strstr(key, "off"
                            "load_") &&
                strcmp(value, "none") != 0 && strcasecmp(value, "false") != 0 && !strstr(key, "pin_memory");
    if (!away) return;
    bool optimizer = strstr(key, "optimizer") != NULL;
    if (!optimizer || !r->host_keeps) r->host_keeps = optimizer ? "optimizer" : "all";
    recipe_unseen(r, "something is kept with the host (%s), which is counted by a rule", key);
}

static void take_deepspeed(void *context, const char *key, const char *value) {
    static const recipe_shard stages[] = { RECIPE_DDP, RECIPE_ZERO1, RECIPE_ZERO2, RECIPE_ZERO3 };
    recipe *r = context;
    const char *last = strrchr(key, '.');
    last = last ? last + 1 : key;
    bool stage = strcmp(key, "zero_optimization.stage") == 0 || strcmp(last, "zero_stage") == 0;
    if (stage && value[0] >= '0' && value[0] <= '3' && !value[1]) r->shard = stages[value[0] - '0'];
    take_away(r, key, value);
    bool enabled = strcmp(last, "enabled") == 0 && recipe_yes(value);
    if (enabled && (text_begins_with(key, "bf16") || text_begins_with(key, "fp16")))
        r->types = RECIPE_AUTOCAST;
}

void trainer_read_deepspeed(const char *name, const trainer_files *files, recipe *r) {
    r->shard = RECIPE_DDP;
    bool seen = files->may_open || (files->script && shell_written(files->script, name));
    if (!seen) guess_by_name(name, r);
    read_settings(name, files, take_deepspeed, r, r);
}

static void take_accelerate(void *context, const char *key, const char *value) {
    recipe *r = context;
    const char *last = strrchr(key, '.');
    last = last ? last + 1 : key;
    if (strcmp(key, "distributed_type") == 0 && strcmp(value, "FSDP") == 0) r->shard = RECIPE_FSDP;
    if (strcmp(key, "mixed_precision") == 0 && strcmp(value, "no") != 0) r->types = RECIPE_AUTOCAST;
    if (strcmp(key, "num_processes") == 0) r->processes = recipe_count(value);
    bool whole = strcmp(value, "FULL_SHARD") == 0 || strcmp(value, "1") == 0;
    if (strcmp(last, "fsdp_sharding_strategy") == 0 && !whole)
        recipe_unseen(r, "fsdp_sharding_strategy %s has no rule", value);
    if (strcmp(last, "fsdp_activation_checkpointing") == 0 && recipe_yes(value)) r->checkpointing = true;
    bool away =
        text_begins_with(last, "fsdp_off") && text_ends_with(last, "load_params") && recipe_yes(value);
    if (away) take_away(r, key, value);
    if (strcmp(last, "deepspeed_config_file") == 0) recipe_unseen(r, "%s was not read", value);
    if (text_begins_with(key, "deepspeed_config.")) take_deepspeed(r, key, value);
    if (text_begins_with(key, "parallelism_config") || text_begins_with(key, "megatron"))
        recipe_unseen(r, "%s has no rule", key);
}

void trainer_read_accelerate(const char *name, const trainer_files *files, recipe *r) {
    bool seen = files->may_open || (files->script && shell_written(files->script, name));
    if (!seen) guess_by_name(name, r);
    read_settings(name, files, take_accelerate, r, r);
}

/* An option of accelerate's line that says how weights are shared out. */
void trainer_take_sharing(const char *name, const char *value, recipe *r) {
    static const recipe_shard stages[] = { RECIPE_DDP, RECIPE_ZERO1, RECIPE_ZERO2, RECIPE_ZERO3 };
    bool stage = strcmp(name, "zero_stage") == 0 && *value >= '0' && *value <= '3' && !value[1];
    if (strcmp(name, "use_fsdp") == 0) r->shard = RECIPE_FSDP;
    if (strcmp(name, "use_deepspeed") == 0 && r->shard == RECIPE_SHARD_UNSAID) r->shard = RECIPE_ZERO2;
    if (stage) r->shard = stages[*value - '0'];
    if (strstr(name, "off"
                     "load_"))
        take_away(r, name, value);
    if (strcmp(name, "deepspeed_config_file") == 0) guess_by_name(value, r);
}

/* ---- meanings ---- */

static void copy(recipe *r, const char *name, const char *value, char *out, size_t room) {
    if (strlen(value) < room)
        snprintf(out, room, "%s", value);
    else
        recipe_unseen(r, "the value of %s is too long to be read", name);
}

/* A list of a file: one item more. */
static void copy_item(const reading *x, const char *name, const char *value, char *out, size_t room) {
    size_t used = strlen(out);
    bool more = x->in_file && used && text_ends_with(name, "modules");
    if (more && used + 1 + strlen(value) < room) out[used++] = ',';
    copy(x->r, name, value, more ? out + used : out, more ? room - used : room);
}

static void take_model(const reading *x, const char *name, const char *value) {
    static const char *const coded[] = { "bnb",  "4bit", "8bit", "gptq", "awq",
                                         "gguf", "int4", "int8", "fp8",  "mxfp" };
    recipe *r = x->r;
    if (x->t->family == NANOGPT && strcmp(value, "scratch") == 0) return;
    if (x->t->family == NANOGPT && !text_begins_with(value, "gpt2")) {
        recipe_unseen(r, "it goes on from a checkpoint (init_from=%s)", value);
        return;
    }
    copy(r, name, value, r->model, sizeof r->model);
    for (size_t i = 0; i < sizeof coded / sizeof *coded; i++)
        if (strcasestr(value, coded[i])) recipe_unseen(r, "%s may have weights of fewer bits than 16", value);
}

static void take_type(const reading *x, const char *value) {
    recipe *r = x->r;
    bool vllm_words = x->t->family == VLLM, half = strstr(value, "16") != NULL || strcmp(value, "half") == 0;
    if (vllm_words) {
        if (strstr(value, "32")) recipe_pass(r, "dtype", "float32");
    } else if (x->t->family == NANOGPT) {
        r->types = half ? RECIPE_AUTOCAST : RECIPE_F32;
        r->f32_weights = true;
    } else if (half) {
        r->half_weights = true;
    } else if (strstr(value, "32")) {
        r->f32_weights = true;
    }
}

static void take_precision(recipe *r, const char *value) {
    if (strstr(value, "true"))
        *(strstr(value, "16") ? &r->half_weights : &r->f32_weights) = true;
    else if (strstr(value, "mixed"))
        r->types = RECIPE_AUTOCAST, r->f32_weights = true;
    else
        r->f32_weights = true;
}

/* "full_shard auto_wrap" */
static void take_shards(recipe *r, const char *value) {
    if (strstr(value, "off"
                      "load"))
        take_away(r,
                  "fsdp_off"
                  "load_params",
                  "true");
    if (strstr(value, "shard_grad_op")) r->shard = RECIPE_ZERO2;
    if (strstr(value, "full_shard") && !strstr(value, "hybrid"))
        r->shard = RECIPE_FSDP;
    else if (*value)
        recipe_unseen(r, "--fsdp %s has no rule", value);
}

/* "torchtune.models.llama3_1.qlora_llama3_1_8b": llama-3.1-8b. */
static void take_component(recipe *r, const char *value) {
    char out[RECIPE_WORD_BYTES] = "";
    const char *at = strrchr(value, '.');
    at = at ? at + 1 : value;
    if (text_begins_with(at, "qlora_")) r->adapters = true, r->base_bits = 4, at += 6;
    if (text_begins_with(at, "lora_")) r->adapters = true, at += 5;
    size_t n = 0;
    bool llama = text_begins_with(at, "llama");
    for (; *at && n + 2 < sizeof out; at++) {
        bool digit = at[0] >= '0' && at[0] <= '9', before = n && out[n - 1] >= '0' && out[n - 1] <= '9';
        bool point = at[0] == '_' && before && at[1] >= '0' && at[1] <= '9' && at[2] == '_';
        if (llama && digit && n == 5) out[n++] = '-';
        out[n++] = at[0] != '_' ? at[0] : point ? '.' : '-';
    }
    snprintf(r->model, sizeof r->model, "%s", out);
}

static void take_llmc_model(recipe *r, const char *value) {
    static const struct {
        const char *said, *name;
    } models[] = { { "d12", "gpt2" },        { "d24", "gpt2-medium" }, { "d36", "gpt2-large" },
                   { "d48", "gpt2-xl" },     { "124M", "gpt2" },       { "355M", "gpt2-medium" },
                   { "774M", "gpt2-large" }, { "1558M", "gpt2-xl" } };
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (strcmp(value, models[i].said) == 0 || (value[0] != 'd' && strstr(value, models[i].said)))
            snprintf(r->model, sizeof r->model, "%s", models[i].name);
}

static void take_adapter(recipe *r, const char *value) {
    r->adapters = *value != 0;
    if (strcmp(value, "qlora") == 0) r->base_bits = 4;
    if (*value && strcmp(value, "lora") != 0 && strcmp(value, "qlora") != 0)
        recipe_unseen(r, "adapter %s has no rule", value);
}

/* A dictionary, or of a file its one value. */
static void take_reentrant(recipe *r, const char *value, bool whole) {
    const char *at = whole ? value : strstr(value, "use_reentrant");
    if (at) r->reentrant = strcasestr(at, "true") != NULL;
}

static void take_targets(recipe *r, const char *value) {
    r->all_products = strcmp(value, "all") == 0;
    if (r->all_products)
        r->targets[0] = 0;
    else
        copy(r, "lora_target", value, r->targets, sizeof r->targets);
}

/* LLaMA-Factory's options. */
static void apply_factory(recipe *r, meaning m, const char *name, const char *value) {
    bool texts = strcmp(value, "sft") == 0 || strcmp(value, "pt") == 0, full = strcmp(value, "full") == 0;
    if (m == TUNING) r->adapters = strcmp(value, "lora") == 0;
    if (m == TARGETS) take_targets(r, value);
    if (m == BITS && strcmp(value, "4") == 0) r->base_bits = 4;
    if (m == HALF_TOO && recipe_yes(value)) r->half_weights = true;
    bool known = m == TUNING  ? r->adapters || full
                 : m == BITS  ? r->base_bits == 4
                 : m == STAGE ? texts
                              : true;
    if (!known) recipe_unseen(r, "%s %.40s has no rule here", name, value);
}

/* Half of the meanings: those of one tool, or of files. */
static void apply_special(const reading *x, const trainer_row *o, const char *name, const char *value) {
    recipe *r = x->r;
    switch (o->means) {
    case SHARDS: take_shards(r, value); break;
    case DEEPSPEED: trainer_read_deepspeed(value, x->files, r); break;
    case CONFIG: read_file(x, value); break;
    case COMPONENT: take_component(r, value); break;
    case PASS: recipe_pass(r, o->ours, value); break;
    case PASS_YES:
        if (recipe_yes(value)) recipe_pass(r, o->ours, "");
        break;
    case LLMC_MODEL: take_llmc_model(r, value); break;
    case LLMC_LEVEL: r->checkpointing = strcmp(value, "2") == 0; break;
    case PRECISION: take_precision(r, value); break;
    case PLACE:
        if (!text_begins_with(value, o->ours)) recipe_unseen(r, "%s is '%.40s'", name, value);
        break;
    case ADAPTER: take_adapter(r, value); break;
    case REENTRANT: take_reentrant(r, value, o->ours != NULL); break;
    case TUNING:
    case TARGETS:
    case BITS:
    case STAGE:
    case HALF_TOO: apply_factory(r, o->means, name, value); break;
    case FOUR_BITS:
        if (strncmp(value, "bnb.nf4", 7) == 0 || recipe_yes(value))
            r->base_bits = 4;
        else if (*value == 'b')
            recipe_unseen(r, "%s %s has no rule", name, value);
        break;
    default: break;
    }
}

static void apply_row(const reading *x, const trainer_row *o, const char *name, const char *value) {
    recipe *r = x->r;
    char *at = (char *)r + o->offset;
    bool off = strcasecmp(value, "false") == 0 || strcmp(value, "0") == 0 || strcasecmp(value, "no") == 0 ||
               strcasecmp(value, "none") == 0 || strcasecmp(value, "null") == 0;
    bool flag = o->means == YES || o->means == CHECKPOINT || o->means == MIXED || o->means == PACKED;
    if (flag && !off && !recipe_yes(value)) recipe_unseen(r, "%s is '%.80s'", name, value);
    switch (o->means) {
    case MODEL: take_model(x, name, value); break;
    case NEW:
        take_model(x, name, value);
        r->f32_weights = true;
        break;
    case COUNT:
        *(int64_t *)(void *)at = recipe_count(value);
        if (!recipe_count(value) && !off) recipe_unseen(r, "%s is '%.40s'", name, value);
        break;
    case LENGTH:
        r->context = recipe_count(value);
        if (!r->context) recipe_unseen(r, "%s is '%.40s'", name, value);
        break;
    case WORD: copy_item(x, name, off ? "" : value, at, o->room); break;
    case YES: *(bool *)at = recipe_yes(value); break;
    case CHECKPOINT: r->checkpointing = !off, r->checkpointing_said = true; break;
    case MIXED:
        if (!off) r->types = RECIPE_AUTOCAST;
        break;
    case HALF:
        if (strstr(value, "32") || off)
            r->f32_weights = true;
        else
            r->half_weights = true;
        break;
    case TYPE: take_type(x, value); break;
    case PACKED: r->fixed = !off; break;
    case HIDES:
        if (!off && *value) recipe_unseen(r, "%s %.80s has no rule here", name, value);
        if (!*value) recipe_unseen(r, "%s has no rule here", name);
        break;
    default: apply_special(x, o, name, value); break;
    }
}

/* Of a value that is not all known what the script says of it, which is the likely one: "8?" is 8 where the
 * environment says nothing else, and "?/llama-3-8b" a model of that name. False: it says nothing. */
static bool likely_value(const trainer_row *o, const char *value, char out[SETTINGS_VALUE_BYTES]) {
    const char *slash = strrchr(value, '/');
    bool path = o->means == MODEL && slash && slash[1] && !strchr(slash, '?');
    snprintf(out, SETTINGS_VALUE_BYTES, "%s", path ? slash + 1 : value);
    for (size_t n = strlen(out); n && out[n - 1] == '?'; n--) out[n - 1] = 0;
    return !strchr(out, '?') && (*out || !*value);
}

static void apply_unsure(const reading *x, const trainer_row *o, const char *name, const char *value) {
    char likely[SETTINGS_VALUE_BYTES];
    if (!likely_value(o, value, likely)) {
        recipe_unseen(x->r, "%s is not known: nothing in the script says its value", name);
        return;
    }
    recipe_unseen(x->r, "%s is taken as %.80s, as the script says, but something that is not read may set it",
                  name, *likely ? likely : "on");
    apply_row(x, o, name, likely);
}

/* As tables have names: without hyphens before, with underscores between. */
static void apply(const reading *x, const char *said, const char *value, bool unsure) {
    char name[SETTINGS_KEY_BYTES];
    size_t n = 0;
    for (; said[n] && n + 1 < sizeof name; n++) name[n] = said[n] == '-' ? '_' : said[n];
    name[n] = 0;
    for (const trainer_row *o = trainer_rows(x->t); o->name; o++) {
        if (strcmp(o->name, name) != 0) continue;
        if (unsure)
            apply_unsure(x, o, name, value);
        else
            apply_row(x, o, name, value);
        return;
    }
    if (x->t->family == SNUG || !names_plain(name, x->t->one_hyphen))
        recipe_unseen(x->r, "what %s does to memory is not known here", name);
}

/* ---- words ---- */

static bool is_name(const trainer *t, const char *word) {
    if (word[0] != '-' || !word[1]) return false;
    return word[1] == '-' || t->one_hyphen || !strchr("0123456789.", word[1]);
}

/* "--name value", "--name=value", "--name", and of lists "--name value value": the place of the next one. */
static uint32_t take_option(const reading *x, const trainer_words *w, uint32_t i) {
    const char *word = w->words[i] + 1 + (w->words[i][1] == '-');
    char name[SETTINGS_KEY_BYTES], value[SETTINGS_VALUE_BYTES] = "";
    const char *equals = strchr(word, '=');
    bool unsure = w->unsure[i];
    snprintf(name, sizeof name, "%.*s", equals ? (int)(equals - word < 255 ? equals - word : 255) : 255,
             word);
    uint32_t next = i + 1;
    if (equals) {
        snprintf(value, sizeof value, "%s", equals + 1);
    } else {
        size_t used = 0;
        bool list = text_ends_with(name, "modules") || strcmp(name, "fsdp") == 0;
        uint32_t most = list ? w->count : i + 2;
        for (; next < w->count && next < most && !is_name(x->t, w->words[next]); next++) {
            int n = snprintf(value + used, sizeof value - used, "%s%s", used ? "," : "", w->words[next]);
            used += (size_t)n < sizeof value - used ? (size_t)n : 0;
            unsure |= w->unsure[next];
        }
    }
    apply(x, name, value, unsure);
    return next;
}

/* A word that is no option: vLLM's model, torchtune's recipe and key=value, axolotl's file, nanoGPT's. */
static void take_word(const reading *x, const char *word, bool unsure) {
    static const trainer_row any = { .means = MODEL };
    const char *equals = strchr(word, '=');
    char key[SETTINGS_KEY_BYTES], likely[SETTINGS_VALUE_BYTES];
    if (unsure) {
        bool known = likely_value(&any, word, likely) && *likely;
        recipe_unseen(x->r, "a word of its line is not known: %.80s", word);
        if (known) take_word(x, likely, false);
    } else if (x->t->assignments && equals && equals - word < SETTINGS_KEY_BYTES) {
        snprintf(key, sizeof key, "%.*s", (int)(equals - word), word);
        apply(x, key, equals + 1, false);
    } else if (text_ends_with(word, ".py") || text_ends_with(word, ".yaml") || text_ends_with(word, ".yml")) {
        read_file(x, word);
    } else if (!x->t->assignments && !x->r->model[0]) {
        take_model(x, "model", word);
    } else if (!x->t->assignments || !strstr(word, "finetune")) { /* of torchtune's recipes those train */
        recipe_unseen(x->r, "what the word %.80s does is not known here", word);
    }
}

/* nanoGPT says sizes and no name. */
static void name_by_sizes(recipe *r) {
    static const struct {
        int64_t layers, heads, width;
        const char *name;
    } sizes[] = { { 12, 12, 768, "gpt2" },
                  { 24, 16, 1024, "gpt2-medium" },
                  { 36, 20, 1280, "gpt2-large" },
                  { 48, 25, 1600, "gpt2-xl" } };
    if (!r->layers) r->layers = 12;
    if (!r->heads) r->heads = 12;
    if (!r->width) r->width = 768;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && !r->model[0]; i++)
        if (sizes[i].layers == r->layers && sizes[i].heads == r->heads && sizes[i].width == r->width)
            snprintf(r->model, sizeof r->model, "%s", sizes[i].name);
}

static void finish(const trainer *t, recipe *r) {
    if (t->family == NANOGPT) name_by_sizes(r);
    if (t->family == NANOGPT && !r->passed_count) recipe_pass(r, "dropout", "0");
    if (t->family == NANOGPT && r->types == RECIPE_TYPES_UNSAID)
        r->types = RECIPE_AUTOCAST, r->f32_weights = true;
    if (t->family == TORCHTUNE && r->processes > 1) r->shard = RECIPE_FSDP;
    if (r->rank && t->family != TRANSFORMERS) r->adapters = true;
    if (r->adapters && !r->rank) r->rank = t->family == TRANSFORMERS ? 16 : 8;
    if (r->adapters && (!r->targets[0] || strcmp(r->targets, "all-linear") == 0)) {
        if (!r->targets[0] && !r->all_products)
            recipe_unseen(r, "which products adapters stand beside is the program's own choice");
        r->targets[0] = 0;
    }
    if (r->base_bits == 4 && !r->adapters) recipe_unseen(r, "weights of 4 bits are trained without adapters");
    const char *component = strrchr(r->optimizer, '.'); /* torch.optim.AdamW */
    if (component) memmove(r->optimizer, component + 1, strlen(component));
    for (char *c = r->optimizer; *c; c++) *c = (char)(*c >= 'A' && *c <= 'Z' ? *c - 'A' + 'a' : *c);
    if (r->types == RECIPE_TYPES_UNSAID && strcmp(t->framework, "hf") == 0) r->types = RECIPE_F32;
    if (t->trains_if_told && !r->trains && !strstr(r->file, "no_trainer"))
        recipe_unseen(r, "it trains only with --do_train");
    if (t->own) recipe_unseen(r, "what %s does itself is not known", r->file);
}

void trainer_read(const trainer *t, const trainer_words *w, const trainer_files *files, recipe *out) {
    const reading x = { .t = t, .files = files, .r = out };
    out->program = t->title, out->framework = t->framework;
    out->batch = t->batch, out->fixed = t->fixed;
    out->checkpointing = t->checkpoints, out->checkpointing_said = t->decides_checkpoints;
    out->half_weights = t->half, out->judges = t->judges;
    if (t->family == LLMC && !t->half) out->f32_weights = true, out->types = RECIPE_F32;
    if (t->family == LLMC || t->family == NANOGPT) out->context = 1024;
    if (t->family == NANOGPT) out->accumulate = 40, out->compiled = true;
    for (uint32_t i = 0; i < w->count;) {
        if (is_name(t, w->words[i])) {
            i = take_option(&x, w, i);
            continue;
        }
        if (t->takes_words)
            take_word(&x, w->words[i], w->unsure[i]);
        else
            recipe_unseen(out, "what the word %.80s does is not known here", w->words[i]);
        i++;
    }
    finish(t, out);
}
