"""The stores of another host: the same verbs over HTTP, as if the stores were here.

`threadkeep.connect("http://host:port", token)` gives a home whose `chat`, `state` and other stores
take the same arguments, give the same records and raise the same errors. It needs the standard
library alone, and nothing of what a server needs.
"""

import builtins
import inspect
import threading
import time
from collections.abc import Callable, Iterator, KeysView, Mapping, ValuesView
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from importlib import import_module
from pathlib import Path
from types import TracebackType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Self,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import UNSET

from threadkeep import errors
from threadkeep.base import json
from threadkeep.base.verb_table import Json, Verb, VerbOwner, has_record, plain
from threadkeep.errors import Closed, Invalid, ThreadkeepError, Unreachable
from threadkeep.verbs import OWNERS, TABLES

T = TypeVar("T")

if TYPE_CHECKING:
    from threadkeep.chat.records import SessionRef
    from threadkeep.chat.store import ChatStore
    from threadkeep.home.captured import CapturedWork
    from threadkeep.home.mailboxes import NamedMailboxes
    from threadkeep.home.questions import Questions
    from threadkeep.knowledge.library import Browse
    from threadkeep.state.session_db import SessionDB

_IDLE_SECONDS: Final = 3.0  # after which a connection is not trusted to be open any more
_TOO_MANY: Final = 429
_TRIES: Final = 20
# How a connection ends of which nobody knows whether the server did what it was asked.
_LOST: Final = (HTTPException, ConnectionResetError, ConnectionAbortedError, BrokenPipeError)
_UNKNOWN: Final = "it may have been done all the same: look before you call it again"
_NO_ANSWER, _BROKEN = 300, 500  # nobody is followed elsewhere with the token
_LONGEST_PAUSE: Final = 30.0  # seconds, whatever the server asks for
_JSON: Final = "application/json"


def connect(url: str, token: str = "", *, timeout: float | None = 60.0) -> "RemoteHome":
    """Use the stores of a home that is served at an address; nothing is asked yet.

    `token` is that of the served home. `timeout` is how long a silent server is waited for.
    """
    return RemoteHome(Line(url, token, timeout))


