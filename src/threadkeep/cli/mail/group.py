"""The group that holds the commands of the mailbox, and how they open one."""

from typing import Any

import click

from threadkeep.cli.command import Call, Function, group
from threadkeep.cli.options import complete_mail_session
from threadkeep.cli.output import StyledText, is_terminal, json_text, one_line
from threadkeep.cli.words import local_time
from threadkeep.home.mail import is_folder
from threadkeep.mailbox.container.container import Container
from threadkeep.mailbox.context import MailContext
from threadkeep.mailbox.host.host import Host
from threadkeep.mailbox.letters import Letter, look_at
from threadkeep.mailbox.records import Mail, Place
from threadkeep.mailbox.rows import read_moment


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

    SESSION is an id or the beginning of one, the name of an agent with one session, `last`, or the
    path of a session folder, including NanoClaw's.
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
        host.use_zone(zone)
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


# ------------------------------------------------------------------------------
# Mail in words: what was said, when, and where it is on its way.

Json = dict[str, Any]

_MINUTE = 60
_HOUR = 3600
_DAY = 86_400
_STYLES = {
    "failed": "red",
    "unknown": "yellow",
    "pending": "cyan",
    "waiting": "cyan",
    "prepared": "cyan",
    "processing": "cyan",
    "sending": "cyan",
    "paused": "magenta",
}


def when(text: Any) -> str:
    """Write a time of the tables: as the clock on the wall has it for a person, else as it is."""
    ms = read_moment(text) if isinstance(text, str) else None
    if ms is None or not is_terminal():
        return "" if text is None else str(text)
    try:
        return local_time(ms)
    except (OverflowError, ValueError, OSError):
        return str(text)


def age(ms: int | None, now: int) -> str:
    """Write how long ago something was; nothing if it never was."""
    if ms is None:
        return ""
    seconds = max(now - ms, 0) // 1000
    for unit, name in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if seconds >= unit:
            return f"{seconds // unit} {name}"
    return f"{seconds} s"


def words_of(content: Json) -> str:
    """Say what mail is about, whatever its shape."""
    text = content.get("text", content.get("prompt"))
    if content.get("operation") == "reaction":
        return f"[reaction] {content.get('emoji')}"
    if content.get("operation") == "edit":
        return f"[edit] {text}"
    if content.get("type") == "ask_question":
        return f"[question] {content.get('question')} {_options(content.get('options'))}".strip()
    if content.get("type") == "question_response":
        return f"[answer] {content.get('selectedOption', content.get('result'))}"
    if "action" in content:
        rest = {name: value for name, value in content.items() if name != "action"}
        return f"[{content['action']}] {json_text(rest)}"
    return text if isinstance(text, str) else json_text(content)


def _options(options: Any) -> str:
    if not isinstance(options, list):
        return ""
    labels = (one.get("label") if isinstance(one, dict) else one for one in options)
    return f"({' / '.join(str(label) for label in labels)})"


def said(letter: Letter) -> str:
    """Say who says what in a letter, and what is attached."""
    words = words_of(letter.content)
    names = [_file_name(file) for file in _files(letter.content)]
    files = f" [files: {', '.join(names)}]" if names else ""
    sender = letter.content.get("sender")
    who = f"{sender}: " if letter.direction == "in" and sender else ""
    return one_line(f"{who}{words}{files}")


def _files(content: Json) -> list[Any]:
    found = [content.get("attachments"), content.get("files")]
    return [file for files in found if isinstance(files, list) for file in files]


def _file_name(file: Any) -> str:
    return str(file.get("name", "?") if isinstance(file, dict) else file)


def place_text(place: Place) -> str:
    """Write a place as channel:chat, with the thread where there is one."""
    parts = [place.channel_type, place.platform_id, place.thread_id]
    return one_line(":".join(str(part) for part in parts if part))


def letter_pieces(letter: Letter) -> list[StyledText]:
    """Write a letter on one line: mail to the agent begins left, mail from it further right."""
    lead = "" if letter.direction == "in" else "    "
    arrow = "→" if letter.direction == "in" else "←"
    number = "#?" if letter.seq is None else f"#{letter.seq}"
    return [
        StyledText(f"{lead}{arrow} {number} ", "bold"),
        StyledText(f"{one_line(str(letter.state))} ", _STYLES.get(str(letter.state), "dim")),
        StyledText(f"{one_line(str(letter.kind))} ", "dim"),
        StyledText(f"{said(letter)}\n"),
    ]


def state_pieces(letter: Letter) -> list[StyledText]:
    """Write what became of a letter that was shown before."""
    lead = "" if letter.direction == "in" else "    "
    why = f" ({one_line(letter.reason)})" if letter.reason else ""
    return [StyledText(f"{lead}  #{letter.seq} {one_line(str(letter.state))}{why}\n", "dim")]


def mail_json(mail: Mail) -> Json:
    """Shape inbound mail for `--json`, its content as the object it is."""
    shown: Json = {name: getattr(mail, name) for name in mail.__struct_fields__ if name != "raw"}
    return {**shown, "content": mail.content}
