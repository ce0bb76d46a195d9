"""The title of a session that nobody named: made of its first prompt."""

import pytest
from hypothesis import given, strategies as st

from threadkeep.knowledge.records import title_of_prompt


@pytest.mark.parametrize(
    "prompt, title",
    [
        ("fix the clock", "fix the clock"),
        ('"fix the clock"', "fix the clock"),
        ('rename "a" to "b"', 'rename "a" to "b"'),
        (
            "Implement the following plan: # Plan: Make `evaluate` the default ## Context It is",
            "Make `evaluate` the default",
        ),
        (
            "https://github.com/harbor/board/pull/190 address the feedback",
            "address the feedback (pull/190)",
        ),
        ("https://github.com/harbor/board/pull/190", "https://github.com/harbor/board/pull/190"),
        ("[[ ## user_query ## ]] Reply with OK.", "Reply with OK."),
        ("", ""),
    ],
)
def test_a_prompt_becomes_a_title(prompt: str, title: str) -> None:
    assert title_of_prompt(prompt) == title


@given(st.text())
def test_no_word_of_a_title_is_made_up(prompt: str) -> None:
    assert all(word.strip("()") in prompt for word in title_of_prompt(prompt).split())
