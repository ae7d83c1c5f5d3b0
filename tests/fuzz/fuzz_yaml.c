/* --config FILE.yaml, through to the values of the options. */
#include "cli/options.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static option_table table;
    static const command commands[] = { COMMAND_PLAN, COMMAND_TRAIN, COMMAND_GENERATE };
    char name[] = "--config", *line[] = { name, (char *)fuzz_file("x.yaml", data, size) };
    options_table(&table);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        options o;
        /* any will do, if it is said */
        STATUS_IGNORED(fuzz_said(options_read(&table, commands[i], 2, line, &o)));
        options_close(&o);
    }
    return 0;
}
