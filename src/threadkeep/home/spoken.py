"""Who speaks in a captured session, and what each entry of it is; quick to load."""

from threadkeep.knowledge.records import Kind, Role

__all__ = ["Kind", "Role"]
