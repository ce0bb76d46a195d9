"""The page's own door: the browsers that were let in."""

from typing import Annotated

import msgspec
from msgspec import Meta

from threadkeep.base.page import Page
from threadkeep.base.verb_table import Given
from threadkeep.home.stores import Stores
from threadkeep.service.web_access import Login, Logins, read_token
from threadkeep.web.api.verb import ApiVerb, Empty, verb


class OneLogin(Given, frozen=True):
    """A login, by its id or a beginning of it that only one has."""

    login: Annotated[str, Meta(pattern="^[0-9a-f]{1,10}$")]


class Revoked(msgspec.Struct, frozen=True):
    """Logins that were ended."""

    revoked: list[Login]


def logins(stores: Stores, _: Empty) -> Page[Login]:
    """List the browsers that a link let in, those used last first."""
    return Page(Logins(stores.home).listed(read_token(stores.home)))


def revoke(stores: Stores, asked: OneLogin, _: Empty) -> Login:
    """End a login, at once."""
    return Logins(stores.home).revoke(read_token(stores.home), asked.login)


def revoke_all(stores: Stores, _: Empty, __: Empty) -> Revoked:
    """End every login, at once; the token still holds."""
    return Revoked(Logins(stores.home).revoke_all(read_token(stores.home)))


VERBS: tuple[ApiVerb, ...] = (
    verb("GET", "/web/logins", logins),
    verb("POST", "/web/logins/revoke", revoke_all),
    verb("POST", "/web/logins/{login}/revoke", revoke),
)
