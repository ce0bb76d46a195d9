"""The table of verbs: every verb of a store is in it, or it is said why not."""

from typing import Any

import msgspec
import pytest

from threadkeep.base.verb_table import faults
from threadkeep.errors import Invalid
from threadkeep.verbs import INSIDE, OWNERS, TABLES

CHAT, STATE = TABLES["chat"], TABLES["state"]


@pytest.mark.parametrize("store", sorted(OWNERS))
def test_every_verb_of_a_store_stands_in_the_table_or_inside(store: str) -> None:
    assert faults(TABLES[store], INSIDE[store], OWNERS[store]) == []
    assert all(reason.strip() for reason in INSIDE[store].values())


def test_a_table_that_is_not_right_is_seen() -> None:
    left = {name: one for name, one in CHAT.items() if name != "vacuum"}
    assert faults(left, INSIDE["chat"], OWNERS["chat"]) == ["vacuum is in no line"]
    wrong = msgspec.structs.replace(CHAT["vacuum"], path="/chat/{nobody}/vacuum")
    found = faults({**CHAT, "vacuum": wrong}, INSIDE["chat"], OWNERS["chat"])
    assert found == ["vacuum: 'nobody' of its address is no parameter"]


def test_what_a_verb_takes_is_what_its_signature_says() -> None:
    compact: Any = CHAT["compact"].body
    assert set(compact.__struct_fields__) >= {"summary", "summary_tokens", "tail_turns"}
    repair: Any = CHAT["repair_orphans"].body
    judge: Any = CHAT["judge"].body
    assert "human_tools" in repair.__struct_fields__
    assert "rules" in judge.__struct_fields__
    # Neither a path nor a function can be sent.
    assert set(CHAT["backup"].arguments) == {"reason", "keep"}
    assert "sessions_dir" not in STATE["delete_session"].arguments


def test_arguments_by_name_are_refused_when_there_is_no_such_name() -> None:
    with pytest.raises(Invalid, match="'sesion'") as caught:
        CHAT["session"].named({"sesion": "s"})
    assert "session" in caught.value.hint
    assert STATE["archive_sessions"].named({"min_messages": 3}) == {"min_messages": 3}


def test_what_cannot_be_sent_is_refused_also_where_more_is_taken() -> None:
    assert STATE["prune_sessions"].takes_more
    with pytest.raises(Invalid, match="'sessions_dir'"):
        STATE["prune_sessions"].named({"sessions_dir": "anywhere"})


def test_a_line_that_hides_a_dry_run_is_seen() -> None:
    wrong = msgspec.structs.replace(STATE["prune_sessions"], destroys=False)
    (found,) = faults({**STATE, "prune_sessions": wrong}, INSIDE["state"], OWNERS["state"])
    assert found.startswith("prune_sessions: it has a dry run")


def test_what_destroys_is_a_dry_run_unless_it_is_told_otherwise() -> None:
    for one in (one for table in TABLES.values() for one in table.values() if one.destroys):
        assert one.named({}) == {"dry_run": True}
        assert one.named({"dry_run": False}) == {"dry_run": False}


def test_a_record_is_sent_by_its_id() -> None:
    assert CHAT["session"].arguments["session"].kind is str
    assert CHAT["sessions"].arguments["parent"].kind == str | None
