"""The browsers that were let in: listed, and ended."""

from typing import Final

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from threadkeep.home.stores import Stores
from threadkeep.service.web_access import Login, Logins, read_token
from threadkeep.web.answers import json_answer
from threadkeep.web.lane import PIECE
from threadkeep.web.page import SitePage, SiteRequest


class LoginsPage(msgspec.Struct, frozen=True):
    """The browsers that were let in."""

    logins: list[Login]


def show_logins(visit: SiteRequest) -> LoginsPage:
    """List the logins of the home."""
    home = visit.stores.home
    return LoginsPage(Logins(home).listed(read_token(home), visit.login))


async def revoke(request: Request) -> Response:
    """End a login; a page that asked shows itself anew."""
    login = request.path_params["login"]
    ended = await run_in_threadpool(_revoke, request.app.state.stores, login)
    if request.headers.get(PIECE) == "true":
        return RedirectResponse("/logins", 303)
    return json_answer(request, ended)


def _revoke(stores: Stores, login: str) -> Login:
    return Logins(stores.home).revoke(read_token(stores.home), login)


PAGES: Final = (SitePage("/logins", "logins.html", show_logins, "Browsers"),)
ROUTES: Final[tuple[BaseRoute, ...]] = (Route("/logins/{login}/revoke", revoke, methods=["POST"]),)
