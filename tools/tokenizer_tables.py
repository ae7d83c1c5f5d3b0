#!/usr/bin/env python3
"""Writes unicode_tables.c and unicode_ranges.c: what the tokenizers library takes each character for.

The library asks several tables of several versions of Unicode: Oniguruma's for patterns, Rust's for blanks, digits
and small letters, and older ones for punctuation, marks and normal forms. So they are not taken from the files of
Unicode but from the library itself, by giving it every character and looking at what it does.

    tools/tokenizer_tables.py src/text/tokenizer && clang-format -i src/text/tokenizer/unicode_*.c

Needs the library (pip install tokenizers==0.23.3) and takes some minutes; nothing else of the build does.
"""
import bisect
import os
import sys
import time
import unicodedata

import tokenizers
from tokenizers import Regex
from tokenizers import normalizers as N
from tokenizers import pre_tokenizers as P

ALL = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]

CATEGORIES = ("Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn").split()

SCRIPTS = """Adlam Ahom Anatolian_Hieroglyphs Arabic Armenian Avestan Balinese Bamum Bassa_Vah Batak Bengali Bhaiksuki
Bopomofo Brahmi Braille Buginese Buhid Canadian_Aboriginal Carian Caucasian_Albanian Chakma Cham Cherokee Chorasmian
Common Coptic Cuneiform Cypriot Cypro_Minoan Cyrillic Deseret Devanagari Dives_Akuru Dogra Duployan
Egyptian_Hieroglyphs Elbasan Elymaic Ethiopic Garay Georgian Glagolitic Gothic Grantha Greek Gujarati Gunjala_Gondi
Gurmukhi Gurung_Khema Han Hangul Hanifi_Rohingya Hanunoo Hatran Hebrew Hiragana Imperial_Aramaic Inherited
Inscriptional_Pahlavi Inscriptional_Parthian Javanese Kaithi Kannada Katakana Kawi Kayah_Li Kharoshthi
Khitan_Small_Script Khmer Khojki Khudawadi Kirat_Rai Lao Latin Lepcha Limbu Linear_A Linear_B Lisu Lycian Lydian
Mahajani Makasar Malayalam Mandaic Manichaean Marchen Masaram_Gondi Medefaidrin Meetei_Mayek Mende_Kikakui
Meroitic_Cursive Meroitic_Hieroglyphs Miao Modi Mongolian Mro Multani Myanmar Nabataean Nag_Mundari Nandinagari
New_Tai_Lue Newa Nko Nushu Nyiakeng_Puachue_Hmong Ogham Ol_Chiki Ol_Onal Old_Hungarian Old_Italic Old_North_Arabian
Old_Permic Old_Persian Old_Sogdian Old_South_Arabian Old_Turkic Old_Uyghur Oriya Osage Osmanya Pahawh_Hmong Palmyrene
Pau_Cin_Hau Phags_Pa Phoenician Psalter_Pahlavi Rejang Runic Samaritan Saurashtra Sharada Shavian Siddham SignWriting
Sinhala Sogdian Sora_Sompeng Soyombo Sundanese Sunuwar Syloti_Nagri Syriac Tagalog Tagbanwa Tai_Le Tai_Tham Tai_Viet
Takri Tamil Tangsa Tangut Telugu Thaana Thai Tibetan Tifinagh Tirhuta Todhri Toto Tulu_Tigalari Ugaritic Vai
Vithkuqi Wancho Warang_Citi Yezidi Yi Zanabazar_Square Unknown""".split()


def left_by(normalize, characters):
    """Those characters of the text that are still there afterwards."""
    return set(map(ord, normalize("".join(map(chr, characters)))))


def matched(pattern, characters):
    """Those that a pattern of one character matches."""
    return set(characters) - left_by(N.Replace(Regex(pattern), "").normalize_str, characters)


def removed_by_split(pre_tokenizer):
    kept = set()
    for piece, _ in pre_tokenizer.pre_tokenize_str("".join(map(chr, ALL))):
        kept.update(map(ord, piece))
    return set(ALL) - kept


