#!/usr/bin/env python3
"""Tests the checks: each must pass a clean tree, and catch each violation planted in it."""

import pathlib
import shutil
import sys
import tempfile

import check
import report
from tree import Tree

ROOT = pathlib.Path(__file__).resolve().parents[2]

# A small tree that breaks no rule, and comes close to breaking some.
CLEAN = {
    "README.md": "# Top\n\n## A heading, with `code`\n\n[store](src/store/README.md) [web](https://a.b)"
                 " [here](#a-heading-with-code)\n\n```\n[not a link](nowhere)\n```\n",
    "include/strand/README.md": "Public headers.\n",
    "include/strand/store.h": "#pragma once\n\n#include <string>\n\n#include <strand/time.h>\n",
    "include/strand/time.h": "#pragma once\n\n#include <chrono>\n",
    "src/base/README.md": "Base.\n",
    "src/base/bytes.h": "// Bytes.\n#pragma once\n\n#include <strand/time.h>\n",
    "src/store/README.md": "[engine](engine/)\n",
    "src/store/open.h": '#pragma once\n\n#include "store/memory/memory.h"\n',
    "src/store/engine/README.md": "Engine.\n",
    "src/store/engine/backend.h": '#pragma once\n\n#include "store/engine/mutation.h"\n',
    "src/store/engine/mutation.h": '#pragma once\n\n#include "base/bytes.h"\n',
    "src/store/engine/engine.h":
        "#pragma once\n\n#include <chrono>\n\n"
        '// Never calls Clock::now() or rand().\ninline const char* kHint = "std::mutex";\n'
        "struct Now {\n  int now() const;\n  int time(int* at) const;\n};\n"
        "inline int Now::now() const { return 1; }\n",
    "src/store/engine/records.h": '#pragma once\n\n#include "store/engine/engine.h"\n',
    "src/store/sqlite/README.md": "SQLite.\n",
    "src/store/sqlite/tables.h": '#pragma once\n\n#include "store/engine/records.h"\n',
    "src/store/memory/README.md": "Memory.\n",
    "src/store/memory/memory.h":
        '#pragma once\n\n#include "store/engine/backend.h"\n#include "store/engine/mutation.h"\n',
    "tests/model/README.md": "Model.\n",
    "tests/model/model.h": "#pragma once\n\n#include <strand/store.h>\n",
    "tests/model/model.cc": '#include "model/model.h"\n',
    "docs/guide/README.md": "Guide.\n",
    "docs/guide/queue.md": "Send:\n\n```cpp\nif (a) {\n  send(a);\n}\n```\n",
    "examples/README.md": "Examples.\n",
    "examples/send.cc": "int main() {\n  int a = 1;\n  if (a) {\n    send(a);\n  }\n}\n",
    "tests/plant/bugs.txt": "# Bugs\n\nno-sync | engine/sync.cc | S1 | code | forgets to sync\n",
    "src/store/engine/sync.cc": '// STRAND_PLANTED("like-this")\nbool sync = !STRAND_PLANTED("no-sync");\n',
}


def including(*names):
    return {name: "#pragma once\n\n" + "".join(f"#include {i}\n" for i in includes)
            for name, includes in names}


LONG_FUNCTION = "int f(int a) {\n" + "  ++a;\n" * 99 + "  return a;\n}\n"
LONG_METHOD = "struct S {\n  int f(int a) {\n" + "    ++a;\n" * 99 + "    return a;\n  }\n};\n"
ENGINE = "src/store/engine/bad.cc"

