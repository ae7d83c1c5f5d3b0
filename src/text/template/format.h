/* Texts with places to be filled in: `%`, str.format, and escapes for web pages. */
#pragma once

#include "text/template/run.h"

status format_percent(run *r, const value *format, const value *with, value *out);
status format_braces(run *r, const value *format, const arguments *a, value *out);
status format_escape(run *r, const value *text, value *out); /* & < > ' " */
