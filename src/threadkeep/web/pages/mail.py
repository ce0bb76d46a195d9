"""The mailbox pages: all mailboxes, and the letters of one in two columns."""

from typing import Final
from urllib.parse import quote

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from threadkeep.home.mail import Mailbox, MailboxRow, mailboxes, one_mailbox, try_again
from threadkeep.home.stores import Stores
from threadkeep.web.answers import json_answer
from threadkeep.web.page import PIECE, SitePage, SiteRequest

_LETTERS: Final = 200
_MOST: Final = 5000


class MailPage(msgspec.Struct, frozen=True):
    """All mailboxes of a home."""

    boxes: tuple[MailboxRow, ...]


class MailboxPage(msgspec.Struct, frozen=True):
    """One mailbox."""

    mailbox: Mailbox
    state: str  # only letters in this state; empty: all
    limit: int


def list_mailboxes(visit: SiteRequest) -> MailPage:
    """Return all mailboxes, the latest first."""
    found = mailboxes(visit.stores.home)
    return MailPage(tuple(sorted(found, key=lambda box: box.last_active or 0, reverse=True)))


def show_mailbox(visit: SiteRequest) -> MailboxPage:
    """Return one mailbox with its newest letters."""
    state = visit.query.get("state", "")
    limit = max(1, visit.number("limit", _LETTERS, _MOST))
    mailbox = one_mailbox(visit.stores.home, visit.path["session"], state=state, limit=limit)
    return MailboxPage(mailbox, state, limit)


async def retry(request: Request) -> Response:
    """Try a dead letter again; a page that asked shows itself again."""
    stores: Stores = request.app.state.stores
    session, letter = request.path_params["session"], request.path_params["letter"]
    force = request.query_params.get("force") == "1"
    tried = await run_in_threadpool(try_again, stores.home, session, letter, force=force)
    if request.headers.get(PIECE) == "true":
        return RedirectResponse(f"/mail/{quote(session, safe='')}", 303)
    return json_answer(request, {"letter": letter, "now": tried})


PAGES: Final = (
    SitePage("/mail", "mail.html", list_mailboxes, "Mail"),
    SitePage("/mail/{session}", "mailbox.html", show_mailbox, "Mailbox"),
)
ROUTES: Final[tuple[BaseRoute, ...]] = (
    Route("/mail/{session}/retry/{letter:path}", retry, methods=["POST"]),
)