class Line:
    """Requests to one server; every thread has a connection of its own."""

    def __init__(self, url: str, token: str, timeout: float | None) -> None:
        found = urlsplit(url)
        if found.scheme not in ("http", "https") or not found.hostname:
            hint = "give http://host:port, as `threadkeep up` shows it"
            raise Invalid(f"{url!r} is not the address of a server", hint=hint)
        self.url = url.rstrip("/")
        self._secure = found.scheme == "https"
        self._host, self._port, self._below = found.hostname, found.port, found.path.rstrip("/")
        self._token = token
        self._timeout = timeout
        self._local = threading.local()
        self._connections: set[HTTPConnection] = set()
        self._closed = False

    def close(self) -> None:
        """Ask no more, and end the connections of all threads."""
        self._closed = True
        self.hang_up()

    def hang_up(self) -> None:
        """End the connections of all threads; who asks again gets a new one."""
        for one in list(self._connections):
            self._end(one)
        self._local = threading.local()

    def lines(
        self, path: str, body: bytes, *, again: bool = False, **headers: str
    ) -> Iterator[Any]:
        """Send a request and give the lines of the answer, over a connection of their own.

        Whoever reads them may ask for something else in between. It is asked at once; `again` says
        the same as for `value`.
        """

        def begun() -> tuple[HTTPConnection, HTTPResponse]:
            connection = self._new()
            try:
                return connection, self.ask(path, body, over=connection, **headers)
            except BaseException:
                self._end(connection)
                raise

        return self._read_lines(*self._sent_again(begun, again=again))

    def _read_lines(self, connection: HTTPConnection, answer: HTTPResponse) -> Iterator[Any]:
        try:
            for line in answer:
                if line.strip():  # a blank one only says that somebody is there
                    yield json.decode(line)
        except (OSError, HTTPException) as error:
            raise self._unreachable(error) from error
        finally:
            self._end(connection)

    def ask(
        self, path: str, body: bytes, *, over: HTTPConnection | None = None, **headers: str
    ) -> HTTPResponse:
        """Send a request and give the beginning of the answer; a problem is raised."""
        for _ in range(_TRIES):
            answer = self._sent(path, body, over, headers)
            if answer.status != _TOO_MANY:
                break
            self._body_of(answer)
            time.sleep(_pause(answer.headers.get("retry-after")))
        if answer.status >= _NO_ANSWER:
            told = self._body_of(answer)
            if answer.status >= _BROKEN and over is None:
                self._drop()  # a server that failed ends the connection
            raise problem_in(told, answer.status, self.url)
        return answer

    def value(self, path: str, body: bytes, *, again: bool = False, **headers: str) -> Any:
        """Send a request and give what the answer says.

        With `again` it may arrive twice: it is sent once more when the connection breaks.
        """

        def answered() -> bytes:
            return self._body_of(self.ask(path, body, over=None, **headers))

        return json.decode(self._sent_again(answered, again=again))

    def _sent_again(self, send: Callable[[], T], *, again: bool) -> T:
        """Send something that may be sent once more when the connection breaks, or may not."""
        try:
            return send()
        except Unreachable as error:
            lost = isinstance(error.__cause__, _LOST)
            if again and lost:
                return send()
            if again or not (lost or isinstance(error.__cause__, TimeoutError)):
                raise
            raise Unreachable(error.message, hint=_UNKNOWN) from error.__cause__

    def _body_of(self, answer: HTTPResponse) -> bytes:
        try:
            return answer.read()
        except (OSError, HTTPException) as error:  # cut off: nothing more comes over this one
            self._drop()
            raise self._unreachable(error) from error

    def _sent(
        self, path: str, body: bytes, over: HTTPConnection | None, headers: Mapping[str, str]
    ) -> HTTPResponse:
        if self._closed:
            raise Closed(f"the connection to {self.url} was closed", hint="connect again")
        sent = {"content-type": _JSON, **{n.replace("_", "-"): v for n, v in headers.items()}}
        if self._token:
            sent["authorization"] = f"Bearer {self._token}"
        try:
            connection = over or self._connection()
            connection.request("POST", f"{self._below}/api{path}", body, sent)
            answer = connection.getresponse()
        except (OSError, HTTPException) as error:
            self._drop()
            raise self._unreachable(error) from error
        self._local.used = time.monotonic()
        return answer

    def _unreachable(self, error: Exception) -> Unreachable:
        msg = f"{self.url} does not answer: {error or type(error).__name__}"
        hint = "is `threadkeep up` running there, and can this host reach it?"
        return Unreachable(msg, hint=hint)

    def _connection(self) -> HTTPConnection:
        """Return the connection of this thread; one that was idle may have been closed over there.

        A write that is sent into such a one would be lost or done twice, and nobody could tell.
        """
        found: HTTPConnection | None = getattr(self._local, "connection", None)
        if found is not None and time.monotonic() - self._local.used < _IDLE_SECONDS:
            return found
        self._drop()
        found = self._local.connection = self._new()
        return found

    def _new(self) -> HTTPConnection:
        make = HTTPSConnection if self._secure else HTTPConnection
        made = make(self._host, self._port, timeout=self._timeout)
        self._connections.add(made)
        return made

    def _drop(self) -> None:
        found: HTTPConnection | None = getattr(self._local, "connection", None)
        if found is not None:
            self._end(found)
            self._local.connection = None

    def _end(self, connection: HTTPConnection) -> None:
        connection.close()
        self._connections.discard(connection)


# ------------------------------------------------------------------------------
# Errors, raised again as what they were.


def problem_in(body: bytes, status: int, url: str) -> Exception:
    """Return the error that an answer tells of."""
    try:
        told = json.decode(body)
    except Invalid:
        told = {}
    if not isinstance(told, dict) or "message" not in told:
        return Unreachable(
            f"{url} answered {status}, and is not a threadkeep server", hint="ask its owner"
        )
    return error_of(told, status)


def _pause(said: str | None) -> float:
    """Return how long to wait before asking again."""
    try:
        wanted = float(said or "1")
    except ValueError:  # a date
        wanted = 1.0
    return min(max(wanted, 0.0), _LONGEST_PAUSE)


