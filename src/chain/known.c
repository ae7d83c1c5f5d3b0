#include "chain/known.h"

#include <stdio.h>
#include <string.h>

#include "chain/sketch.h"

/* Where there is no more room, things are found again. What is known of 405 billion parameters takes 1.2 to
 * 2.7 MiB, beside graphs of 80 to 130. */
enum { MOST_BYTES = 4 << 20 };

/* Without what no graph depends on. Memory and room say how much may be looked at, layers are in the key. */
static compose_run alike(const compose_run *r) {
    compose_run run;
    memcpy(&run, r, sizeof run); /* with its padding, which is compared too */
    run.memory = run.room = 0;
    run.layers = 0;
    run.known = NULL;
    return run;
}

void known_open(compose_known *k, compose_run *r) {
    compose_run run = alike(r);
    memcpy(&k->run, &run, sizeof run);
    k->sketches = sketch_possible(r);
    k->memo = memo_open(MOST_BYTES);
    r->known = k;
}

void known_close(compose_known *k) {
    memo_close(k->memo);
    k->memo = NULL;
}

memo *known_of(const compose_run *r) {
    if (!r->known) return NULL;
    const compose_run run = alike(r);
    return memcmp(&run, &r->known->run, sizeof run) == 0 ? r->known->memo : NULL;
}

uint64_t known_bytes(const compose_run *r) {
    memo *m = known_of(r);
    if (!m) return 0;
    return r->known->sketches ? MOST_BYTES : memo_bytes(m);
}

size_t known_key(const char *asked, const compose_choice *c, pass_stage stage, char key[KNOWN_KEY_BYTES]) {
    size_t used = (size_t)snprintf(key, 128, "%s\n%lld", asked, (long long)c->micro_batch);
    for (int i = 0; pass_table[i]; i++) {
        if (pass_table[i]->stage > stage) continue;
        const size_t length = strlen(c->settings[i].text);
        key[used++] = '\n';
        memcpy(key + used, c->settings[i].text, length);
        used += length;
    }
    return used;
}
