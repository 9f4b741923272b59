"""The list of planted bugs (bugs.txt), and whether the code agrees with it."""

import dataclasses
import pathlib
import re

LIST = "tests/plant/bugs.txt"
LAYERS = {"engine", "contract", "local", "check", "rocksdb", "sqlite", "postgres", "remote", "queue", "workflow", "relay", "server"}
OUTSIDE_STORE = {"queue", "workflow", "relay", "server"}  # folders beside src/store/
PLANTED = re.compile(r'STRAND_PLANTED\(\s*"([^"]*)"\s*\)')


@dataclasses.dataclass
class Bug:
    name: str
    where: str  # a file below src/store/, or in src/queue/, src/workflow/ src/relay/ or src/server/
    rules: str
    source: str  # rules: by someone who had seen nothing else; code
    what: str

    @property
    def layer(self):
        return self.where.partition("/")[0]

    @property
    def file(self):
        return f"src/{self.where}" if self.layer in OUTSIDE_STORE else f"src/store/{self.where}"


def parse(text):
    """(the bugs, complaints about lines that are none)"""
    bugs, complaints = {}, []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = [field.strip() for field in line.split("|", 4)]
        bug = Bug(*fields) if len(fields) == 5 and all(fields) else None
        if not bug or bug.layer not in LAYERS or bug.source not in ("rules", "code"):
            complaints.append(f"{LIST}:{number}: write name | where | rules | from | what it does")
        elif bug.name in bugs:
            complaints.append(f"{LIST}:{number}: {bug.name} is listed twice")
        else:
            bugs[bug.name] = bug
    return bugs, complaints


def read(root):
    bugs, complaints = parse(pathlib.Path(root, LIST).read_text())
    if complaints:
        raise SystemExit("\n".join(complaints))
    return bugs


def agreement(tree):
    """Every planted bug is listed, and every listed one is planted, once, in the file that is named.

    Never in a header: those are compiled into the tests as well, without the bugs.
    """
    if LIST not in tree.files:
        return []
    bugs, complaints = parse(tree.text(LIST))
    seen = {}
    for name in tree.under("src/", suffixes={".cc", ".h"}):
        for number, line in tree.lines(name):
            if line.lstrip().startswith(("//", "#")):
                continue
            for bug in PLANTED.findall(line):
                where = f"{name}:{number}:"
                if name.endswith(".h"):
                    complaints.append(f"{where} plant {bug} in a .cc file: tests compile headers too")
                elif bug not in bugs:
                    complaints.append(f"{where} {bug} is not in {LIST}; describe it there")
                elif name != bugs[bug].file:
                    complaints.append(f"{where} {LIST} says that {bug} is in {bugs[bug].where}")
                elif bug in seen:
                    complaints.append(f"{where} {bug} is planted a second time, after {seen[bug]}")
                else:
                    seen[bug] = f"{name}:{number}"
    complaints += [f"{LIST}:1: {bug} is planted nowhere in src/" for bug in bugs if bug not in seen]
    return complaints
