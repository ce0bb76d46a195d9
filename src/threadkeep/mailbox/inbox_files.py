"""Files of the inbox as the content of mail names them, and copies of them for other mail."""

from pathlib import Path, PurePosixPath
from typing import Any, Final

from threadkeep.base import nofollow
from threadkeep.errors import Invalid, NotFound
from threadkeep.mailbox.attachments import DEFAULT_LIMITS, INBOX
from threadkeep.mailbox.names import free_name, is_safe_name
from threadkeep.mailbox.records import Json

_BELOW_INBOX: Final = 2  # the folder of a message, and a file in it


def inbox_file(path: str) -> tuple[str, str] | None:
    """Give the message and the name of a `localPath`, None if it leads anywhere else."""
    box, *rest = PurePosixPath(path).parts or ("",)
    if box != INBOX or len(rest) != _BELOW_INBOX or not all(map(is_safe_name, rest)):
        return None
    return rest[0], rest[1]


def copy_files(folder: Path, content: Json, message_id: str) -> Json:
    """Give content whose attachments are files of another message; they are on the disk then.

    A file that is gone, or not to be trusted, stays named as it was.
    """
    given = content.get("attachments")
    if not isinstance(given, list):
        return content
    files: dict[str, bytes] = {}
    named = [_copied(folder, attachment, message_id, files) for attachment in given]
    if files:
        nofollow.make_dir(folder, INBOX, message_id)
        nofollow.write_files(folder, (INBOX, message_id), files)
    return {**content, "attachments": named}


def _copied(folder: Path, attachment: Any, message_id: str, files: dict[str, bytes]) -> Any:
    path = attachment.get("localPath") if isinstance(attachment, dict) else None
    place = inbox_file(path) if isinstance(path, str) else None
    if place is None:
        return attachment
    source, name = place
    try:
        data = nofollow.read(folder, (INBOX, source), name, DEFAULT_LIMITS.file)
    except (Invalid, NotFound):
        return attachment
    kept = free_name(name, files)
    files[kept] = data
    return {**attachment, "name": kept, "localPath": f"{INBOX}/{message_id}/{kept}"}
