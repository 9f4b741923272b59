#!/usr/bin/env python3
"""A handful of planted bugs as tests of the test runner's kind: each passes if something notices it."""

import dataclasses
import pathlib
import sys

import bugs
import plant

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "tidy"))
import report  # noqa: E402


def test(bug):
    stage = plant.STAGES[bug.layer][0]
    caught_by, _ = plant.run_stage(stage, bug.name)
    if not caught_by:
        return [f"{stage.label()} does not notice {bug.name}: {bug.what}"]
    # A test that fails without the bug as well has noticed nothing.
    name = caught_by.partition(",")[0]
    alone = dataclasses.replace(stage, arguments=(f"--gtest_filter={name}",))
    failed, _ = plant.run_stage(alone, "")
    return [f"{name} fails without {bug.name} as well"] if failed else []


def main():
    options = report.parser("Tries a handful of planted bugs.").parse_args()
    listed = bugs.read(plant.ROOT)
    tests = {f"plant.{name}": lambda b=listed[name]: test(b) for name in plant.HANDFUL}
    return report.run(options, tests)


if __name__ == "__main__":
    sys.exit(main())
