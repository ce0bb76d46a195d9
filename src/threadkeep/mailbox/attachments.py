"""Names of attachments: which are safe as a file's name, and what the nameless are called."""

import binascii
import logging
import posixpath
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from itertools import chain, count
from pathlib import Path, PurePosixPath
from typing import Any, Final, TypeGuard

import msgspec

from threadkeep.base import nofollow
from threadkeep.errors import Conflict, Invalid, NotFound, ThreadkeepError, TooLarge
from threadkeep.mailbox.arguments import shown
from threadkeep.mailbox.records import Json

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
    """Return the folder of a message's files: its id, or a name made of it if that is unsafe.

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
    """Return the extension for a MIME type, else for a kind such as `voice`; empty if unknown."""
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
    """Return the name, or the first of `name-2.ext`, `name-3.ext`, … that is not taken.

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


# ------------------------------------------------------------------------------
# Attachments of mail: files of a session's folder, in `inbox/<message>/` and `outbox/<message>/`.
#
# The agent may change anything in that folder while we work in it, so every access goes through
# `base.nofollow`. Files are on the disk before the row that names them is written.

INBOX: Final = "inbox"
OUTBOX: Final = "outbox"

log = logging.getLogger(__name__)

# How attachments become files: folder, message, attachments and time give them without data.
Stage = Callable[[Path, str, Sequence[Json], int], list[Json]]
# A file to send: from its path under its own name, or under a name of its own.
Outgoing = Path | tuple[str, bytes | Path]


class AttachmentLimits(msgspec.Struct, frozen=True):
    """How much one message may bring along; sizes in bytes."""

    file: int = 50 * 1024 * 1024
    message: int = 100 * 1024 * 1024
    files: int = 32


class Attachments(msgspec.Struct, frozen=True):
    """The files of a message that can be sent, and those that cannot, each with the reason."""

    files: list[tuple[str, bytes]]
    skipped: list[tuple[str, str]]


DEFAULT_LIMITS: Final = AttachmentLimits()


def stage(
    folder: Path,
    message_id: str,
    attachments: Sequence[Json],
    ms: int,
    limits: AttachmentLimits = DEFAULT_LIMITS,
) -> list[Json]:
    """Write the base64 `data` of attachments as files of the inbox; give them without it.

    All or none is written. A retry finds its files and is content, if `ms` is the same: it
    names the nameless, so let it be the message's own time.
    """
    files: dict[str, bytes] = {}
    staged: list[Json] = []
    decoded = _decode_all(attachments, limits)
    for attachment, data in zip(attachments, decoded, strict=True):
        if data is None:
            staged.append(attachment)
            continue
        name = free_name(attachment_name(attachment, ms), files)
        files[name] = data
        rest = {key: value for key, value in attachment.items() if key != "data"}
        staged.append({**rest, "name": name, "localPath": _local_path(message_id, name)})
    if files:
        _place(folder, INBOX, message_id, files)
    return staged


def stage_what_can_be(
    folder: Path,
    message_id: str,
    attachments: Sequence[Json],
    ms: int,
    limits: AttachmentLimits = DEFAULT_LIMITS,
) -> list[Json]:
    """Write what attachments can be written; the others say in their `error` why they were not.

    For words that cannot be had again: they are worth more than a file.
    """
    try:
        return stage(folder, message_id, attachments, ms, limits)
    except Conflict:  # an id that was used before: the caller has another
        raise
    except ThreadkeepError as error:
        log.warning("not all files of message %r can be kept: %s", message_id, error)
    kept: list[Json] = []
    for number, attachment in enumerate(attachments):
        try:
            kept += stage(folder, message_id, [attachment], ms + number, limits)
        except ThreadkeepError as error:
            kept.append(_without_data(attachment, error.message.removeprefix(f"{folder}/")))
    return kept


def _without_data(attachment: object, reason: str) -> Json:
    told = attachment if isinstance(attachment, Mapping) else {"name": shown(attachment)}
    return {**{key: value for key, value in told.items() if key != "data"}, "error": reason}


