#!/usr/bin/env python3
"""Tests the test runner with programs that end in every way: a failure that it misses is the worst."""

import contextlib
import importlib.util
import io
import pathlib
import sys
import tempfile
import types

import report

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("run_tests", ROOT / "cmake" / "run_tests.py")
runner = importlib.util.module_from_spec(SPEC)
sys.modules["run_tests"] = runner
SPEC.loader.exec_module(runner)

# A stand-in for a GoogleTest program. It has written the opening lines when the body of a test
# here begins, and `report` writes its XML.
PRELUDE = """#!/usr/bin/env bash
for word in "$@"; do case "$word" in --gtest_output=xml:*) out="${word#*xml:}" ;; esac; done
report() { echo "<testsuites failures=\\"$1\\"><testsuite>$2</testsuite></testsuites>" >"$out"; }
echo '[==========] Running 3 tests from 1 test suite.'
echo '[ RUN      ] S.A'
echo '[       OK ] S.A (0 ms)'
echo '[ RUN      ] S.B'
"""
PASSED_A = '<testcase classname=\\"S\\" name=\\"A\\" status=\\"run\\" result=\\"completed\\"/>'
BROKEN_B = ('<testcase classname=\\"S\\" name=\\"B\\" status=\\"run\\" result=\\"completed\\">'
            '<failure message=\\"b.cc:3\\"/></testcase>')
SKIPPED_B = ('<testcase classname=\\"S\\" name=\\"B\\" status=\\"run\\" result=\\"skipped\\">'
             '<skipped message=\\"b.cc:3&#x0A;no database\\"/></testcase>')
DISABLED_C = '<testcase classname=\\"S\\" name=\\"C\\" status=\\"notrun\\" result=\\"suppressed\\"/>'


def outcomes_of(body, kind="gtest"):
    """(name, status, note, count) of what the runner makes of a program."""
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder, "program")
        program.write_text((PRELUDE if kind == "gtest" else "#!/usr/bin/env bash\n") + body)
        program.chmod(0o755)
        job = runner.Job("group", kind, [str(program)], name="it")
        outcomes, _ = runner.run(job, types.SimpleNamespace(timeout=1))
        return [(o.name, o.status, o.note, o.count) for o in outcomes]


def expect(body, expected, kind="gtest"):
    found = outcomes_of(body, kind)
    return [] if found == expected else [f"expected {expected}", f"got      {found}"]


def a_failure_is_counted():
    return expect(f'report 1 "{PASSED_A}{BROKEN_B}"; exit 1',
                  [("S.A", "passed", "", 1), ("S.B", "failed", "", 1)])


def skipped_and_disabled_tests_have_a_reason():
    return expect(f'report 0 "{PASSED_A}{SKIPPED_B}{DISABLED_C}"',
                  [("S.A", "passed", "", 1), ("S.B", "skipped", "no database", 1),
                   ("S.C", "skipped", "disabled in the source", 1)])


def a_crash_fails_its_test_and_those_not_reached():
    died = "died of SIGSEGV"
    return expect("kill -SEGV $$", [
        ("S.A", "passed", "", 1), ("S.B", "failed", died, 1),
        ("group: tests not reached: 1", "failed", f"the program {died}", 1)])


def a_hanging_program_is_stopped_and_fails():
    stopped = "was stopped after 1 s"
    return expect("sleep 100 & wait", [
        ("S.A", "passed", "", 1), ("S.B", "failed", stopped, 1),
        ("group: tests not reached: 1", "failed", f"the program {stopped}", 1)])


def an_early_exit_without_report_fails():
    return expect("exit 0", [
        ("S.A", "passed", "", 1), ("S.B", "failed", "ended without a report", 1),
        ("group: tests not reached: 1", "failed", "the program ended without a report", 1)])


def a_failure_at_exit_is_counted():
    return expect(f'report 0 "{PASSED_A}"; exit 23',
                  [("S.A", "passed", "", 1),
                   ("group: at exit", "failed", "ended with exit code 23", 1)])


def a_failure_outside_of_tests_is_counted():
    return expect(f'report 1 "{PASSED_A}"; exit 1',
                  [("S.A", "passed", "", 1), ("group: setup", "failed", "", 1)])


def an_example_fails_by_its_exit_code():
    return (expect("exit 3", [("it", "failed", "ended with exit code 3", 1)], "example")
            + expect("exit 0", [("it", "passed", "", 1)], "example"))


def the_last_line_counts_and_the_exit_code_tells():
    wrong = []
    cases = (([("passed", 2), ("failed", 3), ("skipped", 1)], "2 passed, 3 failed, 1 skipped", 1),
             ([("passed", 1)], "1 passed, 0 failed, 0 skipped", 0))
    for statuses, line, code in cases:
        output = io.StringIO()
        groups = {"g": [runner.Outcome("t", status, count=count) for status, count in statuses]}
        with contextlib.redirect_stdout(output):
            got = runner.summarise(groups, {"g": 0.0}, 0.0)
        if got != code or output.getvalue().splitlines()[-1] != line:
            wrong.append(f"exit code {got}, and at the end: {output.getvalue()[-200:]}")
    return wrong


TESTS = (
    a_failure_is_counted,
    skipped_and_disabled_tests_have_a_reason,
    a_crash_fails_its_test_and_those_not_reached,
    a_hanging_program_is_stopped_and_fails,
    an_early_exit_without_report_fails,
    a_failure_at_exit_is_counted,
    a_failure_outside_of_tests_is_counted,
    an_example_fails_by_its_exit_code,
    the_last_line_counts_and_the_exit_code_tells,
)


def main():
    options = report.parser("Tests cmake/run_tests.py.").parse_args()
    return report.run(options, {f"runner_test.{test.__name__}": test for test in TESTS})


if __name__ == "__main__":
    sys.exit(main())
