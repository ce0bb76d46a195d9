"""The rules of the house, checked on the syntax trees: who may import whom, who may touch files.

AGENTS.md explains the layers. A room that is new here is refused until it has a line in the table.
"""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import REPO

SRC = REPO / "src" / "threadkeep"

# The rooms in their order: each imports only what stands before it; the four stores are one height
# and never import each other, nor do the two servers. `errors` is open to all.
STORES = ("chat", "state", "mailbox", "knowledge")
SERVERS = ("web", "mcp")
ORDER: tuple[tuple[str, ...], ...] = (
    ("base",),
    STORES,
    ("sources",),
    ("capture",),
    ("memory",),
    ("transfer",),
    ("home",),
    ("service",),
    SERVERS,
    ("cli",),
)
ROOMS = [room for height in ORDER for room in height]
SURFACES = {*SERVERS, "cli"}


def _below(room: str) -> set[str]:
    height = next(number for number, rooms in enumerate(ORDER) if room in rooms)
    return {one for rooms in ORDER[:height] for one in rooms}


# Room -> the other rooms it may import. Beside the rooms stand a few modules: the public API, ...
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    **{room: _below(room) for room in ROOMS},
    **{room: _below(room) | {"__init__", "aio", "verbs"} for room in SURFACES},
    "verbs": _below("sources"),  # ... the table of the stores' verbs,
    "aio": _below("service") | {"verbs", "aio_verbs"},  # the async face of the stores,
    "aio_verbs": {"chat", "state"},  # the types of its verbs (a stub),
    "client": _below("service") | {"verbs"},  # the stores of another host,
    "testing": _below("service") | {"aio"},  # what users need for their own tests,
    "__init__": _below("service") | {"aio", "client"},
    "__main__": {"cli"},
}

# Package -> the one place that may import it; msgspec and the stdlib (but for sqlite3) are free.
FENCES: dict[str, str | tuple[str, ...]] = {
    "sqlite3": "base/sqlite/",
    "pytest": "testing/",
    "ahocorasick_rs": "capture/redact/search.py",
    "psycopg": "base/postgres/",
    "psycopg_pool": "base/postgres/",
    "click": "cli/",
    "rich": "cli/",
    "textual": "cli/tui/",
    "starlette": "web/",
    "jinja2": "web/",
    "markupsafe": "web/",
    "markdown_it": "web/",
    "nh3": "web/",
    "pygments": "web/",
    "uvicorn": ("web/", "mcp/http.py"),
    "mcp": "mcp/",
    "mcp_types": "mcp/",
    "openai": "memory/learn/",
    "numpy": ("knowledge/vectors.py", "memory/vectors/"),
    "sqlite_vec": "knowledge/vectors.py",
    "watchfiles": "capture/watch.py",
    "genai_prices": "knowledge/prices.py",
    "zstandard": "base/compression.py",
}

# Opening a live database file and closing it again drops this process's locks on it. So nothing
# below the surfaces opens, reads or copies files, except these modules, for these reasons.
MAY_OPEN_FILES = {
    "base/sqlite/backup.py": "creates and syncs a copy that no connection has open",
    "base/config.py": "reads the configuration file, and writes its default once",
    "base/files.py": "creates private files, syncs folders, appends lines for a user",
    "base/sqlite/lock.py": "opens the lock file beside a database, never the database",
    "base/nofollow.py": "reads and writes attachments, with a look at each before it is opened",
    "base/local_socket.py": "reads the kernel's table of connections",
    "base/presence.py": "touches the heartbeat and opens lock files, never a database",
    "base/processes.py": "reads what /proc says about a process",
    "base/sqlite/shared_file.py": "looks at the end of a journal before SQLite does",
    "base/tokens.py": "makes and reads the file of a token",
    "base/spool.py": "leaves, reads and removes reports, never a database",
    "base/sql.py": "reads the packaged .sql files",
    "capture/observed/browsers.py": "reads and writes manifests, copies the extension",
    "capture/observed/shell_hooks.py": "writes the packaged hooks, and start-up files",
    "capture/redact/rules.py": "reads the packaged rules",
}
# Sources read other programs' logs; surfaces read what the user names. Neither opens our stores.
FREE_TO_OPEN = SURFACES | {"sources", "testing"}
READERS = {"read_bytes", "read_text", "write_bytes", "write_text"}

