#include "admit/resources.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MOST_OF_ALL = 1 << 20 }; /* of anything that is counted, and of sums */

/* ---- values ---- */

/* "2", or of "2-4" the first; 0: no number of this kind. */
static int64_t count_of(const char *value) {
    char *end;
    errno = 0;
    long long n = strtoll(value, &end, 10);
    return errno || end == value || n < 0 || n > MOST_OF_ALL ? 0 : n;
}

/* Slurm's sizes: 4G, 512M, 1T; without a letter mebibytes. */
static uint64_t bytes_of(const char *value) {
    char *end;
    errno = 0;
    double n = strtod(value, &end);
    if (errno || end == value || !(n > 0) || n > 1e12) return 0;
    double unit = 0x1p20;
    switch (*end | 0x20) {
    case 'k': unit = 0x1p10; break;
    case 'g': unit = 0x1p30; break;
    case 't': unit = 0x1p40; break;
    default: break;
    }
    return n * unit < 0x1p62 ? (uint64_t)(n * unit) : 0;
}

static void keep(resources *r, const char *value, char out[RESOURCES_WORD_BYTES]) {
    if (strlen(value) < RESOURCES_WORD_BYTES)
        snprintf(out, RESOURCES_WORD_BYTES, "%s", value);
    else
        r->cut = true;
}

/* "a100:2", "2", "a100": of one resource behind its name. */
static int64_t read_gpu(resources *r, const char *spec) {
    char type[RESOURCES_WORD_BYTES] = "";
    size_t n = strcspn(spec, ":=(");
    if (*spec >= '0' && *spec <= '9' && strspn(spec, "0123456789") == n) return count_of(spec);
    if (n && n < sizeof type) {
        memcpy(type, spec, n);
        r->several_types |= r->type[0] && strcasecmp(r->type, type) != 0;
        if (!r->type[0]) keep(r, type, r->type);
    }
    return spec[n] == ':' || spec[n] == '=' ? count_of(spec + n + 1) : 1;
}

/* "gpu:a100:2,license:1", also as the controller writes it: "gres:gpu:2", "gres/gpu:a100=2". */
static int64_t read_gres(resources *r, const char *value) {
    int64_t all = 0;
    while (*value) {
        char one[RESOURCES_WORD_BYTES] = "";
        size_t n = strcspn(value, ",;");
        if (n < sizeof one) memcpy(one, value, n);
        const char *at = one;
        if (strncmp(at, "gres:", 5) == 0 || strncmp(at, "gres/", 5) == 0) at += 5;
        if (strncasecmp(at, "gpu", 3) == 0 && (!at[3] || at[3] == ':' || at[3] == '='))
            all += at[3] ? read_gpu(r, at + 4) : 1;
        value += n + (value[n] != 0);
    }
    return all;
}

/* "a100:2,v100:1" of --gpus. */
static int64_t read_gpus(resources *r, const char *value) {
    int64_t all = 0;
    while (*value) {
        char one[RESOURCES_WORD_BYTES] = "";
        size_t n = strcspn(value, ",");
        if (n < sizeof one) memcpy(one, value, n);
        const char *at =
            strncmp(one, "gres:gpu:", 9) == 0 || strncmp(one, "gres/gpu:", 9) == 0 ? one + 9 : one;
        all += read_gpu(r, at);
        value += n + (value[n] != 0);
    }
    return all;
}

/* ---- options ---- */

typedef enum {
    NOTHING, /* takes a value, and says nothing of memory */
    FLAG,
    NODES,
    TASKS,
    TASKS_PER_NODE,
    GRES,
    GPUS,
    GPUS_PER_NODE,
    GPUS_PER_TASK,
    MEMORY,
    MEMORY_PER_GPU,
    MEMORY_PER_CPU,
    PARTITION,
    CONSTRAINT,
    FOLDER,
    WRAP
} meaning;

