"""Who is at the other end of a connection, as far as that can be known."""

import os
from collections.abc import Mapping
from typing import Any, Final

from threadkeep.base.local_socket import peer_user

_ROOT: Final = 0  # reads our files in any case; what passes connections on often runs as it


def is_our_own(scope: Mapping[str, Any]) -> bool | None:
    """Tell whether a request comes from a program of the same user; None: nobody can tell."""
    client, server = scope.get("client"), scope.get("server")
    if not client or not server or server[1] is None:
        return None
    user = peer_user((client[0], client[1]), (server[0], server[1]))
    return None if user is None else user in {os.getuid(), _ROOT}


def finds_own_name(user_agent: str) -> bool:
    """Tell whether a browser looks for `*.localhost` on its own machine; all but Safari do."""
    return "Safari/" not in user_agent or any(
        word in user_agent for word in ("Chrome/", "Chromium/", "CriOS/", "FxiOS/", "EdgiOS/")
    )
