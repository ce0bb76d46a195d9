"""The group that holds the commands of the mailbox, and how they open one."""

import click

from threadkeep.cli.command import Call, Function, group
from threadkeep.cli.complete import complete_mail_session
from threadkeep.home.mail import is_folder
from threadkeep.mailbox.container.container import Container
from threadkeep.mailbox.context import MailContext
from threadkeep.mailbox.host.host import Host
from threadkeep.mailbox.letters import look_at


@group(
    "mail",
    "threadkeep mail demo",
    "threadkeep mail new helper --channel cli --chat me",
    'threadkeep mail send last "Good morning"',
    'threadkeep mail serve --agent "threadkeep mail echo"',
    "threadkeep mail ls ./data/v2-sessions/ag-1/sess-1",
)
def mail() -> None:
    """Mail between a host and an agent in a sandbox, over two SQLite files in a folder.

    Where a SESSION is asked for, the beginning of its id will do, the name of an agent with one
    session, `last`, or the path of any session folder, also of one that NanoClaw made.
    """


def session_argument(function: Function) -> Function:
    """Add the argument that names a session."""
    return click.argument("session", shell_complete=complete_mail_session)(function)


def optional_session(function: Function) -> Function:
    """Add the argument that names a session, or leaves all of them meant."""
    argument = click.argument("session", required=False, shell_complete=complete_mail_session)
    return argument(function)


# ---------------------------------------------------------------------- opening


def looking(call: Call, session: str) -> MailContext:
    """Open a mailbox to look at it: nothing is added to it."""
    return look_at(call.home.mail_folder(session), zone=call.home.zone)


def hosting(call: Call, session: str, zone: str | None = None) -> Host:
    """Open the host's side of a mailbox; one that NanoClaw made gets our side tables."""
    host = Host(call.home.mail_folder(session), zone=call.home.zone_named(zone))
    if zone is not None:  # somebody means another one than the session's own
        host.context = host.context._replace(zone=zone)
    return host


def containing(call: Call, session: str) -> Container:
    """Open the agent's side of a mailbox."""
    return Container(call.home.mail_folder(session), zone=call.home.zone)


def is_of_mailroom(session: str) -> bool:
    """Tell whether a name means a session of this home's mailroom, not a folder elsewhere."""
    return not is_folder(session)


def message_ref(text: str) -> str | int:
    """Read what names a message: a number, or an id."""
    plain = text.removeprefix("#")
    return int(plain) if plain.isascii() and plain.isdigit() else text