# A store speaks to a database through `base.database` and `base.tx`. These modules of the stores
# know that it is a file of SQLite; the mailbox is files whatever the engine of the others is.
MAY_KNOW_SQLITE = {
    "chat/eventlog.py": "rebuilds the tables with foreign keys off",
    "chat/schema.py": "shapes and checks the file",
    "chat/store.py": "opens the file and backs it up",
    "knowledge/checks.py": "checks the file and tidies it up",
    "knowledge/kinds.py": "cuts the head into its statements",
    "knowledge/merge.py": "takes one file into another",
    "knowledge/migrations.py": "shapes the file",
    "knowledge/opening.py": "opens the file",
    "knowledge/repair.py": "heals the file",
    "knowledge/schema.py": "shapes the file",
    "knowledge/store.py": "names the file and backs it up",
    "knowledge/typed_sql.py": "reads the file behind the guard, for queries that somebody typed",
    "knowledge/upgrade.py": "brings the file up",
    "knowledge/vectors.py": "loads an extension of SQLite",
    "state/blob_migration.py": "backs the file up before it changes it",
    "state/check.py": "looks for the triggers and indexes of the file",
    "state/compaction.py": "backs the file up before it changes it",
    "state/context.py": "looks at the form of a file that other programs change",
    "state/hermes_state.py": "answers for Hermes's own checks of the file",
    "state/hermes_support.py": "answers for Hermes's own repairs of the file",
    "state/opener.py": "opens the file",
    "state/schema.py": "shapes the file",
    "state/session_db.py": "backs the file up, and lends Hermes a connection",
}

MODULE_LINES = 620  # a module says one thing; longer than this it says two
INIT_LINES = 60

OF_THIS_MACHINE = re.compile(r"/(?:work|farm|root)/[A-Za-z.]")
OF_A_REGISTRY = re.compile(r"(?:pypi|npmjs|pythonhosted)\.(?:org|com)|--(?:extra-)?index-url")
# Pages that people read are named here, and two registries are among them.
NAMES_SITES = (
    "src/threadkeep/capture/observed/visits.py",
    "src/threadkeep/capture/observed/extension/",
)
OUTSIDE_FOLDER = re.compile(r"(?<![\w./-])(?:\.\./)*shared/")
TEXT_FILES = {".cfg", ".css", ".html", ".ini", ".js", ".json", ".md", ".mjs", ".py", ".sh", ".sql"}
TEXT_FILES |= {".toml", ".txt", ".yaml", ".yml", ""}
NOT_OURS = {".cache", ".git", ".hypothesis", ".venv", "build", "dist", "node_modules"}

Check = Callable[[str, ast.Module], Iterator[str]]
Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@cache
def modules() -> tuple[tuple[str, ast.Module], ...]:
    """Return every module of the package: its path below threadkeep/, and its tree."""
    return tuple(
        (path.relative_to(SRC).as_posix(), ast.parse(path.read_text("utf-8")))
        for path in sorted(SRC.rglob("*.py"))
    )


def violations(check: Check) -> list[str]:
    return [f"{module}:{found}" for module, tree in modules() for found in check(module, tree)]


def room_of(module: str) -> str:
    return module.split("/", 1)[0].removesuffix(".py")


