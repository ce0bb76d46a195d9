"""A tour of a home: its history is captured, learned from, asked in every way, and forgotten.

What it is given back is plain data: two homes that keep their stores on different engines must
give the same.
"""

from collections.abc import Iterator
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import msgspec

from threadkeep.home.home import Home
from threadkeep.home.opening import open_archive, open_browse
from threadkeep.knowledge.forget import TEXTS, put_texts
from threadkeep.knowledge.memory_documents import memory_health
from threadkeep.knowledge.query import Query, parse_query
from threadkeep.knowledge.records import Command, Output, Visit
from threadkeep.knowledge.tail import Tail
from threadkeep.service.learn import enrich

NOW: Final = 1_790_000_000_000
QUERIES: Final = (
    "",
    "retry OR timeout",
    '"rate limit"',
    "agent:codex agent:claude-code is:all",
    "-agent:codex -project:website since:2020-01-01 until:2030-01-01",
    "project:gateway branch:main",
    "model:gpt model:claude messages:>2 minutes:<600",
    "role:user part:prompt tool:Bash",
    "outcome:failure is:failed",
    "hour:mon-9 hour:tue-14",
    "entity:pytest",
    "project:/home",
    "project:gateway project:website branch:main branch:dev",
    "is:live",
    "session:0",
    "sort:cost messages:>2",
    "sort:tools project:gateway",
    "tag:flaky",
    "is:starred retry",
)
QUESTIONS: Final = (
    "why did the retry fail",
    "which port does the gateway use",
    "pytest",
    "",
    "日本",
)
_TOKEN: Final = "ghp_" + "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA1bC2"
_COMMANDS: Final = (
    ("pytest -q", 1, "2 failed, 3 passed", "gateway"),
    ("pytest -q", 0, "5 passed", "gateway"),
    ("git push origin main", 0, "", "website"),
    ("curl -s localhost:8080", 7, "curl: (7) Failed to connect", "gateway"),
)


def new_home(folder: Path) -> Home:
    """Return a home with the newest schema, which has all tables."""
    home = Home(folder)
    home.paths().config.parent.mkdir(parents=True, exist_ok=True)
    home.paths().config.write_text("[stores]\nknowledge_schema = 23\n")
    return home


def fill(home: Home) -> int:
    """Capture the bundled history, some commands and visits, and learn from all of it.

    Gives how many entries a follower saw meanwhile.
    """
    bundled = resources.files("threadkeep").joinpath("demo", "history")
    with resources.as_file(bundled) as user, home.history(user_home=user) as history:
        tail = Tail(history.store, history.readers, parse_query("project:gateway", NOW))
        history.capture()
        seen = len(tail.new())
    with home.observations() as observed:
        for number, (command, code, output, project) in enumerate(_COMMANDS):
            observed.report(
                Command(
                    envelope_id=str(UUID(int=number)),
                    session=str(UUID(int=99)),
                    at=NOW - 86_400_000 + 60_000 * number,
                    command=command,
                    cwd=f"/home/somebody/code/{project}",
                    exit_code=code,
                    hostname="here",
                    shell="zsh",
                    username="somebody",
                    stdout=Output(output),
                )
            )
        observed.report(
            Visit(
                "visit-1", NOW - 80_000_000, "https://example.org/retry", "example.org", "Retries"
            )
        )
        observed.collect()
        observed.recount()
    with home.history() as history:
        first, second, *_ = history.sessions()
        refs = [f"{one.agent}:{one.session_id}" for one in (first, second)]
        history.store.labels.put(refs[0], now=NOW, star=True, add=["flaky", "ci"], note="why")
        history.store.projects.rename(first.project, "edge")
        history.store.projects.project("edge")
        history.store.projects.split("edge")
        history.store.labels.put(refs[1], now=NOW + 1, add=["Flaky"])
        enrich(home, history, at_once=True, with_model=False)
        history.reindex()
    return seen


