#!/usr/bin/env python3
"""Text rules: ASCII, no tabs, no trailing space, a final newline, sources under 600 lines, no large files, and none of the
paths that only exist on somebody's machine. Prints faults; exit 1.

usage: check_text.py [FILE...]      without files: all that git tracks, or would
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LARGE = 500_000
LARGE_ALLOWED = ("models/", "tests/golden/")
DATA = ("models/", "tests/golden/", "tests/fuzz/corpus/")  # bytes as they are: no text rules
SUFFIXES = {".h", ".cc", ".cu", ".cuh", ".py", ".sh", ".md", ".txt", ".cmake", ".json", ".yml", ".bash", ""}
SOURCE_LINES = 600
# Spelt in two parts, so that this file passes its own test.
MACHINE_PATHS = ["/wo" + "rk/", "../sha" + "red", "/tmp/bash" + "_jobs"]


def all_files():
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return [name for name in names if (ROOT / name).is_file() and not (ROOT / name).is_symlink()]


def text_faults(name, data):
    try:
        text = data.decode("ascii")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return [f"{name}:{line}: not ASCII"]
    found = []
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if "\t" in line:
            found.append(f"{name}:{number}: tab")
        if line != line.rstrip():
            found.append(f"{name}:{number}: trailing space")
        found += [f"{name}:{number}: names {path}" for path in MACHINE_PATHS if path in line]
        if re.search(r"\b(TODO|FIXME|XXX)\b", line) and name != "tools/check_text.py":
            found.append(f"{name}:{number}: a plan belongs into an issue")
    if text and not text.endswith("\n"):
        found.append(f"{name}: no newline at the end")
    if name.startswith(("src/", "include/", "tests/", "bench/")) and len(lines) - 1 > SOURCE_LINES:
        found.append(f"{name}: {len(lines) - 1} lines; at most {SOURCE_LINES}")
    return found


def main():
    found = []
    for name in sys.argv[1:] or all_files():
        data = (ROOT / name).read_bytes()
        if len(data) > LARGE and not name.startswith(LARGE_ALLOWED):
            found.append(f"{name}: {len(data)} bytes; at most {LARGE} outside {' and '.join(LARGE_ALLOWED)}")
        if not name.startswith(DATA) and pathlib.Path(name).suffix in SUFFIXES:
            found += text_faults(name, data)
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


sys.exit(main())
