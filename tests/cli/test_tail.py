"""tail: what agents write comes as lines, live, until somebody ends it."""

import json
import signal
from pathlib import Path
from typing import Any

from tests.cli.conftest import Run, Start
from tests.cli.histories import claude_log, said
from threadkeep.base.presence import ExclusiveLock
from threadkeep.home.home import Home
from threadkeep.knowledge.query import Query
from threadkeep.knowledge.tail import Tail
from threadkeep.service.parts import serve_lock
from threadkeep.service.tail import is_served


def written(path: Path, *records: dict[str, Any]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(one) + "\n" for one in records)


def test_every_new_message_is_a_line_until_ctrl_c(start: Start, tmp_path: Path) -> None:
    log = claude_log(tmp_path / "user", said("user", "first"))
    process = start("tail", "--json", "--user-home", str(tmp_path / "user"))
    assert process.stdout is not None
    first = json.loads(process.stdout.readline())
    assert (first["text"], first["session"]) == ("first", "claude-code:made-up-1")
    written(log, said("assistant", [{"type": "text", "text": "second"}], 2))
    second = json.loads(process.stdout.readline())
    assert (second["text"], second["role"]) == ("second", "assistant")
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130


def test_it_ends_when_nobody_reads_any_more(start: Start, tmp_path: Path) -> None:
    claude_log(tmp_path / "user", said("user", "first"))
    process = start("tail", "--user-home", str(tmp_path / "user"))
    assert process.stdout is not None
    assert process.stdout.readline().endswith(b"\tuser\tprompt\tfirst\n")
    process.stdout.close()
    assert process.wait() == 0


def test_what_a_serving_process_brings_is_read(run: Run, tmp_path: Path, home: Path) -> None:
    user = tmp_path / "user"
    log = claude_log(user, said("user", "first"))
    run("capture", "--quiet", "--user-home", str(user))
    keep = Home(home)
    assert not is_served(keep)
    with ExclusiveLock(serve_lock(keep.knowledge_path()), "this test"):
        assert is_served(keep)
    with keep.history(read_only=True) as history:
        every, other = (
            Tail(history.store, history.sources),
            Tail(history.store, history.sources, Query(project=("elsewhere",))),
        )
        quay = Tail(
            history.store,
            history.sources,
            Query(agent=("claude-code",), project=("/home/demo/code/quay",)),
        )
        assert [one.entry.text for one in every.latest(5)] == ["first"]
        assert every.new() == []
        written(log, said("user", "second", 2))
        run("capture", "--quiet", "--user-home", str(user))
        assert [one.entry.text for one in every.new()] == ["second"]
        assert [one.entry.text for one in quay.new()] == ["second"]
        assert other.new() == other.latest(5) == every.new() == []