def answers(home: Home) -> Iterator[tuple[str, Any]]:
    """Yield the name of each question and its answer."""
    for name, found in _asked(home):
        yield name, msgspec.to_builtins(found, str_keys=True)


def _asked(home: Home) -> Iterator[tuple[str, Any]]:
    queries = [parse_query(text, NOW) for text in QUERIES]
    with open_browse(home) as browse:
        for text, query in zip(QUERIES, queries, strict=True):
            yield f"sessions {text}", browse.sessions(query, limit=5)
            yield f"facets {text}", browse.facets(query)
            yield f"usage {text}", browse.usage(query)
        page = browse.sessions(limit=3)
        while page.next is not None:
            page = browse.sessions(limit=3, cursor=page.next)
            yield f"page {page.next}", page
        for session in browse.sessions(limit=3).items:
            ref = f"{session.session.agent}:{session.session.session_id}"
            yield f"session {ref}", browse.session(ref)
            yield f"window {ref}", browse.window(ref)
            yield f"find {ref}", browse.find(ref, "the")
        yield "activity", browse.activity()
        yield "usage of each session", browse.usage(sessions=True)
        yield "blocks", browse.blocks_report()
        yield "nodes", browse.nodes()
        yield "entities", browse.entities()
        yield "graph", browse.graph()
        yield "projects", browse.projects()
        yield "lessons", browse.lessons()
        for text in ("", "pytest", "project:gateway -project:website", "outcome:failure"):
            yield f"commands {text}", browse.commands(parse_query(text, NOW))
        yield "visits", browse.visits(parse_query("retries", NOW))
        yield "runs", browse.runs(parse_query("project:gateway branch:main", NOW))
    yield from _remembered(home)


def _remembered(home: Home) -> Iterator[tuple[str, Any]]:
    with home.memory() as memory:
        for question, newest in product(QUESTIONS, (False, True)):
            found = memory.recall(question, newest=newest, explain=True)
            yield f"recall {question} {newest}", found
            for hit in found.hits[:2]:
                yield f"open {hit.ref}", memory.open(hit.ref)
        within = Query(project=("gateway",), agent=("codex", "claude-code"), part=("text",))
        yield "recall within", memory.recall("retry", within)
        yield "recall failed", memory.recall("", Query(outcome=("failure",)))
        ever = Query(since=0, until=NOW)
        yield "timeline", memory.timeline(within=ever)
        of_one = msgspec.structs.replace(ever, project=("gateway",))
        yield "timeline of one", memory.timeline(within=of_one)
        yield "fixed", memory.fixed("2 failed, 3 passed")
        yield "similar", memory.similar("the gateway refuses connections")
        yield "context", memory.context("retry")
        yield "ask", memory.ask("which port does the gateway use")
        yield "agent", memory.agent_query("retry")
    with home.history() as history:
        tail = Tail(history.store, history.readers, parse_query("project:gateway", NOW))
        yield "tail", tail.latest(5)
        yield "tail, nothing new", tail.new()
        yield "facts", history.store.facts()
        with history.store.read() as tx:
            yield "memories", memory_health(tx, NOW)
    with open_archive(home) as archive:
        yield "search", archive.search("retry", limit=5)
        yield "search, newest", archive.search("retry", newest=True, limit=5)


def forget(home: Home) -> Iterator[tuple[str, Any]]:
    """Forget one thing after another; yield what each report counts."""
    with home.history() as history:
        commands = next(texts for texts in TEXTS if texts.table == "events")
        with history.store.write() as tx:
            put_texts(tx, commands, 1, {"command": f"export TOKEN={_TOKEN}"})
        history.store.upkeep.note_failure("shell", "the retry failed", NOW)
        yield "masked", msgspec.to_builtins(history.rescan())
        for what in (Query(project=("website",)), Query(pattern="retr(y|ies)"), Query(since=1)):
            plain = history.forget(what, dry_run=True)
            yield f"would go {what.pattern}", msgspec.to_builtins(plain)
            yield f"went {what.pattern}", msgspec.to_builtins(history.forget(what))
        yield "left", len(history.store.sessions())
