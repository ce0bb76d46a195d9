"""The HTTP API: every verb of the stores and of memory, as JSON."""

from functools import cache

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from threadkeep import __version__
from threadkeep.web.answers import json_answer
from threadkeep.web.api import calls, openapi, streams
from threadkeep.web.api.addresses import VERBS
from threadkeep.web.api.endpoints import routes_of
from threadkeep.web.api.openapi import document
from threadkeep.web.api.verb import ApiVerb, Json

DESCRIBED: tuple[ApiVerb, ...] = (*VERBS, *streams.VERBS)


def api_routes() -> list[BaseRoute]:
    """Return the routes below /api."""
    return [Route("/openapi.json", _described), *calls.ROUTES, *routes_of(VERBS), *streams.ROUTES]


@cache
def description() -> Json:
    """Describe the API; it takes a tenth of a second, and never changes."""
    found = document(DESCRIBED, __version__)
    return {**found, "paths": found["paths"] | openapi.PATHS}


async def _described(request: Request) -> Response:
    return await run_in_threadpool(lambda: json_answer(request, description()))
