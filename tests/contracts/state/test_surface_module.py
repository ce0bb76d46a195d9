"""The module and the object that stand in for Hermes's: names, constants, connection, old files."""

import inspect
import threading
from typing import Any

import pytest

from tests.support.states import Factory
from threadkeep.errors import Closed
from threadkeep.state import hermes_state
from threadkeep.state.hermes_state import SessionDB

METHODS = {
    "close": "",
    "create_session": "session_id source model model_config system_prompt user_id "
    "parent_session_id",
    "ensure_session": "session_id source model",
    "end_session": "session_id end_reason",
    "reopen_session": "session_id",
    "update_system_prompt": "session_id system_prompt",
    "update_token_counts": "session_id input_tokens output_tokens model cache_read_tokens "
    "cache_write_tokens reasoning_tokens estimated_cost_usd actual_cost_usd cost_status "
    "cost_source pricing_version billing_provider billing_base_url billing_mode "
    "api_call_count absolute",  # the place it has since version 8
    "get_session": "session_id",
    "resolve_session_id": "session_id_or_prefix",
    "set_session_title": "session_id title",
    "get_session_title": "session_id",
    "get_session_by_title": "title",
    "resolve_session_by_title": "title",
    "get_next_title_in_lineage": "base_title",
    "get_compression_tip": "session_id",
    "list_sessions_rich": "source sources exclude_sources cwd_prefix limit offset "
    "include_children min_message_count project_compression_tips order_by_last_active "
    "include_archived archived_only id_query search_query compact_rows include_pinned "
    "session_key include_hidden",
    "append_message": "session_id role content tool_name tool_calls tool_call_id token_count "
    "finish_reason reasoning",  # what follows stands in the order of today's Hermes
    "get_messages": "session_id",
    "get_messages_as_conversation": "session_id",
    "search_messages": "query source_filter exclude_sources role_filter limit offset",
    "search_sessions": "source limit offset",
    "session_count": "source",
    "message_count": "session_id",
    "export_session": "session_id",
    "export_all": "source",
    "clear_messages": "session_id",
    "delete_session": "session_id",
    "prune_sessions": "older_than_days source",
}
DEFAULTS: dict[str, dict[str, Any]] = {
    "ensure_session": {"source": "unknown", "model": None},
    "update_token_counts": {
        "input_tokens": 0,
        "reasoning_tokens": 0,
        "estimated_cost_usd": None,
        "actual_cost_usd": None,
        "billing_mode": None,
        "absolute": False,
    },
    "list_sessions_rich": {
        "source": None,
        "exclude_sources": None,
        "limit": 20,
        "offset": 0,
        "include_children": False,
        "project_compression_tips": True,
    },
    "append_message": {"content": None, "tool_name": None, "codex_reasoning_items": None},
    "search_messages": {
        "source_filter": None,
        "exclude_sources": None,
        "role_filter": None,
        "limit": 20,
        "offset": 0,
    },
    "search_sessions": {"source": None, "limit": 20, "offset": 0},
    "session_count": {"source": None},
    "message_count": {"session_id": None},
    "export_all": {"source": None},
    "prune_sessions": {"older_than_days": 90, "source": None},
}
CONSTANTS = {
    "_WRITE_MAX_RETRIES": 15,
    "_WRITE_RETRY_MIN_S": 0.020,
    "_WRITE_RETRY_MAX_S": 0.150,
    "_CHECKPOINT_EVERY_N_WRITES": 50,
    "MAX_TITLE_LENGTH": 100,
}


# ---------------------------------------------------------------------- names


@pytest.mark.parametrize("name", [*METHODS, "sanitize_title"])
def test_every_public_name_of_version_6_is_there(name: str) -> None:
    assert callable(getattr(SessionDB, name))


@pytest.mark.parametrize("name", METHODS)
def test_arguments_come_in_the_order_of_version_6(name: str) -> None:
    wanted = METHODS[name].split()
    parameters = list(inspect.signature(getattr(SessionDB, name)).parameters.values())[1:]
    assert [p.name for p in parameters][: len(wanted)] == wanted
    for parameter in parameters[: len(wanted)]:
        assert parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    for parameter in parameters[len(wanted) :]:
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            continue
        assert parameter.default is not inspect.Parameter.empty, f"{name} needs {parameter.name}"


@pytest.mark.parametrize("name", DEFAULTS)
def test_defaults_are_those_of_version_6(name: str) -> None:
    parameters = inspect.signature(getattr(SessionDB, name)).parameters
    assert {key: parameters[key].default for key in DEFAULTS[name]} == DEFAULTS[name]


@pytest.mark.parametrize("name", ["model", "model_config", "system_prompt", "user_id"])
def test_create_session_needs_an_id_and_a_source_only(name: str) -> None:
    assert inspect.signature(SessionDB.create_session).parameters[name].default is None


@pytest.mark.parametrize("name, value", CONSTANTS.items())
def test_constants_are_on_the_class_and_on_the_module(name: str, value: float) -> None:
    assert getattr(SessionDB, name) == value
    assert getattr(hermes_state, name) == value


def test_schema_version_is_6() -> None:
    assert hermes_state.SCHEMA_VERSION == 6


def test_init_states_its_patience_of_30_seconds() -> None:
    assert inspect.isfunction(SessionDB.__init__)
    source = inspect.getsource(SessionDB.__init__)
    assert "30" in source
    assert "second" in source


def test_waiting_writer_has_30_seconds_unless_told_otherwise() -> None:
    assert inspect.signature(SessionDB).parameters["timeout"].default == 30.0


def test_one_object_serves_many_threads(db: SessionDB) -> None:
    db.create_session("s", "cli")

    def work(name: str) -> None:
        for number in range(10):
            db.append_message("s", "user", f"{name} {number}")
            db.get_messages("s", limit=1)

    threads = [threading.Thread(target=work, args=(f"t{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert db.message_count("s") == 40
    assert db.get_session("s")["message_count"] == 40  # type: ignore[index]


# ---------------------------------------------------------------------- the end


def test_close_twice_is_fine(db: SessionDB) -> None:
    db.close()
    db.close()


@pytest.mark.parametrize(
    "call",
    [
        lambda db: db.create_session("s", "cli"),
        lambda db: db.append_message("s", "user", "x"),
        lambda db: db.get_session("s"),
        lambda db: db.search_messages("x"),
        lambda db: db.list_sessions_rich(),
        lambda db: db.prune_sessions(),
        lambda db: db.export_all(),
    ],
)
def test_use_after_close_says_closed_and_which_store(db: SessionDB, call: Any) -> None:
    db.close()
    with pytest.raises(Closed, match="was closed"):
        call(db)


def test_with_block_closes(factory: Factory) -> None:
    with factory.open() as db:
        db.create_session("s", "cli")
    with pytest.raises(Closed):
        db.session_count()


def test_everything_is_there_after_reopening(db: SessionDB, factory: Factory) -> None:
    db.create_session("s", "cli", model="m")
    db.append_message("s", "user", "hello")
    before = db.export_all()
    db.close()
    assert factory.reopen(db).export_all() == before
