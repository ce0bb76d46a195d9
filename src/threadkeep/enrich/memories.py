"""A revision of a memory becomes a node: what the note says, in its own words."""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from threadkeep.enrich import identifiers as ids
from threadkeep.enrich.composing import dense, joined, listed, project_of, themes_of
from threadkeep.enrich.deciding import telling_sentences, weighed_in
from threadkeep.enrich.evidence import MemoryNote
from threadkeep.enrich.verbatim import verbatim
from threadkeep.enrich.wording import cut_middle, cut_words, plain, readable, sentences
from threadkeep.knowledge.drafts import Mentions, NodeDraft

_SOURCE_LIMIT: Final = 40_000
_SENTENCES: Final = 4
_DECISIONS: Final = 6
# Claude puts name, description and type first, between lines that say nothing.
_FRONT_MATTER: Final = re.compile(r"\A---[ \t]*\n(.*?)\n---[ \t]*(?:\n|\Z)", re.DOTALL)


def note_project(note: MemoryNote) -> str:
    """Name the project that a note belongs to; one of no repository tells none."""
    return "" if note.repository.startswith("local") else project_of(note.repository)


def describe_note(note: MemoryNote) -> str:
    """Write a note down as text: all that a node of it may take names from."""
    lines = [f"Note {note.logical_path}", f"Repository: {note.repository}"]
    lines += [f"Kind: {note.category}"] if note.category else []
    lines += [text for _, text in note.sections]
    return cut_middle(plain("\n".join(lines), _SOURCE_LIMIT * 2), _SOURCE_LIMIT)


def note_draft(note: MemoryNote, source: str) -> NodeDraft:
    """Derive a node from a note."""
    text = "\n".join(text for _, text in note.sections)
    text = readable(_FRONT_MATTER.sub(r"\1\n", text), _SOURCE_LIMIT)
    headings = ids.unique((path.rpartition(" > ")[2] for path, _ in note.sections if path), 12)
    decided = telling_sentences([text])
    project = note_project(note)
    draft = NodeDraft(
        summary=joined(_said(note, text, headings)),
        intent=_intent(note, headings),
        entities=Mentions(
            projects=ids.unique(filter(None, [project])),
            files=ids.distinct_files(ids.files_in(text)),
            services=ids.unique(ids.services_in(text)),
            errors=ids.unique(ids.error_names_in(text)),
            env_vars=ids.unique(ids.variables_in(text)),
            domains=ids.unique(ids.domains_in(text)),
        ),
        tags=ids.unique(["memory", note.category, project, *themes_of(text)[:3]]),
        key_decisions=tuple(decided[:_DECISIONS]),
        design_decisions=weighed_in(decided),
        embed_text=dense(
            *([project, note.logical_path], headings, ids.dense_words(text), text.split()),
        ),
    )
    return verbatim(draft, source)


def _intent(note: MemoryNote, headings: tuple[str, ...]) -> str:
    about = listed(headings, 3) or note.logical_path
    whose = {"user": "who the user is", "feedback": "what was asked for", "index": "what there is"}
    return cut_words(f"Remember {whose.get(note.category, 'what was found out')}: {about}")


def _said(note: MemoryNote, text: str, headings: tuple[str, ...]) -> Iterator[str]:
    yield f"Note {note.logical_path}" + (f": {listed(headings, 6)}" if headings else "")
    body = "\n".join(line for line in text.split("\n") if not line.startswith("#"))
    for sentence in islice(sentences(body), _SENTENCES):
        yield cut_words(sentence)
