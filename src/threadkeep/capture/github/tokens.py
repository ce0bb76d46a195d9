"""Where the token comes from: the environment, else the program `gh`."""

import logging
import subprocess
from collections.abc import Callable, Mapping
from typing import Final

from threadkeep.capture.github.http import parse_url

log = logging.getLogger(__name__)

# After the variable that the configuration names.
VARIABLES: Final = ("HIPPO_GITHUB_TOKEN", "GITHUB_TOKEN", "GH_TOKEN")
_GH_SECONDS: Final = 2.0
_GITHUB: Final = "api.github.com"


def find_token(
    token_env: str,
    api_url: str,
    environ: Mapping[str, str],
    ask: Callable[[str], str | None] | None = None,
) -> str | None:
    """Find the token for a server, None if there is none; `ask` is asked last, with its host."""
    for name in (token_env, *VARIABLES):
        if token := environ.get(name, "").strip():
            return token
    host = parse_url(api_url).origin.host
    return (ask or ask_gh)("github.com" if host == _GITHUB else host)


def ask_gh(host: str) -> str | None:
    """Ask the program `gh` for the token that it uses for a host."""
    command = ["gh", "auth", "token", "--hostname", host]
    try:
        said = subprocess.run(  # noqa: S603  (the host is from the user's own configuration)
            command,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=_GH_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        log.debug("gh was not asked for a token: %s", type(error).__name__)
        return None
    return (said.stdout.strip() or None) if said.returncode == 0 else None
