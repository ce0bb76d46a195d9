"""Envelopes: how one observation travels as JSON, over the socket and in the spool.

The shape is Hippo's, so that its hook, its extension and its fallback files are understood, and
ours by its programs. It has no place for two things that we know: that a value is unknown (an
exit code, a title: written as null), and who ran a command which way. A line of the spool has
the latter under a key of its own, which Hippo skips.
"""

import math
import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, Literal, TypeVar
from uuid import UUID

import msgspec

from threadkeep.base.clock import iso
from threadkeep.base.json import decode, encode
from threadkeep.base.text import pattern
from threadkeep.errors import Invalid
from threadkeep.knowledge.records import (
    Command,
    GitState,
    Heartbeat,
    Observed,
    Output,
    Visit,
    Watch,
)

# Bytes of UTF-8. Longer texts are cut with a mark: what was done is worth more than all of it.
COMMAND_LIMIT: Final = 1 << 20
OUTPUT_LIMIT: Final = 1 << 20
PAGE_LIMIT: Final = 200 << 10  # 50 Ki characters of four bytes each
URL_LIMIT: Final = 8 << 10
TITLE_LIMIT: Final = 4 << 10
PATH_LIMIT: Final = 32 << 10
NAME_LIMIT: Final = 1 << 10
VALUE_LIMIT: Final = 32 << 10
ENV_LIMIT: Final = 1000  # variables

_PRODUCER_VERSION: Final = 1
_SHELLS: Final = {"Zsh": "zsh", "Bash": "bash", "Fish": "fish"}
_KINDS: Final = {stored: kind for kind, stored in _SHELLS.items()}
_UUID: Final = pattern(
    r"(?:urn:uuid:|\{)?([0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12})\}?",
    re.ASCII | re.IGNORECASE,
)
_TIMESTAMP: Final = pattern(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,30}))?(?:[Zz]|([+-])(\d\d):(\d\d))",
    re.ASCII,
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST: Final = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)
_LAST: Final = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)
_HINT: Final = "send Hippo's envelope: envelope_id, timestamp, payload"

_Int = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
_Origin = Literal["hook", "socket", "fallback", "run", "history"]
_T = TypeVar("_T")


class UnknownEnvelope(Invalid):
    """An envelope of a kind that nobody stores; it can be counted and left."""


class _Payload(msgspec.Struct):
    type: str
    data: Any = None


class _Ours(msgspec.Struct):
    origin: _Origin | None = None
    username: str = ""


class _Envelope(msgspec.Struct):
    envelope_id: str
    timestamp: str
    payload: _Payload
    probe_tag: str | None = None
    threadkeep: _Ours = msgspec.field(default_factory=_Ours)


class _Output(msgspec.Struct):
    content: str
    truncated: bool = False
    original_bytes: _Count = 0


class _Git(msgspec.Struct):
    repo: str | None = None
    branch: str | None = None
    commit: str | None = None
    is_dirty: bool | None = None


class _Shell(msgspec.Struct):
    session_id: str
    command: str
    cwd: str
    exit_code: _Int | None = None
    duration_ms: _Count = 0
    hostname: str = ""
    shell: str | dict[str, str] = ""
    stdout: _Output | None = None
    stderr: _Output | None = None
    env_snapshot: dict[str, str] | None = None
    git_state: _Git | None = None
    tool_name: str | None = None


class _Browser(msgspec.Struct):
    url: str
    domain: str
    title: str | None = None
    dwell_ms: _Count = 0
    scroll_depth: float | None = None
    extracted_text: str | None = None
    search_query: str | None = None
    referrer: str | None = None


class _Heartbeat(msgspec.Struct):
    source: str
    at: _Int
    error: str | None = None


class _Watch(msgspec.Struct):
    sha: str
    repo: str
    at: _Int
    ttl_secs: _Count = 1200


def read_envelope(value: bytes | dict[str, Any], origin: str) -> Command | Visit:
    """Read one envelope; texts that are too long come back cut, with a mark at the cut.

    A payload that nobody stores raises Unsupported, a broken envelope Invalid.
    """
    found = convert(_object(value), _Envelope, "the envelope")
    return _observed(found, origin)


def write_envelope(thing: Command | Visit) -> bytes:
    """Write a command or a visit as Hippo's JSON, on one line without its end."""
    return encode(_envelope(thing)).encode()


def read_line(line: bytes, origin: str) -> Observed:
    """Read one line of the spool; `origin` counts for commands whose line names none."""
    value = _object(line)
    match value.get("type"):
        case "heartbeat":
            beat = convert(value, _Heartbeat, "the heartbeat")
            return Heartbeat(cut(beat.source, NAME_LIMIT), beat.at, beat.error)
        case "watch":
            watch = convert(value, _Watch, "the watch")
            sha, repo = cut(watch.sha, NAME_LIMIT), cut(watch.repo, NAME_LIMIT)
            return Watch(sha=sha, repo=repo, at=watch.at, ttl_secs=watch.ttl_secs)
    found = convert(value, _Envelope, "the envelope")
    thing = _observed(found, found.threadkeep.origin or origin)
    if isinstance(thing, Visit):
        return thing
    username = cut(found.threadkeep.username, NAME_LIMIT)
    return msgspec.structs.replace(thing, username=username)


