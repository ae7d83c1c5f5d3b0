/* Instructions on tiles for processors without them: each is an illegal one there, and the handler of that
 * signal does what it does, by its twin. So kernels in tiles run as they were compiled, addresses and
 * operands included, on any x86-64. What else is illegal ends the program as ever. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

#include "ops/native.h"

enum { TILE_TRAP_TILES = 8 };

typedef struct {
    uint8_t palette, start, none[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_trap_form;

static _Thread_local struct {
    tile_trap_form form;
    native_tile tile[TILE_TRAP_TILES];
} tile_trap_state;

static volatile sig_atomic_t tile_trap_unlike; /* tiles of other sizes than an instruction takes */

typedef struct {
    int map, prefix, opcode, first, second, third; /* first: ModRM.reg, second: ModRM.rm, third: vvvv */
    bool in_memory;
    char *at;       /* base and displacement */
    int64_t stride; /* index and scale */
    int length;
} tile_trap_decoded;

static inline int64_t tile_trap_register(const ucontext_t *u, int number) {
    static const int places[16] = { REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                    REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15 };
    return u->uc_mcontext.gregs[places[number]];
}

/* Behind ModRM: where the operand in memory is. */
static inline void tile_trap_address(tile_trap_decoded *d, const ucontext_t *u, const uint8_t *code, int mod,
                                     int upper) {
    int64_t base = 0;
    int32_t far = 0;
    bool has_base = true, relative = mod == 0 && d->second == 5;
    int at = 5, number = d->second | (upper & 1) << 3;
    if (d->second == 4) { /* SIB */
        int index = (code[at] >> 3 & 7) | (upper & 2) << 2;
        number = (code[at] & 7) | (upper & 1) << 3;
        has_base = !(mod == 0 && (code[at] & 7) == 5);
        if (index != 4) d->stride = tile_trap_register(u, index) << (code[at] >> 6);
        at++;
    }
    if (mod == 1) far = (int8_t)code[at], at++;
    if (mod == 2 || relative || !has_base) memcpy(&far, code + at, sizeof far), at += 4;
    d->length = at;
    if (relative)
        base = u->uc_mcontext.gregs[REG_RIP] + at;
    else if (has_base)
        base = tile_trap_register(u, number);
    d->at = (char *)(uintptr_t)(base + far);
}

/* Of three bytes of VEX, as all of these have. */
static inline bool tile_trap_decode(const ucontext_t *u, tile_trap_decoded *d) {
    const uint8_t *code = (const uint8_t *)(uintptr_t)u->uc_mcontext.gregs[REG_RIP];
    if (code[0] != 0xc4) return false;
    int upper = (~code[1] >> 5 & 1) | (~code[1] >> 6 & 1) << 1, mod = code[4] >> 6;
    *d = (tile_trap_decoded){ .map = code[1] & 31,
                              .prefix = code[2] & 3,
                              .opcode = code[3],
                              .first = code[4] >> 3 & 7,
                              .second = code[4] & 7,
                              .third = ~code[2] >> 3 & 7,
                              .in_memory = mod != 3,
                              .length = 5 };
    if (d->in_memory) tile_trap_address(d, u, code, mod, upper);
    return d->map == 2;
}

static inline void tile_trap_move(const tile_trap_decoded *d, bool store) {
    native_tile *t = &tile_trap_state.tile[d->first];
    size_t bytes = tile_trap_state.form.row_bytes[d->first];
    int rows = tile_trap_state.form.rows[d->first];
    tile_trap_unlike |= rows == 0 || bytes == 0;
    if (!store) *t = (native_tile){ 0 };
    for (int i = 0; i < rows; i++)
        if (store)
            memcpy(d->at + i * d->stride, t->word[i], bytes);
        else
            memcpy(t->word[i], d->at + i * d->stride, bytes);
}

/* ModRM.rm: rows by the sum, vvvv: the sum by columns. */
static inline void tile_trap_multiply(const tile_trap_decoded *d) {
    const tile_trap_form *f = &tile_trap_state.form;
    native_tile *c = &tile_trap_state.tile[d->first], *a = &tile_trap_state.tile[d->second],
                *b = &tile_trap_state.tile[d->third];
    tile_trap_unlike |= f->rows[d->first] != f->rows[d->second] ||
                        f->row_bytes[d->first] != f->row_bytes[d->third] ||
                        f->row_bytes[d->second] != 4 * f->rows[d->third];
    if (d->opcode == 0x5c)
        native_tdpbf16ps(c, a, b);
    else
        native_tdpbsud(c, a, b);
}

static inline bool tile_trap_run(const tile_trap_decoded *d) {
    enum { LOAD = 0x4b, FORM = 0x49 };
    if (d->opcode == FORM && d->prefix == 0 && d->in_memory)
        memcpy(&tile_trap_state.form, d->at, sizeof tile_trap_state.form);
    else if (d->opcode == FORM && d->prefix == 0)
        memset(&tile_trap_state, 0, sizeof tile_trap_state);
    else if (d->opcode == FORM && d->prefix == 3)
        tile_trap_state.tile[d->first] = (native_tile){ 0 };
    else if (d->opcode == LOAD && (d->prefix == 3 || d->prefix == 2))
        tile_trap_move(d, d->prefix == 2);
    else if ((d->opcode == 0x5c || d->opcode == 0x5e) && d->prefix == 2)
        tile_trap_multiply(d);
    else
        return false;
    return true;
}

static inline void tile_trap_caught(int number, siginfo_t *about, void *context) {
    ucontext_t *u = context;
    tile_trap_decoded d;
    (void)about;
    if (tile_trap_decode(u, &d) && tile_trap_run(&d))
        u->uc_mcontext.gregs[REG_RIP] += d.length;
    else
        signal(number, SIG_DFL);
}

static inline void tile_trap_set(void) {
    struct sigaction action = { .sa_sigaction = tile_trap_caught, .sa_flags = SA_SIGINFO };
    sigaction(SIGILL, &action, NULL);
}
