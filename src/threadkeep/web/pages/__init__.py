"""The pages of the site."""

from types import ModuleType
from typing import Final

from starlette.routing import BaseRoute

from threadkeep.web.page import SitePage
from threadkeep.web.pages import (
    exports,
    health,
    home,
    logins,
    mail,
    memory,
    recall,
    session,
    sessions,
    timeline,
    usage,
)

__all__ = ["PAGES", "PAGE_ROUTES"]

_MODULES: Final[tuple[ModuleType, ...]] = (
    *(home, recall, timeline, usage, memory, mail, health, logins),
    *(exports, sessions, session),
)

PAGES: Final[tuple[SitePage, ...]] = tuple(
    page for module in _MODULES for page in getattr(module, "PAGES", ())
)
# What is no page: downloads, actions of a page.
PAGE_ROUTES: Final[tuple[BaseRoute, ...]] = tuple(
    route for module in _MODULES for route in getattr(module, "ROUTES", ())
)
