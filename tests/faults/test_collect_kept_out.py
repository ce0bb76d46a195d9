"""What must not be kept: excluded places, secrets, what was forgotten. Looked for byte by byte."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.capture.github.server import REPO, SHA, Ci, annotation_json, job_json, listening
from tests.faults.collect_world import (
    AT,
    AWS,
    SESSION,
    World,
    begin,
    end,
    record,
    shell_line,
    visit_line,
)
from threadkeep.base.tx import Sql
from threadkeep.capture.observed.backend import StoreBackend
from threadkeep.capture.observed.intake import BatchReport
from threadkeep.capture.observed.shell_history import HistoryFile
from threadkeep.errors import Invalid
from threadkeep.knowledge.query import Query
from threadkeep.knowledge.records import Command, Visit, Watch

MARK = "quokka"  # in all that must go, and in nothing else
EXCLUDING = f"""
[capture]
exclude = ["/u/{MARK}"]
[shell]
exclude = ["{MARK}-tool", "*{MARK}-word*"]
[browser]
exclude = ["{MARK}.example"]
"""


def envelope(number: int) -> str:
    return f"44444444-0000-4000-8000-{number:012}"


# ---------------------------------------------------------------------- excluded


def test_nothing_of_what_is_excluded_is_in_the_files(tmp_path: Path) -> None:
    world = World(tmp_path / "home", EXCLUDING)
    inside = f"/u/{MARK}/deep"
    world.append(record("env1", SESSION, 7, "LANG=C", f"PWD={inside}", f"OLDPWD=/u/{MARK}"))
    world.append(begin(1, cwd=inside) + end(1, cwd=inside) + end(2, f"sudo; {MARK}-tool x"))
    world.append(end(3, f"echo {MARK}-word") + end(4, "good"))
    env = {"PATH": f"/bin:/u/{MARK}/bin", "LANG": "C"}
    world.spool.put(
        shell_line(1, cwd=inside)
        + shell_line(2, command="with env", env_snapshot=env)
        + visit_line(1, url=f"https://www.{MARK}.example/", domain=f"www.{MARK}.example")
        + visit_line(2, domain="docs.rs", url=f"https://{MARK}.example/lies")
        + visit_line(3, referrer=f"https://{MARK}.example/?q=1", search_query=f"{MARK} words")
    )
    (tmp_path / "history").write_text(f": {AT + 500}:0;{MARK}-tool y\n: {AT + 600}:0;fine\n")
    came = world.collect()
    assert (came.new, came.excluded) == (3, 6)
    with world.home.observations() as observations:
        observations.import_history([HistoryFile("zsh", tmp_path / "history")])
        visit = Visit(envelope(1), AT * 1000, f"https://{MARK}.example/", f"{MARK}.example")
        StoreBackend(observations, "1").store([visit])
        assert MARK.encode() not in world.bytes_of_store()  # nor in its log of writes
    assert sorted(world.commands()) == ["fine", "good", "with env"]
    assert MARK.encode() not in world.bytes_of_store()
    assert world.rows("SELECT sum(count) FROM tk_drops WHERE reason = 'excluded'") == [(8,)]


# ---------------------------------------------------------------------- secrets


@pytest.fixture
def ci() -> Iterator[Ci]:
    world = Ci()
    with listening(world, is_blobs=True) as world.blobs:
        yield world


@pytest.fixture
def watching(tmp_path: Path, ci: Ci) -> Iterator[World]:
    with listening(ci) as url:
        yield World(tmp_path / "home", f'[github]\napi_url = "{url}"\nwatched_repos = ["{REPO}"]\n')


def fill_ci(ci: Ci, text: str, number: int = 1) -> None:
    """Let CI say something everywhere."""
    ci.add_failure(
        *(number, f"F401 {text}"),
        log=f"the log says {text}\n".encode(),
        head_branch=f"fix/{text}",
        actor={"login": text},
        display_title=text,
        head_commit={"message": text, "author": {"name": text}},
    )
    ci.jobs[number] = [
        job_json(number * 10, name=f"ruff {text}", runner_name=text, labels=[text], steps=[text])
    ]
    ci.annotations[number * 10] += [annotation_json("F402 x", path=f"src/{text}/deep/main.py")]


def poll(world: World) -> Any:
    with world.home.ci() as ci:
        return ci.poll()


def fill(world: World, text: str) -> None:
    """Let shells and browsers say something everywhere."""
    world.append(begin(1, f"a {text}") + end(2, f"b {text}", cwd=f"/u/{text}"))
    world.spool.put(
        shell_line(
            1,
            command=f"c {text}",
            stdout={"content": text},
            stderr={"content": text},
            env_snapshot={"HOME": f"/{text}"},
            git_state={"repo": f"o/{text}", "branch": text, "commit": None, "is_dirty": True},
            tool_name=None,
        )
        + visit_line(
            1,
            url=f"https://docs.rs/{text}?x={text}#{text}",
            title=text,
            extracted_text=f"a page with {text} in it",
            search_query=text,
            referrer=f"https://docs.rs/?q={text}",
        )
    )


def test_secrets_are_nowhere_in_the_files(watching: World, ci: Ci) -> None:
    watching.append(record("env1", SESSION, 7, f"PATH=/{AWS}"))
    fill(watching, AWS)
    fill_ci(ci, AWS)
    command = Command(envelope(1), SESSION, AT * 1000, f"socket {AWS}", "/u", 0)
    with watching.home.observations() as observations:
        observations.collect()
        StoreBackend(observations, "1").store([command])
        assert poll(watching).errors == []
        assert AWS.encode() not in watching.bytes_of_store()  # the log of writes among them
    assert AWS.encode() not in watching.bytes_of_store()
    assert len(watching.commands()) == 4
    assert watching.rows("SELECT count(*) FROM workflow_log_excerpts") == [(1,)]


# ---------------------------------------------------------------------- forgotten


def forget(world: World, **what: Any) -> Any:
    with world.home.history(user_home=world.folder) as history:
        planned = history.forget(Query(**what), dry_run=True)
        assert history.forget(Query(**what)) == planned
        return planned


def everything(world: World, ci: Ci, tmp_path: Path) -> None:
    """Store all that can be told; again and again, as it happens after it was forgotten."""
    fill(world, MARK)
    history = tmp_path / "zsh_history"
    history.write_text(f": {AT + 18}:0;b {MARK}\nold {MARK}\n")
    with world.home.observations() as observations:
        observations.collect()
        observations.import_history([HistoryFile("zsh", history)])
    poll(world)


@pytest.mark.parametrize(
    "what", [{"pattern": MARK}, {"since": 0}, {"until": 1 << 52}], ids=["pattern", "since", "until"]
)
def test_what_is_forgotten_is_nowhere_and_does_not_come_back(
    watching: World, ci: Ci, tmp_path: Path, what: dict[str, Any]
) -> None:
    fill_ci(ci, MARK)
    watching.append(record("env1", SESSION, 7, f"PATH=/{MARK}"))
    everything(watching, ci, tmp_path)
    assert len(watching.commands()) == 4
    assert watching.rows("SELECT count(*) FROM lesson_pending") == [(2,)]
    assert MARK.encode() in watching.bytes_of_store()
    assert forget(watching, **what).observed >= 5
    for _ in range(2):
        assert MARK.encode() not in watching.bytes_of_store()
        assert watching.commands() == []
        for table in ("browser_events", "workflow_annotations", "workflow_log_excerpts"):
            rows = watching.rows(f"SELECT * FROM {table}")
            assert not [row for row in rows if MARK in str(row)]
        everything(watching, ci, tmp_path)


def test_forgetting_a_repository_takes_watches_lessons_and_answers(watching: World, ci: Ci) -> None:
    ci.runs[f"octo/{MARK}"] = []
    ci.add_failure(5, "F401 x", repo=f"octo/{MARK}", html_url="https://x.example")
    with watching.home.ci(repos=(f"octo/{MARK}",)) as there:
        there.watch(SHA, f"octo/{MARK}")
        there.poll()
        assert len(there.pending()) == 1
    forget(watching, pattern=MARK)
    assert MARK.encode() not in watching.bytes_of_store()
    for table in ("sha_watchlist", "lesson_pending", "workflow_runs", "tk_ci_answers"):
        assert watching.rows(f"SELECT count(*) FROM {table}") == [(0,)], table


def test_a_run_that_another_program_stored_does_not_come_back_either(
    watching: World, ci: Ci
) -> None:
    ci.add_failure(5, "F401 x")
    poll(watching)
    with watching.home.knowledge() as store, store.context.db.write() as tx:
        tx.run(Sql("DELETE FROM tk_ci_runs"))  # as in a file of Hippo
        tx.run(Sql("DELETE FROM tk_ci_answers"))
    forget(watching, since=0)
    poll(watching)
    assert watching.rows("SELECT count(*) FROM workflow_runs") == [(0,)]


def test_a_project_is_forgotten_with_what_shells_did_in_its_folder(tmp_path: Path) -> None:
    world = World(tmp_path / "home")
    world.append(record("env1", SESSION, 7, f"PWD=/u/{MARK}"))
    world.append(end(1, "in it", cwd=f"/u/{MARK}/src") + end(2, "beside", cwd="/u/other"))
    world.collect()
    forget(world, project=(MARK,))
    assert world.commands() == ["beside"]
    with world.home.history(user_home=world.folder) as history:
        history.forget(Query(pattern=f"PWD.*{MARK}"))  # the shell is still in the folder
    assert MARK.encode() not in world.bytes_of_store()


def test_a_pattern_and_a_span_of_time_narrow_each_other(watching: World, ci: Ci) -> None:
    world = watching
    world.append(end(1, f"old {MARK}") + end(2, "old") + end(100, f"new {MARK}"))
    world.collect()
    fill_ci(ci, MARK)
    poll(world)
    forget(world, pattern=MARK, until=(AT + 500) * 1000)
    assert world.commands() == ["old", f"new {MARK}"]
    assert world.rows("SELECT count(*) FROM workflow_log_excerpts") == [(1,)]
    forget(world, pattern=f"log says {MARK}", since=(AT + 500) * 1000)
    assert world.rows("SELECT count(*) FROM workflow_log_excerpts") == [(0,)]
    assert world.commands() == ["old", f"new {MARK}"]


def test_a_rescan_masks_what_was_stored_before_there_was_a_rule(watching: World, ci: Ci) -> None:
    secret = f"{MARK}-4711"
    fill_ci(ci, secret)
    fill(watching, secret)
    watching.collect()
    poll(watching)
    with watching.home.ci() as there, pytest.raises(Invalid):
        there.watch(SHA, f"octo/{secret} ")
    with watching.home.ci() as there:
        there.watch(SHA, f"octo/{secret}")
    rules = watching.folder / "redact.toml"
    rules.write_text(f'[[patterns]]\nname = "animals"\nregex = "{MARK}-[0-9]+"\n')
    config = watching.folder / "config.toml"
    config.write_text(config.read_text() + f'\n[redact]\nrules = ["{rules}"]\n')
    again = type(watching.home)(watching.folder, environ={})
    with again.history(user_home=watching.folder) as history:
        planned = history.rescan(dry_run=True)
        assert history.rescan() == planned
        assert planned.rows >= 12
    assert secret.encode() not in watching.bytes_of_store()
    assert watching.rows("PRAGMA integrity_check") == [("ok",)]
    assert watching.rows("SELECT count(*) FROM workflow_runs") == [(1,)]


def test_a_report_that_was_forgotten_and_lies_in_the_spool_again_stays_out(tmp_path: Path) -> None:
    world = World(tmp_path / "home")
    world.append(end(1, "same"))
    world.collect()
    forget(world, pattern="^same$")
    world.append(end(1, "same"))  # the file came back from a backup
    world.spool.put(json.dumps({"type": "heartbeat", "source": "shell", "at": 1}).encode() + b"\n")
    assert world.collect() == BatchReport(known=1)
    hippos = Command(envelope(2), SESSION, (AT + 9) * 1000 + 300, "same", "/u", 0)
    with world.home.observations() as observations:
        StoreBackend(observations, "1").store([hippos])
        later = msgspec.structs.replace(hippos, envelope_id=envelope(3), at=(AT + 99) * 1000)
        StoreBackend(observations, "1").store([later])  # typed again: nobody forgot that
        observations.report(Watch(SHA, REPO, AT * 1000))
        observations.collect()
    assert world.commands() == ["same"]
