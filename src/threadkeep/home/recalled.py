"""What surfaces need of memory, named in one place, so that none imports a service."""

from threadkeep.knowledge.memory_documents import AskedMemory, MemoryPart, MemoryRevision
from threadkeep.recall.agent_query import AgentAnswer, AgentMode
from threadkeep.recall.asking import Answer, Citation
from threadkeep.recall.conflicts import AgentHit
from threadkeep.recall.failing import Step
from threadkeep.recall.fixing import Fix
from threadkeep.recall.memory import Memory
from threadkeep.recall.records import Filters, Found, Hit, Opened, Why
from threadkeep.recall.timeline import Moment

__all__ = [
    "AgentAnswer",
    "AgentHit",
    "AgentMode",
    "Answer",
    "AskedMemory",
    "Citation",
    "Filters",
    "Fix",
    "Found",
    "Hit",
    "Memory",
    "MemoryPart",
    "MemoryRevision",
    "Moment",
    "Opened",
    "Step",
    "Why",
]
