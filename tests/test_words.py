"""One concept, one word: no surface says a word of the version before.

What the contracts fix keeps its names; each exception says why. AGENTS.md has the table of words.
"""

import ast
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import click
import pytest
from click.testing import CliRunner

from scripts.reference import _commands
from tests.conftest import REPO
from threadkeep.base.old_words import NAMES
from threadkeep.cli.root import cli
from threadkeep.mcp import own_tools, session_tools
from threadkeep.mcp.tools import input_schema, schema_of
from threadkeep.web.api import description

REFERENCE: Final = REPO / "docs" / "reference"

# In what people read: a pattern of an old word, and what is said instead.
OLD: Final = {
    r"harness(es)?": "agent",
    r"program:id": "agent:id",
    r"(shell|browser|workflow|claude)-\d+": "command:7, visit:2, run:9",
    r"(page|ci):\d+": "visit:2, run:9",
    r"next_cursor": "next",
    r"agentic": "message, segment",
    r"threadkeep events": "threadkeep commands",
    r"threadkeep (recall|search|capture)[^\n`|]* --(source|harness)": "--agent or --kind",
    r"threadkeep (lessons|github)[^\n`|]* --repo": "--project",
    r"commands, pages": "commands, visits",
}
# Phrases that an English writer would not write, and what is written instead.
PHRASES: Final = {
    r"anew": "again; rebuild, rewrite, start over",
    r"no session is like that|is like that": "No sessions match",
    r"(?<!there )is no (point|address|cursor|number|JSON|socket|file|time|part)": "is not a …",
    r"is no such": "does not exist",
    r"(this )?needs a yes": "confirm with --yes",
    r"for one browser, once": "One-time link, valid for 10 minutes",
    r"there may be more": "More with --limit",
    r"cost at least": "cost (some models unpriced)",
    r"(was )?ever found broken": "No capture alarms",
    r"waiting to be learned": "queued",
    r"sources heard": "sources reporting",
    r"hangs? together": "related",
    r"turn the wheel": "Ctrl+scroll to zoom",
    r"was ended before": "was fixed before",
    r"tell (a program|an agent) of this": "register the MCP server",
    r"signs? of life": "heartbeat",
    r"goes on to": "continues",
    r"nobody (serves|listens)": "not running",
    r"where there is none": "if there is none",
    r"(go|goes|went) away by (it|them)sel(f|ves)": "resolved",
    r"put away": "removed",
    r"cannot (be looked|look) (at|into)": "cannot be read",
    r"(?<!there )(is|are) no (session|setting|lesson|source|date|filter|recurrence)s?": "is not …",
    r"(take|takes|taken) out (by|what|for)": "delete, remove",
    r"what stands": "what is, what comes",
    r"was ever": "has been",
    r"go(es)? on (to|with|from|in|behind|where)": "continue, resume, keep",
    r"in nobody's way": "does no harm",
    r"takes? (?:it|them) out again": "remove",
    r"is at work in": "is running in",
    r"half-done": "unfinished",
    r"no place for": "cannot hold",
    r"log-(in|out)": "login, logout",
    r"take the star away": "unstar it",
    r"and what helps": "and how to fix it",
    r"in the place of a (store|file)": "restore, replace",
    r"what is behind a": "what it points to",
    r"whatever (schema )?version": "regardless of the version",
}
_OLD: Final = re.compile(
    "|".join(rf"(?<![\w-])(?:{one})(?![\w-])" for one in (*OLD, *PHRASES)), re.IGNORECASE
)
# What stands in code marks in these pages is the contract's: its columns, tables and tools.
CONTRACTS: Final = {
    "architecture.md": {"harness", "shell-7"},  # says which old words stay, and why
    "capture.md": {"harness"},  # segments are rows of the contract's agentic_sessions
    "knowledge.md": {"harness"},  # describes the contract's tables
    "recall.md": {"shell-1", "claude-5", "browser-2", "workflow-9"},  # agent_query is a contract's
    "state.md": {"harness"},  # Hermes's word for what it puts into a conversation
}
# Names of fields and parameters -> the schemas and addresses that may have them, and why.
FIELDS: Final = {
    "harness": {"EvidencePacket": "agent_query is a tool of the contract"},
    "source": {
        "memory_agent_query_body": "agent_query is a tool of the contract",
        "Freshness": "a source of capture, as `threadkeep sources` names it",
        "MemoryCategory": "a column of the contract",
        "Health": "a row of the contract's source_health",
        "Drop": "a source of capture",
        "AlarmRow": "a row of the contract's capture_alarms",
        "state_": "a column of contract 2",
        "/api/state": "a column of contract 2",
    },
    "repo": {
        "RunRow": "a column of the contract: owner/name",
        "Lesson": "a column of the contract: owner/name",
    },
    "terminal": {},
    "blocks": {},
    "next_cursor": {},
    "events": {},
    "after": {
        "HitDetail": "what stands after a hit",
        "/api/sessions/{session}/window": "a position; a window is read in both directions",
        "/api/state/messages": "how many stand after a message",
    },
}


def help_pages() -> Iterator[tuple[str, str]]:
    for words, _ in _commands(cli, ()):
        shown = CliRunner().invoke(cli, [*words, "--help"], prog_name="threadkeep", color=False)
        yield " ".join(("threadkeep", *words)), shown.output


