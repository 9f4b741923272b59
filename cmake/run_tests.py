#!/usr/bin/env python3
"""Runs the tests of one or more built presets and says what happened. Called by `./dev test`.

What there is to run comes from build/PRESET/tests.txt, written by CMake, plus the style checks of
tests/tidy, a handful of planted bugs (tests/plant) and what an installation is good for (tests/install). GoogleTest programs are split into shards, so that all cores have something to do. A
program that crashes or hangs fails: its current test by name, and each test that it never reached.

The last line is always `N passed, N failed, N skipped`.
"""

import argparse
import concurrent.futures
import dataclasses
import fnmatch
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
TIDY = ROOT / "tests" / "tidy"
PLANT = ROOT / "tests" / "plant"
INSTALL = ROOT / "tests" / "install"
LOG_LINES_MAX = 60  # of each failing test's output; the repeat command shows the rest
TIMEOUT_S = 300  # for one process; a shard takes seconds, so this is only met by what hangs
TIMEOUT_FULL_S = 3600
SANITIZER_SLOWDOWN = 3

# A sanitizer's finding must end the program, and look like nothing but a failure.
SANITIZER_OPTIONS = {
    "ASAN_OPTIONS": "abort_on_error=1:detect_stack_use_after_return=1:strict_string_checks=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1:"
    f"suppressions={ROOT / 'tests' / 'tsan.supp'}",
}

RUNNING = set()  # process groups; Ctrl-C does not reach them by itself


@dataclasses.dataclass
class Outcome:
    """One test that ran, or should have run."""

    name: str
    status: str  # passed, failed, skipped
    note: str = ""  # why it was skipped, or how it failed
    log: str = ""
    repeat: str = ""
    count: int = 1  # more than one: tests that a dead program never reached


@dataclasses.dataclass
class Job:
    """One process to run: a shard of a GoogleTest program, a script of checks, or an example."""

    group: str  # the heading under which its tests are counted
    kind: str  # gtest, checks, example
    command: list[str]
    name: str = ""  # of the single test that an example is
    shard: int = 0
    shards: int = 1
    env: dict[str, str] = dataclasses.field(default_factory=dict)

    def repeat(self, test=""):
        words = [f"{k}={shlex.quote(v)}" for k, v in self.env.items() if k.startswith("STRAND_")]
        program = os.path.relpath(self.command[0], ROOT)
        words += [program] + [shlex.quote(w) for w in self.command[1:] if "=*" not in w]
        if test and self.kind == "gtest":
            words.append(f"--gtest_filter={shlex.quote(test)}")
        if test and self.kind == "checks":
            words.append(f"--only={test}")
        return " ".join(words)


def matches(pattern, name):
    return fnmatch.fnmatchcase(name, f"*{pattern}*")


