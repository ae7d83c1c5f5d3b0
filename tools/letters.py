#!/usr/bin/env python3
"""Writes src/text/template/letters_table.c: what Python's str says of Unicode's letters.

The tables are those of the interpreter that runs this (3.11 has Unicode 14), so that templates print what
transformers prints under it. Each table is a list of (first, last, stride, delta).

  python3 tools/letters.py > src/text/template/letters_table.c
"""
import sys
import textwrap
import unicodedata

POINTS = [p for p in range(0x110000) if not 0xD800 <= p < 0xE000]


def runs(pairs):
    """(point, delta) in order -> (first, last, stride, delta), strides 1 and 2."""
    out = []
    for p, d in pairs:
        if out:
            first, last, stride, delta = out[-1]
            gap = p - last
            if d == delta and gap in (1, 2) and (first == last or gap == stride):
                out[-1] = (first, p, gap, d)
                continue
        out.append((p, p, 1, d))
    return out


def cased(p):
    return chr(p).isupper() or chr(p).islower() or unicodedata.category(chr(p)) == "Lt"


def ignorable(p):
    """Case_Ignorable, by what lower() makes of a sigma behind it."""
    return ("A" + chr(p) + "\u03a3").lower()[-1] == "\u03c2" and not cased(p)


def mapping(change):
    simple, special = [], []
    for p in POINTS:
        to = change(chr(p))
        if to == chr(p):
            continue
        if len(to) == 1:
            simple.append((p, ord(to) - p))
        else:
            special.append((p, [ord(c) for c in to]))
    return runs(simple), special


def print_runs(name, table):
    print(f"const letters_run letters_{name}[] = {{")
    print(textwrap.fill(" ".join(f"{{0x{a:x},0x{b:x},{s},{d}}}," for a, b, s, d in table), 108) + " };")
    print(f"const uint32_t letters_{name}_count = {len(table)};\n")


def print_special(name, table):
    print(f"const letters_special letters_{name}[] = {{")
    rows = ("{0x%x,{%s}}," % (p, ",".join("0x%x" % x for x in to)) for p, to in table)
    print(textwrap.fill(" ".join(rows), 108) + " };")
    print(f"const uint32_t letters_{name}_count = {len(table)};\n")


def main():
    print(f"/* Made by tools/letters.py with Unicode {unicodedata.unidata_version}: "
          "what Python's str says of letters. */")
    print('#include "text/template/letters.h"\n\n/* clang-format off */')
    for name, change in (("to_upper", str.upper), ("to_lower", str.lower), ("to_title", str.title)):
        simple, special = mapping(change)
        print_runs(name, simple)
        print_special(name + "_special", special)
    tests = {
        "alpha": str.isalpha, "decimal": str.isdecimal, "digit": str.isdigit, "numeric": str.isnumeric,
        "lower": str.islower, "upper": str.isupper, "hidden": lambda c: not c.isprintable(),
        "title": lambda c: unicodedata.category(c) == "Lt", "ignorable": lambda c: ignorable(ord(c)),
        # Letters that names can't have, and those that they can't begin with.
        "unnamed": lambda c: c.isalpha() and not ("a" + c).isidentifier(),
        "unnamed_first": lambda c: c.isalpha() and not c.isidentifier(),
    }
    for name, test in tests.items():
        print_runs(name, runs([(p, 0) for p in POINTS if test(chr(p))]))


if __name__ == "__main__":
    sys.exit(main())
