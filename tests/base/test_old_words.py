"""Words of the version before are read as those of today, and only where today's are known."""

from typing import Any

import pytest

from threadkeep.base.old_words import renamed, today


@pytest.mark.parametrize(
    "name, value, known, wanted",
    [
        ("harness", "codex", {"agent"}, ("agent", "codex")),
        ("harness", "codex", {"session"}, ("harness", "codex")),
        ("source", "codex", {"agent"}, ("agent", "codex")),
        ("source", "codex", {"agent", "kind"}, ("agent", "codex")),
        ("source", "shell", {"agent", "kind"}, ("kind", "command")),
        ("source", "shell", {"source", "kind"}, ("source", "shell")),
        ("kind", "prompt", {"part"}, ("part", "prompt")),
        ("kind", "claude-tool", {"role"}, ("role", "tool")),
        ("kind", "message", {"kind", "part"}, ("kind", "message")),
        ("kinds", ["message"], {"kind"}, ("kind", ["message"])),
        ("repo", "me/app", {"project"}, ("project", "me/app")),
        ("other", 1, {"agent"}, ("other", 1)),
    ],
)
def test_a_word_is_renamed_where_the_new_one_is_known(
    name: str, value: Any, known: set[str], wanted: tuple[str, Any]
) -> None:
    assert renamed(name, value, known) == wanted


def test_an_old_word_beside_its_new_one_is_left_to_be_refused() -> None:
    given = {"harness": "codex", "agent": "pi"}
    assert today(given, {"agent"}) == given
    assert today({"harness": "codex"}, {"agent"}) == {"agent": "codex"}
