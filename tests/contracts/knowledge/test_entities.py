"""Entities: one row for all spellings, which events name them, and what ties them together."""

import pytest
from hypothesis import given, strategies as st

from tests.support.tickets import NOW, add_event, column, insert
from threadkeep.base.tx import Sql, Tx
from threadkeep.knowledge.entities import (
    TIES,
    TYPES,
    Mention,
    canonical,
    mentions_of,
    note_in_events,
    occurs,
    put_entities,
    strip_worktrees,
    ties_of,
)
from threadkeep.knowledge.records import Mentions, NodeDraft

HOME = "/home/me"
ROOTS = ("/home/me/app", "~/Other")


# ---------------------------------------------------------------------- names


@pytest.mark.parametrize(
    "kind, name, expected",
    [
        ("tool", "  Cargo  ", "cargo"),
        ("concept", "No  such\tfile", "no such file"),
        ("file", "~/notes.md", "/home/me/notes.md"),
        ("file", "/home/me/App/src/Main.py", "src/main.py"),
        ("file", "/home/me/app/", "app"),
        ("file", "/home/me/other/x.py", "x.py"),
        ("file", "/home/me/application/x.py", "/home/me/application/x.py"),
        ("file", "/home/me/app/.claude/worktrees/agent-1/src/a.py", "src/a.py"),
        ("file", ".claude/worktrees/agent-1/src/a.py", "src/a.py"),
        ("file", "/x/.claude/worktrees/agent-1", "/x"),
        ("project", "/home/me/app", "app"),
        ("project", "/home/me/app/.claude/worktrees/quick-fox", "app"),
        ("project", "/home/me/app/sub", "/home/me/app/sub"),
        (
            "concept",
            "in /home/me/app/.claude/worktrees/a/x",
            "in /home/me/app/.claude/worktrees/a/x",
        ),
        ("env_var", "RUST_LOG", "rust_log"),
        ("file", "src//", "src"),
    ],
)
def test_canonical_forms(kind: str, name: str, expected: str) -> None:
    assert canonical(kind, name, roots=ROOTS, home=HOME) == expected


def test_the_home_is_the_users_own_unless_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/else")
    assert canonical("file", "~/a") == "/home/else/a"


kinds = st.sampled_from(sorted(TYPES.values()))
parts = st.text("aB.é- _", min_size=1, max_size=6).filter(lambda part: part.strip() == part)
paths = st.lists(parts, min_size=1, max_size=4).map("/".join)


@given(kinds, st.text(max_size=40))
def test_spellings_do_not_matter(kind: str, name: str) -> None:
    form = canonical(kind, name, home=HOME)
    assert form == form.lower()
    assert "  " not in form
    assert "\n" not in form
    assert not form.endswith("/")
    if not name.startswith("~") and name.strip() == name:
        assert canonical(kind, f" {name}/ ", home=HOME) == form
        assert canonical(kind, name.replace(" ", "\t "), home=HOME) == form


@given(paths, st.sampled_from(["agent-1", "Quick fox", "x"]))
def test_a_copy_of_the_project_is_the_project(path: str, worktree: str) -> None:
    copied = f"/home/me/app/.claude/worktrees/{worktree}/{path}"
    assert canonical("file", copied, roots=ROOTS, home=HOME) == canonical(
        "file", f"/home/me/app/{path}", roots=ROOTS, home=HOME
    )
    assert strip_worktrees(copied) == f"/home/me/app/{path}"


def test_each_name_is_mentioned_once_in_the_contracts_order() -> None:
    said = Mentions(tools=("git", "git", " "), projects=("app",), errors=("E1",), domains=("a.b",))
    assert mentions_of(NodeDraft("s", "i", entities=said)) == [
        Mention("project", "app"),
        Mention("tool", "git"),
        Mention("concept", "E1"),
        Mention("domain", "a.b"),
    ]


# ---------------------------------------------------------------------- rows


