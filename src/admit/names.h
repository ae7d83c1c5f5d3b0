/* Names of options that say nothing of memory, of the programs that trainer.c knows. */
#pragma once

#include <stdbool.h>

/* `letters`: options of one letter have no meaning for memory, as llm.c's. */
bool names_plain(const char *name, bool letters);
