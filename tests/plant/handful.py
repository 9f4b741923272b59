#!/usr/bin/env python3
"""A handful of planted bugs as tests of the test runner's kind: each passes if something notices it."""

import pathlib
import sys

import bugs
import plant

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "tidy"))
import report  # noqa: E402


def test(bug):
    stage = plant.STAGES[bug.layer][0]
    caught_by, _ = plant.run_stage(stage, bug.name)
    return [] if caught_by else [f"{stage.label()} does not notice {bug.name}: {bug.what}"]


def green():
    listed = bugs.read(plant.ROOT)
    complaints = []
    for stage in plant.distinct(plant.STAGES[listed[name].layer][0] for name in plant.HANDFUL):
        failed, _ = plant.run_stage(stage, "")
        if failed:
            complaints.append(f"{stage.label()} fails without any bug: {failed}")
    return complaints


def main():
    options = report.parser("Tries a handful of planted bugs.").parse_args()
    listed = bugs.read(plant.ROOT)
    tests = {"plant.no-bug": green}
    tests |= {f"plant.{name}": lambda b=listed[name]: test(b) for name in plant.HANDFUL}
    return report.run(options, tests)


if __name__ == "__main__":
    sys.exit(main())
