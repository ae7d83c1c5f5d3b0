/* Tokens of documents, for tokenize and for train, which makes them beside its output. */
#pragma once

#include "cli/cli.h"
#include "tokenize/tokenize.h"

/* Makes the file, unless it is there already, of the same data; `shows`: says so, and writes JSON where that
 * is asked for. Of `t` are set: model, data, out, memory. */
status tokenize_command_make(const options *o, cli_streams *streams, tokenize_options *t, bool shows);
