"""Addresses of earlier versions: they answer for one more, and no description names them."""

from typing import Final

# Below /api.
API: Final = {
    "/history/sessions": "/sessions",
    "/history/sessions/{session}": "/sessions/{session}",
    "/history/sessions/{session}/window": "/sessions/{session}/window",
    "/history/sessions/{session}/find": "/sessions/{session}/find",
    "/history/sessions/{session}/raw": "/sessions/{session}/raw",
    "/history/facets": "/sessions/facets",
    "/history/parse": "/sessions/parse",
    "/history/usage": "/usage",
    "/history/activity": "/usage/activity",
    "/history/blocks": "/usage/blocks",
    "/history/today": "/usage/today",
    "/history/projects": "/projects",
    "/history/coverage": "/coverage",
    "/history/forget": "/forget",
    "/history/commands": "/commands",
    "/history/pages": "/visits",
    "/history/ci": "/runs",
    "/history/ci/{run}": "/runs/{run}",
    "/memory/nodes": "/nodes",
    "/memory/nodes/{node}": "/nodes/{node}",
    "/memory/entities": "/entities",
    "/memory/entities/{entity}": "/entities/{entity}",
    "/memory/graph": "/entities/graph",
    "/memory/lessons": "/lessons",
    "/memory/recall": "/recall",
    "/memory/open/{ref}": "/open/{ref}",
    "/memory/ask": "/ask",
    "/memory/fixed": "/fixed",
    "/memory/similar": "/similar",
    "/memory/context": "/context",
    "/memory/timeline": "/timeline",
    "/memory/query": "/notes/query",
    "/memory/history": "/notes/history",
}
# Of the site.
PAGES: Final = {"/memory": "/nodes", "/memory/{uuid}": "/nodes/{uuid}"}
