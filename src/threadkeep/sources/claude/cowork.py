"""Cowork, the agent mode of Claude's desktop program: what is known of a session beside its lines.

The transcripts are Claude Code's and are read as such; the folder in them is one of a sandbox. The
title and the folder that the user chose stand in a file of their own.
"""

from typing import Any, Final

from threadkeep.knowledge.records import SessionFacts
from threadkeep.sources.common import rows, table, text
from threadkeep.sources.format import DocumentFiles, Documents, Keyed, Told
from threadkeep.sources.places import place

_FOLDER: Final = "Claude/local-agent-mode-sessions"


def _split(files: DocumentFiles) -> list[Keyed]:
    return [("session", files.json())]


def _read(record: Any, _number: int) -> Told:
    fields = table(record)
    folder = text(next(iter(rows(fields.get("userSelectedFolders"))), ""))
    facts = SessionFacts(
        title=text(fields.get("title")),
        model=text(fields.get("model")),
        cwd=folder,
        began_in=folder,
    )
    return Told(facts=facts, session_id=text(fields.get("cliSessionId")))


SOURCE: Final = Documents(
    agent="claude-code",
    label="Claude",
    places=(
        place(
            (f"{{config}}/{_FOLDER}", f"{{support}}/{_FOLDER}", f"{{roaming}}/{_FOLDER}"),
            "*/*/local_*.json",
        ),
    ),
    split=_split,
    read=_read,
)