/* Those that matter, and those without a value: all others take one. */
static const struct {
    const char *name;
    char letter;
    meaning means;
} table[] = {
    { "nodes", 'N', NODES },
    { "ntasks", 'n', TASKS },
    { "ntasks-per-node", 0, TASKS_PER_NODE },
    { "gres", 0, GRES },
    { "gpus", 'G', GPUS },
    { "gpus-per-node", 0, GPUS_PER_NODE },
    { "gpus-per-task", 0, GPUS_PER_TASK },
    { "mem", 0, MEMORY },
    { "mem-per-gpu", 0, MEMORY_PER_GPU },
    { "mem-per-cpu", 0, MEMORY_PER_CPU },
    { "partition", 'p', PARTITION },
    { "constraint", 'C', CONSTRAINT },
    { "chdir", 'D', FOLDER },
    { "wrap", 0, WRAP },
    { "contiguous", 0, FLAG },
    { "exclusive", 0, FLAG },
    { "get-user-env", 0, FLAG },
    { "help", 'h', FLAG },
    { "hold", 'H', FLAG },
    { "ignore-pbs", 0, FLAG },
    { "nice", 0, FLAG },
    { "no-kill", 'k', FLAG },
    { "no-requeue", 0, FLAG },
    { "overcommit", 'O', FLAG },
    { "oversubscribe", 's', FLAG },
    { "parsable", 0, FLAG },
    { "propagate", 0, FLAG },
    { "quiet", 'Q', FLAG },
    { "reboot", 0, FLAG },
    { "requeue", 0, FLAG },
    { "spread-job", 0, FLAG },
    { "test-only", 0, FLAG },
    { "usage", 0, FLAG },
    { "use-min-nodes", 0, FLAG },
    { "verbose", 'v', FLAG },
    { "version", 'V', FLAG },
    { "wait", 'W', FLAG },
    /* srun's */
    { "disable-status", 'X', FLAG },
    { "exact", 0, FLAG },
    { "kill-on-bad-exit", 'K', FLAG },
    { "label", 'l', FLAG },
    { "multi-prog", 0, FLAG },
    { "no-allocate", 'Z', FLAG },
    { "overlap", 0, FLAG },
    { "preserve-env", 'E', FLAG },
    { "pty", 0, FLAG },
    { "unbuffered", 'u', FLAG },
};
enum { ROWS = sizeof table / sizeof *table };

static meaning meaning_of(const char *name, size_t length) {
    for (size_t i = 0; i < ROWS; i++)
        if (strlen(table[i].name) == length && memcmp(table[i].name, name, length) == 0)
            return table[i].means;
    return NOTHING;
}

static meaning meaning_of_letter(char letter) {
    for (size_t i = 0; i < ROWS; i++)
        if (table[i].letter == letter) return table[i].means;
    return NOTHING;
}

/* A type holds until the option that named it is said again, or another names one. */
static int64_t read_typed(resources *r, meaning m, const char *value) {
    char before[RESOURCES_WORD_BYTES];
    memcpy(before, r->type, sizeof before);
    r->type[0] = 0;
    int64_t n = m == GRES ? read_gres(r, value) : read_gpus(r, value);
    if (r->type[0])
        r->type_from = (int)m;
    else if (r->type_from != (int)m)
        memcpy(r->type, before, sizeof before);
    return n < MOST_OF_ALL ? n : MOST_OF_ALL;
}

static void store(resources *r, meaning m, const char *value) {
    switch (m) {
    case NODES: r->nodes = count_of(value); break;
    case TASKS: r->tasks = count_of(value); break;
    case TASKS_PER_NODE: r->tasks_per_node = count_of(value); break;
    case GRES: r->gpus_per_node = read_typed(r, m, value); break;
    case GPUS: r->gpus = read_typed(r, m, value); break;
    case GPUS_PER_NODE: r->gpus_per_node = read_typed(r, m, value); break;
    case GPUS_PER_TASK: r->gpus_per_task = read_typed(r, m, value); break;
    case MEMORY: r->memory = bytes_of(value); break;
    case MEMORY_PER_GPU: r->memory_per_gpu = bytes_of(value); break;
    case MEMORY_PER_CPU: r->memory_per_cpu = bytes_of(value); break;
    case PARTITION: keep(r, value, r->partition); break;
    case CONSTRAINT: keep(r, value, r->constraint); break;
    case FOLDER:
        if (strlen(value) < sizeof r->folder) snprintf(r->folder, sizeof r->folder, "%s", value);
        break;
    case WRAP: r->wrapped = value; break;
    case NOTHING:
    case FLAG: break;
    }
}

/* An option and, where it takes one from there, the word behind it; how many words that was. */
static int read_option(resources *r, const char *word, const char *next) {
    if (word[1] == '-') {
        const char *name = word + 2, *equals = strchr(name, '=');
        meaning m = meaning_of(name, equals ? (size_t)(equals - name) : strlen(name));
        if (equals) {
            store(r, m, equals + 1);
            return 1;
        }
        if (m == FLAG || !next) return 1;
        store(r, m, next);
        return 2;
    }
    for (const char *c = word + 1; *c; c++) {
        meaning m = meaning_of_letter(*c);
        if (m == FLAG) continue;
        if (c[1]) {
            store(r, m, c + 1 + (c[1] == '='));
            return 1;
        }
        if (next) store(r, m, next);
        return 2;
    }
    return 1;
}

