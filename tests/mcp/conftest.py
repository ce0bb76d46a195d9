"""A home with some of everything that agents ask for, made once for each process of tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.histories import DEMO
from threadkeep.base.clock import now_ms
from threadkeep.base.tx import Sql, Tx
from threadkeep.home.home import Home
from threadkeep.home.stores import Stores
from threadkeep.knowledge.commands import write_command, write_visit
from threadkeep.knowledge.lessons import LessonKey, LessonRules, learn
from threadkeep.knowledge.records import Command, GitState, Visit
from threadkeep.mcp.server import make_room
from threadkeep.mcp.tools import ToolContext
from threadkeep.service.learn import enrich

REPOSITORY = "demo/harbor"
SHA = "ab" * 20


def _fill(home: Home) -> None:
    with home.history(user_home=DEMO) as history:
        history.capture()
        enrich(home, history, at_once=True, with_model=False)
        now = now_ms()
        with history.store.context.db.write() as tx:
            write_command(tx, _deploy(now), now)
            url = "https://docs.example.org/tides"
            write_visit(
                tx, Visit("v-1", now, url, "docs.example.org", "Tides, explained", 9000), now
            )
            learn(tx, LessonKey(REPOSITORY, "ruff", "E501", "harbor/"), LessonRules(1), now)
            _run(tx, now)


def _deploy(now: int) -> Command:
    return Command(
        envelope_id="e-1",
        session="11111111-1111-4111-8111-111111111111",
        at=now,
        command="make deploy",
        cwd="/home/demo/code/harbor",
        exit_code=1,
        git=GitState(REPOSITORY, "main"),
    )


def _run(tx: Tx, now: int) -> None:
    tx.run(
        Sql(
            "INSERT INTO workflow_runs (id, repo, head_sha, head_branch, event, status, conclusion,"
            " started_at, completed_at, html_url, raw_json, first_seen_at, last_seen_at) VALUES"
            " (7, ?, ?, 'main', 'push', 'completed', 'failure', ?, ?, 'https://ci', '{}', 1, 1)"
        ),
        (REPOSITORY, SHA, now, now),
    )
    tx.run(
        Sql(
            "INSERT INTO workflow_jobs (id, run_id, name, status, conclusion, raw_json)"
            " VALUES (70, 7, 'lint', 'completed', 'failure', '{}')"
        )
    )
    for line in range(12):
        tx.run(
            Sql(
                "INSERT INTO workflow_annotations (job_id, level, tool, rule_id, path, start_line,"
                " message) VALUES (70, 'failure', 'ruff', 'E501', 'harbor/app.py', ?, 'too long')"
            ),
            (line,),
        )


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a home that was captured, learned from, and observed."""
    folder = tmp_path_factory.mktemp("agents") / "home"
    _fill(Home(folder))
    return folder


@pytest.fixture(scope="session")
def room(filled: Path) -> Iterator[ToolContext]:
    """Return what tools are called with."""
    home = Home(filled)
    stores = Stores(home)
    yield make_room(stores)
    stores.close()
