/* Variables of a shell's script, and what of them is not known. */
#include <stdio.h>
#include <string.h>

#include "admit/shell_reader.h"
#include "base/memory.h"

const shell_variable *shell_find(const shell *s, const char *name) {
    for (uint32_t i = 0; i < s->count; i++)
        if (strcmp(s->variables[i].name, name) == 0) return &s->variables[i];
    return NULL;
}

void shell_set(shell *s, const char *name, const char *value, bool unsure) {
    shell_variable *v = (shell_variable *)shell_find(s, name);
    char *copy = strlen(value) < SHELL_VALUE_BYTES ? memory_text(value) : NULL;
    if (!v && s->count < SHELL_MOST_VARIABLES && copy) {
        v = &s->variables[s->count];
        *v = (shell_variable){ .name = memory_text(name) };
        if (v->name) s->count++;
    }
    if (!v || !v->name || !copy) {
        s->cut = true;
        memory_free(copy);
        if (v && v->name) v->unsure = true;
        return;
    }
    memory_free(v->value);
    v->value = copy, v->unsure = unsure;
}

void shell_doubt(shell *s) {
    for (uint32_t i = 0; i < s->count; i++)
        if (strncmp(s->variables[i].name, "SLURM_", 6) != 0) s->variables[i].unsure = true;
}

static bool is_argument(const shell_variable *v) {
    return v->name[0] && strchr("0123456789@*#", v->name[0]) != NULL;
}

void shell_doubt_arguments(shell *s) {
    static const char *const names[] = { "1", "2", "3", "4", "5", "6", "7", "8", "9", "@", "*", "#" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!shell_find(s, names[i])) shell_set(s, names[i], "", true);
    for (uint32_t i = 0; i < s->count; i++) s->variables[i].unsure |= is_argument(&s->variables[i]);
}

void shell_doubt_unexported(shell *s) {
    for (uint32_t i = 0; i < s->count; i++) {
        shell_variable *v = &s->variables[i];
        v->unsure |= !v->exported && !is_argument(v) && strncmp(v->name, "SLURM_", 6) != 0;
    }
}

void shell_export(shell *s, const char *name) {
    shell_variable *v = (shell_variable *)shell_find(s, name);
    if (v) v->exported = true;
}

/* The first `count` arguments go. */
void shell_shift(shell *s, uint32_t count, bool unsure) {
    const shell_variable *all = shell_find(s, "@");
    char *copy = memory_text(all ? all->value : "");
    const char *words[SHELL_MOST_WORDS];
    bool doubts[SHELL_MOST_WORDS];
    uint32_t n = 0;
    if (!copy || !all) {
        shell_doubt_arguments(s);
        memory_free(copy);
        return;
    }
    unsure |= all->unsure;
    for (char *at = copy, *next; at && *copy && n < SHELL_MOST_WORDS; at = next) {
        next = strchr(at, '\x1f');
        if (next) *next++ = 0;
        words[n] = at, doubts[n++] = unsure;
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        if (is_argument(&s->variables[i]))
            memory_free(s->variables[i].name), memory_free(s->variables[i].value);
        else
            s->variables[kept++] = s->variables[i];
    }
    s->count = kept;
    uint32_t gone = count < n ? count : n;
    shell_set_arguments(s, words + gone, doubts + gone, n - gone);
    if (unsure) shell_doubt_arguments(s);
    memory_free(copy);
}

void shell_set_arguments(shell *s, const char *const *arguments, const bool *unsure, uint32_t count) {
    text all = { 0 };
    char name[16];
    bool doubts = false;
    for (uint32_t i = 0; unsure && i < count; i++) doubts |= unsure[i];
    for (uint32_t i = 0; i < count; i++) {
        snprintf(name, sizeof name, "%u", i + 1);
        shell_set(s, name, arguments[i], doubts); /* one that is not known may be none or many */
        text_add(&all, "%s%s", i ? "\x1f" : "", arguments[i]);
    }
    snprintf(name, sizeof name, "%u", count);
    shell_set(s, "#", name, doubts);
    shell_set(s, "@", all.data ? all.data : "", all.failed || doubts);
    shell_set(s, "*", all.data ? all.data : "", all.failed || doubts);
    text_close(&all);
}

void shell_begin_frame(shell *s, shell_frame *f) {
    uint32_t kept = 0;
    *f = (shell_frame){ .locals = s->local_count,
                        .arguments = memory_new(s->count + 1, sizeof *f->arguments) };
    if (!f->arguments) {
        s->cut = true;
        return;
    }
    for (uint32_t i = 0; i < s->count; i++) {
        if (is_argument(&s->variables[i]))
            f->arguments[f->count++] = s->variables[i];
        else
            s->variables[kept++] = s->variables[i];
    }
    s->count = kept;
}

static void close_variable(shell_variable *v) {
    memory_free(v->name);
    memory_free(v->value);
}

void shell_end_frame(shell *s, shell_frame *f) {
    while (s->local_count > f->locals) {
        shell_variable *v = &s->locals[--s->local_count];
        shell_set(s, v->name, v->value ? v->value : "", !v->value || v->unsure);
        close_variable(v);
    }
    if (!f->arguments) {
        shell_doubt_arguments(s);
        return;
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        if (is_argument(&s->variables[i]))
            close_variable(&s->variables[i]);
        else
            s->variables[kept++] = s->variables[i];
    }
    s->count = kept;
    for (uint32_t i = 0; i < f->count; i++) {
        if (s->count < SHELL_MOST_VARIABLES) {
            s->variables[s->count++] = f->arguments[i];
        } else {
            close_variable(&f->arguments[i]);
            s->cut = true;
        }
    }
    memory_free(f->arguments);
}

void shell_hide(shell *s, const char *name) {
    const shell_variable *v = shell_find(s, name);
    shell_variable old = { .name = s->local_count < SHELL_MOST_LOCALS ? memory_text(name) : NULL };
    if (v && old.name) old.value = memory_text(v->value), old.unsure = v->unsure;
    if (old.name)
        s->locals[s->local_count++] = old;
    else
        s->cut = true;
}

/* ---- files ---- */

static const char *plain_path(const char *name) {
    while (name[0] == '.' && name[1] == '/') name += 2;
    return name;
}

const char *shell_written(const shell *s, const char *name) {
    for (uint32_t i = 0; i < s->file_count; i++)
        if (strcmp(s->files[i].name, plain_path(name)) == 0) return s->files[i].text;
    return NULL;
}

void shell_write_file(shell *s, const char *name, const char *written) {
    shell_file *f = s->files, *end = s->files + s->file_count;
    while (f < end && strcmp(f->name, plain_path(name)) != 0) f++;
    if (f == end && (s->file_count == SHELL_MOST_FILES || !written)) return;
    if (f == end) {
        *f = (shell_file){ .name = memory_text(plain_path(name)) };
        if (!f->name) return;
        s->file_count++;
    }
    memory_free(f->text);
    f->text = written ? memory_text(written) : NULL;
}

void shell_close(shell *s) {
    for (uint32_t i = 0; i < s->count; i++) close_variable(&s->variables[i]);
    for (uint32_t i = 0; i < s->local_count; i++) close_variable(&s->locals[i]);
    for (uint32_t i = 0; i < s->function_count; i++)
        memory_free(s->functions[i].name), memory_free(s->functions[i].body);
    for (uint32_t i = 0; i < s->file_count; i++) memory_free(s->files[i].name), memory_free(s->files[i].text);
    s->count = s->local_count = s->function_count = s->file_count = 0;
}