def by_name(names, pattern, characters):
    value = {}
    for i, name in enumerate(names):
        try:
            for c in matched(pattern % name, characters):
                assert c not in value, (hex(c), name)
                value[c] = i
        except Exception as error:  # the library does not know the name
            print(f"{name}: {error}", file=sys.stderr)
    return value


def alone(pre_tokenizer):
    """Characters that are cut off between letters."""
    found = set()
    for c in ALL:
        if len(pre_tokenizer.pre_tokenize_str("a" + chr(c) + "a")) != 1:
            found.add(c)
    return found


def sentence_scripts():
    """Which characters the UnicodeScripts pre-tokenizer takes for one script: numbers of classes, 0 for those that
    cut nowhere. A class is known by one character of it."""
    cut = P.UnicodeScripts().pre_tokenize_str
    heads, value = [], {}
    for c in ALL:
        # Between two letters of Latin nothing is cut: the class of a, or one that cuts nowhere.
        if c in value:
            continue
        last = value.get(c - 1, 0)
        order = ([last - 1] if last else []) + [i for i in range(len(heads)) if i != last - 1]
        if len(cut("a" + chr(c) + "\u0430")) == 2 and len(cut("\u0430" + chr(c) + "a")) == 2 and (
            len(cut(chr(c) + "a")) == 1 and len(cut(chr(c) + "\u0430")) == 1
        ):
            value[c] = 0
            continue
        for i in order:
            if len(cut(heads[i] + chr(c))) == 1:
                value[c] = i + 1
                break
        else:
            heads.append(chr(c))
            value[c] = len(heads)
    return value


def normal_forms_left_alone():
    """Characters that normal forms pass by: those the library's tables don't have, or have otherwise than Unicode
    14, whose treatment of what it has never changes."""
    nfd, nfkd, nfc = N.NFD().normalize_str, N.NFKD().normalize_str, N.NFC().normalize_str
    found, other = set(), set()
    for c in ALL:
        s = chr(c)
        same = nfd(s) == unicodedata.normalize("NFD", s) and nfkd(s) == unicodedata.normalize("NFKD", s)
        same = same and nfc(s) == unicodedata.normalize("NFC", s)
        if unicodedata.combining(s):
            after, before = "\u0345" + s, s + "\u0334"
            same = same and nfd(after) == unicodedata.normalize("NFD", after)
            same = same and nfd(before) == unicodedata.normalize("NFD", before)
        if not same:
            (found if nfd(s) == s and nfkd(s) == s else other).add(c)
        elif unicodedata.category(s) == "Cn":
            found.add(c)
    assert not other, sorted(map(hex, other))
    for c in sorted(found):  # nor may two characters become one that the library does not know
        parts = unicodedata.decomposition(chr(c)).split()
        if parts and not parts[0].startswith("<"):
            found.add(int(parts[1], 16))
    return found


def lower():
    pairs = []
    small = N.Lowercase().normalize_str
    for c in ALL:
        if small(chr(c)) != chr(c):
            pairs.append((c, small(chr(c))))
    return pairs


def lower_ranges(pairs):
    """(first, last, step, what is added)"""
    ranges, long = [], []
    for c, s in pairs:
        if len(s) != 1:
            long.append((c, s))
            continue
        delta = ord(s) - c
        if ranges and ranges[-1][3] == delta:
            first, last, step, _ = ranges[-1]
            if c - last in (1, 2) and (first == last or step == c - last):
                ranges[-1] = (first, c, c - last, delta)
                continue
        ranges.append((c, c, 1, delta))
    assert [(c, s) for c, s in long] == [(0x130, "i\u0307")]
    return ranges


def array(out, declaration, items, per_line=8):
    print("%s = {" % declaration, file=out)
    for i in range(0, len(items), per_line):
        print("    " + ", ".join(items[i : i + per_line]) + ",", file=out)
    print("};", file=out)


def begin(folder, name):
    out = open(os.path.join(folder, name), "w", encoding="utf-8")
    source = "tokenizers " + tokenizers.__version__
    print("/* Made by tools/tokenizer_tables.py out of %s; not to be edited. */" % source, file=out)
    print('#include "text/tokenizer/unicode_tables.h"\n', file=out)
    return out


