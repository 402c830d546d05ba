#!/usr/bin/env python3
"""Every test file is built exactly once, every benchmark at all, every fuzz target has seeds, no test can skip itself.

Prints faults; exit 1.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests"


def without_comments(text):
    return re.sub(r"#.*", "", text)


def listed(folder):
    """The .cc files that the folder's CMakeLists.txt names, as often as it names them, as paths under tests/."""
    lists = folder / "CMakeLists.txt"
    if not lists.exists():
        return []
    names = re.findall(r"[\w./${}-]+\.cc", without_comments(lists.read_text()))
    names = [re.sub(r"^\$\{CMAKE_CURRENT_SOURCE_DIR\}/", "", name) for name in names]
    return [str((folder / name).resolve().relative_to(TESTS)) for name in names if not name.startswith("$")]


def main():
    found = []
    folders = [TESTS] + sorted(path for path in TESTS.rglob("*") if path.is_dir())
    names = [name for folder in folders for name in listed(folder)]
    for file in sorted(TESTS.rglob("*_test.cc")):
        name = str(file.relative_to(TESTS))
        if names.count(name) != 1:
            found.append(f"tests/{name}: named {names.count(name)} times in CMakeLists.txt files; want once")
        source = ROOT / "src" / file.parent.relative_to(TESTS)
        if not source.is_dir():
            found.append(f"tests/{name}: there is no src/{file.parent.relative_to(TESTS)}; tests mirror src/")
    for file in sorted(TESTS.rglob("*.cc")):
        for number, line in enumerate(file.read_text().splitlines(), 1):
            if re.search(r"GTEST_SKIP|\bDISABLED_|\bgetenv\b", line):
                found.append(f"tests/{file.relative_to(TESTS)}:{number}: a test may not choose whether to run")
    fuzz = TESTS / "fuzz" / "CMakeLists.txt"
    for target in re.findall(r"nibble_fuzz_target\(\s*(\w+)", without_comments(fuzz.read_text())):
        corpus = TESTS / "fuzz" / "corpus" / target
        if not any(path.is_file() for path in corpus.glob("*")):
            found.append(f"tests/fuzz/corpus/{target}: no seeds")
    lists = without_comments((ROOT / "bench" / "CMakeLists.txt").read_text())
    for file in sorted((ROOT / "bench").glob("bench_*.cc")):
        name = file.stem.removeprefix("bench_")
        if not re.search(rf"nibble_bench\(\s*{name}\b", lists) and file.name not in lists:
            found.append(f"bench/{file.name}: built by no CMakeLists.txt")
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


sys.exit(main())
