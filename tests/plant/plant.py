#!/usr/bin/env python3
"""Switches on one planted bug after the other and says which test notices. Called by `./dev plant`.

Needs the programs in build/release/planted. Outcomes are remembered beside them, until a program or
the bug's line in bugs.txt changes, so that a run that was stopped goes on where it was, and a new
test costs a run of its own program only.
"""

import argparse
import dataclasses
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import bugs

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "build" / "release" / "planted"
PAGE = ROOT / "docs" / "internals" / "testing.md"
BEGIN, END = "<!-- planted bugs: begin -->", "<!-- planted bugs: end -->"


@dataclasses.dataclass
class Stage:
    """One program, with what it is given."""

    program: str
    arguments: tuple = ()
    store: str = ""  # for programs that run on every kind
    timeout_s: int = 120

    def label(self):
        return f"{self.program} on {self.store}" if self.store else self.program


UNIT = Stage("unit_tests", ("--gtest_fail_fast",), timeout_s=60)
THREADS = Stage("threads_tests", ("--gtest_fail_fast",))
QUEUE = Stage("queue_tests", ("--gtest_fail_fast",), "memory", timeout_s=60)
WORKFLOW = Stage("workflow_tests", ("--gtest_fail_fast",), "memory", timeout_s=60)
POSTGRES = Stage("postgres_tests", ("--gtest_fail_fast", "--gtest_filter=*Claim*:*SlowSender*:*Together*:CheckTest.*"))
SERVER = Stage("server_tests", ("--gtest_fail_fast",))
CHAOS = Stage("server_chaos_tests", ("--gtest_fail_fast", "--gtest_filter=Mixes*"))
RELAY = Stage("relay_tests", ("--gtest_fail_fast", "--gtest_filter=*RelayHoles*"))
SIM = Stage("strand-sim", ("--seeds", "2000", "--no-shrink"), timeout_s=300)


def conformance(store, timeout_s=120):
    return Stage("conformance_tests", ("--gtest_fail_fast",), store, timeout_s)


# Which programs could notice, the quickest first.
STAGES = {
    "engine": [conformance("memory"), UNIT, SIM, conformance("rocksdb"), THREADS],
    "contract": [conformance("memory"), UNIT, SIM],
    "local": [UNIT, conformance("memory"), THREADS, SIM, conformance("rocksdb")],
    "check": [UNIT],
    "rocksdb": [UNIT, conformance("rocksdb"), THREADS],
    "sqlite": [UNIT, conformance("sqlite"), THREADS],
    "queue": [QUEUE, THREADS],
    "workflow": [WORKFLOW],
    "relay": [RELAY],
    "server": [SERVER],
    "remote": [SERVER, CHAOS],
    "postgres": [POSTGRES, conformance("postgres", timeout_s=600)],
}

# Tried in every ./dev test: quick ones, from different layers.
HANDFUL = ["token-of-the-queue-is-enough", "dedup-lost-at-restart", "hash-needs-one-segment",
           "batch-behind-a-failure-confirmed", "check-overlooks-orphan-body"]


def run_stage(stage, bug):
    """(the test that failed, or None; seconds)"""
    scratch = tempfile.mkdtemp(prefix="strand-plant-")
    os.chmod(scratch, 0o711)  # as in run_tests.py
    env = {**os.environ, "TMPDIR": scratch, "TEST_TMPDIR": scratch, "STRAND_PLANT": bug}
    if stage.store:
        env["STRAND_CONFORMANCE_STORE"] = stage.store
    started = time.monotonic()
    with open(os.path.join(scratch, "log"), "w+b") as log:
        process = subprocess.Popen(
            [PROGRAMS / stage.program, *stage.arguments], cwd=ROOT, env=env, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
        )
        try:
            process.wait(stage.timeout_s)
            ending = "" if process.returncode >= 0 else f", {signal.Signals(-process.returncode).name}"
        except subprocess.TimeoutExpired:
            ending = ", hangs"
        try:
            os.killpg(process.pid, signal.SIGKILL)  # and whatever it has started
        except ProcessLookupError:
            pass
        process.wait()
        log.seek(0)
        text = log.read().decode(errors="replace")
    seconds = time.monotonic() - started
    shutil.rmtree(scratch, ignore_errors=True)
    if process.returncode == 0:
        return None, seconds
    return name_failure(stage, text) + ending, seconds


def name_failure(stage, text):
    """Which test it was, from what the program printed."""
    if stage.program == "strand-sim":
        seed = re.search(r"seed (\d+)", text)
        broken = re.search(r"\b(I\d+|contract)\b", text)
        return f"strand-sim: seed {seed.group(1) if seed else '?'}" + (
            f", {broken.group(1)}" if broken else "")
    failed = re.findall(r"^\[  FAILED  \] (\S+?),? ", text, re.MULTILINE)
    began = re.findall(r"^\[ RUN      \] (\S+)", text, re.MULTILINE)
    return (failed or began[-1:] or [f"{stage.program} as a whole"])[0]


