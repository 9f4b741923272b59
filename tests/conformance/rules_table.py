#!/usr/bin/env python3
"""Writes docs/conformance.md: which test of the conformance suite answers which rule.

    python3 tests/conformance/rules_table.py            writes the page
    python3 tests/conformance/rules_table.py --check    fails if a rule, trap or behaviour has no
                                                        test, a test has no rule, or the page is stale

It reads the comment right above each TEST_P of tests/conformance/*_test.cc:

    // A sentence that says why it matters.
    // Rules: S2 S3 Labels            (at least one; numbers of docs/semantics.md, or details)
    // Behaviours: name_of_one,       (names of behaviours.txt; goes on after a comma at the end)
    //             name_of_another
    // Trap: text of the trap         (as in TRAPS below)
"""

import argparse
import collections
import dataclasses
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PAGE = ROOT / "docs" / "conformance.md"

RULES = {
    "S1": "Durable",
    "S2": "Exclusive",
    "S3": "Ordered",
    "S4": "Whole lane",
    "S5": "Fenced",
    "S6": "Expiry",
    "S7": "Delay",
    "S8": "Retry",
    "S9": "Backoff, exhaustion, park",
    "S10": "Dead letters",
    "S11": "TTL",
    "S12": "Priority",
    "S13": "No starvation",
    "S14": "Dedup",
    "S15": "Topics",
    "S16": "Conservation",
    "S17": "Time",
    "S18": "Unknown outcomes, transaction ids",
    "S19": "Limits",
    "S20": "History is one chain",
    "S21": "Failing disks",
    "S22": "Small print",
}

# Rules that no client of a healthy store can see broken, and the tests (which must name the rule)
# that prove them instead.
ELSEWHERE = {"S21": "tests/unit/pipeline_test.cc"}

DETAILS = {
    "Names": "Names of messages",
    "Cancel": "Cancel by name",
    "One-lane": "Requests for one lane",
    "Seize": "Seize",
    "Unkeyed": "Unkeyed messages",
    "Labels": "Labels",
    "Owner-hints": "Owner hints",
    "Notices": "Dead notices",
    "Records": "Records",
    "Watch": "Watch",
    "Input": "Bad input",
}

# Mistakes of the usual SQL for queues. The word on the left is what a `// Trap:` line must contain.
TRAPS = {
    "lock columns on message rows": "a late arrival has no lock, so a second holder gets it",
    "advisory lock": "taken in the claiming transaction, it ends at the commit; the work goes on",
    "SELECT DISTINCT": "`SELECT DISTINCT … FOR UPDATE` is refused",
    "RETURNING": "`UPDATE … RETURNING` has no order",
    "sequence order": "sequence order is not commit order",
    "NOT EXISTS": "a `NOT EXISTS(… processing)` guard races",
    "delete the key row": "a completer that deletes the key row of an empty lane can strand a message",
    "hashtext": "`abs(hashtext(k))` fails on INT_MIN",
    "LIKE": "`LIKE 'a.%.b'` crosses dots",
    "ORDER BY priority DESC": "with 0 = urgent it serves the least urgent first",
    "received_at DESC": "ordering an inbox by `received_at DESC` is LIFO",
}

TEST = re.compile(r"^TEST_P\(\s*(\w+)\s*,\s*(\w+)\s*\)", re.MULTILINE)
TAG = re.compile(r"^(Rules|Behaviours|Behaviors|Traps?):\s*(.*)$")


@dataclasses.dataclass
class Case:
    """One test, and what its comment says it answers."""

    name: str
    file: str
    line: int
    rules: list[str] = dataclasses.field(default_factory=list)
    behaviours: list[str] = dataclasses.field(default_factory=list)
    traps: list[str] = dataclasses.field(default_factory=list)

    def link(self):
        title = self.name.replace("_", " ")
        return f"[{title}](../tests/conformance/{self.file})"


