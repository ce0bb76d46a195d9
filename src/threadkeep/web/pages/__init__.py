"""The pages of the site."""

from typing import Final

from msgspec.structs import replace
from starlette.routing import BaseRoute

from threadkeep.web import aliases
from threadkeep.web.page import SitePage
from threadkeep.web.pages import (
    health,
    home,
    mail,
    projects,
    recall,
    session_views,
    sessions,
    sql,
    usage,
)

__all__ = ["PAGES", "PAGE_ROUTES"]

_NAMED: Final[tuple[SitePage, ...]] = (
    *(*home.PAGES, *recall.PAGES, *recall.TIMELINE_PAGES, *usage.PAGES, *recall.MEMORY_PAGES),
    *(*projects.PAGES, *sql.PAGES, *session_views.PAGES),
    *(*mail.PAGES, *health.PAGES, *health.LOGINS_PAGES, *sessions.PAGES, *sessions.SESSION_PAGES),
)
_BY_PATH = {one.path: one for one in _NAMED}
PAGES: Final[tuple[SitePage, ...]] = (
    *_NAMED,
    *(replace(_BY_PATH[new], path=old) for old, new in aliases.PAGES.items()),
)
# What is no page: downloads, actions of a page.
PAGE_ROUTES: Final[tuple[BaseRoute, ...]] = (
    *(*home.ROUTES, *sql.ROUTES),
    *(*usage.ROUTES, *mail.ROUTES, *health.ROUTES, *health.LOGINS_ROUTES, *sessions.ROUTES),
)
