"""Names of attachments: which are safe as a file's name, and what the nameless are called."""

import posixpath
import unicodedata
from collections.abc import Collection, Mapping
from hashlib import blake2b
from itertools import chain, count
from typing import Any, Final, TypeGuard

NAME_BYTES: Final = 255  # what file systems hold

_BY_MIME: Final = {
    "image/jpeg": "jpg",
    "image/png": "png",
    "image/webp": "webp",
    "image/gif": "gif",
    "image/heic": "heic",
    "audio/ogg": "ogg",
    "audio/mpeg": "mp3",
    "audio/wav": "wav",
    "audio/mp4": "m4a",
    "video/mp4": "mp4",
    "video/webm": "webm",
    "video/quicktime": "mov",
    "application/pdf": "pdf",
    "text/plain": "txt",
    "application/json": "json",
    "application/zip": "zip",
}
_BY_KIND: Final = {
    "image": "jpg",
    "photo": "jpg",
    "sticker": "webp",
    "voice": "ogg",
    "audio": "mp3",
    "video": "mp4",
    "animation": "mp4",
}


def is_safe_name(text: object) -> TypeGuard[str]:
    r"""Tell whether a value can name a file inside its folder and nothing else.

    Both slashes are out, also where `\` is an ordinary character: the other side may be another
    system. Colons are in, because ids have them.
    """
    return (
        isinstance(text, str)
        and text not in {"", ".", ".."}
        and not any(character in text for character in "/\\\0")
        and _fits(text)
    )


def folder_for(message_id: str) -> str:
    """Give the folder of a message's files: its id, or a name made of it if that is unsafe.

    Some platforms have slashes in their ids.
    """
    if is_safe_name(message_id):
        return message_id
    digest = blake2b(message_id.encode("utf-8", "surrogatepass"), digest_size=16)
    return f"files-{digest.hexdigest()}"


def _fits(text: str) -> bool:
    try:
        return len(text.encode()) <= NAME_BYTES
    except UnicodeEncodeError:  # half a character, which no file system can hold
        return False


def extension_for(mime: object, kind: object) -> str:
    """Give the extension for a MIME type, else for a kind such as `voice`; empty if unknown."""
    plain = mime.partition(";")[0].strip().lower() if isinstance(mime, str) else ""
    by_kind = _BY_KIND.get(kind.lower(), "") if isinstance(kind, str) else ""
    return _BY_MIME.get(plain, by_kind)


def attachment_name(attachment: Mapping[str, Any], ms: int) -> str:
    """Name an attachment: its own name, or one made of the time; always a safe one."""
    made = f"attachment-{ms}"
    given = attachment.get("name")
    if given and isinstance(given, str):
        return given if is_safe_name(given) else made
    extension = extension_for(attachment.get("mimeType"), attachment.get("type"))
    return f"{made}.{extension}" if extension else made


def free_name(name: str, taken: Collection[str]) -> str:
    """Give the name, or the first of `name-2.ext`, `name-3.ext`, … that is not taken.

    Two names are the same where any file system takes them for the same: capitals and ways to
    write an accent make no difference.
    """
    folded = {_folded(other) for other in taken}
    wanted = chain([name], (_numbered(name, number) for number in count(2)))
    return next(candidate for candidate in wanted if _folded(candidate) not in folded)


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def _numbered(name: str, number: int) -> str:
    tag = f"-{number}"
    stem, extension = posixpath.splitext(name)
    room = NAME_BYTES - len(tag) - len(extension.encode())
    if room < 1:  # an extension that fills the name is none
        return _cut(name, NAME_BYTES - len(tag)) + tag
    return _cut(stem, room) + tag + extension


def _cut(text: str, size: int) -> str:
    return text.encode()[:size].decode(errors="ignore")