# Of each check: what is planted, and where the complaint must point.
PLANTED = {
    "tidy.snippets": [
        ({"docs/guide/bad.md": "Send:\n\n```cpp\nif (a) send(a);\n```\n"}, "docs/guide/bad.md:3:"),
        ({"README.md": "# Top\n\n```cpp\nreceive();\n```\n"}, "README.md:3:"),
        ({"docs/guide/bad.md": "Send:\n\n```python\nsend()\n```\n"}, "docs/guide/bad.md:3:"),
    ],
    "tidy.include_order": [
        (including(("src/base/bad.h", ['"store/open.h"'])), "src/base/bad.h:3:"),
        (including(("src/base/bad.h", ["<strand/store.h>"])), "src/base/bad.h:3:"),
        (including(("src/base/bad.h", ["<base/bytes.h>"])), "src/base/bad.h:3:"),
        (including(("src/base/bad.h", ['"strand/time.h"'])), "src/base/bad.h:3:"),
        (including(("src/base/bad.h", ['"bytes.h"'])), "src/base/bad.h:3:"),
        (including(("src/base/bad.h", ['"../base/bytes.h"'])), "src/base/bad.h:3:"),
        (including(("src/novel/bad.h", [])), "src/novel/bad.h:1:"),
        (including(("src/store/engine/bad.h", ['"store/memory/memory.h"'])),
         "src/store/engine/bad.h:3:"),
        (including(("src/store/engine/bad.h", ['"store/local/local.h"'])), "src/store/engine/bad.h:3:"),
        (including(("src/store/sqlite/bad.h", ['"store/memory/memory.h"'])),
         "src/store/sqlite/bad.h:3:"),
        (including(("src/store/sqlite/bad.h", ["<map>", '"store/engine/engine.h"'])),
         "src/store/sqlite/bad.h:4:"),
        (including(("src/store/rocksdb/bad.h", ['"store/engine/records.h"'])),
         "src/store/rocksdb/bad.h:3:"),
        (including(("src/queue/bad.h", ['"store/open.h"'])), "src/queue/bad.h:3:"),
        (including(("src/workflow/bad.h", ['"store/open.h"'])), "src/workflow/bad.h:3:"),
        (including(("src/relay/bad.h", ['"queue/queue.h"'])), "src/relay/bad.h:3:"),
        (including(("src/server/bad.h", ['"relay/relay.h"'])), "src/server/bad.h:3:"),
        (including(("src/server/bad.h", ['"cli/cli.h"'])), "src/server/bad.h:3:"),
        (including(("include/strand/bad.h", ["<fmt/format.h>"])), "include/strand/bad.h:3:"),
        (including(("include/strand/bad.h", ['"base/bytes.h"'])), "include/strand/bad.h:3:"),
        (including(("tests/model/bad.h", ['"store/open.h"'])), "tests/model/bad.h:3:"),
        (including(("tests/model/bad.h", ['"support/clock.h"']),
                   ("tests/support/clock.h", ['"base/bytes.h"'])), "tests/model/bad.h:3:"),
    ],
    "tidy.engine_purity": [
        ({ENGINE: f"#include <{header}>\n"}, f"{ENGINE}:1:")
        for header in ("thread", "mutex", "random", "fstream", "filesystem", "sys/socket.h", "ctime")
    ] + [
        ({ENGINE: f"int x = 0;\n{code}\n"}, f"{ENGINE}:2:")
        for code in ("auto t = std::chrono::steady_clock::now();", "int r = rand();",
                     "auto t = std::time(nullptr);", "auto t = time(nullptr);", "std::mutex m;",
                     "std::mt19937_64 generator;", "std::ofstream file;", "int fd = ::open(p, 0);",
                     "auto e = getenv(p);")
    ],
    "tidy.file_length": [({"src/base/bad.cc": "int x;\n" * 801}, "src/base/bad.cc:800:")],
    "tidy.function_length": [
        ({"src/base/bad.cc": "namespace s {\n" + LONG_FUNCTION + "}  // namespace s\n"},
         "src/base/bad.cc:2:"),
        ({"src/base/bad.cc": LONG_METHOD}, "src/base/bad.cc:2:"),
        ({"src/base/bad.cc": LONG_FUNCTION.replace("int a)", "int a,\n      int b)")},
         "src/base/bad.cc:1:"),
    ],
    "tidy.folder_readme": [
        ({"src/base/more/bad.cc": ""}, "src/base/more/README.md:1:"),
        ({"docs/decisions/one.md": ""}, "docs/decisions/README.md:1:"),
    ],
    "tidy.no_todo": [
        ({"src/base/bad.cc": "\n// TO" "DO: later\n"}, "src/base/bad.cc:2:"),
        ({"README.md": "FIX" "ME\n"}, "README.md:1:"),
    ],
    "tidy.clang_format": [({"src/base/bad.cc": "int  x;\n"}, "src/base/bad.cc:1:")],
    "tidy.pragma_once": [
        ({"src/base/bad.h": "// Bad.\n#ifndef BAD_H\n#define BAD_H\n#endif\n"}, "src/base/bad.h:2:"),
        ({"src/base/bad.h": "int x;\n"}, "src/base/bad.h:1:"),
        ({"src/base/bad.h": "#include <map>\n#pragma once\n"}, "src/base/bad.h:1:"),
    ],
    "tidy.markdown_links": [
        ({"docs/bad.md": "\nSee [it](nowhere.md).\n"}, "docs/bad.md:2:"),
        ({"docs/bad.md": "See [it](../README.md#no-such-heading).\n"}, "docs/bad.md:1:"),
        ({"docs/bad.md": "[it]: nowhere.md\n"}, "docs/bad.md:1:"),
    ],
    "tidy.absolute_paths": [
        ({"docs/bad.md": "See /wo" "rk/main.\n"}, "docs/bad.md:1:"),
        ({"src/base/bad.cc": 'auto p = "/ro' 'ot/x";\n'}, "src/base/bad.cc:1:"),
    ],
    "tidy.planted_bugs": [
        ({"src/base/bad.cc": '\nbool x = STRAND_PLANTED("unknown");\n'}, "src/base/bad.cc:2:"),
        ({"src/base/bad.cc": 'bool x = STRAND_PLANTED("no-sync");\n'}, "src/base/bad.cc:1:"),
        ({"src/store/engine/sync.cc": 'bool x = STRAND_PLANTED("no-sync");\n' * 2},
         "src/store/engine/sync.cc:2:"),
        ({"src/store/engine/sync.cc": ""}, "tests/plant/bugs.txt:1:"),
        ({"src/base/bad.h": '#pragma once\nbool x = STRAND_PLANTED("no-sync");\n'}, "src/base/bad.h:2:"),
        ({"tests/plant/bugs.txt": "no-sync | engine/sync.cc | S1 | code | forgets it\nno-sync | x\n"},
         "tests/plant/bugs.txt:2:"),
    ],
}


def complaints_of(name, files):
    """What the check says about a tree with these files."""
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            place = pathlib.Path(root, path)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        shutil.copy(ROOT / ".clang-format", root)
        return check.CHECKS[name](Tree(root))


def test(name):
    wrong = [f"complains about a clean tree: {c}" for c in complaints_of(name, CLEAN)]
    if not PLANTED.get(name):
        wrong.append("nothing is planted for this check, so nobody knows whether it can fail")
    for planted, place in PLANTED.get(name, []):
        found = complaints_of(name, {**CLEAN, **planted})
        if len(found) != 1 or not found[0].startswith(place):
            wrong.append(f"planted {planted}\n  expected one complaint at {place}\n  got {found}")
    return wrong


def main():
    options = report.parser("Tests the checks of check.py.").parse_args()
    tests = {name.replace("tidy.", "tidy_test."): lambda n=name: test(n) for name in check.CHECKS}
    return report.run(options, tests)


if __name__ == "__main__":
    sys.exit(main())