def write_line(thing: Observed) -> bytes:
    """Write one observation as a line of the spool, with its end; `read_line` gives it back."""
    match thing:
        case Heartbeat():
            value = {"type": "heartbeat", **msgspec.structs.asdict(thing)}
        case Watch():
            value = {"type": "watch", **msgspec.structs.asdict(thing)}
        case Visit():
            value = _envelope(thing)
        case Command():
            ours = {"origin": thing.origin, "username": cut(thing.username, NAME_LIMIT)}
            value = _envelope(thing) | {"threadkeep": ours}
    return encode(value).encode() + b"\n"


def cut(text: str, limit: int) -> str:
    """Cut a text to `limit` bytes of UTF-8 with a visible mark; half a character becomes U+FFFD."""
    whole = _whole(text)
    raw = whole.encode()
    if len(raw) <= limit:
        return whole
    mark = f"…[truncated, {len(whole)} characters]"
    return raw[: limit - len(mark.encode())].decode("utf-8", "ignore") + mark


def _whole(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _cut(text: str | None, limit: int) -> str | None:
    return None if text is None else cut(text, limit)


def _object(value: bytes | dict[str, Any]) -> dict[str, Any]:
    found = decode(value) if isinstance(value, bytes) else value
    if not isinstance(found, dict):
        raise Invalid("the envelope is not a JSON object", hint=_HINT)
    return found


def convert(value: Any, shape: type[_T], what: str, hint: str = _HINT) -> _T:
    """Read a JSON value as one of a certain shape; Invalid names the field that is wrong."""
    try:
        return msgspec.convert(value, shape)
    except (msgspec.ValidationError, OverflowError) as error:
        said = str(error).replace("`$.", "`").replace("`$`", "its top")
        raise Invalid(f"{what} cannot be read: {said}", hint=hint) from None


def _observed(found: _Envelope, origin: str) -> Command | Visit:
    match found.payload.type:
        case "Shell":
            shell = convert(found.payload.data, _Shell, "the shell payload")
            return _command(found, shell, origin)
        case "Browser":
            return _visit(found, convert(found.payload.data, _Browser, "the browser payload"))
        case other:
            msg = f"payloads of the kind {cut(other, 60)!r} are not stored"
            raise UnknownEnvelope(msg, hint="send Shell or Browser")


def _command(found: _Envelope, shell: _Shell, origin: str) -> Command:
    return Command(
        envelope_id=_uuid(found.envelope_id, "envelope_id"),
        session=_uuid(shell.session_id, "session_id"),
        at=_time(found.timestamp),
        command=cut(shell.command, COMMAND_LIMIT),
        cwd=cut(shell.cwd, PATH_LIMIT),
        exit_code=_exit_code(shell.exit_code),
        duration_ms=shell.duration_ms,
        hostname=cut(shell.hostname, NAME_LIMIT),
        shell=cut(_shell_name(shell.shell), NAME_LIMIT),
        stdout=_output(shell.stdout),
        stderr=_output(shell.stderr),
        env=_env(shell.env_snapshot or {}),
        git=_git(shell.git_state),
        tool_name=_cut(shell.tool_name, NAME_LIMIT),
        probe_tag=_cut(found.probe_tag, NAME_LIMIT),
        origin=origin,
    )


def _exit_code(given: int | None) -> int | None:
    # Hippo's readers hold it in 32 bits; what does not fit is no exit code of any system.
    return given if given is not None and -(1 << 31) <= given < 1 << 31 else None


def _visit(found: _Envelope, page: _Browser) -> Visit:
    return Visit(
        envelope_id=_uuid(found.envelope_id, "envelope_id"),
        at=_time(found.timestamp),
        url=cut(page.url, URL_LIMIT),
        domain=cut(page.domain, NAME_LIMIT),
        title=_cut(page.title, TITLE_LIMIT),
        dwell_ms=page.dwell_ms,
        scroll_depth=_depth(page.scroll_depth),
        extracted_text=_cut(page.extracted_text, PAGE_LIMIT),
        search_query=_cut(page.search_query, TITLE_LIMIT),
        referrer=_cut(page.referrer, URL_LIMIT),
        probe_tag=_cut(found.probe_tag, NAME_LIMIT),
    )


def _uuid(text: str, field: str) -> str:
    found = _UUID.fullmatch(text)
    if not found:
        shown = ascii(text[:40])
        raise Invalid(f"the envelope's {field} is not a UUID: {shown}", hint="send a UUID as text")
    return str(UUID(found[1]))


def _time(text: str) -> int:
    """Read RFC 3339 as epoch milliseconds, rounded down."""
    found = _TIMESTAMP.fullmatch(text)
    if not found:
        raise _no_time(text)
    year, month, day, hour, minute, second = map(int, found.groups()[:6])
    try:  # a leap second counts as the next one
        moment = datetime(year, month, day, hour, minute, min(second, 59), tzinfo=UTC)
    except ValueError:
        raise _no_time(text) from None
    if second > 60:  # noqa: PLR2004
        raise _no_time(text)
    seconds = (moment - _EPOCH) // timedelta(seconds=1) + max(second - 59, 0)
    offset = (int(found[9] or 0) * 60 + int(found[10] or 0)) * 60
    seconds -= -offset if found[8] == "-" else offset
    return seconds * 1000 + int((found[7] or "0").ljust(3, "0")[:3])


def _no_time(text: str) -> Invalid:
    hint = "send RFC 3339, such as 2026-08-14T11:19:55.136Z"
    return Invalid(f"the envelope's timestamp is not a time: {text[:40]!a}", hint=hint)


def _shell_name(given: str | dict[str, str]) -> str:
    if isinstance(given, str):
        return _SHELLS.get(given, given)
    if list(given) != ["Unknown"]:
        raise Invalid(
            "the shell payload names no shell",
            hint='send "Zsh", "Bash", "Fish" or {"Unknown": NAME}',
        )
    return given["Unknown"]


def _output(given: _Output | Output | None) -> Output | None:
    if given is None:
        return None
    content = cut(given.content, OUTPUT_LIMIT)
    if content == given.content:
        return Output(content, given.truncated, given.original_bytes)
    whole = _whole(given.content)
    size = max(given.original_bytes, len(whole.encode()))
    return Output(content, truncated=given.truncated or content != whole, original_bytes=size)


def _env(given: dict[str, str]) -> dict[str, str]:
    pairs = list(given.items())[:ENV_LIMIT]
    return {cut(name, NAME_LIMIT): cut(value, VALUE_LIMIT) for name, value in pairs}


def _git(given: _Git | GitState | None) -> GitState | None:
    if given is None:
        return None
    repo, branch = _cut(given.repo, NAME_LIMIT), _cut(given.branch, NAME_LIMIT)
    commit = _cut(given.commit, NAME_LIMIT)
    return GitState(repo=repo, branch=branch, commit=commit, is_dirty=given.is_dirty)


def _depth(given: float | None) -> float | None:
    """A page pulled beyond its end reports more than the whole of it."""
    return None if given is None or not math.isfinite(given) else min(max(given, 0.0), 1.0)


def _envelope(thing: Command | Visit) -> dict[str, Any]:
    if not _FIRST <= thing.at <= _LAST:
        msg = f"{thing.at} ms since 1970 is not a date that an envelope can hold"
        raise Invalid(msg, hint="give the time in epoch milliseconds")
    value = {
        "envelope_id": _uuid(thing.envelope_id, "envelope_id"),
        "producer_version": _PRODUCER_VERSION,
        "timestamp": iso(thing.at),
        "payload": _shell_payload(thing) if isinstance(thing, Command) else _browser_payload(thing),
    }
    return value | _named("probe_tag", thing.probe_tag)


def _shell_payload(thing: Command) -> dict[str, Any]:
    data = {
        "session_id": _uuid(thing.session, "session_id"),
        "command": cut(thing.command, COMMAND_LIMIT),
        "exit_code": thing.exit_code,
        "duration_ms": thing.duration_ms,
        "cwd": cut(thing.cwd, PATH_LIMIT),
        "hostname": cut(thing.hostname, NAME_LIMIT),
        "shell": _KINDS.get(thing.shell) or {"Unknown": cut(thing.shell, NAME_LIMIT)},
        "stdout": _as_dict(_output(thing.stdout)),
        "stderr": _as_dict(_output(thing.stderr)),
        "env_snapshot": _env(thing.env),
        "git_state": _as_dict(_git(thing.git)),
        "redaction_count": 0,
    }
    return {"type": "Shell", "data": data | _named("tool_name", thing.tool_name)}


def _as_dict(found: Output | GitState | None) -> dict[str, Any] | None:
    return None if found is None else msgspec.structs.asdict(found)


def _browser_payload(thing: Visit) -> dict[str, Any]:
    data = {
        "url": cut(thing.url, URL_LIMIT),
        "title": _cut(thing.title, TITLE_LIMIT),
        "domain": cut(thing.domain, NAME_LIMIT),
        "dwell_ms": thing.dwell_ms,
        "scroll_depth": _depth(thing.scroll_depth),
        "extracted_text": _cut(thing.extracted_text, PAGE_LIMIT),
        "search_query": _cut(thing.search_query, TITLE_LIMIT),
        "referrer": _cut(thing.referrer, URL_LIMIT),
        "content_hash": None,
    }
    return {"type": "Browser", "data": data}


def _named(key: str, value: str | None) -> dict[str, str]:
    """Hippo leaves these keys out where there is nothing to say."""
    return {} if value is None else {key: cut(value, NAME_LIMIT)}