def old_words(text: str) -> list[str]:
    return [found[0] for found in _OLD.finditer(text)]


def fields_of(schema: Any, name: str) -> Iterator[tuple[str, str]]:
    """Return the names of a schema's fields, each with the schema that has it."""
    if isinstance(schema, list):
        for one in schema:
            yield from fields_of(one, name)
    elif isinstance(schema, dict):
        for field in schema.get("properties", ()):
            yield name, field
        for one in schema.values():
            yield from fields_of(one, name)


def misnamed(fields: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return the fields with an old name that no reason is given for."""
    return {
        (place, name)
        for place, name in fields
        if name in FIELDS and not any(place.startswith(known) for known in FIELDS[name])
    }


def test_the_help_of_no_command_says_an_old_word() -> None:
    found = {name: old_words(text) for name, text in help_pages()}
    assert {name: old for name, old in found.items() if old} == {}


def test_no_option_that_is_shown_has_an_old_name() -> None:
    # `kind`, `by` and the like are words of today with another meaning; these are none at all.
    gone = {f"--{name}" for name in NAMES - {"by", "kind", "text", "sessions"}}
    kept = {
        ("state", "--source"),  # a column of contract 2
        ("probe", "--source"),  # a source of capture
        ("send-event", "--repo"),  # Hippo's own command line
    }
    shown = {
        (" ".join(words[:1]), opt)
        for words, command in _commands(cli, ())
        for param in command.params
        if isinstance(param, click.Option) and not param.hidden
        for opt in param.opts
    }
    assert {(name, opt) for name, opt in shown if opt in gone} - kept == set()


def test_http_has_no_old_field_and_says_no_old_word() -> None:
    document = description()
    said = json.dumps(
        [
            [one.get("summary"), one.get("description"), one.get("parameters")]
            for verbs in document["paths"].values()
            for one in verbs.values()
        ]
    )
    assert old_words(said) == []
    parameters = (
        (path, parameter["name"])
        for path, verbs in document["paths"].items()
        for one in verbs.values()
        for parameter in one.get("parameters", ())
    )
    assert misnamed(parameters) == set()
    schemas = document["components"]["schemas"].items()
    fields = (field for name, schema in schemas for field in fields_of(schema, name))
    assert misnamed(fields) == set()


def test_our_own_mcp_tools_have_no_old_field_and_say_no_old_word() -> None:
    for tool in (*own_tools.READING, *own_tools.WRITING, *session_tools.TOOLS):
        schemas = [input_schema(tool), schema_of(tool.answer) if tool.answer else {}]
        assert old_words(json.dumps([tool.title, tool.description, schemas])) == [], tool.name
        assert misnamed(fields_of(schemas, tool.name)) == set()


_JINJA: Final = re.compile(r"{%.*?%}|{{.*?}}|{#.*?#}", re.DOTALL)
_SAID: Final = re.compile(r'(?:title|aria-label|placeholder|alt)="([^"]*)"|>([^<>]+)<')


def test_no_template_says_an_old_word() -> None:
    folder = REPO / "src" / "threadkeep" / "web" / "templates"
    for path in sorted(folder.glob("*.html")):
        text = _SAID.findall(_JINJA.sub(" ", path.read_text("utf-8")))
        said = "\n".join(first or second for first, second in text)
        assert old_words(said) == [], path.name
        # A block of usage is another thing: the five hours by which subscriptions count.
        words = r"events?|things?" if path.name == "usage.html" else r"events?|blocks?|things?"
        assert re.findall(rf"\b(?:{words})\b", said) == [], path.name


@pytest.mark.parametrize(
    "page",
    sorted([REPO / "README.md", *(REPO / "docs").glob("*.md"), *(REPO / "docs").glob("*/http.md")]),
    ids=lambda page: page.name,
)
def test_no_page_of_the_documentation_says_an_old_word(page: Any) -> None:
    found = set(old_words(page.read_text("utf-8")))
    assert found - CONTRACTS.get(page.name, set()) == set()


def _messages() -> Iterator[tuple[str, str]]:
    """Give every text in the code that people may read, with its place; docstrings are comments."""
    for path in sorted((REPO / "src" / "threadkeep").rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        docs = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and isinstance(node.body[0], ast.Expr)
        }
        for node in ast.walk(tree):
            if not isinstance(node, ast.Constant) or id(node) in docs:
                continue
            if isinstance(node.value, str):
                yield f"{path.relative_to(REPO)}:{node.lineno}", node.value


def test_no_message_uses_a_refused_phrase() -> None:
    refused = re.compile("|".join(rf"\b(?:{one})\b" for one in PHRASES), re.IGNORECASE)
    found = {
        place: refused.findall(text)
        for place, text in _messages()
        if refused.search(text) and text != "--anew"
    }
    assert list(found) == []


def test_no_public_docstring_uses_a_refused_phrase() -> None:
    """The reference of the Python API is made of them."""
    refused = re.compile("|".join(rf"\b(?:{one})\b" for one in PHRASES), re.IGNORECASE)
    # schema.md shows the comments of tables as they were first made: those stay as they are.
    pages = [page for page in REFERENCE.glob("*.md") if page.name != "schema.md"]
    found = {
        page.name: [hit[0] for hit in refused.finditer(page.read_text("utf-8"))] for page in pages
    }
    assert {page: hits for page, hits in found.items() if hits} == {}