def collect(
    folder: Path,
    message_id: str,
    names: Sequence[object],
    limits: AttachmentLimits = DEFAULT_LIMITS,
) -> Attachments:
    """Read the named files of the outbox; what is missing or not to be trusted is skipped."""
    found = Attachments(files=[], skipped=[])
    room = limits.message
    for name in names[: limits.files]:
        try:
            data = _read_outgoing(folder, message_id, name, min(limits.file, room))
        except (Invalid, NotFound) as error:
            reason = error.message.removeprefix(f"{folder}/")  # the agent may be told it
            found.skipped.append((name if isinstance(name, str) else shown(name), reason))
        else:
            found.files.append((str(name), data))
            room -= len(data)
    if len(names) > limits.files:  # each look costs: a million names took a minute
        more = f"{len(names) - limits.files} more"
        found.skipped.append((more, _too_many(len(names), limits).message))
    return found


def clear_outbox(folder: Path, message_id: str) -> bool:
    """Remove the files of a message that was sent; False, and a warning, if some may be left."""
    try:
        nofollow.remove_tree(folder, OUTBOX, _checked_id(message_id))
    except ThreadkeepError as error:
        log.warning("the outbox keeps files of a message that was sent: %s", error)
        return False
    return True


def put_outbox(
    folder: Path,
    message_id: str,
    files: Sequence[Outgoing],
    limits: AttachmentLimits = DEFAULT_LIMITS,
) -> list[str]:
    """Copy files into the outbox, all or none, and give the names they have there."""
    placed = read_files(files, limits)
    place_outbox(folder, message_id, placed)
    return list(placed)


def place_outbox(folder: Path, message_id: str, files: Mapping[str, bytes]) -> None:
    """Write files into the outbox, all or none."""
    if files:
        _place(folder, OUTBOX, message_id, files)


def read_files(
    files: Sequence[Outgoing], limits: AttachmentLimits = DEFAULT_LIMITS
) -> dict[str, bytes]:
    """Read files that shall be sent; give them by the names they will have."""
    if len(files) > limits.files:
        raise _too_many(len(files), limits)
    placed: dict[str, bytes] = {}
    room = limits.message
    for given in files:
        name, content = (given.name, given) if isinstance(given, Path) else given
        if not is_safe_name(name):
            raise Invalid(
                f"{shown(name)} is not a safe file name",
                hint="give a name without slashes, of at most 255 bytes",
            )
        data = _content(name, content, min(limits.file, room))
        placed[free_name(name, placed)] = data
        room -= len(data)
    return placed


def hand_over(
    source_folder: Path,
    out_id: str,
    target_folder: Path,
    in_id: str,
    names: Sequence[object],
    limits: AttachmentLimits = DEFAULT_LIMITS,
) -> list[Json]:
    """Copy files from one agent's outbox into another's inbox; give them as attachments.

    A retry keeps what an earlier attempt handed over, even if the source is gone by now.
    """
    place = (INBOX, _checked_id(in_id))
    wanted = names[: limits.files]
    safe = list(dict.fromkeys(name for name in wanted if is_safe_name(name)))
    done = {name for name in safe if nofollow.is_file(target_folder, place, name)}
    rest = [name for name in safe if name not in done]
    unsafe = [name for name in wanted if not is_safe_name(name)]
    found = collect(source_folder, out_id, [*rest, *unsafe], limits)
    for name, reason in found.skipped:
        log.warning("%r of message %r is not handed over: %s", name, out_id, reason)
    files = dict(found.files)
    if files or done:  # what a killed attempt handed over may not be on the disk yet
        _place(target_folder, INBOX, in_id, files)
    return [
        {"name": name, "filename": name, "type": "file", "localPath": _local_path(in_id, name)}
        for name in safe
        if name in done or name in files
    ]


# ---------------------------------------------------------------------- what comes in


