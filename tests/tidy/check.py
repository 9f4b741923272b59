#!/usr/bin/env python3
"""Checks the habits that a compiler does not: see README.md beside this file.

Each check is a function that takes a Tree and returns its complaints, as `file:line: what is wrong,
and what to do`. check_test.py plants a violation of each one and sees it caught.
"""

import pathlib
import re
import subprocess
import sys

import layers
import report

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "plant"))
import bugs  # noqa: E402

from tree import SOURCE, Tree

FILE_LINES_MAX = 800
FUNCTION_LINES_MAX = 100


def file_length(tree):
    """A file has one subject."""
    complaints = []
    for name in tree.files:
        count = len(tree.lines(name)) if pathlib.PurePath(name).suffix in SOURCE else 0
        if count > FILE_LINES_MAX:
            complaints.append(f"{name}:{FILE_LINES_MAX}: {count} lines are too many; split the file")
    return complaints


def function_length(tree):
    """A function fits a screen.

    Relies on clang-format: a function ends with a lone brace in the column where its first line
    starts (types end with `};`, namespaces with a comment), so the last line before it in that
    column is where the function begins.
    """
    complaints = []
    for name in tree.cxx:
        begins = {0: 1, 2: 1}
        for number, line in tree.code(name):
            column = len(line) - len(line.lstrip())
            if not line.strip() or column not in begins or line.lstrip().startswith("#"):
                continue
            if line.strip() != "}":
                # `} else {` goes on with what began above it.
                if not line.lstrip().startswith("}"):
                    begins[column] = number
                continue
            length = number - begins[column] + 1
            if length > FUNCTION_LINES_MAX and tree.text(name).splitlines()[number - 1].strip() == "}":
                complaints.append(
                    f"{name}:{begins[column]}: {length} lines in one function; the limit is "
                    f"{FUNCTION_LINES_MAX}: name its parts"
                )
    return complaints


def folder_readme(tree):
    """Each folder says what lives in it."""
    complaints = []
    holding = set()
    for name in tree.under("src/", "include/", "tests/", "bench/", "docs/", "examples/"):
        path = pathlib.PurePath(name)
        if path.suffix in SOURCE or (path.parts[0] == "docs" and path.suffix == ".md"):
            holding.add(path.parent)
    for folder in sorted(holding):
        if str(folder / "README.md") not in tree.files:
            complaints.append(
                f"{folder}/README.md:1: missing; say in a few lines what lives here, what may call it, "
                "and its invariants"
            )
    return complaints


def no_todo(tree):
    """Open points are finished or written down where they are planned, not left in the code."""
    mark = re.compile(r"\b(TO" r"DO|FIX" r"ME)\b")
    return [
        f"{name}:{number}: {mark.search(line).group()}: do it now, or say what is so and why"
        for name in tree.text_files
        for number, line in tree.lines(name)
        if mark.search(line)
    ]


def clang_format(tree):
    """C++ is formatted by clang-format."""
    names = tree.cxx
    if not names:
        return []
    done = subprocess.run(
        ["clang-format-19", "--dry-run", "-Werror", *names],
        cwd=tree.root, capture_output=True, text=True,
    )
    # One complaint a file: the first place tells enough.
    first = {}
    for name, number in re.findall(r"^([^:\n]+):(\d+):\d+: error:", done.stderr, re.MULTILINE):
        first.setdefault(name, number)
    complaints = [f"{n}:{number}: not formatted; run ./dev format" for n, number in first.items()]
    if done.returncode != 0 and not complaints:
        complaints = [f".clang-format:1: clang-format failed: {done.stderr.strip()}"]
    return complaints


def pragma_once(tree):
    """Headers are guarded by #pragma once, before anything else."""
    complaints = []
    for name in tree.files:
        if pathlib.PurePath(name).suffix != ".h":
            continue
        first = next(((n, line) for n, line in tree.lines(name) if line.lstrip().startswith("#")), None)
        if not first or first[1].strip() != "#pragma once":
            complaints.append(
                f"{name}:{first[0] if first else 1}: the first directive of a header is #pragma once, "
                "not a guard macro"
            )
    return complaints


