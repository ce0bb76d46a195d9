"""The HTTP API: every verb of the stores and of memory, as JSON."""

from starlette.routing import BaseRoute


def api_routes() -> list[BaseRoute]:
    """Give the routes below /api."""
    return []