def _decode_all(attachments: Sequence[Json], limits: AttachmentLimits) -> list[bytes | None]:
    """Refuse too much before any of it is decoded."""
    labels = [_label(attachment, number) for number, attachment in enumerate(attachments, 1)]
    texts = [_data_of(*pair) for pair in zip(attachments, labels, strict=True)]
    present = [text for text in texts if text is not None]
    if len(present) > limits.files:
        raise _too_many(len(present), limits)
    if sum(map(_decoded_size, present)) > limits.message:
        raise TooLarge(
            f"the attachments have more than {limits.message:,} bytes together",
            hint="send them in several messages",
        )
    return [
        None if text is None else _decode(text, label, limits.file)
        for text, label in zip(texts, labels, strict=True)
    ]


def _label(attachment: object, number: int) -> str:
    if not isinstance(attachment, dict):
        raise Invalid(f"attachment {number} is not an object", hint='give {"name": …, "data": …}')
    name = attachment.get("name")
    return f"attachment {number} ({shown(name)})" if name else f"attachment {number}"


def _data_of(attachment: Json, label: str) -> str | None:
    data = attachment.get("data")
    if data is None or isinstance(data, str):
        return data
    raise Invalid(f"the data of {label} is not text", hint="encode it as base64")


def _decoded_size(text: str) -> int:
    return len(text) // 4 * 3 - text[-2:].count("=")


def _decode(text: str, label: str, limit: int) -> bytes:
    if _decoded_size(text) > limit:
        raise TooLarge(f"{label} has more than {limit:,} bytes", hint="send a link to it")
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except (binascii.Error, ValueError) as error:
        raise Invalid(
            f"the data of {label} is not base64: {error}",
            hint="encode it with the standard alphabet and padding",
        ) from error


# ---------------------------------------------------------------------- what goes out


def _read_outgoing(folder: Path, message_id: str, name: object, limit: int) -> bytes:
    if not is_safe_name(name):
        raise Invalid("not a safe file name")
    place = (OUTBOX, _checked_id(message_id))
    return nofollow.read(folder, place, name, limit)


def _content(name: str, content: bytes | Path, limit: int) -> bytes:
    if isinstance(content, Path):
        # The agent's own file, read with its own rights: a second name of it harms nobody.
        return nofollow.read(content.parent, (), content.name, limit, hard_links=True)
    if len(content) > limit:
        raise TooLarge(f"{name!r} has more than {limit:,} bytes", hint="send a link to it")
    return content


# ---------------------------------------------------------------------- both ways


def _place(folder: Path, box: str, message_id: str, files: Mapping[str, bytes]) -> None:
    """Write the files of one message, all or none; those there with the same bytes may stay."""
    place = (box, _checked_id(message_id))
    nofollow.make_dir(folder, *place)
    try:
        nofollow.write_files(folder, place, files)
    except BaseException:
        with suppress(ThreadkeepError):  # what went wrong first is what the caller must hear
            nofollow.remove_empty(folder, *place)
        raise


def _checked_id(message_id: str) -> str:
    if is_safe_name(message_id):
        return message_id
    raise Invalid(
        f"the message id {shown(message_id)} cannot name a folder",
        hint="an id of mail with files has no slashes and at most 255 bytes",
    )


def _local_path(message_id: str, name: str) -> str:
    return f"{INBOX}/{message_id}/{name}"


def _too_many(count: int, limits: AttachmentLimits) -> TooLarge:
    return TooLarge(
        f"the message has {count} files; {limits.files} are allowed",
        hint="send them in several messages",
    )


# ------------------------------------------------------------------------------
# Files of the inbox as the content of mail names them, and copies of them for other mail.

_BELOW_INBOX: Final = 2  # the folder of a message, and a file in it


def inbox_file(path: str) -> tuple[str, str] | None:
    """Return the message and the name of a `localPath`, None if it leads anywhere else."""
    box, *rest = PurePosixPath(path).parts or ("",)
    if box != INBOX or len(rest) != _BELOW_INBOX or not all(map(is_safe_name, rest)):
        return None
    return rest[0], rest[1]


def copy_files(folder: Path, content: Json, message_id: str) -> Json:
    """Return content whose attachments are files of another message; they are on the disk then.

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
