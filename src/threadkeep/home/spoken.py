"""The words that options of surfaces choose from; loading them loads nothing else."""

from threadkeep.knowledge.drafts import Outcome
from threadkeep.knowledge.records import Kind, Role
from threadkeep.recall.records import Filters, Kind as HitKind

__all__ = ["Filters", "HitKind", "Kind", "Outcome", "Role"]
