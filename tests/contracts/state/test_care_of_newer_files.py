"""Deleting, pruning, archiving: by the newest rules, in files of ours and of newer programs."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.newer_states import opened_form
from tests.support.states import Clock, Factory
from threadkeep.state.session_db import SessionDB

DAY = 86_400.0
Put = Callable[..., None]


@pytest.fixture
def db(factory: Factory, clock: Clock, form: str | int) -> Iterator[SessionDB]:
    with opened_form(factory, form, clock) as opened:
        opened.set_meta("made", "today")
        yield opened


@pytest.fixture
def put(db: SessionDB, clock: Clock, factory: Factory) -> Put:
    """Return `put(id, days=…, messages=…, **columns)`: a session as another program stores it."""

    def put(session_id: str, days: float = 100, messages: int = 1, **columns: Any) -> None:
        at = clock.now - days * DAY
        row: dict[str, Any] = {"id": session_id, "source": "cli", "started_at": at, "ended_at": at}
        row |= {"message_count": messages, **columns}
        names, marks = ", ".join(row), ", ".join("?" * len(row))
        with factory.raw(db) as connection:
            connection.execute(
                f"INSERT INTO sessions({names}) VALUES ({marks})", tuple(row.values())
            )
            for _ in range(messages):
                connection.execute(
                    "INSERT INTO messages(session_id, role, content, timestamp)"
                    " VALUES (?, 'user', 'said', ?)",
                    (session_id, at),
                )

    return put


def ids(db: SessionDB) -> set[str]:
    return {session["id"] for session in db.search_sessions(limit=100)}


def marked(kind: str, parent: str) -> dict[str, str]:
    return {"model_config": f'{{"_{kind}_from": "{parent}"}}', "parent_session_id": parent}


def test_deleting_several_counts_the_named_ones(db: SessionDB, put: Put, factory: Factory) -> None:
    put("a")
    put("b")
    put("helper", **marked("delegate", "a"))
    names: list[Any] = ["a", "b", "a", "nobody", None]
    assert db.delete_sessions(names) == 2
    assert ids(db) == set()


def test_prompts_go_with_the_last_session_that_has_them(
    db: SessionDB, put: Put, factory: Factory
) -> None:
    with factory.raw(db) as connection:
        connection.execute("INSERT INTO system_prompts VALUES ('h', 'be brief')")
    put("a", system_prompt_hash="h")
    put("b", system_prompt_hash="h")

    def prompts() -> int:
        return len(factory.rows(db, "SELECT * FROM system_prompts"))

    db.delete_session("a")
    assert prompts() == 1
    assert (db.get_session("b") or {})["system_prompt"] == "be brief"
    db.delete_session("b")
    assert prompts() == 0


def test_empty_sessions_are_counted_and_deleted(db: SessionDB, put: Put, factory: Factory) -> None:
    put("used")
    put("empty", messages=0)
    put("archived", messages=0, archived=1)
    put("open", messages=0, ended_at=None)
    put("named", messages=0, title="named", ended_at=None)
    put("ghost", messages=0, source="tui", archived=1)
    assert db.count_empty_sessions() == 1
    before = ids(db)
    assert db.delete_empty_sessions(dry_run=True) == 1
    assert db.prune_empty_ghost_sessions(dry_run=True) == 1
    assert db.delete_session_if_empty("open", dry_run=True)
    assert not db.delete_session_if_empty("used", dry_run=True)
    assert ids(db) == before
    assert db.delete_empty_sessions() == 1
    assert not db.delete_session_if_empty("used")
    assert not db.delete_session_if_empty("named")
    assert db.delete_session_if_empty("open")
    assert db.prune_empty_ghost_sessions() == 1
    assert ids(db) == {"used", "archived", "named"}


def test_a_dry_run_says_what_would_go_and_leaves_it(db: SessionDB, put: Put) -> None:
    put("parent")
    put("child")
    assert db.delete_session("parent", dry_run=True)
    assert not db.delete_session("nobody", dry_run=True)
    assert not db.delete_session("parent", None, ["parent", "child"], dry_run=True)
    assert db.delete_sessions(["parent", "nobody"], dry_run=True) == 1
    messages = db.get_messages("parent")
    db.clear_messages("parent", dry_run=True)
    assert db.get_messages("parent") == messages
    assert messages
    assert db.maybe_auto_prune_and_vacuum(0, dry_run=True)["pruned"] == 2
    assert ids(db) == {"parent", "child"}


def test_a_messengers_session_that_was_never_used_goes_with_its_route(
    db: SessionDB, put: Put, factory: Factory
) -> None:
    put("unused", messages=0, ended_at=None, session_key="k1")
    put("young", days=1, messages=0, ended_at=None, session_key="k2")
    put("pinned", messages=0, ended_at=None, session_key="k3", pinned=1)
    db.save_gateway_routing_entry("k1", '{"session_id": "unused"}', scope="x")
    db.save_gateway_routing_entry("k2", '{"session_id": "young"}')
    db.save_gateway_routing_entry("k9", "no json")
    (found,) = db.list_never_active_keyed_sessions(older_than_days=7)
    assert (found["id"], found["session_key"]) == ("unused", "k1")
    assert db.prune_never_active_keyed_sessions(older_than_days=7, dry_run=True) == (1, 1)
    assert ids(db) == {"unused", "young", "pinned"}
    assert set(db.load_gateway_routing_entries(scope="x")) == {"k1"}
    assert db.prune_never_active_keyed_sessions(older_than_days=7) == (1, 1)
    assert ids(db) == {"young", "pinned"}
    assert set(db.load_gateway_routing_entries()) == {"k2", "k9"}


FILTERS = [
    ({"title_like": "HARBOR_1%"}, {"title": "My harbor_1% plan"}),
    ({"model_like": "Sonnet"}, {"model": "claude-sonnet-4"}),
    ({"branch_like": "feat"}, {"git_branch": "FEAT/x"}),
    ({"provider": "NOUS"}, {"billing_provider": "nous"}),
    ({"end_reason": "done"}, {"end_reason": "done"}),
    ({"cwd_prefix": "/w/my_repo/"}, {"cwd": "/w/my_repo/src"}),
    ({"min_messages": 3}, {"messages": 3}),
    ({"max_messages": 0}, {"messages": 0}),
    ({"min_tokens": 10}, {"input_tokens": 4, "output_tokens": 6}),
    ({"min_cost": 2.0}, {"estimated_cost_usd": 1.0, "actual_cost_usd": 2.0}),
    ({"min_tool_calls": 2}, {"tool_call_count": 2}),
    ({"archived": True}, {"archived": 1}),
    ({"user_id": "ada"}, {"user_id": "ada"}),
    ({"chat_id": "7", "chat_type": "dm"}, {"chat_id": "7", "chat_type": "dm"}),
    ({"source": "cron"}, {"source": "cron"}),
    ({"started_before": 1.0}, {"started_at": 0.5}),
]


@pytest.mark.parametrize("filters, columns", FILTERS, ids=lambda value: str(value)[:24])
def test_each_filter_takes_what_fits_it_alone(
    db: SessionDB, put: Put, filters: dict[str, Any], columns: dict[str, Any], factory: Factory
) -> None:
    put("other", cwd="/w/myxrepo", input_tokens=1)
    put("wanted", **columns)
    assert [row["id"] for row in db.list_prune_candidates(**filters)] == ["wanted"]
    assert db.count_prune_matches(**filters) == 1
    assert db.prune_sessions(None, **filters) == 1
    assert ids(db) == {"other"}


def test_a_filter_that_there_is_none_of_is_refused(db: SessionDB) -> None:
    with pytest.raises(TypeError, match="colour"):
        db.prune_sessions(colour="red")


def test_only_what_ended_is_pruned_and_what_is_open_is_counted(
    db: SessionDB, put: Put, factory: Factory
) -> None:
    put("ended")
    put("open", ended_at=None)
    put("beating", last_activity_at=2e9)
    assert db.count_open_prune_matches(90) == 1
    assert db.prune_sessions(90, dry_run=True) == 1
    assert db.prune_sessions(90) == 1
    assert ids(db) == {"open", "beating"}
    assert db.prune_sessions(90, include_active=True) == 1


def test_a_pin_spares_the_whole_chain(db: SessionDB, put: Put, factory: Factory) -> None:
    put("root", end_reason="compression", pinned=1)
    put("tip", parent_session_id="root")
    put("loose")
    assert [row["id"] for row in db.list_prune_candidates(90)] == ["loose"]
    assert db.count_prune_matches(90, pinned_only=True) == 2
    assert db.prune_sessions(90) == 1
    assert db.prune_sessions(90, include_pinned=True) == 2


def test_a_whole_lineage_stays_while_its_end_is_in_use(
    db: SessionDB, put: Put, factory: Factory
) -> None:
    put("root", end_reason="compression")
    put("tip", days=1, ended_at=None, parent_session_id="root")
    assert db.list_prune_candidates(90, whole_lineages=True) == []
    assert db.prune_sessions(90, whole_lineages=True) == 0
    assert db.count_prune_matches(90) == 1


def test_archiving_by_filters_and_by_idleness(db: SessionDB, put: Put, factory: Factory) -> None:
    put("old cron", source="cron")
    put("open", ended_at=None)
    put("pinned", pinned=1)
    put("young", days=1)
    assert db.archive_sessions(90, "cron") == 1
    assert db.archive_sessions(90, "cron") == 0
    assert db.archive_stale_sessions(-1) == 0
    assert db.archive_stale_sessions(3) == 1
    assert (db.get_session("open") or {})["archived"] == 1
    assert db.archive_stale_sessions(3, exclude_pinned=False) == 1
    assert (db.get_session("young") or {})["archived"] == 0


def test_upkeep_is_done_once_in_a_while(
    db: SessionDB, put: Put, clock: Clock, factory: Factory
) -> None:
    put("old")
    assert db.maybe_auto_prune_and_vacuum() == {"skipped": False, "pruned": 1, "vacuumed": True}
    assert db.maybe_auto_prune_and_vacuum()["skipped"]
    clock.now += 2 * DAY
    put("old")
    assert db.maybe_auto_prune_and_vacuum() == {"skipped": False, "pruned": 1, "vacuumed": False}
    db.set_meta("last_auto_archive", "no number")
    put("idle", days=4)
    assert db.maybe_auto_archive() == {"skipped": False, "archived": 1}
    assert db.maybe_auto_archive() == {"skipped": True, "archived": 0}
    assert db.logical_size_bytes() % 512 == 0


def test_upkeep_that_fails_says_so_and_stops_nothing(db: SessionDB) -> None:
    wrong: Any = "soon"
    assert "error" in db.maybe_auto_prune_and_vacuum(wrong)


def test_stranded_continuations_end_and_workers_get_their_source(
    db: SessionDB, put: Put, factory: Factory
) -> None:
    put("root", end_reason="compression")
    put("stranded", ended_at=None, parent_session_id="root")
    put("used", ended_at=None, parent_session_id="root", api_call_count=1)
    assert db.finalize_orphaned_compression_sessions() == 1
    assert (db.get_session("stranded") or {})["end_reason"] == "orphaned_compression"
    put("worker", cwd="/boards/one/task")
    put("user", cwd="/boards/ones")
    assert db.retag_kanban_worker_sessions("/boards/one/") == 1
    assert db.retag_kanban_worker_sessions("/boards/one") == 0
    assert (db.get_session("worker") or {})["source"] == "kanban"
