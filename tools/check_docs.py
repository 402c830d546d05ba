#!/usr/bin/env python3
"""What the docs point at exists, and what code cites exists in the docs; docs/dependencies.md is made of tools/packages.txt.

usage: check_docs.py [--check]      without --check, writes docs/dependencies.md; with it, fails if that file is stale
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "dependencies.md"
GROUPS = {"build": "To build and test (`./demo`, `./check`)", "ci": "For `.ci/run` beside them",
          "npm": "For `.ci/run`, where npm has not come from elsewhere"}


def dependencies():
    lines = (ROOT / "tools" / "packages.txt").read_text().splitlines()
    rows = [line.split(None, 2) for line in lines if line.strip() and not line.startswith("#")]
    out = ["# Dependencies", "", "Generated from `tools/packages.txt` by `tools/check_docs.py`; edit that. All are packages of Debian 12;",
           "`tools/install_packages.sh GROUP` installs what is missing of a group."]
    for group, title in GROUPS.items():
        out += ["", f"## {title}", "", "| package | why |", "| --- | --- |"]
        out += [f"| `{package}` | {why} |" for g, package, why in rows if g == group]
    return "\n".join(out) + "\n"


def prose_files():
    return sorted(path for path in ROOT.glob("*.md")) + sorted((ROOT / "docs").rglob("*.md"))


def broken_links():
    for page in prose_files():
        for number, line in enumerate(page.read_text().splitlines(), 1):
            for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", line):
                if not re.match(r"[a-z]+:", target) and not (page.parent / target).exists():
                    yield f"{page.relative_to(ROOT)}:{number}: {target} does not exist"


def citing_files():
    for folder in ("include", "src", "tests", "bench", "docs", "cmake", "tools"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".h", ".cc", ".cu", ".cuh", ".md", ".py", ".sh", ".cmake", ".txt"):
                yield path
    yield from ROOT.glob("*.md")


def broken_citations():
    """A page of docs/ that is named must be a file, a number after it one of its headings, an ADR's number an ADR."""
    headings = {}
    for page in (ROOT / "docs").glob("*.md"):
        headings[page.name] = set(re.findall(r"^#+ (\d+(?:\.\d+)?)\.? ", page.read_text(), re.M))
    for path in citing_files():
        text = path.read_text(errors="replace")
        for match in re.finditer(r"docs/([\w-]+\.md)((?:[ ,]+(?:and )?\d+(?:\.\d+)?(?:-\d+(?:\.\d+)?)?(?![\w.]*\w))*)", text):
            where = f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, match.start()) + 1}"
            if match[1] not in headings:
                yield f"{where}: docs/{match[1]} does not exist"
                continue
            for number in re.findall(r"\d+(?:\.\d+)?", match[2]):
                if number not in headings[match[1]]:
                    yield f"{where}: docs/{match[1]} has no section {number}"
        for number in re.findall(r"docs/adr/(\d{4})", text):
            if not list((ROOT / "docs" / "adr").glob(f"{number}-*.md")):
                yield f"{path.relative_to(ROOT)}: docs/adr/{number} does not exist"


def main():
    text, found = dependencies(), []
    if "--check" not in sys.argv:
        PAGE.write_text(text)
    elif not PAGE.exists() or PAGE.read_text() != text:
        found.append("docs/dependencies.md is stale: run tools/check_docs.py")
    found += [*broken_links(), *broken_citations()]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


sys.exit(main())
