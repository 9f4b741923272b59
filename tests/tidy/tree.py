"""The files of a source tree, and what can be cheaply known of them without a compiler."""

import functools
import pathlib
import re
import subprocess

CXX = {".cc", ".h"}
SOURCE = CXX | {".py", ".sql", ".proto", ".sh"}
BINARY = {".png", ".jpg", ".gif", ".ico", ".woff2", ".gz"}
UNTRACKED = {".git", "build", ".cache", "__pycache__"}

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')


class Tree:
    """A source tree. Paths are relative to its root, with forward slashes."""

    def __init__(self, root):
        self.root = pathlib.Path(root)

    @functools.cached_property
    def files(self):
        """All files that are, or could be, committed."""
        if (self.root / ".git").exists():
            # A build machine's clone may belong to another user, which git would refuse.
            command = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others",
                       "--exclude-standard"]
            listed = subprocess.run(command, cwd=self.root, capture_output=True, text=True, check=True)
            names = listed.stdout.split("\0")
        else:
            found = (path.relative_to(self.root) for path in self.root.rglob("*"))
            names = (str(path) for path in found if not UNTRACKED & set(path.parts))
        return sorted(name for name in names if name and (self.root / name).is_file())

    def under(self, *folders, suffixes=None):
        """The files below one of the folders, such as "src/base/"."""
        return [
            name for name in self.files
            if name.startswith(folders) and (not suffixes or pathlib.PurePath(name).suffix in suffixes)
        ]

    @property
    def cxx(self):
        return [name for name in self.files if pathlib.PurePath(name).suffix in CXX]

    @property
    def text_files(self):
        return [name for name in self.files if pathlib.PurePath(name).suffix not in BINARY]

    @functools.cache
    def text(self, name):
        return (self.root / name).read_text(encoding="utf-8", errors="replace")

    def lines(self, name):
        """(number, line) of a file, from 1."""
        return list(enumerate(self.text(name).splitlines(), 1))

    @functools.cache
    def code(self, name):
        """(number, line) of a C++ file, with comments and literals blanked out."""
        blank = lambda match: re.sub(r"[^\n]", " ", match.group())  # noqa: E731
        literal_or_comment = (
            r'R"([^(\s]*)\((?:.|\n)*?\)\1"|//[^\n]*|/\*(?:.|\n)*?\*/'
            r'|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])+\''
        )
        # Includes keep their names: they are no literals.
        text = "\n".join("" if INCLUDE.match(line) else line for line in self.text(name).split("\n"))
        return list(enumerate(re.sub(literal_or_comment, blank, text).split("\n"), 1))

    @functools.cache
    def includes(self, name):
        """(number, included name, whether it is in angle brackets) of a C++ file."""
        found = []
        for number, line in self.lines(name):
            match = INCLUDE.match(line)
            if match:
                found.append((number, match.group(1) or match.group(2), match.group(2) is not None))
        return found

    def resolve(self, included):
        """The file of this tree that an #include means, or None for a foreign header."""
        for folder in ("src/", "include/", "tests/", "bench/", "cmake/"):
            if (self.root / folder / included).is_file():
                return folder + included
        return None

    def closure(self, name):
        """The file and all files of this tree that it includes, directly or not."""
        seen, waiting = set(), [name]
        while waiting:
            current = waiting.pop()
            if current in seen:
                continue
            seen.add(current)
            resolved = (self.resolve(included) for _, included, _ in self.includes(current))
            waiting += [other for other in resolved if other]
        return seen
