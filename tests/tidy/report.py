"""What the scripts of this folder share: options, a closing count, and a report for the test runner."""

import argparse
import sys
import xml.etree.ElementTree as ElementTree


def parser(description):
    """The options that the test runner knows, for a script to extend."""
    options = argparse.ArgumentParser(description=description)
    options.add_argument("--list", action="store_true", help="name the tests, run none")
    options.add_argument("--only", help="run only these tests, separated by commas")
    options.add_argument("--report", help="also write the outcome to this file, as JUnit XML")
    return options


def run(options, tests):
    """Runs `tests` (name -> function that returns its complaints); returns the exit code."""
    if options.list:
        print("\n".join(tests))
        return 0
    chosen = options.only.split(",") if options.only else list(tests)
    unknown = [name for name in chosen if name not in tests]
    if unknown:
        print(f"no such test: {', '.join(unknown)}", file=sys.stderr)
        return 2

    suite = ElementTree.Element("testsuite")
    failed = 0
    for name in chosen:
        complaints = tests[name]()
        group, _, short = name.partition(".")
        case = ElementTree.SubElement(suite, "testcase", classname=group, name=short, status="run")
        if complaints:
            failed += 1
            text = "\n".join(complaints)
            print(f"{name}:\n{text}\n")
            ElementTree.SubElement(case, "failure", message=text)
    suite.set("failures", str(failed))
    if options.report:
        ElementTree.ElementTree(suite).write(options.report)
    print(f"{len(chosen) - failed} passed, {failed} failed")
    return 1 if failed else 0