def error_of(told: Mapping[str, Any], status: int = 500) -> Exception:
    """Make the error that a problem describes, of the class that it had."""
    message, hint = str(told["message"]), str(told.get("hint", ""))
    kind = _class_of(str(told.get("kind", "")))
    try:
        if kind is not None and not issubclass(kind, ThreadkeepError):
            return kind(message)
        return (kind or _by_status(status))(message, hint=hint)
    except TypeError:  # made of other things than words
        return _by_status(status)(message, hint=hint)


def _class_of(name: str) -> type[Exception] | None:
    """Find a class of ours, or of Python itself."""
    module, _, kind = name.partition(":")
    if module == "builtins":
        found = getattr(builtins, kind, None)
    elif module == "threadkeep" or module.startswith("threadkeep."):
        try:
            found = getattr(import_module(module), kind, None)
        except ImportError:  # a part that is only installed where it serves
            return None
    else:
        return None
    return found if isinstance(found, type) and issubclass(found, Exception) else None


def _by_status(status: int) -> type[ThreadkeepError]:
    kinds = [one for one in vars(errors).values() if isinstance(one, type)]
    ours = (one for one in kinds if issubclass(one, ThreadkeepError) and one is not ThreadkeepError)
    return next((one for one in ours if one.http_status == status), ThreadkeepError)


# ------------------------------------------------------------------------------
# Verbs.


class RemoteStore:
    """A store of another host: whatever its class has a verb for, this has, too."""

    def __init__(self, line: Line, owner: VerbOwner) -> None:
        self.line = line
        self.owner = owner

    def __getattr__(self, name: str) -> Any:
        if (self.owner.store, name) in _OF_SEVERAL:
            return partial(_OF_SEVERAL[self.owner.store, name], self)
        one = TABLES[self.owner.store].get(name)
        if one is not None:
            return partial(self._call, one)
        found = inspect.getattr_static(self.owner.type, name, None)
        if not name.startswith("_") and isinstance(found, staticmethod | str | int | float):
            return getattr(self.owner.type, name)
        msg = f"{self.owner.name} has no verb {name!r} that can be called from another host"
        raise AttributeError(msg)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *TABLES[self.owner.store]]

    def close(self) -> None:
        """Ask no more; the store itself stays open over there."""
        self.line.close()

    def __enter__(self) -> Self:
        """Use the store in a `with` block, which closes the connection."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connection."""
        self.close()

    def _call(self, one: Verb, /, *args: Any, **kwargs: Any) -> Any:
        given = inspect.signature(one.function).bind(self, *args, **kwargs).arguments
        given.pop(next(iter(given)))  # the store
        for name, parameter in one.parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD:
                given |= given.pop(name, {})
        progress = given.pop("progress", None)
        sent = dict(_sent(one, given))
        again, body = one.may_come_twice(sent), json.encode(sent).encode()
        path = f"/call/{one.owner.store}/{one.name}"
        if progress is not None:
            steps = self.line.lines(path, body, again=again, prefer="progress")
            return read_answer(one, self._told(steps, progress))
        if one.streams:
            return self._pieces(one, self.line.lines(path, body, again=again))
        return read_answer(one, self.line.value(path, body, again=again))

    def _told(self, steps: Iterator[Any], progress: Callable[..., Any]) -> Any:
        for step in steps:
            if isinstance(step, list):
                return step[0]
            if "problem" in step:
                raise error_of(step["problem"])
            progress(*step["progress"])
        raise Unreachable(f"{self.line.url} ended in the middle of its answer", hint="ask again")

    def _pieces(self, one: Verb, lines: Iterator[Any]) -> Iterator[Any]:
        item = get_args(one.answer)[0]
        for step in lines:
            if isinstance(step, dict):
                raise error_of(step["problem"])
            yield _read(step[0], item)


def _sent(one: Verb, given: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    if one.destroys and "dry_run" not in given:
        yield "dry_run", one.parameters["dry_run"].default
    for name, value in given.items():
        if name in one.arguments or (one.takes_more and name not in one.parameters):
            if value is not UNSET:
                kind = one.arguments[name].kind if name in one.arguments else Any
                text = name == one.upload
                yield name, _plain_value(value, records=has_record(kind), text=text)
        elif value != one.parameters[name].default:
            msg = f"{name!r} of {one.name} cannot be sent to another host"
            raise Invalid(msg, hint="leave it out, or call the verb where the store is")


def _plain_value(value: Any, *, records: bool = False, text: bool = False) -> Any:
    """Return an argument as JSON knows it: what has an id is named by it.

    What is no value of JSON is refused when it is written, but for the bytes of a `text`.
    """
    if isinstance(value, msgspec.Struct):
        return plain(value) if records else getattr(value, "id", value)
    if text and isinstance(value, bytes | bytearray):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, Mapping) and not isinstance(value, dict):
        return dict(value)
    if isinstance(value, list | tuple | set | frozenset | Iterator) or _is_view(value):
        return [_plain_value(one, records=records, text=text) for one in value]
    return value