def comment_above(lines, index):
    """The lines of the comment that ends right above line `index`, without their slashes."""
    first = index
    while first > 0 and lines[first - 1].startswith("//"):
        first -= 1
    return [line[2:].strip() for line in lines[first:index]]


def read_case(lines, index, name, file):
    case = Case(name, file, index + 1)
    tag, going_on = None, False
    for line in comment_above(lines, index):
        found = TAG.match(line)
        if found:
            tag, text = found.groups()
        elif going_on:
            text = line
        else:
            continue
        going_on = text.endswith(",") and not tag.startswith("Trap")
        if tag.startswith("Trap"):
            case.traps.append(text)
        else:
            words = [word for word in re.split(r"[,\s]+", text) if word]
            (case.rules if tag == "Rules" else case.behaviours).extend(words)
    return case


def read_cases():
    cases = []
    for path in sorted(HERE.glob("*_test.cc")):
        text = path.read_text()
        lines = text.splitlines()
        for match in TEST.finditer(text):
            index = text.count("\n", 0, match.start())
            cases.append(read_case(lines, index, match.group(2), path.name))
    return cases


def read_behaviours():
    """The names of behaviours.txt, by group."""
    groups = {}
    for line in (HERE / "behaviours.txt").read_text().splitlines():
        if line.startswith("## "):
            group = groups.setdefault(line[3:].strip(), [])
        elif line and not line.startswith("#"):
            group.append(line.strip())
    return groups


def read_reasons():
    """The behaviours that README.md says do not apply, with its reasons: rows `a`, `b` | why."""
    reasons = {}
    text = (HERE / "README.md").read_text()
    _, _, section = text.partition("## Behaviours that do not apply")
    for row in re.findall(r"^\|(.*)\|\s*$", section, re.MULTILINE):
        names, _, why = row.rpartition("|")
        for name in re.findall(r"`(\w+)`", names):
            reasons[name] = why.strip()
    return reasons


def group_by(cases, field):
    groups = collections.defaultdict(list)
    for case in cases:
        for item in getattr(case, field):
            groups[item].append(case)
    return groups


def by_trap(cases):
    """The tests of each trap; texts that name none of them stand under their own words."""
    traps = {word: [] for word in TRAPS}
    strays = collections.defaultdict(list)
    for case in cases:
        for text in case.traps:
            # The longest word that fits, because "received_at DESC" and "priority DESC" are alike.
            words = sorted((w for w in TRAPS if w.lower() in text.lower()), key=len)
            (traps[words[-1]] if words else strays[text]).append(case)
    return traps, strays


def is_proven_elsewhere(rule):
    path = ROOT / ELSEWHERE.get(rule, "no such file")
    return path.is_file() and re.search(rf"\b{rule}\b", path.read_text()) is not None


def complaints(cases, groups, reasons):
    """Everything that is wrong with the suite's bookkeeping."""
    wrong = []
    seen = {}
    for case in cases:
        where = f"tests/conformance/{case.file}:{case.line}: {case.name}"
        if case.name in seen:
            wrong.append(f"{where} has the name of a test in {seen[case.name]}")
        seen[case.name] = case.file
        if not case.rules:
            wrong.append(f"{where} says no rule: put `// Rules: S2 ...` right above it")
        for rule in case.rules:
            if rule not in RULES and rule not in DETAILS:
                wrong.append(f"{where} names a rule that there is not: {rule}")
    rules = group_by(cases, "rules")
    for rule, title in RULES.items():
        if not rules[rule] and not is_proven_elsewhere(rule):
            wrong.append(f"rule {rule} ({title}) has no test")
    traps, strays = by_trap(cases)
    wrong += [f"the trap '{word}' has no test" for word, found in traps.items() if not found]
    wrong += [f"a test names a trap that there is not: {text}" for text in strays]

    known = {name for names in groups.values() for name in names}
    answered = set(group_by(cases, "behaviours"))
    wrong += [f"a test names a behaviour that there is not: {n}" for n in sorted(answered - known)]
    wrong += [f"README.md names a behaviour that there is not: {n}" for n in sorted(set(reasons) - known)]
    wrong += [f"the behaviour {n} has neither a test nor a reason in README.md"
              for n in sorted(known - answered - set(reasons))]
    wrong += [f"the behaviour {n} has a test, and README.md says that it does not apply"
              for n in sorted(answered & set(reasons))]
    return wrong