def imports(module: str, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and absolute dotted name of each import, wherever in the module it stands."""
    package = ["threadkeep", *module.split("/")[:-1]]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*parents, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def broken_layers(module: str, tree: ast.Module) -> Iterator[str]:
    room = room_of(module)
    if room not in MAY_IMPORT:
        yield f"1: the room {room!r} has no line in MAY_IMPORT; give it a layer"
        return
    for line, name in imports(module, tree):
        top, _, rest = name.partition(".")
        target = rest.split(".")[0]
        target = target if target in MAY_IMPORT else "__init__"
        if top == "threadkeep" and target not in MAY_IMPORT[room] | {room, "errors"}:
            yield f"{line}: {room} must not import {target} ({name})"


def broken_fences(module: str, tree: ast.Module) -> Iterator[str]:
    for line, name in imports(module, tree):
        top = name.split(".")[0]
        place = FENCES.get(top)
        if place is not None and not module.startswith(place):
            yield f"{line}: {top} may be imported in {place} only"
        elif place is None and top not in sys.stdlib_module_names | {"msgspec", "threadkeep"}:
            yield f"{line}: {top} is a new dependency; give it a fence in FENCES"


def knows_sqlite(module: str, tree: ast.Module) -> Iterator[str]:
    if room_of(module) in {"chat", "state", "knowledge"}:
        for line, name in imports(module, tree):
            if name.startswith("threadkeep.base.sqlite."):
                yield f"{line}: {name} is SQLite's; use base.database and base.tx"


def unlisted_sqlite(module: str, tree: ast.Module) -> Iterator[str]:
    if module not in MAY_KNOW_SQLITE:
        yield from knows_sqlite(module, tree)


def opens_a_file(call: ast.Call) -> bool:
    match call.func:
        case ast.Name(id="open"):
            return True
        case ast.Attribute(value=ast.Name(id="shutil")):
            return True
        case ast.Attribute(attr="open", value=ast.Name(id=owner)):
            # ChatStore.open() is a constructor, and Memory opens hits.
            return owner != "memory" and not owner.lstrip("_")[:1].isupper()
        case ast.Attribute(attr=method):
            return method in READERS | {"open"}
        case _:
            return False


def file_access(module: str, tree: ast.Module) -> Iterator[str]:
    if room_of(module) in FREE_TO_OPEN:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and opens_a_file(node):
            yield f"{node.lineno}: {ast.unparse(node.func)}() touches a file; let base/ do it"


def forbidden_file_access(module: str, tree: ast.Module) -> Iterator[str]:
    if module not in MAY_OPEN_FILES:
        yield from file_access(module, tree)


def undocumented(module: str, tree: ast.Module) -> Iterator[str]:
    for name, node in public_definitions(tree):
        if ast.get_docstring(node) is None and not is_overload(node):
            yield f"{node.lineno}: {name} has no docstring"


def public_definitions(owner: ast.Module | ast.ClassDef) -> Iterator[tuple[str, Definition]]:
    prefix = f"{owner.name}." if isinstance(owner, ast.ClassDef) else ""
    for node in owner.body:
        if isinstance(node, Definition) and not node.name.startswith("_"):
            yield prefix + node.name, node
            if isinstance(node, ast.ClassDef):
                yield from public_definitions(node)


def is_overload(node: Definition) -> bool:
    return any(ast.unparse(mark).endswith("overload") for mark in node.decorator_list)


def test_every_room_imports_only_what_its_layer_may() -> None:
    assert violations(broken_layers) == []


def test_third_party_packages_stay_behind_their_fences() -> None:
    assert violations(broken_fences) == []


def test_stores_know_sqlite_only_where_a_file_is_opened_or_kept_up() -> None:
    assert violations(unlisted_sqlite) == []
    there = {m for m, tree in modules() if any(knows_sqlite(m, tree))}
    assert MAY_KNOW_SQLITE.keys() - there == set(), "the list is longer than needed"


def test_no_module_opens_files_unless_its_reason_is_listed() -> None:
    assert violations(forbidden_file_access) == []


def test_the_list_of_modules_that_open_files_is_not_longer_than_needed() -> None:
    idle = [m for m, tree in modules() if m in MAY_OPEN_FILES and not any(file_access(m, tree))]
    assert idle == []


def test_everything_public_has_a_docstring() -> None:
    assert violations(undocumented) == []


def test_modules_stay_small() -> None:
    lines = {p.relative_to(SRC): len(p.read_text("utf-8").splitlines()) for p in SRC.rglob("*.py")}
    long = {str(p): n for p, n in lines.items() if n >= MODULE_LINES}
    fat = {str(p): n for p, n in lines.items() if p.name == "__init__.py" and n > INIT_LINES}
    assert long == {}, f"{MODULE_LINES} lines or more: find the two things it says, and split it"
    assert fat == {}, f"__init__.py over {INIT_LINES} lines: it only names what others hold"


def test_import_loads_the_stdlib_and_msgspec_only() -> None:
    code = "import sys; old = set(sys.modules); import threadkeep; print(*set(sys.modules) - old)"
    environment = os.environ | {"PYTHONPATH": str(SRC.parent)}
    shown = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    loaded = {name.split(".")[0] for name in shown.stdout.split()}
    assert "threadkeep" in loaded
    assert loaded - sys.stdlib_module_names - {"threadkeep", "msgspec"} == set()


def project_texts() -> Iterator[tuple[str, str]]:
    """Yield path and text of every file of the project that people write."""
    for folder, names, files in os.walk(REPO):
        names[:] = sorted(n for n in names if n not in NOT_OURS and not n.endswith("_cache"))
        for path in (Path(folder, name) for name in sorted(files)):
            if path.suffix in TEXT_FILES and path.name != ".git":
                yield path.relative_to(REPO).as_posix(), path.read_text("utf-8", "replace")


def leaks(path: str, text: str) -> Iterator[str]:
    """Yield what must not be published: paths of a machine, registries, folders outside."""
    rules = [OF_THIS_MACHINE]
    if not path.startswith(NAMES_SITES):
        rules.append(OF_A_REGISTRY)
    if not path.startswith("tests/"):  # tests may look for optional data
        rules.append(OUTSIDE_FOLDER)
    for number, line in enumerate(text.splitlines(), 1):
        yield from (f"{path}:{number}: {m[0]!r}" for r in rules if (m := r.search(line)))


def test_no_file_names_a_machine_a_registry_or_a_folder_outside() -> None:
    assert [leak for path, text in project_texts() for leak in leaks(path, text)] == []


@pytest.mark.parametrize(
    "check, module, code",
    [
        (broken_layers, "chat/store.py", "from threadkeep.state import titles"),
        (broken_layers, "chat/store.py", "from threadkeep import home"),
        (broken_layers, "chat/wire/acp.py", "from ...knowledge import nodes"),
        (broken_layers, "base/db.py", "def f():\n    import threadkeep.chat.store"),
        (broken_layers, "web/app.py", "from threadkeep.cli.app import main"),
        (broken_layers, "web/app.py", "from threadkeep.mcp.server import serve"),
        (broken_layers, "home.py", "from threadkeep import cli"),
        (broken_layers, "attic/old.py", ""),
        (broken_fences, "chat/store.py", "import sqlite3"),
        (broken_fences, "base/tx.py", "from sqlite3 import Error"),
        (broken_fences, "base/database.py", "import psycopg.rows"),
        (broken_fences, "home.py", "from rich.table import Table"),
        (broken_fences, "web/app.py", "import requests"),
        (unlisted_sqlite, "chat/messages.py", "from threadkeep.base.sqlite.tx import SqliteTx"),
        (forbidden_file_access, "chat/store.py", "open(path, 'rb').read(16)"),
        (forbidden_file_access, "chat/store.py", "self.path.open()"),
        (forbidden_file_access, "base/clock.py", "Path(name).read_bytes()"),
        (forbidden_file_access, "base/clock.py", "shutil.copy(a, b)"),
        (forbidden_file_access, "home.py", "os.open(path, os.O_RDONLY)"),
        (undocumented, "home.py", "class Home:\n    '''A home.'''\n    def chat(self): ..."),
    ],
)
def test_the_checks_see_what_they_forbid(check: Check, module: str, code: str) -> None:
    assert len(list(check(module, ast.parse(code)))) == 1


@pytest.mark.parametrize(
    "check, module, code",
    [
        (broken_layers, "chat/store.py", "from threadkeep import errors"),
        (broken_layers, "chat/store.py", "from threadkeep.base.database import Database"),
        (broken_layers, "chat/store.py", "from . import journal\nfrom .wire import acp"),
        (broken_layers, "cli/chat.py", "from threadkeep import ChatStore\nimport threadkeep.home"),
        (broken_fences, "mcp/server.py", "import mcp.server\nimport msgspec\nimport json"),
        (unlisted_sqlite, "chat/store.py", "from threadkeep.base.sqlite.upkeep import sqlite_file"),
        (forbidden_file_access, "home.py", "ChatStore.open(path)"),
        (forbidden_file_access, "cli/chat.py", "path.read_text()"),
        (undocumented, "home.py", "def _hidden(): ..."),
    ],
)
def test_the_checks_allow_what_the_house_allows(check: Check, module: str, code: str) -> None:
    assert list(check(module, ast.parse(code))) == []


@pytest.mark.parametrize(
    "path, text",
    [
        ("README.md", "cd /" + "work/x"),
        ("tests/test_x.py", "/" + "root/.config"),
        ("constraints.txt", "https://" + "pypi" + ".org/simple"),
        ("docs/index.md", "see ../" + "shared/notes.md"),
    ],
)
def test_leaks_are_seen(path: str, text: str) -> None:
    assert len(list(leaks(path, text))) == 1