def _is_view(value: Any) -> bool:
    return isinstance(value, KeysView | ValuesView | range)


def read_answer(one: Verb, value: Any) -> Any:
    """Return an answer as the records that the verb says it gives."""
    return _read(value, one.answer)


def _read(value: Any, kind: Any) -> Any:  # noqa: PLR0911  (one for each kind of type)
    """Make records of plain values; what is in no record stays as it is, right or wrong."""
    if value is None or kind in (None, Any):
        return value
    origin, args = get_origin(kind) or kind, get_args(kind)
    if origin in (Union, UnionType):
        return _read(value, _one_of(value, args))
    if origin is Annotated:
        return _read(value, args[0])
    if isinstance(origin, type) and issubclass(origin, msgspec.Struct):
        return _read_record(value, origin, args)
    if isinstance(value, list):
        return _read_list(value, origin, args)
    if isinstance(value, dict) and args:
        whole = args[0] is int
        return {int(key) if whole else key: _read(one, args[1]) for key, one in value.items()}
    return origin(value) if origin in (Path, float) else value


def _one_of(value: Any, kinds: tuple[Any, ...]) -> Any:
    """Choose of several types the one that a value has, by its form."""
    forms = [get_origin(kind) or kind for kind in kinds]
    for kind, form in zip(kinds, forms, strict=True):
        record = isinstance(form, type) and issubclass(form, msgspec.Struct)
        if record and isinstance(value, dict) and set(value) >= _needed(form):
            return kind
        if isinstance(value, list) and isinstance(form, type) and issubclass(form, list | tuple):
            return kind
        if form is Path and isinstance(value, str):
            return kind
    return Any


def _needed(record: Any) -> set[str]:
    fields = msgspec.structs.fields(record)
    return {one.encode_name for one in fields if one.required}


def _read_record(value: Json, record: type[msgspec.Struct], args: tuple[Any, ...]) -> Any:
    kinds = get_type_hints(record, include_extras=True)
    if args:  # `Page[Session]`: its items are sessions
        meant = dict(zip(getattr(record, "__parameters__", ()), args, strict=True))
        kinds = {
            name: kind[tuple(meant[one] for one in kind.__parameters__)]
            if getattr(kind, "__parameters__", ())
            else kind
            for name, kind in kinds.items()
        }
    return record(**{name: _read(one, kinds.get(name, Any)) for name, one in value.items()})


def _read_list(value: list[Any], origin: Any, args: tuple[Any, ...]) -> Any:
    if isinstance(origin, type) and hasattr(origin, "_fields"):  # a named tuple
        kinds = get_type_hints(origin)
        named = zip(origin._fields, value, strict=True)
        return origin(*(_read(one, kinds.get(name, Any)) for name, one in named))
    if origin is tuple and args and args[-1] is not ...:
        return tuple(_read(one, kind) for one, kind in zip(value, args, strict=True))
    items = [_read(one, args[0]) for one in value] if args else value
    return origin(items) if origin in (tuple, set, frozenset) else items


# ------------------------------------------------------------------------------
# A recorder is more than one question.


def record(
    chat: RemoteStore, session: "SessionRef", message_id: str | None = None, **options: Any
) -> "RemoteRecorder":
    """Begin to record a reply; see `ChatStore.record`."""
    given = {"session": session, "message_id": message_id, **options}
    sent = {name: _plain_value(value) for name, value in given.items()}
    return RemoteRecorder(chat.line, sent)


