/* The language of a model directory: its tokenizer.json, read into what infer/ asks for. */
#pragma once

#include "infer/language.h"

/* `*there` false: the directory has no tokenizer.json, and `l` is not to be used. STATUS_INVALID for one that
 * can't be read. Close it in any case. */
status cli_language_open(const char *directory, language *l, bool *there);
void cli_language_close(language *l); /* fine on a zeroed one */

/* Texts come with their special tokens, as those of chats do: none are put around them. */
void cli_language_whole(language *l);
