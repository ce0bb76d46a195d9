"""Live changes: one stream of server-sent events for every page that is open."""

from starlette.routing import BaseRoute


def live_routes() -> list[BaseRoute]:
    """Give the routes of live events."""
    return []