class RemoteRecorder:
    """Records one stream into the store of another host; see `Recorder`."""

    def __init__(self, line: Line, options: Json) -> None:
        self._line = line
        self._state: Json = line.value("/recordings", json.encode(options).encode())
        self._path = f"/recordings/{quote(self._state['recording'])}"
        self._closed = False

    @property
    def session_id(self) -> str:
        """The session that is recorded."""
        return str(self._state["session_id"])

    @property
    def run_id(self) -> str:
        """The id of the run this recorder writes down."""
        return str(self._state["run_id"])

    @property
    def message_id(self) -> str | None:
        """The id of the message being recorded, None before the first chunk."""
        found: str | None = self._state["message_id"]
        return found

    @property
    def message(self) -> Json | None:
        """The message so far, in the AI SDK's shape; None before the first chunk."""
        if not self._closed:
            self._step("message")
        found: Json | None = self._state.get("message")
        return found

    @property
    def violations(self) -> list[str]:
        """What did not fit the stream, in the words of the store."""
        return list(self._state["violations"])

    @property
    def violation_count(self) -> int:
        """How many chunks did not fit the stream."""
        return int(self._state["violation_count"])

    def feed(self, chunk: Json | str | bytes) -> None:
        """Take one chunk: an object, or its JSON text."""
        self._step("feed", {"chunk": _plain_value(chunk, text=True)})

    def feed_sse(self, data: bytes) -> None:
        """Take bytes of an AI SDK server-sent-event body, cut anywhere."""
        if not isinstance(data, bytes | bytearray | memoryview):
            msg = f"an SSE body comes as bytes, not {type(data).__name__}"
            raise Invalid(msg, hint="pass the bytes of the response, or feed() single chunks")
        self._send("sse", bytes(data))

    def flush(self) -> None:
        """Store everything taken so far, so that it survives even a power cut."""
        self._step("flush")

    def abort(self, reason: str | None = None) -> None:
        """Write down that the run was stopped; what has arrived stays as it is."""
        self._step("abort", {"reason": reason})

    def close(self, error: BaseException | None = None) -> None:
        """Complete the part rows and write down why the run ended; once is enough."""
        if self._closed:
            return
        self._step("message")
        message = self._state["message"]
        stopped = error is not None and not isinstance(error, Exception)
        self._step("close", {"error": None if error is None else repr(error), "stopped": stopped})
        self._state["message"] = message
        self._closed = True

    def _step(self, step: str, told: Json | None = None) -> None:
        self._send(step, json.encode(told or {}).encode())

    def _send(self, step: str, body: bytes) -> None:
        if self._closed:
            raise Closed("this recorder was closed", hint="begin another with store.record()")
        self._state = self._line.value(f"{self._path}/{step}", body)

    def __enter__(self) -> Self:
        """Record inside a `with` block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the recorder; an exception is written down as the end of the run."""
        self.close(error)


_OF_SEVERAL: Final[Mapping[tuple[str, str], Callable[..., Any]]] = {
    ("chat", "record"): record,
}


class RemoteHome:
    """The stores of a home that another host serves; safe to share between threads."""

    def __init__(self, line: Line) -> None:
        """Use `threadkeep.connect`."""
        self._line = line

    def chat(self) -> "ChatStore":
        """Return the chat store."""
        return cast("ChatStore", RemoteStore(self._line, OWNERS["chat"]))

    def state(self) -> "SessionDB":
        """Return the session store."""
        return cast("SessionDB", RemoteStore(self._line, OWNERS["state"]))

    def knowledge(self) -> "Browse":
        """Return what was captured and learned, to look at it."""
        return cast("Browse", RemoteStore(self._line, OWNERS["knowledge"]))

    def memory(self) -> "Questions":
        """Return memory, to ask it."""
        return cast("Questions", RemoteStore(self._line, OWNERS["memory"]))

    def captured(self) -> "CapturedWork":
        """Return what is done with captured work: labels, notes of agents, projects, forgetting."""
        return cast("CapturedWork", RemoteStore(self._line, OWNERS["captured"]))

    def mail(self) -> "NamedMailboxes":
        """Return the mailboxes, by the names of their sessions."""
        return cast("NamedMailboxes", RemoteStore(self._line, OWNERS["mail"]))

    def close(self) -> None:
        """Close the connections."""
        self._line.close()

    def __enter__(self) -> Self:
        """Use the home in a `with` block, which closes the connections."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections."""
        self.close()
