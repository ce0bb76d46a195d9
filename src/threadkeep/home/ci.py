"""How a home's view of CI is opened: its store, its settings, and the server that is asked."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from threadkeep.github.api import Api
from threadkeep.github.ci import Ci
from threadkeep.github.tokens import find_token
from threadkeep.knowledge.store import KnowledgeStore

if TYPE_CHECKING:
    from threadkeep.home.facade import Home


def make_ci(home: "Home", store: KnowledgeStore, repos: tuple[str, ...] = ()) -> Ci:
    """Put a store and the settings of a home together; `repos` are followed instead of its own."""
    settings = home.config.github
    if repos:
        settings = msgspec.structs.replace(settings, watched_repos=repos)

    def api(sleep: Callable[[float], None]) -> Api:
        token = find_token(settings.token_env, settings.api_url, home.environ)
        return Api(settings.api_url, token, sleep=sleep)

    return Ci(store, settings, home.redactor().text, api)
