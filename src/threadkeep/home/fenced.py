"""How surfaces give stored text to an agent: fenced, labelled, with its age."""

from threadkeep.recall.fence import Item, defused, fenced, new_fence_id
from threadkeep.recall.wording import ago, day_of, label_of

__all__ = ["Item", "ago", "day_of", "defused", "fenced", "label_of", "new_fence_id"]
