#!/usr/bin/env python3
"""Every op header states its contract under the same headings in the same order; docs/ops.md is made of them.

usage: check_contracts.py [--check]      without --check, writes docs/ops.md; with it, fails if that file is stale
"""
import pathlib
import re
import sys

HEADINGS = ["Shapes", "Rounds", "Order", "Owns", "Refuses", "Source"]
ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "ops.md"


def comment_before_struct(text, name):
    """The lines of the comment that stands directly before `struct Name {`."""
    match = re.search(r"((?:^//.*\n)+)(?:struct|enum class) %s\b" % name, text, re.M)
    return [line[2:].removeprefix(" ") for line in match[1].splitlines()] if match else []


def parse(path):
    """(op name, file summary, prose lines, {heading: text}), or None for a header without a contract."""
    text = path.read_text()
    if not re.search(r"^// Shapes\b", text, re.M):
        return None
    struct = "".join(word.capitalize() for word in path.stem.split("_"))
    prose, sections, current = [], {}, None
    for line in comment_before_struct(text, struct):
        heading = re.match(r"([A-Z][a-z]+) {2,}(\S.*)", line)
        if heading and heading[1] in HEADINGS:
            current = heading[1]
            if current in sections:
                raise SystemExit(f"{path.relative_to(ROOT)}: heading {current} twice")
            sections[current] = [heading[2]]
        elif current:
            sections[current].append(line.strip())
        else:
            prose.append(line)
    return path.stem, text.splitlines()[0].removeprefix("// "), prose, sections


def faults(op):
    name, _, prose, sections = op
    found = [f"src/ops/{name}.h: no {heading}" for heading in HEADINGS if heading not in sections]
    if not found and list(sections) != HEADINGS:
        found.append(f"src/ops/{name}.h: headings in the order {', '.join(sections)}; want {', '.join(HEADINGS)}")
    if not "".join(prose).strip():
        found.append(f"src/ops/{name}.h: nothing says what the op computes")
    kernels = (ROOT / "src" / "ops" / "kernel_table.h").read_text()
    if f"OP({name}, " not in kernels:
        found.append(f"src/ops/{name}.h: a contract without an entry in kernel_table.h")
    return found


def cell(text):
    return text.replace("|", "\\|")


def page(ops):
    out = ["# Ops", "", "Generated from the contracts in `src/ops/*.h` by `tools/check_contracts.py`; edit those.", "",
           "| op | what | source |", "| --- | --- | --- |"]
    for name, summary, _, sections in ops:
        out.append(f"| [`{name}`](#{name}) | {cell(summary)} | {cell(' '.join(sections['Source']))} |")
    for name, _, prose, sections in ops:
        out += ["", f"## {name}", "", "```", *"\n".join(prose).strip("\n").splitlines(), "```", "", "| | |", "| --- | --- |"]
        out += [f"| {heading} | {cell(' '.join(sections[heading]))} |" for heading in HEADINGS]
    return "\n".join(out) + "\n"


def main():
    ops = [op for op in map(parse, sorted((ROOT / "src" / "ops").glob("*.h"))) if op]
    found = [fault for op in ops for fault in faults(op)]
    if not ops:
        found.append("src/ops: no contract found")
    if not found:
        text = page(ops)
        if "--check" not in sys.argv:
            PAGE.write_text(text)
        elif not PAGE.exists() or PAGE.read_text() != text:
            found.append("docs/ops.md is stale: run tools/check_contracts.py")
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


sys.exit(main())
