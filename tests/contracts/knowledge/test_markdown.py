"""Markdown as notes are written in it: nothing is lost, and code is no heading."""

from itertools import pairwise

from hypothesis import given, strategies as st

from threadkeep.knowledge.memory_intake import (
    Link,
    LinkTarget,
    change_between,
    links,
    sections,
    target_of,
    targets_in,
)

LINES = st.sampled_from(
    ["# One", "## Two", "###### Six", "####### no", "#no", "#", "```", "~~~~", "```py", "text", ""]
)
TEXTS = st.one_of(st.text(), st.lists(LINES, max_size=12).map("\n".join))


@given(TEXTS)
def test_every_letter_stands_in_one_section(text: str) -> None:
    found = sections(text)
    assert all(part.text == text[part.start : part.end].strip() for part in found)
    assert all(one.end <= two.start for one, two in pairwise(found))
    inside = set[int]().union(*(range(part.start, part.end) for part in found))
    assert not "".join(letter for at, letter in enumerate(text) if at not in inside).strip()


def test_headings_make_paths_and_what_stands_before_them_is_kept() -> None:
    text = "Before.\n\n# Glaze\n\nOne.\n\n## Rules\n\nTwo.\n\n# Cones #\n"
    assert [(part.heading_path, part.text) for part in sections(text)] == [
        ("", "Before."),
        ("Glaze", "# Glaze\n\nOne."),
        ("Glaze > Rules", "## Rules\n\nTwo."),
        ("Cones #", "# Cones #"),
    ]
    assert [(part.heading_path, part.start, part.end) for part in sections("plain\n")] == [
        ("", 0, 6)
    ]
    assert sections(" \n") == []


def test_code_has_no_headings_and_no_links() -> None:
    text = "# Run\n\n```sh\n# a comment\n[x](no.md)\n````not the end\n```\n# After\n[y](yes.md)\n"
    assert [part.heading_path for part in sections(text)] == ["Run", "After"]
    assert links(text) == [Link("y", "yes.md")]
    assert [part.heading_path for part in sections("~~~\n# x\n```\n# y")] == [""]


def test_links_lose_their_titles_and_brackets() -> None:
    assert links('[a](a.md "A")\n[b](<b c.md>)\n[](d.md)\n[e]()') == [
        Link("a", "a.md"),
        Link("b", "b c.md"),
        Link("", "d.md"),
    ]


def test_a_target_is_a_file_beside_the_index_or_lies_outside() -> None:
    assert target_of("a.md#part") == LinkTarget("a.md", is_inside=True)
    assert target_of("./x/../a.md") == LinkTarget("a.md", is_inside=True)
    for outside in ("../a.md", "/etc/a.md", "https://a.example/a.md", "mailto:ada@a.example"):
        found = target_of(outside)
        assert found is not None
        assert not found.is_inside
    assert target_of("#here") is None


def test_each_target_is_there_once_and_the_nearer_wins() -> None:
    found = targets_in("[up](../a.md) [one](a.md) [two](a.md#x) [b](b.md)")
    assert [(path, link.words) for path, (_, link) in found.items()] == [
        ("a.md", "one"),
        ("b.md", "b"),
    ]


@given(st.text(), st.text())
def test_a_change_is_counted_and_bounded(old: str, new: str) -> None:
    change = change_between(old, new)
    assert len(change.diff) <= 16_384
    if old == new:
        assert change.diff == ""
        assert change.summary == "0 lines added, 0 removed"


def test_a_long_change_is_cut() -> None:
    change = change_between("", "\n".join(f"++ line {number}" for number in range(2_000)))
    assert change.summary == "2000 lines added, 0 removed"
    assert len(change.diff) == 16_384


def test_long_texts_of_lines_that_come_again_are_not_compared_line_by_line() -> None:
    old = [f"- line {number % 700}" for number in range(15_000)]
    new = [*old[:5], *reversed(old[5:-2]), *old[-2:]]
    change = change_between("\n".join(old), "\n".join(new))
    first = next(n for n in range(15_000) if old[n] != new[n])
    last = next(n for n in range(1, 15_000) if old[-n] != new[-n])
    count = 15_000 - first - last + 1
    assert change.summary == f"{count} lines added, {count} removed"
    head = f"--- before\n+++ after\n@@ -{first + 1},{count} +{first + 1},{count} @@\n"
    assert change.diff.startswith(f"{head}-{old[first]}\n")
    assert len(change.diff) <= 16_384
    same = "\n".join(old)
    assert change_between(same, same) == ("0 lines added, 0 removed", "")