def bullets(cases):
    return [f"- {case.link()}" for case in cases]


def render(cases, groups, reasons):
    files = {case.file for case in cases}
    rules = group_by(cases, "rules")
    behaviours = group_by(cases, "behaviours")
    traps, _ = by_trap(cases)

    out = [
        "# Conformance",
        "",
        "<!-- Generated by tests/conformance/rules_table.py from the comments above the tests. Do not edit. -->",
        "",
        f"The conformance suite has **{len(cases)} cases** in {len(files)} files. Each runs on every kind of store. What the",
        "rules say is in [semantics.md](semantics.md); how to run the suite is in",
        "[tests/conformance/README.md](../tests/conformance/README.md). Beyond its own claim, each test ends with two checks:",
        "nothing was lost in any queue (S16), and a reopened store is the same as before (S1).",
        "",
        "## Overview",
        "",
        "| rule | | cases |",
        "|---|---|---|",
    ]
    for rule, title in RULES.items():
        out.append(f"| [{rule}](#{anchor(rule + ' ' + title)}) | {title} | {len(rules[rule])} |")
    for detail, title in DETAILS.items():
        if rules[detail]:
            out.append(f"| [{detail}](#{anchor(title)}) | {title} | {len(rules[detail])} |")

    out += ["", "## Cases by rule"]
    for rule, title in RULES.items():
        out += ["", f"### {rule} {title}", ""]
        if rule in ELSEWHERE:
            out += [
                "A store behind a URL cannot be told to fail, so this rule is proven where its backend can:",
                f"[{ELSEWHERE[rule]}](../{ELSEWHERE[rule]}).",
            ] + ([""] if rules[rule] else [])
        out += bullets(rules[rule])
    for detail, title in DETAILS.items():
        if rules[detail]:
            out += ["", f"### {title}", ""] + bullets(rules[detail])

    out += ["", "## Traps of the usual SQL", "", "| trap | answered by |", "|---|---|"]
    for word, text in TRAPS.items():
        named = text if word.strip() in text else f"{word}: {text}"
        links = "<br>".join(case.link() for case in traps[word])
        out.append(f"| {named.replace('|', chr(92) + '|')} | {links} |")

    answered = sum(1 for names in groups.values() for n in names if behaviours[n])
    excused = sum(1 for names in groups.values() for n in names if n in reasons and not behaviours[n])
    out += ["", "## Behaviours of a workflow store", "",
            f"Of the {sum(map(len, groups.values()))} behaviours in "
            "[behaviours.txt](../tests/conformance/behaviours.txt), "
            f"{answered} have tests here; {excused} do not apply to a Strand store, for the reasons given",
            "in the [README](../tests/conformance/README.md#behaviours-that-do-not-apply)."]
    for group, names in groups.items():
        out += ["", f"### {group}", "", "| behaviour | answered by |", "|---|---|"]
        for name in names:
            answer = "<br>".join(case.link() for case in behaviours[name])
            out.append(f"| {name} | {answer or 'does not apply: ' + reasons.get(name, '?')} |")
    return "\n".join(out) + "\n"


def anchor(heading):
    """The anchor that GitHub gives to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing; fail if something is wrong")
    options = parser.parse_args()

    cases, groups, reasons = read_cases(), read_behaviours(), read_reasons()
    wrong = complaints(cases, groups, reasons)
    page = render(cases, groups, reasons)
    if not options.check:
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(page)
    elif not PAGE.exists() or PAGE.read_text() != page:
        wrong.append("docs/conformance.md is stale: run python3 tests/conformance/rules_table.py")

    for line in wrong:
        print(line, file=sys.stderr)
    print(f"{len(cases)} cases, {len(wrong)} complaints")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