def prose(tree, name):
    """(number, line) of a Markdown file, without fenced blocks and inline code."""
    found, fenced = [], False
    for number, line in tree.lines(name):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        elif not fenced:
            found.append((number, re.sub(r"`[^`]*`", "``", line)))
    return found


def anchors(tree, name):
    """The anchors that GitHub gives the headings of a Markdown file."""
    found, fenced = set(), False
    for _, line in tree.lines(name):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        heading = re.match(r"#+\s+(.*?)\s*#*$", line)
        if heading and not fenced:
            text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.group(1)).lower()
            slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
            # A repeated heading gets a number.
            found.add(slug if slug not in found else next(
                f"{slug}-{i}" for i in range(1, 1000) if f"{slug}-{i}" not in found))
        found.update(re.findall(r'<a (?:id|name)="([^"]+)"', line))
    return found


def markdown_links(tree):
    """Links inside the repository lead somewhere."""
    complaints = []
    link = re.compile(r"\]\(\s*<?([^)\s>]+)>?[^)]*\)|^\s*\[[^\]]+\]:\s*(\S+)")
    for name in tree.files:
        if not name.endswith(".md"):
            continue
        for number, line in prose(tree, name):
            for match in link.finditer(line):
                target = match.group(1) or match.group(2)
                if re.match(r"[a-z]+:", target):
                    continue
                path, _, anchor = target.partition("#")
                place = (tree.root / name).parent / path if path else tree.root / name
                if path.startswith("/") or not place.exists():
                    complaints.append(f"{name}:{number}: {target} leads nowhere; correct the link")
                elif anchor and place.suffix == ".md":
                    other = str(place.resolve().relative_to(tree.root.resolve()))
                    if anchor not in anchors(tree, other):
                        complaints.append(f"{name}:{number}: {other} has no heading #{anchor}")
    return complaints


def absolute_paths(tree):
    """Nothing depends on where somebody's clone lies."""
    path = re.compile(r"(?<![\w.*~-])/(?:wo" r"rk|ro" r"ot|ho" r"me)/")
    return [
        f"{name}:{number}: the path of one machine ({path.search(line).group()}...); make it relative"
        for name in tree.text_files
        for number, line in tree.lines(name)
        if path.search(line)
    ]


def snippets(tree):
    """C++ in the README and the guide is part of an example, and Python of a test: both are run."""

    def texts(folder, suffix):
        return [
            [line.strip() for _, line in tree.lines(name)]
            for name in tree.under(folder, suffixes={suffix})
        ]

    run = {"```cpp": texts("examples/", ".cc"), "```python": texts("tests/python_client/", ".py")}
    complaints = []
    for name in [n for n in tree.files if n == "README.md" or n.startswith("docs/guide/")]:
        begin, block, examples = None, [], []
        for number, line in tree.lines(name):
            if begin is None and line.strip() in run:
                begin, block, examples = number, [], run[line.strip()]
            elif begin is not None and line.strip() == "```":
                if not any(contains(example, block) for example in examples):
                    complaints.append(f"{name}:{begin}: no example has these lines; put them into one")
                begin = None
            elif begin is not None:
                block.append(line.strip())
    return complaints


def contains(lines, block):
    return any(lines[i : i + len(block)] == block for i in range(len(lines) - len(block) + 1))


CHECKS = {
    "tidy.include_order": layers.include_order,
    "tidy.engine_purity": layers.engine_purity,
    "tidy.file_length": file_length,
    "tidy.function_length": function_length,
    "tidy.folder_readme": folder_readme,
    "tidy.no_todo": no_todo,
    "tidy.clang_format": clang_format,
    "tidy.pragma_once": pragma_once,
    "tidy.markdown_links": markdown_links,
    "tidy.absolute_paths": absolute_paths,
    "tidy.snippets": snippets,
    "tidy.planted_bugs": bugs.agreement,
}


def main():
    parser = report.parser("Checks the style of the tree.")
    parser.add_argument("--root", default=pathlib.Path(__file__).resolve().parents[2])
    options = parser.parse_args()
    tree = Tree(options.root)
    return report.run(options, {name: lambda c=c: c(tree) for name, c in CHECKS.items()})


if __name__ == "__main__":
    sys.exit(main())