def fingerprint(bug, stages):
    """Changes when the outcome of a bug in these stages may."""
    digest = hashlib.sha256(f"{bug} {stages}".encode())
    for program in sorted({stage.program for stage in stages}):
        state = (PROGRAMS / program).stat()
        digest.update(f"{program} {state.st_size} {state.st_mtime_ns}".encode())
    return digest.hexdigest()[:16]


class Outcomes:
    """What is known already. That a stage noticed a bug holds until its program changes; that none
    did, until any does."""

    def __init__(self):
        self.path = PROGRAMS / "outcomes.json"
        self.known = json.loads(self.path.read_text()) if self.path.exists() else {}

    def get(self, name, bug, stages):
        found = self.known.get(name)
        if not found:
            return None
        looked_at = [stage for stage in stages if found["stage"] in (stage.label(), None)]
        return found if found["mark"] == fingerprint(bug, looked_at) else None

    def put(self, name, bug, stages, stage, caught_by, seconds):
        self.known[name] = {
            "mark": fingerprint(bug, [stage] if stage else stages),
            "stage": stage.label() if stage else None,
            "caught_by": caught_by,
            "seconds": round(seconds, 1),
        }
        self.path.write_text(json.dumps(self.known, indent=1))
        return self.known[name]


def try_green(outcomes, stages):
    """Without a bug, everything passes; otherwise nothing that fails below means anything."""
    for stage in stages:
        name = f"no bug, {stage.label()}"
        if outcomes.get(name, None, [stage]):
            continue
        failed, seconds = run_stage(stage, "")
        if failed:
            print(f"without any bug, {stage.label()} fails: {failed}; mend that first")
            return False
        print(f"no bug: {stage.label()} passes ({seconds:.1f} s)", flush=True)
        outcomes.put(name, None, [stage], stage, None, seconds)
    return True


def try_bug(outcomes, bug):
    stages = STAGES[bug.layer]
    found = outcomes.get(bug.name, bug, stages)
    if found:
        return found
    total = 0.0
    for stage in stages:
        caught_by, seconds = run_stage(stage, bug.name)
        total += seconds
        if caught_by:
            return outcomes.put(bug.name, bug, stages, stage, caught_by, total)
    return outcomes.put(bug.name, bug, stages, None, None, total)


def distinct(stages):
    return list({stage.label(): stage for stage in stages}.values())


def table(listed, outcomes):
    lines = ["| bug | in | rules | from | what it does | caught by |", "|---|---|---|---|---|---|"]
    for bug in listed:
        caught_by = outcomes.known[bug.name]["caught_by"] or "**nothing**"
        test = re.sub(r"^Stores/([^/,]*)/(\w+)", r"\1 (\2)", caught_by)
        lines.append(f"| `{bug.name}` | {bug.where} | {bug.rules.replace('-', ' ')} | {bug.source} | "
                     f"{bug.what} | `{test}` |")
    return "\n".join(lines)


def write_page(listed, outcomes):
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{table(listed, outcomes)}\n{END}{after}")


def main():
    parser = argparse.ArgumentParser(prog="./dev plant", description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="these bugs only")
    parser.add_argument("--list", action="store_true", help="name the bugs, one a line")
    parser.add_argument("--again", action="store_true", help="forget what is known")
    parser.add_argument("--write", action="store_true", help="write the table into docs/internals/testing.md")
    options = parser.parse_args()
    listed = bugs.read(ROOT)
    if options.list:
        print("\n".join(listed))
        return 0
    unknown = [name for name in options.names if name not in listed]
    if unknown:
        parser.error(f"no such bug: {', '.join(unknown)} (see ./dev plant --list)")
    chosen = [bug for bug in listed.values() if not options.names or bug.name in options.names]

    outcomes = Outcomes()
    if options.again:
        outcomes.known = {}
    if not try_green(outcomes, distinct(s for bug in chosen for s in STAGES[bug.layer])):
        return 1
    missed = 0
    width = max(len(bug.name) for bug in chosen)
    for bug in chosen:
        outcome = try_bug(outcomes, bug)
        missed += not outcome["caught_by"]
        print(f"{bug.name:{width}}  {outcome['seconds']:6.1f} s  {outcome['caught_by'] or 'NOT CAUGHT'}",
              flush=True)
    print(f"\n{len(chosen) - missed} caught, {missed} not caught")
    if options.write:
        write_page(listed.values(), outcomes)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
