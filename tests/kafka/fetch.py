#!/usr/bin/env python3
"""Fetches the Kafka broker that tests run, once a machine and version. Called by `./dev`.

    fetch.py             fetch what is missing; quick, silent and without network when nothing is
    fetch.py write-lock  fetch anew, and write down what came (after a change of pom.xml)

Maven fetches what pom.xml names into a folder of the user's cache, and jars.sha256 says which files
with which content that must be: anything else is refused. Then the broker is started once, so that
the JVM can keep the classes that it loads (an archive for class data sharing): later starts take a
second and a half instead of four.
"""

import hashlib
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid

HERE = pathlib.Path(__file__).resolve().parent
LOCK = HERE / "jars.sha256"
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
FETCH_S = 600
START_S = 120


def version():
    return re.search(r"kafka_2\.13</artifactId>\s*<version>([^<]+)<", (HERE / "pom.xml").read_text())[1]


def home():
    """As TestBroker finds it (broker.cc)."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.environ.get("HOME", "/"), ".cache")
    return pathlib.Path(cache) / "strand" / f"kafka-{version()}"


def digest_of(folder):
    """Each jar with its digest, in the form of sha256sum."""
    lines = [f"{hashlib.sha256(jar.read_bytes()).hexdigest()}  {jar.name}" for jar in folder.glob("*.jar")]
    return "".join(line + "\n" for line in sorted(lines, key=lambda line: line.split()[1]))


def fetch(folder):
    """What pom.xml names, into `folder`, by way of a local repository that is thrown away."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        pom = pathlib.Path(scratch) / "pom.xml"
        shutil.copy(HERE / "pom.xml", pom)
        done = subprocess.run(
            ["mvn", "--batch-mode", "--quiet", f"--file={pom}", f"-Dmaven.repo.local={scratch}/repository",
             f"-DoutputDirectory={folder}", PLUGIN],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=FETCH_S,
        )
    if done.returncode != 0:
        raise RuntimeError(f"Maven could not fetch Kafka {version()}: {done.stdout.strip()[-2000:]}")


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def archive_classes(at):
    """Starts a broker and stops it, which writes the archive. The paths of the jars become part of it."""
    client, controller = free_ports(2)
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        (folder / "data").mkdir()
        (folder / "data" / "meta.properties").write_text(
            f"version=1\ncluster.id={uuid.uuid4().hex[:22]}\nnode.id=1\n")
        (folder / "server.properties").write_text(
            "process.roles=broker,controller\nnode.id=1\n"
            f"controller.quorum.voters=1@127.0.0.1:{controller}\n"
            f"listeners=PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}\n"
            f"controller.listener.names=CONTROLLER\nlog.dirs={folder}/data\n")
        log = folder / "log"
        archive = folder / "kafka.jsa"
        command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
                   f"-XX:ArchiveClassesAtExit={archive}", f"-Dlog4j.configuration=file:{HERE}/log4j.properties",
                   "-cp", f"{at}/jars/*", "kafka.Kafka", str(folder / "server.properties")]
        with open(log, "wb") as output:
            broker = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        try:
            deadline = time.monotonic() + START_S
            while "Kafka Server started" not in log.read_text(errors="replace"):
                if broker.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"Kafka did not start: {log.read_text(errors='replace')[-2000:]}")
                time.sleep(0.1)
            broker.send_signal(signal.SIGTERM)
            broker.wait(START_S)
        finally:
            broker.kill()
            broker.wait()
        # Whoever starts a broker meanwhile sees the whole archive, or none.
        shutil.copy(archive, at / "new.jsa")
        os.replace(at / "new.jsa", at / "kafka.jsa")


def main():
    writing = sys.argv[1:] == ["write-lock"]
    if sys.argv[1:] and not writing:
        sys.exit(__doc__.strip())
    at = home()
    wanted = "" if writing or not LOCK.exists() else LOCK.read_text()
    stamp = at / "jars.sha256"
    if not writing and stamp.exists() and stamp.read_text() == wanted and (at / "kafka.jsa").exists():
        return 0
    print(f"Fetching Kafka {version()} for the tests, once", file=sys.stderr, flush=True)
    try:
        at.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=at.parent) as scratch:
            new = pathlib.Path(scratch) / "new"
            (new / "jars").mkdir(parents=True)
            fetch(new / "jars")
            came = digest_of(new / "jars")
            if writing:
                LOCK.write_text(came)
            elif came != wanted:
                raise RuntimeError(
                    f"what Maven fetched is not what {LOCK.relative_to(HERE.parent.parent)} says: "
                    + "; ".join(sorted(set(came.splitlines()) ^ set(wanted.splitlines())))[:2000])
            (new / "jars.sha256").write_text(came)
            shutil.rmtree(at, ignore_errors=True)
            new.rename(at)
        archive_classes(at)
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        print(f"dev: no Kafka broker for the tests ({error}); tests that need one are skipped", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
