"""The pages of the site."""

from starlette.routing import BaseRoute

from threadkeep.web.page import Page

__all__ = ["PAGES", "PAGE_ROUTES"]

PAGES: tuple[Page, ...] = ()
PAGE_ROUTES: tuple[BaseRoute, ...] = ()  # what is no page: downloads, actions of a page
