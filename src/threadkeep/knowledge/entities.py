"""What nodes mention: one row for each thing, however it is spelled, and what ties things together.

Two spellings are one entity when their canonical forms are equal. A tie says how two things that
one node mentions belong together, and `evidence_count` is how many nodes mention both. A new node
adds one; when nodes go, their ties are counted again from those that are left, and a tie that none
knows of goes too. So evidence that is told of again and again counts once.
"""

import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

from threadkeep.base.json import encode
from threadkeep.base.text import decoded
from threadkeep.base.tx import Tx
from threadkeep.knowledge.records import Mentions, NodeDraft

# What a draft calls its lists -> the type of entity in them, in the contract's order.
TYPES: Final[Mapping[str, str]] = {
    "projects": "project",
    "tools": "tool",
    "files": "file",
    "services": "service",
    "errors": "concept",
    "env_vars": "env_var",
    "domains": "domain",
}
_WITHOUT_WORKTREES: Final = frozenset({"file", "directory", "path", "project"})
_WITHOUT_ROOTS: Final = _WITHOUT_WORKTREES - {"project"}
# A copy of the project that an agent works in for an hour; its name says nothing.
_WORKTREE: Final = re.compile(r"(^|/)\.claude/worktrees/[^/]+(/|$)", re.IGNORECASE)

_ROLES: Final[Mapping[str, str]] = {"tool": "tool", "project": "project"}  # else "mentioned"
# Type -> how it belongs to the project of its node.
_TO_PROJECT: Final[Mapping[str, str]] = {
    "file": "part_of",
    "tool": "used_in",
    "service": "used_in",
    "env_var": "used_in",
    "concept": "occurred_in",
}
TIES: Final = ("part_of", "used_in", "occurred_in")
# Of each type so many are tied: a node that names fifty files makes no fifty rows of each kind.
_TIED_OF_EACH: Final = 20


class Mention(NamedTuple):
    """A thing of some type, by the name that it has in the source."""

    type: str
    name: str


class Tie(NamedTuple):
    """Two entities, by their numbers, and the verb between them."""

    source: int
    target: int
    kind: str


# ---------------------------------------------------------------------- names


def canonical(kind: str, name: str, *, roots: Sequence[str] = (), home: str | None = None) -> str:
    """Give the form in which all spellings of a thing are equal; `home` is the user's own if None.

    A file is named from the root of its project, if that is among `roots`.
    """
    plain = re.sub(r"\s+", " ", _expand(name, home).strip().lower().rstrip("/"))
    if kind in _WITHOUT_WORKTREES:
        plain = strip_worktrees(plain)
        for root in (_expand(root, home).lower().rstrip("/") for root in roots):
            if root and plain == root:
                return root.rpartition("/")[2]
            if root and kind in _WITHOUT_ROOTS and plain.startswith(root + "/"):
                return plain.removeprefix(root + "/")
    return plain


def strip_worktrees(path: str) -> str:
    """Take the folders of agents' own copies out of a path."""
    while (shorter := _WORKTREE.sub(_joined, path)) != path:
        path = shorter
    return path


def _joined(found: re.Match[str]) -> str:
    return found[1] if found[2] else ""


def _expand(path: str, home: str | None) -> str:
    if home is None:
        return os.path.expanduser(path)  # noqa: PTH111  (a name need not be a path)
    return home + path[1:] if path == "~" or path.startswith("~/") else path


def mentions_of(draft: NodeDraft) -> list[Mention]:
    """Return all that a draft mentions, each once."""
    found = (
        Mention(kind, name)
        for group, kind in TYPES.items()
        for name in _group(draft.entities, group)
        if name.strip()
    )
    return list(dict.fromkeys(found))


def _group(mentions: Mentions, group: str) -> tuple[str, ...]:
    names: tuple[str, ...] = getattr(mentions, group)
    return names


# ---------------------------------------------------------------------- rows


def put_entities(
    tx: Tx, mentions: Iterable[Mention], *, now: int, roots: Sequence[str] = ()
) -> dict[Mention, int]:
    """Store what is mentioned, or note that it was seen again; give the numbers of the rows."""
    numbers: dict[Mention, int] = {}
    for mention in mentions:
        kind, name = mention
        shown = strip_worktrees(name) if kind in _WITHOUT_WORKTREES else name
        values = {
            "type": kind,
            "name": shown or name,
            "canonical": canonical(kind, name, roots=roots),
            "now": now,
        }
        if values["canonical"]:
            numbers[mention] = int(tx.value("put_entity", values))
    return numbers


