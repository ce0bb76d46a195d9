"""Home: a folder and its stores; each part is loaded when it is first asked for."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from threadkeep.home.home import Home

__all__ = ["Home"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'threadkeep.home' has no attribute {name!r}")
    return getattr(import_module("threadkeep.home.home"), name)
