"""The pages of the site."""

from typing import Final

from starlette.routing import BaseRoute

from threadkeep.web.page import SitePage
from threadkeep.web.pages import health, home, mail, recall, sessions, usage

__all__ = ["PAGES", "PAGE_ROUTES"]

PAGES: Final[tuple[SitePage, ...]] = (
    *(*home.PAGES, *recall.PAGES, *recall.TIMELINE_PAGES, *usage.PAGES, *recall.MEMORY_PAGES),
    *(*mail.PAGES, *health.PAGES, *health.LOGINS_PAGES, *sessions.PAGES, *sessions.SESSION_PAGES),
)
# What is no page: downloads, actions of a page.
PAGE_ROUTES: Final[tuple[BaseRoute, ...]] = (
    *(*usage.ROUTES, *mail.ROUTES, *health.ROUTES, *health.LOGINS_ROUTES, *sessions.ROUTES),
)
