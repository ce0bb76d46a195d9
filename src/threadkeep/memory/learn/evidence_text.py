"""What a node is written from, and who else may write it."""

from collections.abc import Callable
from typing import Literal

import msgspec

from threadkeep.knowledge.records import NodeDraft

Kind = Literal["shell", "agentic", "browser", "workflow", "memory"]


class Material(msgspec.Struct, frozen=True):
    """One piece of evidence as text, and what the rules made of it."""

    queue: str  # the queue that its tickets stand in
    kind: Kind  # chooses the prompt
    source: str  # all text that a node may take names from
    project: str  # the project that it belongs to, empty if unknown
    roots: tuple[str, ...]  # folders of projects, to shorten paths
    rules_draft: NodeDraft  # what is written when no author takes it


# Gives a node and the name of the model that wrote it; None leaves the node to the rules.
Author = Callable[[Material], tuple[NodeDraft, str] | None]