def say(what):
    print(time.strftime("%H:%M:%S"), what, file=sys.stderr, flush=True)


def main(folder):
    category = by_name(CATEGORIES, r"\p{%s}", ALL)
    say("categories")
    real = [c for c in ALL if CATEGORIES[category.get(c, len(CATEGORIES) - 1)] not in ("Cn", "Co")]
    script = by_name(SCRIPTS, r"\p{%s}", real)
    say("scripts")
    flags = [
        ("WORD", matched(r"\w", ALL)),
        ("SPACE", matched(r"\s", ALL)),
        ("NUMERIC", alone(P.Digits(individual_digits=True))),
        ("RUST_WORD", None),
        ("PUNCTUATION", removed_by_split(P.Punctuation(behavior="removed"))),
        ("CONTROL", set(ALL) - left_by(N.BertNormalizer(True, False, False, False).normalize_str, ALL)),
        ("MARK", set(ALL) - left_by(N.StripAccents().normalize_str, ALL)),
        ("NONSPACING", None),
        ("NORMAL", normal_forms_left_alone()),
    ]
    say("classes")
    rust_space = removed_by_split(P.WhitespaceSplit())
    assert rust_space == flags[1][1], "blanks of patterns and of Rust are no longer the same"
    sets = dict(flags)
    clean = N.BertNormalizer(True, False, False, False).normalize_str
    sets["CONTROL"] = {c for c in flags[5][1] if clean("a" + chr(c) + "a") == "aa"}  # a blank becomes another one
    # A character that is neither blank nor cut off between letters is of a word.
    cut = alone(P.Whitespace())
    sets["RUST_WORD"] = set(ALL) - cut
    strip = N.BertNormalizer(False, False, True, False).normalize_str
    sets["NONSPACING"] = {c for c in ALL if strip(chr(c)) == ""}
    say("words and marks")
    cuts = sentence_scripts()
    say("scripts of sentences")

    def value(c):
        bits = tuple(c in sets[name] for name, _ in flags)
        return (category.get(c, len(CATEGORIES) - 1), script.get(c, len(SCRIPTS) - 1), cuts[c], bits)

    kinds, ranges, before = {}, [], None
    for c in ALL:
        v = value(c)
        if v != before:
            ranges.append((c, kinds.setdefault(v, len(kinds))))
            before = v
    assert len(kinds) <= 2048, len(kinds)

    shown = []
    for (cat, scr, sent, bits), _ in sorted(kinds.items(), key=lambda kv: kv[1]):
        shown.append("{ %d, %d, %d, 0x%x }" % (cat, scr, sent, sum(1 << i for i, b in enumerate(bits) if b)))
    small = lower_ranges(lower())
    with begin(folder, "unicode_tables.c") as out:
        array(out, "const char *const unicode_table_categories[]", ['"%s"' % name for name in CATEGORIES])
        array(out, "const char *const unicode_table_scripts[]", ['"%s"' % name for name in SCRIPTS])
        print("const uint32_t unicode_table_script_count = %d;\n" % len(SCRIPTS), file=out)
        array(out, "const unicode_kind unicode_table_kinds[]", shown)
        array(out, "const unicode_lower unicode_table_lower[]", ["{ 0x%x, 0x%x, %d, %d }" % r for r in small])
        print("const uint32_t unicode_table_lower_count = %d;" % len(small), file=out)
    with begin(folder, "unicode_ranges.c") as out:
        array(out, "const uint32_t unicode_table_ranges[]", ["0x%x" % (c << 11 | kind) for c, kind in ranges])
        print("const uint32_t unicode_table_range_count = %d;" % len(ranges), file=out)
    with begin(folder, "unicode_pages.c") as out:
        pages = [bisect.bisect_right(ranges, (page << 8, 1 << 11)) - 1 for page in range(0x1100)]
        array(out, "const uint16_t unicode_table_pages[]", [str(i) for i in pages] + [str(len(ranges) - 1)])


if __name__ == "__main__":
    main(sys.argv[1])
