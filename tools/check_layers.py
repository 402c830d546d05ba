#!/usr/bin/env python3
"""Every #include in src/ must be allowed by the MAY_INCLUDE of its folder's CMakeLists.txt. Prints what is not; exit 1."""
import pathlib
import re
import sys

src, bad = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "src"), []
for folder in sorted(p.parent for p in src.glob("*/CMakeLists.txt")):
    listed = re.search(r"MAY_INCLUDE([^)]*?)(?=HEADERS|SOURCES|LINK|\))", (folder / "CMakeLists.txt").read_text(), re.S)
    allowed = set(listed[1].split() if listed else []) | {folder.name}
    if allowed & {"engine", "constrain"}:
        allowed.add("nibble")  # include/nibble/, the public face, which these two implement and those above them use
    for file in sorted(folder.rglob("*.[hc]*")):
        for n, line in enumerate(file.read_text().splitlines(), 1):
            m = re.match(r'#include "([a-z0-9_]+)/', line)
            if m and m[1] not in allowed:
                bad.append(f"{file}:{n}: {folder.name}/ may not include {m[1]}/ (allowed: {', '.join(sorted(allowed))})")
print("\n".join(bad), end="\n" if bad else "")
sys.exit(bool(bad))
