"""What the newer programs write besides the short story: forks, subagents, older forms, cuts."""

from pathlib import Path
from typing import Any

from tests.sources.sample_support import look, write_json, write_lines

_KIMI = ".kimi-code/sessions/wd_demo_123456789abc"


def kimi_lines(*more: dict[str, Any]) -> list[dict[str, Any]]:
    counts = {"inputOther": 60, "output": 20, "inputCacheRead": 40, "inputCacheCreation": 0}
    return [
        {"type": "metadata", "protocol_version": "1.5", "time": 1_790_000_000_000},
        {
            "type": "turn.prompt",
            "input": [{"type": "text", "text": "Look"}],
            "origin": {"kind": "user"},
            "promptId": "p1",
            "time": 1_790_000_000_001,
        },
        {"type": "usage.record", "model": "k", "usage": counts, "time": 1_790_000_000_002},
        *more,
    ]


def test_what_a_fork_copied_was_spent_by_the_session_that_it_was_forked_from(
    tmp_path: Path,
) -> None:
    user = tmp_path / "user"
    for name, forked, more in (
        ("session_b", None, ()),
        ("session_a", "session_b", ({"type": "forked", "time": 1_790_000_000_009},)),
    ):
        folder = user / _KIMI / name
        write_lines(folder / "agents/main/wire.jsonl", *kimi_lines(*more))
        write_json(folder / "state.json", {"id": name, "cwd": "/demo", "forkedFrom": forked})
    seen = look(user, tmp_path / "home")
    assert seen["session_b"].tokens["input"] == 60
    assert set(seen["session_a"].tokens.values()) == {0}
    assert seen["session_a"].session.parent_session_id == "session_b"
