#!/usr/bin/env python3
"""Writes src/text/unicode_classes_table.inc: runs of code points with one pre-tokeniser class (needs the `regex` module)."""
import regex

CLASSES = [  # the order is that of CharClass in unicode_classes.h
    ("newline", r"[\r\n]"),
    ("space", r"\s"),
    ("control_space", r"[\x1c-\x1f]"),
    ("han_letter", r"[\p{Script=Han}&&\p{L}]"),
    ("han_number", r"[\p{Script=Han}&&\p{N}]"),
    ("han_other", r"\p{Script=Han}"),
    ("upper", r"[\p{Lu}\p{Lt}]"),
    ("lower", r"[\p{Ll}\x{295}]"),  # U+0295 became Lo in Unicode 17; tokenizers in use still read it as Ll
    ("letter", r"\p{L}"),
    ("mark", r"\p{M}"),
    ("number", r"\p{N}"),
]

text = "".join(chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000)
kind = bytearray(0x110000)  # 0 is "other"
for index in reversed(range(len(CLASSES))):  # earlier classes win
    pattern = CLASSES[index][1].replace(r"\x{295}", "\u0295")
    for match in regex.finditer(pattern, text, regex.V1):
        kind[ord(match.group())] = index + 1

runs = [(c, kind[c]) for c in range(0x110000) if c == 0 or kind[c] != kind[c - 1]]
cells = [f"0x{c << 4 | k:06x}," for c, k in runs]
with open("src/text/unicode_classes_table.inc", "w") as out:
    out.write("// Written by tools/make_unicode_classes.py: first code point of a run << 4 | its CharClass.\n")
    for i in range(0, len(cells), 12):
        out.write(" ".join(cells[i:i + 12]) + "\n")
