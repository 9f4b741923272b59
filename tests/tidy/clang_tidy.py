#!/usr/bin/env python3
"""Runs clang-tidy over the tree, or over the files given. Called by `./dev tidy`.

A file that passed is not looked at again until something changes: the file, a header of ours that
it includes, its compile command, .clang-tidy or clang-tidy itself. The commands come from
build/tidy, which is configured without precompiled headers and never built, so a file that forgets
an #include is found here too.

Most of the time goes into the headers of others. So when many files are to be checked, those of one
folder are checked together, as if they were one file: several times faster. Files that give the same
name to something of their own are kept apart; a group with a complaint is divided until it is known
which file is to blame. Only forgotten includes can hide behind another file of the group.
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

import report
from tree import Tree

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "tidy"
GROUPS = BUILD / "groups"
GROUP_MAX = 12
PROGRAM = "clang-tidy-19"
# What a file may define for itself, at the left margin: types, constants, functions, tests.
TYPE = re.compile(r"^(?:template <.*> )?(?:struct|class|enum class|using) (?!namespace)(\w+)\b(?!::)", re.M)
TEST = re.compile(r"^(?:TYPED_)?TEST(?:_[FP])?\((\w+), *(\w+)", re.M)
SUITE = re.compile(r"^INSTANTIATE_TEST_SUITE_P\(\s*(\w+)", re.M)
VALUE = re.compile(r"^(?:inline |static |extern |thread_local )*(?:constexpr|const|constinit) [^=({;]*?(\w+)"
                   r"(?:\[\w*\])?(?: =|\{|\(|;)", re.M)
FUNCTION = re.compile(r"^[A-Za-z_][^\n=;#/(]* [&*]?(\w+)\(", re.M)


def own_names(text):
    """Names that would clash if another file had them too; rather too many than too few."""
    names = set(TYPE.findall(text)) | set(SUITE.findall(text)) | set(VALUE.findall(text))
    names |= {"_".join(test) for test in TEST.findall(text)}
    names |= set(FUNCTION.findall(text))
    return names - {"int", "string", "strand", "TEST", "TEST_F", "TEST_P", "STRAND_JSON", "INSTANTIATE_TEST_SUITE_P"}


def fingerprint(tree, name, command, common):
    """Names everything on which the verdict on a file depends."""
    digest = hashlib.sha256(common + command.encode())
    for path in sorted(tree.closure(name)):
        digest.update(path.encode() + b"\0" + (tree.root / path).read_bytes())
    return digest.hexdigest()


class File:
    def __init__(self, name, entry, marker):
        self.name = name
        self.marker = marker
        # Without the compiler's name, "-o OBJECT" and "-c SOURCE".
        words = shlex.split(entry["command"])
        drop = {i for w in ("-o", "-c") if w in words for i in (words.index(w), words.index(w) + 1)}
        self.flags = [w for i, w in enumerate(words) if i > 0 and i not in drop]
        self.family = (str(pathlib.Path(name).parent), tuple(self.flags))


def run_tidy(arguments):
    done = subprocess.run(
        [PROGRAM, "--quiet", *arguments], cwd=ROOT, capture_output=True, text=True
    )
    if done.returncode == 0:
        return []
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    return [line.removeprefix(f"{ROOT}/") for line in lines] or [done.stderr.strip()]


def check_group(files):
    """The complaints about some files of one family; remembers which passed."""
    if len(files) == 1:
        complaints = run_tidy([files[0].name, "--", *files[0].flags])
    else:
        source = GROUPS / f"{files[0].marker.name}.cc"
        source.write_text("".join(f'#include "{ROOT / file.name}"\n' for file in files))
        complaints = run_tidy(["--checks=-bugprone-suspicious-include", source, "--",
                               *files[0].flags])
        source.unlink()
        if complaints:
            half = len(files) // 2
            return check_group(files[:half]) + check_group(files[half:])
    if not complaints:
        for file in files:
            file.marker.touch()
    return complaints


def grouped(files):
    """Files that are checked together: each alone when they are few."""
    if len(files) <= GROUP_MAX:
        return [[file] for file in files]
    families = {}  # of groups, each with the names that its files have
    for file in files:
        names = own_names((ROOT / file.name).read_text())
        groups = families.setdefault(file.family, [])
        for group, taken in groups:
            if len(group) < GROUP_MAX and not names & taken:
                group.append(file)
                taken |= names
                break
        else:
            groups.append(([file], names))
    return [group for groups in families.values() for group, _ in groups]


def check_tree(wanted, jobs):
    cache = BUILD / "passed"
    cache.mkdir(parents=True, exist_ok=True)
    GROUPS.mkdir(exist_ok=True)
    version = subprocess.run([PROGRAM, "--version"], capture_output=True, check=True).stdout
    common = version + (ROOT / ".clang-tidy").read_bytes()
    tree = Tree(ROOT)
    waiting, fresh, seen = [], set(), set()
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["file"])
        name = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else ""
        if name not in tree.files or (wanted and name not in wanted):
            continue
        if name in seen or "-DSTRAND_PLANT" in entry["command"].split():
            continue  # for another program, or with bugs in it
        seen.add(name)
        marker = cache / fingerprint(tree, name, entry["command"], common)
        fresh.add(marker.name)
        if not marker.exists():
            waiting.append(File(name, entry, marker))
    print(f"{len(fresh) - len(waiting)} files unchanged since they passed, {len(waiting)} to check",
          flush=True)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        complaints = [c for found in pool.map(check_group, grouped(waiting)) for c in found]
    if not wanted:
        for marker in cache.iterdir():
            if marker.name not in fresh:
                marker.unlink()
    # A header's findings come once for each file that includes it.
    return list(dict.fromkeys(complaints))


def main():
    parser = report.parser("Runs clang-tidy, remembering what passed.")
    parser.add_argument("--jobs", type=int, default=int(os.environ.get("STRAND_JOBS", os.cpu_count())))
    parser.add_argument("files", nargs="*")
    options = parser.parse_args()
    wanted = {str(pathlib.Path(file).resolve().relative_to(ROOT)) for file in options.files}
    return report.run(options, {"tidy.clang_tidy": lambda: check_tree(wanted, options.jobs)})


if __name__ == "__main__":
    sys.exit(main())
