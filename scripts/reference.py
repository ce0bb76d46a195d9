"""Write what is made of other code: the reference pages, and the types of the async verbs.

`python scripts/reference.py` writes them; a test fails when a file is not what this would write.
"""

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner

REPO = Path(__file__).resolve().parent.parent
PAGES = REPO / "docs" / "reference"
SQL = REPO / "src" / "threadkeep"

HEAD = "<!-- Written by scripts/reference.py; change what it describes, then run it. -->\n\n"
STORES = {
    "Chat (`chat.db`)": ("chat/sql/head.sql", "chat/sql/side.sql"),
    "State (`state.db`)": ("state/sql/head.sql", "state/sql/side.sql"),
    "Mailbox, inbound (`inbound.db`)": ("mailbox/sql/inbound.sql", "mailbox/sql/inbound_side.sql"),
    "Mailbox, outbound (`outbound.db`)": (
        "mailbox/sql/outbound.sql",
        "mailbox/sql/outbound_side.sql",
    ),
    "Mailbox, index (`mailbox.db`)": ("mailbox/sql/index.sql",),
    "Knowledge (`knowledge.db`)": (
        *("knowledge/sql/head.sql", "knowledge/sql/frozen.sql", "knowledge/sql/0019_memory.sql"),
        *("knowledge/sql/0020_memory_links.sql", "knowledge/sql/0022_offsets.sql"),
        "knowledge/sql/tk*.sql",
    ),
}
_TABLE = re.compile(r"CREATE TABLE (?:IF NOT EXISTS )?(\w+) \((.*?)\n\)[^;]*;", re.DOTALL)
_VIRTUAL = re.compile(r"CREATE VIRTUAL TABLE (?:IF NOT EXISTS )?(\w+) USING (\w+)")
_COLUMN = re.compile(r"^  (\w+) ([A-Z]+)\b([^-]*?),?\s*(?:--\s*(.*))?$")
_NO_COLUMN = frozenset({"PRIMARY", "UNIQUE", "FOREIGN", "CHECK", "CONSTRAINT"})


def pages() -> dict[str, str]:
    """Return every page of the reference by its name."""
    return {
        "cli.md": HEAD + cli_page(),
        "configuration.md": HEAD + configuration_page(),
        "http.md": HEAD + http_page(),
        "modules.md": HEAD + modules_page(),
        "python.md": HEAD + python_page(),
        "schema.md": HEAD + schema_page(),
        "verbs.md": HEAD + verbs_page(),
    }


def cli_page() -> str:
    """Show the help of every command."""
    from threadkeep.cli.root import cli  # noqa: PLC0415  (loads every command)

    parts = ["# Commands\n\nEvery command with its options, as `--help` shows it.\n"]
    for words, _ in _commands(cli, ()):
        shown = CliRunner().invoke(cli, [*words, "--help"], prog_name="threadkeep", color=False)
        name = " ".join(("threadkeep", *words))
        level = "#" * min(len(words) + 2, 4)
        parts.append(f"{level} {name}\n\n```text\n{shown.output.rstrip()}\n```\n")
    return "\n".join(parts)


