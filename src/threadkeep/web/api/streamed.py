"""How the two addresses that stream are described: they take and give no plain JSON."""

from typing import Final

from threadkeep.web.api.verb import Json

_CHAT: Final = {
    "name": "chat_id",
    "in": "path",
    "required": True,
    "schema": {"type": "string"},
    "description": "The id of the session; useChat's own will do.",
}
_EVENTS: Final = {"text/event-stream": {"schema": {"type": "string"}}}


def _refused(*statuses: str) -> Json:
    return {status: {"$ref": f"#/components/responses/{status}"} for status in statuses}


def _named(name: str) -> Json:
    return {"name": name, "in": "query", "schema": {"type": "string"}}


PATHS: Final[Json] = {
    "/api/chat/{chat_id}/stream": {
        "get": {
            "operationId": "follow_reply",
            "summary": "Follow the reply that is recorded now, from its first chunk on.",
            "tags": ["chat"],
            "parameters": [_CHAT],
            "responses": {
                "200": {"description": "Its chunks, then [DONE].", "content": _EVENTS},
                "204": {"description": "No reply is recorded now."},
                **_refused("400", "401"),
            },
        }
    },
    "/api/chat/{chat_id}/record": {
        "post": {
            "operationId": "record_reply",
            "summary": "Record a reply chunk by chunk while it arrives.",
            "tags": ["chat"],
            "parameters": [_CHAT, *(_named(one) for one in ("agent", "model", "message_id"))],
            "requestBody": {
                "required": True,
                "content": {
                    **_EVENTS,
                    "application/x-ndjson": {"schema": {"type": "string"}},
                    "application/json": {"schema": {"type": "array", "items": {"type": "object"}}},
                },
            },
            "responses": {
                "200": {
                    "description": "What was stored, and why it ended.",
                    "content": {"application/json": {"schema": {"type": "object"}}},
                },
                **_refused("400", "401", "409", "413", "415", "422"),
            },
        }
    },
}
