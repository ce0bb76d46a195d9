"""`threadkeep web`: the browsers that a link let in."""

from typing import TYPE_CHECKING

import click

from threadkeep.cli.command import Call, command, group
from threadkeep.cli.output import counted, document, note, table
from threadkeep.cli.words import when
from threadkeep.errors import Invalid

if TYPE_CHECKING:
    from threadkeep.service.web_access import Login


@group("web", "threadkeep web logins", "threadkeep web revoke --all", bare="logins")
def web() -> None:
    """Logins to the page: list the browsers that used a one-time link, and revoke them.

    `threadkeep up --link` prints a link for another browser.
    """


@command("logins", "threadkeep web logins", "threadkeep web logins --json", lists=True)
def logins(call: Call) -> None:
    """List the logged-in browsers, most recently used first."""
    from threadkeep.service.web_access import Logins, read_token

    found = Logins(call.home).listed(read_token(call.home))
    if call.as_json:
        call.answer("logins", logins=found)
        return
    columns = ("id", "browser", "let in", "last used", "ends if unused")
    table(columns, map(_row, found), wide="browser")
    if not found:
        note("No browser is logged in")


@command("revoke", "threadkeep web revoke 3f9a", "threadkeep web revoke --all")
@click.argument("login", required=False)
@click.option("--all", "every", is_flag=True, help="Revoke every login.")
def revoke(call: Call, *, login: str | None, every: bool) -> None:
    """Revoke LOGIN, or every login: the browser needs a new link.

    Programs that send the token are not affected; deleting the token file ends all access.
    """
    from threadkeep.service.web_access import Logins, read_token

    if (login is None) is not every:
        raise Invalid("name one login, or --all", hint="`threadkeep web logins` lists them")
    kept, token = Logins(call.home), read_token(call.home)
    ended = [kept.revoke(token, login)] if login is not None else kept.revoke_all(token)
    if call.as_json:
        document(revoked=ended)
    else:
        note(f"{counted(len(ended), 'login')} ended")


for _command in (logins, revoke):
    web.add_command(_command)


def _row(login: "Login") -> tuple[str, ...]:
    times = (login.created_at, login.used_at, login.ends_at)
    return (login.id, login.browser, *map(when, times))
