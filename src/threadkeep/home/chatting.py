"""What surfaces need of the chat store beyond its verbs, named in one place."""

from threadkeep.chat.diff import SessionDiff
from threadkeep.chat.permissions import Verdict
from threadkeep.chat.records import Event, Message, Run, Session
from threadkeep.chat.retention import PruneReport, SizeReport
from threadkeep.chat.search import Hit
from threadkeep.chat.timeline import Timeline
from threadkeep.chat.transfer import ImportReport
from threadkeep.chat.views import View

__all__ = [
    "Event",
    "Hit",
    "ImportReport",
    "Message",
    "PruneReport",
    "Run",
    "Session",
    "SessionDiff",
    "SizeReport",
    "Timeline",
    "Verdict",
    "View",
]
