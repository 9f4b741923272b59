"""Who may include whom: the order of the folders, and the purity of the engine."""

import re

# Folders under src/, and the other ones that each may include from. A folder may always use itself
# and the public headers. "store" means the files directly in src/store/.
BACKENDS = ("store/memory", "store/sqlite", "store/rocksdb")
STORE = ("store", "store/contract", "store/disk", "store/engine", "store/local", "store/check", *BACKENDS, "store/postgres", "store/remote")
ALL = ("base", "toml_file", "pq", *STORE, "queue", "workflow", "relay", "server", "cli", "proto")
MAY_USE = {
    "base": (),
    "toml_file": ("base",),
    "pq": ("base",),
    "store": ("base", "pq", *STORE),
    "store/contract": ("base",),
    "store/engine": ("base", "store/contract"),
    "store/check": ("base", "store/contract", "store/engine"),
    "store/local": ("base", "store", "store/contract", "store/engine"),
    "store/memory": ("base", "store/engine"),  # and see backend_headers()
    "store/disk": ("base",),
    "store/sqlite": ("base", "store/disk", "store/engine"),
    "store/rocksdb": ("base", "store/disk", "store/engine"),
    "store/postgres": ("base", "pq", "store", "store/contract"),
    "store/remote": ("base", "store", "store/contract", "proto"),
    "queue": ("base",),
    "workflow": ("base", "queue"),
    "relay": ("base", "toml_file", "pq"),
    "server": tuple(folder for folder in ALL if folder not in ("relay", "cli")),
    "cli": ALL,
}

# Public headers that speak of layers above: these folders stand beside or below the store.
UPPER_PUBLIC = re.compile(r"strand/(store|queue|workflow|server)\b")
NO_UPPER_PUBLIC = ("base", "toml_file", "pq", "relay")

STANDARD_HEADER = re.compile(r"[a-z0-9_]+")


def folder_of(path):
    """The layer of a path below src/: "store/engine/engine.h" is in "store/engine"."""
    parts = path.split("/")
    if len(parts) < 2:
        return None
    if parts[0] == "store" and len(parts) > 2:
        return f"store/{parts[1]}"
    return parts[0]


# SQLite's tables have a column for each field of a record, so that people can read them: that
# backend alone takes keys and values apart.
MORE_FOR_BACKEND = {
    "store/sqlite": {"store/engine/records.h"},
}


def backend_headers(tree, backend):
    """What a backend may see of the engine: backend.h and all that it needs."""
    seen = {path.removeprefix("src/") for path in tree.closure("src/store/engine/backend.h")}
    return seen | MORE_FOR_BACKEND.get(backend, set())


def include_order(tree):
    """Includes follow the order of the folders."""
    complaints = []
    for name in tree.under("src/", suffixes={".cc", ".h"}):
        complaints += check_source(tree, name)
    for name in tree.under("include/", suffixes={".cc", ".h"}):
        for number, included, angled in tree.includes(name):
            if not angled or not (
                included.startswith("strand/") or STANDARD_HEADER.fullmatch(included)
            ):
                complaints.append(
                    f"{name}:{number}: public headers include only <strand/...> and standard headers, "
                    f"not {included}; keep it out of the interface"
                )
    for name in tree.under("tests/model/", suffixes={".cc", ".h"}):
        complaints += check_model(tree, name)
    return complaints


def check_source(tree, name):
    complaints = []
    own = folder_of(name.removeprefix("src/"))
    if own not in MAY_USE:
        return [f"{name}:1: the folder {own} has no place in the order; give it one in layers.py"]
    for number, included, angled in tree.includes(name):
        where = f"{name}:{number}:"
        if angled:
            if own in NO_UPPER_PUBLIC and UPPER_PUBLIC.match(included):
                complaints.append(f"{where} {own} may not use <{included}>, which lies above it")
            elif tree.resolve(included) and not included.startswith("strand/"):
                complaints.append(f'{where} write #include "{included}": it is an internal header')
            continue
        if included.startswith("strand/"):
            complaints.append(f"{where} write #include <{included}>: it is a public header")
            continue
        other = folder_of(included)
        if included.startswith(".") or other is None or other not in ALL:
            complaints.append(
                f"{where} write the path of {included} from src/ on, as in "
                f'"store/engine/engine.h"'
            )
        elif other != own and other not in MAY_USE[own]:
            allowed = ", ".join(MAY_USE[own]) or "nothing but public headers"
            complaints.append(f"{where} {own} may not use {other} (it may use: {allowed})")
        elif own in BACKENDS and other == "store/engine" and included not in backend_headers(tree, own):
            complaints.append(
                f"{where} a backend sees store/engine/backend.h and what that includes, "
                f"not {included}"
            )
    return complaints


def check_model(tree, name):
    complaints = []
    for number, included, _ in tree.includes(name):
        resolved = tree.resolve(included)
        if folder_of(included) in MAY_USE and not (resolved or "src/").startswith("tests/"):
            reached = [f"src/{included}"]
        else:
            reached = sorted(tree.closure(resolved)) if resolved else []
        inside = [path for path in reached if path.startswith("src/")]
        if inside:
            complaints.append(
                f"{name}:{number}: the model may see nothing of the implementation, and {included} "
                f"brings {inside[0]}; use public headers only"
            )
    return complaints


IMPURE_HEADERS = re.compile(
    r"thread|jthread|mutex|shared_mutex|condition_variable|future|semaphore|latch|barrier"
    r"|stop_token|random|fstream|iostream|cstdio|stdio\.h|filesystem|ctime|time\.h|unistd\.h"
    r"|fcntl\.h|poll\.h|pthread\.h|(sys|netinet|arpa|linux)/.*|boost/(asio|beast|thread).*"
)
IMPURE_CODE = re.compile(
    r"::now\s*\((?!\s*\)\s*const)"  # `Engine::now() const` defines a method and asks no clock
    r"|(?<![\w.>])(?:std::)?s?rand\s*\("
    r"|(?<![\w.>:])(?:std::|::)?time\s*\(\s*(?:nullptr|NULL|0|&)"
    r"|\bstd::(?:j?thread|(?:\w+_)?mutex|condition_variable\w*|async|random_device|mt19937\w*)\b"
    r"|\bstd::(?:cout|cerr|clog|[io]?fstream|filesystem)\b"
    r"|\b(?:clock_gettime|gettimeofday|nanosleep|usleep|sleep_for|sleep_until|getenv)\s*\("
    r"|(?<![\w.>:])::(?:open|read|write|close|socket|connect|send|recv|fsync|fdatasync)\s*\("
    r"|\bf(?:open|printf|write|read)\s*\("
)


def engine_purity(tree):
    """The engine has no clock, thread, random or I/O of its own: that is why it can be simulated."""
    complaints = []
    advice = "the engine is handed time and randomness, and does no I/O; move this to its caller"
    for name in tree.under("src/store/engine/", suffixes={".cc", ".h"}):
        for number, included, _ in tree.includes(name):
            if IMPURE_HEADERS.fullmatch(included):
                complaints.append(f"{name}:{number}: <{included}>: {advice}")
        for number, line in tree.code(name):
            match = IMPURE_CODE.search(line)
            if match:
                complaints.append(f"{name}:{number}: {match.group().strip()}: {advice}")
    return complaints