def link_entities(tx: Tx, node: int, entities: Iterable[int]) -> None:
    """Say that a node mentions entities."""
    tx.run_bulk(
        "link_entity", [{"node": node, "row": entity} for entity in dict.fromkeys(entities)]
    )


def note_in_events(
    tx: Tx, events: Sequence[int], entities: Mapping[Mention, int], now: int
) -> None:
    """Say which events name an entity in their own words: command, folder or output."""
    named = [
        (one.name, number, _ROLES.get(one.type, "mentioned")) for one, number in entities.items()
    ]
    rows = []
    for event, *texts in tx.all("texts_of_events", {"ids": encode(list(events))}):
        text = "\n".join(decoded(part) for part in texts if part)
        rows += [
            {"event": event, "entity": number, "role": role, "now": now}
            for name, number, role in named
            if name in text and occurs(name, text)
        ]
    tx.run_bulk("put_event_entity", rows)


def occurs(name: str, text: str) -> bool:
    """Tell whether a name stands in a text by itself, not as a piece of a longer word."""
    at = text.find(name) if name else -1
    while at >= 0:
        end = at + len(name)
        if not (
            _is_one_word(text[at - 1 : at + 1] if at else "")
            or _is_one_word(text[end - 1 : end + 1])
        ):
            return True
        at = text.find(name, at + 1)
    return False


def _is_one_word(around: str) -> bool:
    """Tell whether the two characters around an edge belong together."""
    return len(around) == 2 and all(c.isalnum() or c == "_" for c in around)  # noqa: PLR2004


# ---------------------------------------------------------------------- ties


def ties_of(entities: Mapping[Mention, int]) -> list[Tie]:
    """Say how the things that one node mentions belong together.

    Everything belongs to the project that is named first; an error also to the files in its text.
    """
    by_type: dict[str, list[Mention]] = {}
    for mention in entities:
        by_type.setdefault(mention.type, []).append(mention)
    pairs = [
        (mention, project, verb)
        for project in by_type.get("project", ())[:1]
        for kind, verb in _TO_PROJECT.items()
        for mention in islice(by_type.get(kind, ()), _TIED_OF_EACH)
    ]
    errors, files = by_type.get("concept", ()), by_type.get("file", ())
    in_files = (
        (error, file, "occurred_in")
        for error in errors
        for file in files
        if occurs(file.name, error.name)
    )
    pairs += islice(in_files, _TIED_OF_EACH)
    ties = (Tie(entities[one], entities[other], verb) for one, other, verb in pairs)
    return list(dict.fromkeys(tie for tie in ties if tie.source != tie.target))


def ties_among(tx: Tx, node: int) -> list[Tie]:
    """Return the ties between the entities that a node mentions, before it goes."""
    return [Tie(*row) for row in tx.all("ties_of_node", {"id": node})]


def put_ties(tx: Tx, node: int, ties: Iterable[Tie], now: int, *, is_new: bool) -> None:
    """Store the ties that a node makes, and count it; one that was there before counts already."""
    known = set(ties_among(tx, node))
    for tie in ties:
        tx.run("put_tie", {**tie._asdict(), "now": now})
        if tie not in known:  # perhaps others mention both, and were tied to something else
            recount(tx, [tie])
    for tie in known if is_new else ():
        _weigh(tx, tie, int(tx.value("strength_of_tie", tie._asdict())) + 1)


def recount_some(tx: Tx, limit: int) -> None:
    """Recount some ties: a program that knows nothing of them may have dropped their nodes."""
    recount(tx, [Tie(*row) for row in tx.all("some_ties", {"limit": limit})])


def recount(tx: Tx, ties: Iterable[Tie]) -> None:
    """Count again how many nodes mention both ends; a tie that none knows of is dropped."""
    for tie in ties:
        # Counting 3,000 nodes takes 3.4 ms: too long for each tie of each node that is written.
        count = int(tx.value("count_tie", {"target": tie.target, "source": tie.source}))
        if count:
            _weigh(tx, tie, count)
        else:
            tx.run("drop_tie", tie._asdict())


def _weigh(tx: Tx, tie: Tie, count: int) -> None:
    weight = round(1 + math.log(count), 3)
    tx.run("weigh_tie", {**tie._asdict(), "count": count, "weight": weight})