def list_gtests(program, pattern):
    """How many tests the program would run; None when it cannot even say that."""
    command = [program, "--gtest_list_tests", f"--gtest_filter=*{pattern}*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        return None
    if done.returncode != 0:
        return None
    return sum(1 for line in done.stdout.splitlines() if line.startswith("  "))


def gather(preset, options):
    """The jobs of one preset."""
    build = ROOT / "build" / preset
    env = {"STRAND_TEST_FULL": "1"} if options.full else {}
    suffix = "" if preset == "release" else f" ({preset})"
    jobs = []
    for line in (build / "tests.txt").read_text().splitlines():
        kind, name, program = line.split(" ", 2)
        if kind in ("gtest", "whole"):
            count = list_gtests(program, options.pattern)
            if count == 0:
                continue
            # A few more shards than cores even out tests of different length; each shard pays for
            # the start of the program and of its suites once, so small programs stay whole, and
            # those that start a broker.
            shards = 1 if count is None or count < 8 or kind == "whole" else 4 * options.jobs
            command = [program] + ([f"--gtest_filter=*{options.pattern}*"] if options.pattern else [])
            for shard in range(shards):
                jobs.append(Job(name + suffix, "gtest", command, "", shard, shards, env))
        elif matches(options.pattern, name):
            jobs.append(Job("examples" + suffix, kind, [program], name, env=env))
    return jobs


def gather_checks(options):
    """The style checks, and the tests of these checks: the same for all presets."""
    jobs = []
    scripts = [TIDY / "check.py", TIDY / "check_test.py", TIDY / "runner_test.py"]
    if options.full:
        scripts.append(TIDY / "clang_tidy.py")
    if "release" in options.presets:
        scripts += [PLANT / "handful.py", INSTALL / "installed.py"]
    for path in scripts:
        listed = subprocess.run(
            [sys.executable, path, "--list"], capture_output=True, text=True, check=True
        ).stdout.split()
        names = [name for name in listed if matches(options.pattern, name)]
        if names:
            command = [str(path)] + ([f"--only={','.join(names)}"] if options.pattern else [])
            jobs.append(Job(f"{path.parent.name}/{path.name}", "checks", command))
    return jobs


def run(job, options):
    """Runs one job; returns its outcomes and the seconds that it took."""
    scratch = tempfile.mkdtemp(prefix="strand-test-")
    report = os.path.join(scratch, "report.xml")
    temp = os.path.join(scratch, "tmp")
    os.mkdir(temp)
    # A PostgreSQL that root starts belongs to another user, who has to get into its folder.
    for folder in (scratch, temp):
        os.chmod(folder, 0o711)
    # Each process has a place for temporary files of its own, which vanishes with it.
    env = {**os.environ, **SANITIZER_OPTIONS, **job.env, "TMPDIR": temp, "TEST_TMPDIR": temp}
    command = list(job.command)
    if job.kind == "gtest":
        command += [f"--gtest_output=xml:{report}", "--gtest_color=no"]
        if job.shards > 1:
            env |= {"GTEST_TOTAL_SHARDS": str(job.shards), "GTEST_SHARD_INDEX": str(job.shard)}
    elif job.kind == "checks":
        command += [f"--report={report}"]

    started = time.monotonic()
    with open(os.path.join(scratch, "log"), "w+b") as log:
        process = subprocess.Popen(
            command, cwd=temp if job.kind == "example" else ROOT, env=env,
            stdin=subprocess.DEVNULL, stdout=log,
            stderr=subprocess.STDOUT, start_new_session=True,
        )
        RUNNING.add(process.pid)
        try:
            process.wait(options.timeout)
            ending = describe_exit(process.returncode)
        except subprocess.TimeoutExpired:
            ending = f"was stopped after {options.timeout} s"
        # Whatever the program started and left behind goes with it.
        stop(process.pid)
        process.wait()
        RUNNING.discard(process.pid)
        log.seek(0)
        text = log.read().decode(errors="replace")
    seconds = time.monotonic() - started

    if job.kind == "example":
        outcomes = [Outcome(job.name, "failed" if ending else "passed", ending, text, job.repeat())]
    else:
        outcomes = read_report(job, report, text)
        if outcomes is None:
            outcomes = read_log(job, text, ending or "ended without a report")
        elif ending and not any(o.status == "failed" for o in outcomes):
            # All tests passed, and still it failed: at exit, as leaks and static destructors do.
            outcomes.append(Outcome(f"{job.group}: at exit", "failed", ending, text, job.repeat()))
    shutil.rmtree(scratch, ignore_errors=True)
    return outcomes, seconds


def stop(group):
    """Ends a process and all that it started: each job leads a process group of its own."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        pass


def describe_exit(code):
    if code == 0:
        return ""
    if code < 0:
        return f"died of {signal.Signals(-code).name}"
    return f"ended with exit code {code}"


def read_report(job, report, text):
    """The outcomes in a GoogleTest (or JUnit) XML report; None when there is none."""
    try:
        tree = ElementTree.parse(report)
    except (OSError, ElementTree.ParseError):
        return None
    outcomes = []
    for case in tree.iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        skipped = case.find("skipped")
        if case.get("status") == "notrun":
            outcomes.append(Outcome(name, "skipped", "disabled in the source"))
        elif case.find("failure") is not None:
            log = section(text, name) or "\n".join(f.get("message", "") for f in case.iter("failure"))
            outcomes.append(Outcome(name, "failed", "", log, job.repeat(name)))
        elif skipped is not None or case.get("result") == "skipped":
            outcomes.append(Outcome(name, "skipped", skip_reason(skipped)))
        else:
            outcomes.append(Outcome(name, "passed"))
    # Failures outside any test (SetUpTestSuite, environments) have no testcase of their own.
    failures = int(tree.getroot().get("failures", 0))
    if failures and not any(o.status == "failed" for o in outcomes):
        outcomes.append(Outcome(f"{job.group}: setup", "failed", "", text, job.repeat()))
    return outcomes


def skip_reason(element):
    message = (element.get("message") or element.text or "") if element is not None else ""
    # GoogleTest puts file:line on a first line of its own.
    lines = [line for line in message.strip().splitlines() if line.strip()]
    if len(lines) > 1 and re.fullmatch(r"\S+:\d+", lines[0]):
        lines = lines[1:]
    return " ".join(lines) or "no reason given"


def section(text, name):
    """What the program printed while `name` ran."""
    start = re.search(rf"^\[ RUN      \] {re.escape(name)}$", text, re.MULTILINE)
    if not start:
        return ""
    rest = text[start.end():]
    end = re.search(r"^\[( RUN  |  FAILED|  SKIPPED|       OK|----------)", rest, re.MULTILINE)
    return (rest[: end.start()] if end else rest).strip("\n")


def read_log(job, text, ending):
    """The outcomes of a program that ended before it wrote its report."""
    outcomes = []
    for name in re.findall(r"^\[       OK \] (\S+)", text, re.MULTILINE):
        outcomes.append(Outcome(name.rstrip(","), "passed"))
    for name in re.findall(r"^\[  SKIPPED \] (\S+) \(", text, re.MULTILINE):
        reason = section(text, name).partition("Skipped\n")[2].strip().replace("\n", " ")
        outcomes.append(Outcome(name, "skipped", reason or "no reason given"))
    for name in re.findall(r"^\[  FAILED  \] (\S+) \(\d+ ms\)", text, re.MULTILINE):
        name = name.rstrip(",")
        outcomes.append(Outcome(name, "failed", "", section(text, name), job.repeat(name)))
    ended = {outcome.name for outcome in outcomes}
    running = [n for n in re.findall(r"^\[ RUN      \] (\S+)", text, re.MULTILINE) if n not in ended]
    for name in running:
        outcomes.append(Outcome(name, "failed", ending, section(text, name), job.repeat(name)))
    planned = re.search(r"^\[==========\] Running (\d+) test", text, re.MULTILINE)
    missing = int(planned.group(1)) - len(outcomes) if planned else 0
    if missing > 0:
        name = f"{job.group}: tests not reached: {missing}"
        note = f"the program {ending}"
        outcomes.append(Outcome(name, "failed", note, "", job.repeat(), missing))
    if not running:
        outcomes.append(Outcome(f"{job.group}: whole program", "failed", ending, text, job.repeat()))
    return outcomes


def print_failure(outcome):
    print(f"\nFAILED {outcome.name}" + (f" ({outcome.note})" if outcome.note else ""))
    lines = outcome.log.splitlines()
    if len(lines) > LOG_LINES_MAX:
        print(f"    … {len(lines) - LOG_LINES_MAX} lines left out")
    for line in lines[-LOG_LINES_MAX:]:
        print(f"    {line}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("presets", nargs="+")
    parser.add_argument("--pattern", default="")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--timeout", type=int, help="seconds for one process")
    options = parser.parse_args()
    if options.timeout is None:
        options.timeout = TIMEOUT_FULL_S if options.full else TIMEOUT_S
        if options.presets != ["release"]:
            options.timeout *= SANITIZER_SLOWDOWN

    jobs = gather_checks(options)
    for preset in options.presets:
        jobs += gather(preset, options)
    if not jobs:
        print(f"no test has '{options.pattern}' in its name")
        print("0 passed, 0 failed, 0 skipped")
        return 1

    groups = {job.group: [] for job in jobs}
    seconds_of = dict.fromkeys(groups, 0.0)
    progress = sys.stdout.isatty() and os.environ.get("CI") != "true"
    started = time.monotonic()
    pool = concurrent.futures.ThreadPoolExecutor(options.jobs)
    futures = {pool.submit(run, job, options): job for job in jobs}
    try:
        for done, future in enumerate(concurrent.futures.as_completed(futures), 1):
            group = futures[future].group
            outcomes, seconds = future.result()
            groups[group] += outcomes
            seconds_of[group] += seconds
            for outcome in outcomes:
                if outcome.status == "failed":
                    print_failure(outcome)
            if progress:
                to_go = len(jobs) - done
                print(f"\r\033[K{to_go} to go" if to_go else "\r\033[K", end="", flush=True)
    except KeyboardInterrupt:
        pool.shutdown(wait=False, cancel_futures=True)
        for group in list(RUNNING):
            stop(group)
        print("\ninterrupted")
        return 130
    return summarise(groups, seconds_of, time.monotonic() - started)


def summarise(groups, seconds_of, seconds_all):
    def count(outcomes, status):
        return sum(outcome.count for outcome in outcomes if outcome.status == status)

    everything = [outcome for outcomes in groups.values() for outcome in outcomes]
    skipped = [outcome for outcome in everything if outcome.status == "skipped"]
    failed = [outcome for outcome in everything if outcome.status == "failed"]

    print()
    for group, outcomes in groups.items():
        print(f"{group:24} {count(outcomes, 'passed'):6} passed {count(outcomes, 'failed'):4} failed "
              f"{count(outcomes, 'skipped'):4} skipped  {seconds_of[group]:7.1f} s")
    print(f"{'wall time':24} {seconds_all:.1f} s")
    if skipped:
        print("\nSkipped:")
        for outcome in skipped:
            print(f"  {outcome.name}: {outcome.note}")
    if failed:
        print("\nFailed, and how to repeat it:")
        for outcome in failed:
            print(f"  {outcome.name}" + (f" ({outcome.note})" if outcome.note else ""))
            print(f"      {outcome.repeat}")
    print(f"\n{count(everything, 'passed')} passed, {count(everything, 'failed')} failed, "
          f"{count(everything, 'skipped')} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
