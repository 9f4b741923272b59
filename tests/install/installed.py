#!/usr/bin/env python3
"""Installs Strand into a new folder, and builds a project of its own against what is there."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.append(str(ROOT / "tests" / "tidy"))
import report  # noqa: E402

BUILD = ROOT / "build" / "release"
COMPILER = "clang++-19"


def run(*command, **options):
    """The output of a command; nothing wrong is an empty list of complaints."""
    done = subprocess.run(command, text=True, capture_output=True, check=False, **options)
    if done.returncode == 0:
        return done.stdout, []
    return done.stdout, [f"{' '.join(map(str, command))} failed:", *(done.stdout + done.stderr).splitlines()[-20:]]


class Installed:
    """Installed by the first test that needs it."""

    def __init__(self):
        self.folder = None

    def install(self):
        if self.folder is None:
            self.folder = pathlib.Path(tempfile.mkdtemp(prefix="strand-installed-"))
            self.prefix = self.folder / "usr"
            _, self.complaints = run("cmake", "--install", BUILD, "--prefix", self.prefix)
        return self.complaints

    def remove(self):
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


def runs(program, store):
    output, complaints = run(program, store)
    if complaints:
        return complaints
    return [] if output == "hello, world\n" else [f"{program} says {output!r}"]


def find_package(installed):
    build = installed.folder / "build"
    _, complaints = run(
        "cmake", "-G", "Ninja", "-S", HERE / "project", "-B", build,
        f"-DCMAKE_PREFIX_PATH={installed.prefix}", f"-DCMAKE_CXX_COMPILER={COMPILER}",
    )
    if not complaints:
        _, complaints = run("cmake", "--build", build)
    return complaints or runs(build / "uses_strand", f"rocksdb:{installed.folder}/store")


def pkg_config(installed):
    folders = [*installed.prefix.glob("lib/pkgconfig"), *installed.prefix.glob("lib/*/pkgconfig")]
    environment = {**os.environ, "PKG_CONFIG_PATH": ":".join(map(str, folders))}
    flags, complaints = run("pkg-config", "--cflags", "--libs", "strand", env=environment)
    if complaints:
        return complaints
    program = installed.folder / "by_pkg_config"
    _, complaints = run(COMPILER, HERE / "project" / "main.cc", "-o", program, *flags.split())
    return complaints or runs(program, f"sqlite:{installed.folder}/store.db")


def the_program(installed):
    output, complaints = run(installed.prefix / "bin" / "strand", "--version")
    return complaints or ([] if output.startswith("strand ") else [output])


def main():
    options = report.parser("Builds a project against the installed library.").parse_args()
    installed = Installed()
    tests = {
        "install.A_project_finds_it_by_find_package": find_package,
        "install.A_project_finds_it_by_pkg_config": pkg_config,
        "install.The_program_is_there": the_program,
    }
    tests = {name: lambda t=test: installed.install() or t(installed) for name, test in tests.items()}
    try:
        return report.run(options, tests)
    finally:
        installed.remove()


if __name__ == "__main__":
    sys.exit(main())