def test_two_spellings_are_one_row_with_the_first_name(tx: Tx) -> None:
    one = put_entities(tx, [Mention("tool", "Cargo")], now=NOW)
    two = put_entities(tx, [Mention("tool", "cargo "), Mention("service", "cargo")], now=NOW + 5)
    assert set(one.values()) < set(two.values())
    sql = "SELECT type, name, canonical, first_seen, last_seen FROM entities ORDER BY id"
    rows = tx.all(Sql(sql))
    assert rows == [
        ("tool", "Cargo", "cargo", NOW, NOW + 5),
        ("service", "cargo", "cargo", NOW + 5, NOW + 5),
    ]


def test_a_name_from_a_worktree_is_replaced_and_none_is_stored(tx: Tx) -> None:
    old = {"name": "/p/.claude/worktrees/x/a.py", "canonical": "/p/a.py"}
    insert(tx, "entities", type="file", **old, first_seen=1, last_seen=1, created_at=1)
    put_entities(tx, [Mention("file", "/p/A.py")], now=NOW)
    put_entities(tx, [Mention("file", "/p/.claude/worktrees/y/b.py")], now=NOW)
    assert column(tx, "SELECT name FROM entities ORDER BY id") == ["/p/A.py", "/p/b.py"]


def test_what_has_no_name_is_no_entity(tx: Tx) -> None:
    assert put_entities(tx, [Mention("file", "/"), Mention("tool", "  ")], now=NOW) == {}


def test_events_name_what_stands_in_their_own_text(tx: Tx) -> None:
    one = add_event(tx, command="go test ./src/a.py", stderr="E0425: not found")
    two = add_event(tx, command="good", cwd="/elsewhere")
    said = [
        Mention("tool", "go"),
        Mention("project", "app"),
        Mention("file", "src/a.py"),
        Mention("concept", "E0425"),
        Mention("file", "b.py"),
    ]
    numbers = put_entities(tx, said, now=NOW)
    for _ in range(2):  # the second time adds nothing
        note_in_events(tx, [one, two], numbers, NOW)
    rows = tx.all(
        Sql(
            "SELECT event_id, type, role, v.created_at FROM event_entities AS v"
            " JOIN entities AS e ON e.id = entity_id ORDER BY e.id"
        )
    )
    assert rows == [
        (one, "tool", "tool", NOW),
        (one, "project", "project", NOW),
        (one, "file", "mentioned", NOW),
        (one, "concept", "mentioned", NOW),
    ]


def test_half_a_character_hides_no_name(tx: Tx) -> None:
    event = add_event(tx, command="go test \ud83d")
    note_in_events(tx, [event], put_entities(tx, [Mention("tool", "go")], now=NOW), NOW)
    assert column(tx, "SELECT event_id FROM event_entities") == [event]


words = st.text("ab_./", min_size=1, max_size=4)


@given(words, st.lists(words, max_size=5))
def test_a_name_stands_by_itself(name: str, others: list[str]) -> None:
    assert occurs(name, " ".join([*others, name, *others]))
    assert not occurs("x" + name, " ".join(others))
    if name.isalnum():
        assert not occurs(name, f"x{name} {name}x _{name}")


# ---------------------------------------------------------------------- ties


def test_what_belongs_together() -> None:
    said = Mentions(
        projects=("app", "other"),
        tools=("git",),
        files=("a.py", "b.py"),
        errors=("E1 in a.py:3",),
        env_vars=("HOME",),
        domains=("example.org",),
    )
    numbers = {m: n for n, m in enumerate(mentions_of(NodeDraft("s", "i", entities=said)), 1)}
    names = {n: m.name for m, n in numbers.items()}
    ties = [(names[tie.source], tie.kind, names[tie.target]) for tie in ties_of(numbers)]
    assert sorted(ties) == [
        ("E1 in a.py:3", "occurred_in", "a.py"),
        ("E1 in a.py:3", "occurred_in", "app"),
        ("HOME", "used_in", "app"),
        ("a.py", "part_of", "app"),
        ("b.py", "part_of", "app"),
        ("git", "used_in", "app"),
    ]


mentions = st.lists(
    st.builds(Mention, kinds, st.text("abc", min_size=1, max_size=3)), max_size=200, unique=True
)


@given(mentions)
def test_ties_are_few_and_between_different_things(said: list[Mention]) -> None:
    ties = ties_of({mention: number for number, mention in enumerate(said)})
    assert len(ties) == len(set(ties)) <= 120
    assert all(tie.source != tie.target and tie.kind in TIES for tie in ties)