void resources_read_line(int count, const char *const *words, resources *out, int *script) {
    int i = 0;
    while (i < count && words[i][0] == '-' && words[i][1]) {
        if (strcmp(words[i], "--") == 0) {
            i++;
            break;
        }
        if (strcmp(words[i], ":") == 0) out->heterogeneous = true;
        i += read_option(out, words[i], i + 1 < count ? words[i + 1] : NULL);
    }
    *script = i < count ? i : count;
}

void resources_read_environment(char *const *environment, resources *out) {
    static const struct {
        const char *name;
        meaning means;
    } names[] = {
        { "SBATCH_GRES=", GRES },
        { "SBATCH_GPUS=", GPUS },
        { "SBATCH_GPUS_PER_NODE=", GPUS_PER_NODE },
        { "SBATCH_GPUS_PER_TASK=", GPUS_PER_TASK },
        { "SBATCH_MEM_PER_NODE=", MEMORY },
        { "SBATCH_MEM_PER_GPU=", MEMORY_PER_GPU },
        { "SBATCH_MEM_PER_CPU=", MEMORY_PER_CPU },
        { "SBATCH_PARTITION=", PARTITION },
        { "SBATCH_CONSTRAINT=", CONSTRAINT },
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (char *const *v = environment; v && *v; v++)
            if (strncmp(*v, names[i].name, strlen(names[i].name)) == 0)
                store(out, names[i].means, *v + strlen(names[i].name));
}

/* ---- a script's lines ---- */

enum { LINE_BYTES = 4096, LINE_WORDS = 64 };

/* Words by blanks, with quotes, up to a comment. */
static int cut_words(char *line, const char *words[LINE_WORDS]) {
    int count = 0;
    char *at = line, *out = line;
    while (count < LINE_WORDS) {
        at += strspn(at, " \t\r");
        if (!*at || *at == '#') break;
        words[count++] = out;
        for (char quote = 0; *at && (quote || !strchr(" \t\r", *at)); at++) {
            if (quote ? *at == quote : *at == '"' || *at == '\'')
                quote = quote ? 0 : *at;
            else
                *out++ = *at;
        }
        if (*at) at++;
        *out++ = 0;
    }
    return count;
}

void resources_read_script(const char *all, size_t bytes, resources *out) {
    const char *at = all, *end = all + bytes;
    while (at < end) {
        char line[LINE_BYTES];
        const char *words[LINE_WORDS], *stop = memchr(at, '\n', (size_t)(end - at)), *from = at;
        size_t length = (size_t)((stop ? stop : end) - at);
        at = stop ? stop + 1 : end;
        size_t blanks = 0;
        while (blanks < length && strchr(" \t\r", from[blanks]) && from[blanks]) blanks++;
        if (blanks < length && from[blanks] != '#') return; /* a command */
        if (length < 8 || memcmp(from, "#SBATCH", 7) != 0 || !strchr(" \t", from[7])) continue;
        if (length >= sizeof line) {
            out->cut = true;
            continue;
        }
        memcpy(line, from + 7, length - 7);
        line[length - 7] = 0;
        int script, count = cut_words(line, words);
        if (count && strcmp(words[0], "hetjob") == 0) {
            out->heterogeneous = true;
            return;
        }
        resources_read_line(count, words, out, &script);
        out->wrapped = NULL; /* it is for sbatch's own line, and the words are of this one */
    }
}

/* ---- what follows ---- */

int64_t resources_all_gpus(const resources *r) {
    int64_t nodes = r->nodes ? r->nodes : 1, tasks = r->tasks            ? r->tasks
                                                     : r->tasks_per_node ? r->tasks_per_node * nodes
                                                                         : nodes;
    int64_t all = r->gpus            ? r->gpus
                  : r->gpus_per_node ? r->gpus_per_node * nodes
                                     : r->gpus_per_task * (tasks < MOST_OF_ALL ? tasks : MOST_OF_ALL);
    return all < MOST_OF_ALL ? all : MOST_OF_ALL;
}

int64_t resources_node_gpus(const resources *r) {
    int64_t nodes = r->nodes ? r->nodes : 1, all = resources_all_gpus(r);
    return r->gpus_per_node ? r->gpus_per_node : (all + nodes - 1) / nodes;
}
