"""What a node is called: what was achieved where something was, else what was asked."""

import pytest
from hypothesis import given, strategies as st

from threadkeep.knowledge.hit_rows import in_past, title_of


def content(intent: str, summary: str = "") -> dict[str, str]:
    return {"intent": intent, "summary": summary}


@pytest.mark.parametrize(
    "intent, summary, outcome, title",
    [
        ("Fix the flaky date parsing.", "", "success", "Fixed the flaky date parsing in harbor"),
        ("please add a retry to harbor", "", "partial", "Added a retry to harbor"),
        ("Rewrite the queue. Keep its API.", "", "success", "Rewrote the queue in harbor"),
        ("tidy up the notes", "", "success", "Tidied up the notes in harbor"),
        ("Fix the flaky date parsing", "", "failure", "Fix the flaky date parsing in harbor"),
        ("Fix the flaky date parsing", "", "unknown", "Fix the flaky date parsing in harbor"),
        ("add a test", "In harbor: committed “77ab test”.", "unknown", "Added a test in harbor"),
        (
            "CI takes 40 minutes.",
            "Asked: CI takes 40 minutes. Result: CI takes 8 minutes now: a ready image, a cache.",
            "success",
            "CI takes 8 minutes now in harbor",
        ),
        ("The page is slow", "Result: Done: an index.", "success", "The page is slow in harbor"),
        ("Which tests cover it?", "", "success", "Which tests cover it?"),
        ("read feeds/tide.py. Then stop", "", "unknown", "Read feeds/tide.py in harbor"),
    ],
)
def test_a_title_says_what_was_achieved(
    intent: str, summary: str, outcome: str, title: str
) -> None:
    assert title_of(content(intent, summary), outcome, "harbor") == title


@given(st.text(), st.text(), st.sampled_from(["success", "failure", None]), st.none() | st.text())
def test_any_content_has_a_title_of_one_line(
    intent: str, summary: str, outcome: str | None, project: str | None
) -> None:
    title = title_of(content(intent, summary), outcome, project)
    assert len(title.splitlines()) <= 1
    assert len(title) <= 200
    assert title_of(summary, outcome, project) == ""


def test_only_requests_are_put_into_the_past() -> None:
    assert in_past("Copy the notes") is None
    assert in_past("Why does it fail") is None
    assert in_past("Use uv here") == "Used uv here"