def _commands(
    command: click.Command, words: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield words, command
    if isinstance(command, click.Group):
        with click.Context(command) as ctx:
            for name in sorted(command.list_commands(ctx)):
                found = command.get_command(ctx, name)
                if found is not None and not found.hidden:
                    yield from _commands(found, (*words, name))


def configuration_page() -> str:
    """Show the commented default of the configuration file."""
    from threadkeep.base.config import DEFAULT_TEXT  # noqa: PLC0415  (with the rest)

    words = "`threadkeep paths` says where the file is. Every setting, with its default:"
    return f"# Configuration\n\n{words}\n\n```toml\n{DEFAULT_TEXT.rstrip()}\n```\n"


def schema_page() -> str:
    """Show every table of every store; `tk_` marks what is ours alone."""
    parts = ["# Tables\n\nWhat `tk_` begins is ours alone; the rest is the contract's.\n"]
    for title, patterns in STORES.items():
        parts.append(f"## {title}\n")
        files = [path for pattern in patterns for path in sorted(SQL.glob(pattern))]
        for text in (path.read_text("utf-8") for path in files):
            parts += [_table(name, body) for name, body in _TABLE.findall(text)]
            parts += [f"### {name}\n\nA `{kind}` index.\n" for name, kind in _VIRTUAL.findall(text)]
    return "\n".join(parts)


def _table(name: str, body: str) -> str:
    rows = [
        f"| `{found[1]}` | {found[2]} | {(found[4] or '').replace('|', chr(92) + '|')} |"
        for line in body.split("\n")
        if (found := _COLUMN.match(line)) and found[1] not in _NO_COLUMN
    ]
    return "\n".join([f"### {name}\n", "| column | type | |", "|---|---|---|", *rows, ""])


def http_page() -> str:
    """Show every verb of the HTTP API."""
    from threadkeep.web.api import description  # noqa: PLC0415  (loads the server)

    document = description()
    parts = ["# HTTP API\n\nThe same as `GET /api/openapi.json`, for people.\n"]
    by_tag: dict[str, list[str]] = {}
    for path, verbs in sorted(document["paths"].items()):
        for method, verb in verbs.items():
            tag = verb.get("tags", ["other"])[0]
            line = f"| `{method.upper()}` | `{path}` | {verb.get('summary', '')} |"
            by_tag.setdefault(tag, []).append(line)
    for tag, lines in sorted(by_tag.items()):
        parts += [f"## {tag}\n", "| | | |", "|---|---|---|", *lines, ""]
    return "\n".join(parts)


def verbs_page() -> str:
    """Show every verb of the stores: how Python calls it, and its address if it has one."""
    from threadkeep.verbs import INSIDE, OWNERS, TABLES  # noqa: PLC0415  (loads the stores)

    words = (
        "Every verb of the stores. From another host `threadkeep.connect(url, token)` has the same "
        "ones; over HTTP each can be called by its name, `POST /api/call/{store}/{verb}` with its "
        "arguments as a JSON object, and many have an address of their own."
    )
    parts = [f"# Verbs\n\n{words}\n"]
    for store, verbs in TABLES.items():
        owner = OWNERS[store]
        parts.append(f"## {store}: `{owner.module}.{owner.name}`\n")
        parts += ["| verb | address | |", "|---|---|---|"]
        for one in verbs.values():
            taken = ", ".join(one.arguments)
            address = f"`{one.method} /api{one.path}`" if one.path else ""
            parts.append(f"| `{one.name}({taken})` | {address} | {one.said} |")
        parts += [f"\nInside only: `{name}`, {why}." for name, why in INSIDE.get(store, {}).items()]
        parts.append("")
    return "\n".join(parts)


# The modules whose public names are the Python API, in the order in which a reader needs them.
PUBLIC = ("threadkeep", "threadkeep.mailbox", "threadkeep.errors", "threadkeep.testing")


def python_page() -> str:
    """Show every public class and function with its signature and docstring."""
    words = (
        "Every public name with its signature and docstring. `threadkeep.aio` has the stores "
        "with the same methods, to be awaited."
    )
    parts = [f"# Python API\n\n{words}\n"]
    shown: set[int] = set()
    for module in PUBLIC:
        found = import_module(module)
        parts.append(f"## {module}\n")
        for name in sorted(getattr(found, "__all__", [])):
            one = getattr(found, name)
            if callable(one) and inspect.getdoc(one) and id(one) not in shown:
                shown.add(id(one))
                parts += _documented(f"{module}.{name}", one)
    return "\n".join(parts)


def _documented(name: str, one: Any) -> Iterator[str]:
    if not inspect.isclass(one):
        yield f"### {name}\n"
        yield _entry(name.rpartition(".")[2], one)
        return
    yield f"### {name}\n\n{_said(one)}\n"
    for member in dir(one):
        found = inspect.getattr_static(one, member)
        if member.startswith("_") or not (inspect.getdoc(found) or "").strip():
            continue
        if isinstance(found, property):
            yield f"- `{member}` (property): {_said(found)}\n"
        elif callable(getattr(one, member)) and not inspect.isclass(found):
            yield _entry(member, getattr(one, member))


def _entry(name: str, one: Any) -> str:
    try:
        signature = str(inspect.signature(one))
    except (TypeError, ValueError):
        signature = "(…)"
    # A default that prints its address would make the page different every time it is written.
    signature = re.sub(r"<.*? at 0x[0-9a-f]+>", "…", signature)
    signature = re.sub(
        r"\b(?:threadkeep|collections|typing|msgspec|pathlib)\.[a-z_.]*", "", signature
    )
    return f"- `{name}{signature}`\n\n    {_said(one)}\n"


def _said(one: Any) -> str:
    return " ".join((inspect.getdoc(one) or "").split("\n\n")[0].split())


_SECTION = re.compile(r"^# -{70,}\n((?:# .+\n)+)", re.MULTILINE)
_TOP = "(beside the rooms)"


def modules_page() -> str:
    """Name every module, room by room, with what it says of itself."""
    rooms: dict[str, list[str]] = {}
    for path in sorted(SQL.rglob("*.py")):
        name = path.relative_to(SQL).with_suffix("").as_posix()
        room, _, rest = name.partition("/")
        rooms.setdefault(room if rest else _TOP, []).append(_module(path, rest or room))
    words = "Every module with what it holds; [the map](../architecture.md) says how they meet."
    return f"# Modules\n\n{words}\n" + "".join(
        f"\n## {room}\n\n" + "".join(lines) for room, lines in rooms.items()
    )


def _module(path: Path, name: str) -> str:
    text = path.read_text("utf-8")
    told = [ast.get_docstring(ast.parse(text)) or ""]
    told += [found[1].replace("# ", "") for found in _SECTION.finditer(text)]
    said = [one.strip().split("\n\n")[0].replace("\n", " ") for one in told]
    if name.endswith("__init__"):
        return f"- **{name.removesuffix('__init__').rstrip('/') or 'the room'}**: {said[0]}\n"
    return f"- `{name}`: {' · '.join(said)}\n"


# ------------------------------------------------------------------------------
# What type checkers and editors know of the async faces: the signatures of the stores' own verbs.

TYPES = SQL / "aio_verbs.pyi"
_WIDTH = 100
_TYPES_HEAD = """# Written by scripts/reference.py: the types of the verbs that async faces have.

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Concatenate, ParamSpec, TypeVar

from threadkeep.chat.store import ChatStore
from threadkeep.state.session_db import SessionDB

_P = ParamSpec("_P")
_R = TypeVar("_R")

def awaited(
    verb: Callable[Concatenate[Any, _P], _R],
) -> Callable[Concatenate[Any, _P], Coroutine[Any, Any, _R]]: ...
def iterated(
    verb: Callable[Concatenate[Any, _P], Iterator[_R]],
) -> Callable[Concatenate[Any, _P], AsyncIterator[_R]]: ...
"""


def async_types() -> str:
    """Name every verb that an async face has from the table, with the verb whose types it has."""
    from threadkeep.aio import AsyncChatStore, AsyncSessionDB  # noqa: PLC0415  (the stores)
    from threadkeep.verbs import TABLES  # noqa: PLC0415

    parts = [_TYPES_HEAD]
    for name, store, face in (
        ("ChatVerbs", "chat", AsyncChatStore),
        ("StateVerbs", "state", AsyncSessionDB),
    ):
        lines = [f"class {name}:"]
        for one in TABLES[store].values():
            if hasattr(vars(face)[one.name], "__wrapped__"):  # else the face has one of its own
                made = "iterated" if one.streams else "awaited"
                line = f"    {one.name} = {made}({one.owner.name}.{one.name})"
                lines.append(
                    line
                    if len(line) <= _WIDTH
                    else line.replace("(", "(\n        ", 1)[:-1] + "\n    )"
                )
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def files() -> dict[Path, str]:
    """Return every file that is written, by its place."""
    return {TYPES: async_types(), **{PAGES / name: text for name, text in pages().items()}}


def main() -> int:
    """Write the files."""
    PAGES.mkdir(parents=True, exist_ok=True)
    for place, text in files().items():
        place.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
