"""A session to take away: as one offline page, or in any form that another program reads."""

import re
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from threadkeep.errors import Invalid
from threadkeep.home.hand_off import FORMATS, exported
from threadkeep.home.stores import Stores
from threadkeep.knowledge.results import SessionDetail
from threadkeep.web.answers import as_json
from threadkeep.web.offline import all_blocks, offline_page

_ENDINGS: Final = {
    "html": "html",
    "markdown": "md",
    "jsonl": "jsonl",
    "claude-code": "jsonl",
    "codex": "jsonl",
}
_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "md": "text/markdown; charset=utf-8",
    "json": "application/json",
    "jsonl": "application/x-ndjson",
}
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")


def export(request: Request) -> Response:
    """Give a session as a file."""
    form = request.query_params.get("format", "html")
    if form not in (*FORMATS, "json"):
        known = ", ".join(sorted({*FORMATS, "json"}))
        raise Invalid(f"there is no format {form!r}", hint=f"there are {known}")
    stores: Stores = request.app.state.stores
    detail = stores.browse().session(request.path_params["ref"])
    ending = _ENDINGS.get(form, "json")
    name = file_name(detail, form, ending)
    return Response(
        _content(request, stores, detail, form),
        media_type=_TYPES[ending],
        headers={"content-disposition": f'attachment; filename="{name}"'},
    )


def _content(request: Request, stores: Stores, detail: SessionDetail, form: str) -> bytes:
    listed = detail.listed
    if form == "html":
        renderer = request.app.state.renderer
        return offline_page(stores.browse(), listed.ref, renderer).encode("utf-8", "replace")
    if form == "json":
        blocks = list(all_blocks(stores.browse(), listed.ref))
        return as_json({"session": detail, "blocks": blocks})
    return exported(stores.archive(), listed.session, form).encode("utf-8", "replace")


def file_name(detail: SessionDetail, form: str, ending: str) -> str:
    """Name a file after a session, with nothing in it that a header or a disk minds."""
    session = detail.listed.session
    words = _UNSAFE.sub("-", session.name.lower())[:60].strip("-.")
    kind = "" if form in {"html", "markdown", "json", "jsonl"} else f".{form}"
    name = _UNSAFE.sub("-", f"{session.harness}-{words or session.session_id[:40]}").strip("-.")
    return f"{name or 'session'}{kind}.{ending}"


ROUTES: Final[tuple[BaseRoute, ...]] = (Route("/sessions/{ref:path}/export", export),)
