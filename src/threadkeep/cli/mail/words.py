"""Mail in words: what was said, when, and where it is on its way."""

from typing import Any

from threadkeep.cli.chat.words import local_time
from threadkeep.cli.output import is_terminal, json_text, one_line
from threadkeep.cli.wrap import StyledText
from threadkeep.mailbox.letters import Letter
from threadkeep.mailbox.records import Mail, Place
from threadkeep.mailbox.rows import read_moment

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
