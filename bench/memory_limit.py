#!/usr/bin/env python3
"""Generation under a memory limit smaller than the checkpoint, where the page cache is the cache of experts.

Runs `nibble generate` in a memory cgroup of its own (through systemd-run where there is systemd, else cgroup v2 or v1)
and prints tokens a second, major page faults and bytes read for a token. The checkpoint's pages are dropped before each
run, and the first quarter of its tokens, which fill the cache, does not count. Several programs take turns on the same
tokens, so that two commits are compared on one disk at nearly one time: watch the column MB/s, for many disks slow down
once they have worked for a while.

    nibble synth -o /data/slice --layers 3 --experts 160
    bench/memory_limit.py -m /data/slice --limit 5.4G -n 40 old/nibble build/release/nibble -- --dense mxfp4
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import time

GROUP = "nibble-memory-limit"


def refuse(what, seen, fix):
    print(f"{what}: {seen}; {fix}", file=sys.stderr)
    sys.exit(2)


def parse_bytes(text):
    units = {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
    try:
        number = float(text.rstrip("KMGT")) * units.get(text[-1:], 1)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text}: want bytes, such as 5.4G")
    return int(number)


class Systemd:
    """A transient scope; systemd-run becomes the program, so the process id stays."""

    def __init__(self, limit):
        self.prefix = ["systemd-run", "--scope", "--quiet", "-p", f"MemoryMax={limit}", "-p", "MemorySwapMax=0"]

    def enter(self):
        pass

    def remove(self):
        pass


class Group:
    """A directory in a cgroup tree: `limit_file` is memory.max (v2) or memory.limit_in_bytes (v1)."""

    prefix = []

    def __init__(self, tree, limit_file, limit):
        self.path = tree / GROUP
        try:
            self.path.mkdir(exist_ok=True)
            (self.path / limit_file).write_text(str(limit))
        except OSError as error:
            self.remove()
            refuse(str(self.path), error.strerror, "a tree that this user may make groups with memory limits in")

    def enter(self):
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def remove(self):
        if self.path.is_dir():
            self.path.rmdir()


def make_group(limit):
    if sys.platform != "linux":
        refuse("memory limit", f"this is {sys.platform}", "run it on Linux")
    if os.geteuid() != 0:
        refuse("memory limit", "not root", "run it as root")
    mounts = [line.split() for line in pathlib.Path("/proc/mounts").read_text().splitlines()]
    second = [pathlib.Path(m[1]) for m in mounts if m[2] == "cgroup2"]
    second = [tree for tree in second if "memory" in (tree / "cgroup.controllers").read_text().split()]
    first = [pathlib.Path(m[1]) for m in mounts if m[2] == "cgroup" and "memory" in m[3].split(",")]
    if pathlib.Path("/run/systemd/system").is_dir() and second:
        return Systemd(limit)
    if second:
        try:
            (second[0] / "cgroup.subtree_control").write_text("+memory")
        except OSError as error:
            refuse(f"memory limits below {second[0]}", error.strerror, "run it outside of a container")
        return Group(second[0], "memory.max", limit)
    if first:
        return Group(first[0], "memory.limit_in_bytes", limit)
    refuse("memory limit", "no memory controller is mounted", "mount -t cgroup2 none /sys/fs/cgroup")


def drop_pages(model):
    for file in model.iterdir():
        handle = os.open(file, os.O_RDONLY)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(handle)


def look(process):
    """Now, major faults and bytes read from disks so far."""
    stat = pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    io = dict(line.split(": ") for line in pathlib.Path(f"/proc/{process}/io").read_text().splitlines())
    return time.monotonic(), int(stat[9]), int(io["read_bytes"])


def measure(group, program, options, seed):
    """Seconds, major faults and bytes for a token."""
    drop_pages(options.model)
    command = group.prefix + [
        program, "generate", "-m", str(options.model), "--tokens", "5,77,1234,9", "-n", str(options.tokens), "-c", "4k",
        "--temp", "1", "--seed", str(seed), "--ignore-eos"] + options.arguments
    looks = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=group.enter) as process:
        while text := os.read(process.stdout.fileno(), 65536):
            if text != b"\n":  # the line's end, after the last token
                looks.append(look(process.pid))
        error = process.stderr.read().decode()
    if process.returncode != 0:
        killed = "; killed, so the limit is below what it holds itself" if process.returncode == -9 else ""
        sys.exit(f"{program} ended with {process.returncode}{killed}: {error.strip()[-400:]}")
    if len(looks) < 8:
        sys.exit(f"{program} wrote {len(looks)} times; want more tokens (-n)")
    # Now and then two tokens come as one piece of text.
    begin = len(looks) // 4
    tokens = (options.tokens - 1) * (len(looks) - 1 - begin) / (len(looks) - 1)
    return [(b - a) / tokens for a, b in zip(looks[begin], looks[-1])]


def main():
    argv, arguments = sys.argv[1:], []
    if "--" in argv:
        at = argv.index("--")
        argv, arguments = argv[:at], argv[at + 1:]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="+", help="nibble, one or more; what follows -- is passed on to generate")
    parser.add_argument("-m", "--model", type=pathlib.Path, required=True)
    parser.add_argument("--limit", type=parse_bytes, required=True, help="bytes, such as 5.4G")
    parser.add_argument("-n", "--tokens", type=int, default=32)
    parser.add_argument("-r", "--runs", type=int, default=3)
    options = parser.parse_args(argv)
    options.arguments = arguments
    if not (options.model / "config.json").is_file():
        refuse(str(options.model), "no config.json", "a checkpoint directory, such as nibble synth makes")
    size = sum(file.stat().st_size for file in options.model.iterdir())
    group = make_group(options.limit)
    print(f"{options.model}: {size / 1e9:.1f} GB, limit {options.limit / 1e9:.1f} GB, {options.tokens} tokens, "
          f"{options.runs} runs {' '.join(arguments)}\n")
    print("| program | run | s/token | major faults/token | MB/token | MB/s |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")

    def row(program, run, figures):
        seconds, faults, read = figures
        mb = read / 1e6
        print(f"| {program} | {run} | {seconds:.3f} | {faults:.1f} | {mb:.0f} | {mb / seconds:.0f} |", flush=True)

    found = {program: [] for program in options.programs}
    try:
        for run in range(1, options.runs + 1):
            for program in options.programs:
                found[program].append(measure(group, program, options, run))
                row(program, run, found[program][-1])
    finally:
        group.remove()
    for program, runs in found.items():
        row(program, "median", [statistics.median(column) for column in zip(*runs)])


if __name__ == "__main__":
    main()
