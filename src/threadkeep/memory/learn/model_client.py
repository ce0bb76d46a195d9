"""The client: any server with an OpenAI-compatible API, asked with patience and within limits.

No redirect is followed, so the key and the text go to the configured server and nowhere else. The
key stands in no error. The address is looked at after its name was resolved, and the connection
goes to just that address: a name cannot lead to a cloud's metadata service.
"""

import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeGuard

from threadkeep.base.clock import is_due
from threadkeep.base.json import decode, encode
from threadkeep.capture.github import http
from threadkeep.errors import Invalid, ThreadkeepError, TooLarge
from threadkeep.knowledge.health import note_failure, note_success
from threadkeep.knowledge.ledger import FailureStreak
from threadkeep.knowledge.store import KnowledgeStore

TRIES: Final = 3
LONGEST_WAIT: Final = 30.0  # a server that wants more is left alone until the next cycle
_WAITS: Final = (0.5, 1.0)
_CONNECT_SECONDS: Final = 10.0
_MOST_JSON: Final = 32 * 1024 * 1024  # 1,000 vectors of 1,536 numbers
_MOST_COMPLAINT: Final = 65_536
_MOST_NAME: Final = 200
_HUGE: Final = 1e30  # no model gives such numbers, and 32-bit floats end at 3e38
_CHECK: Final = "check [model] url"
_OK, _TOO_MANY, _UNAVAILABLE, _SERVER_TROUBLE = 200, 429, 503, 500
_KEY_TROUBLE: Final = frozenset({401, 403})
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
# Where clouds give out credentials, beside the link-local addresses.
_METADATA: Final = frozenset(map(ip_address, ("fd00:ec2::254", "100.100.100.200")))
_NAT64: Final = IPv6Network("64:ff9b::/96")


class ModelFailed(ThreadkeepError):
    """A model gave no answer that can be used."""

    http_status = 502


class _Again(Exception):
    """The same request may succeed a little later."""

    def __init__(self, trouble: ModelFailed, seconds: float | None = None) -> None:
        super().__init__()
        self.trouble = trouble
        self.seconds = seconds  # what the server asked for


class ModelReply(NamedTuple):
    """What a model said, and what it used; None where the server did not count."""

    text: str
    input_tokens: int | None
    output_tokens: int | None


class _Request(NamedTuple):
    """One request, with the words that name it in an error."""

    stage: str
    model: str
    target: http.Target
    body: bytes | None  # None: a GET

    def failed(self, what: str, hint: str = _CHECK) -> ModelFailed:
        """Name stage, model and endpoint; the query and the user of an address are not shown."""
        host = self.target.origin.host
        named = f" with {self.model}" if self.model else ""
        where = f"{host}:{self.target.origin.port}{self.target.path}"
        return ModelFailed(f"{self.stage}{named} at {where}: {what}", hint=hint)


class ModelClient:
    """A server with models, and the right to ask it; `requests` counts what was really sent."""

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        timeout: float = 120.0,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        self._base = _server(url)
        self._key = _checked_key(key, self._base.origin) if key else None
        self._timeout = timeout
        self._sleep = sleep
        self._clock = clock
        self._ticks = ticks
        self.requests = 0

    @property
    def endpoint(self) -> str:
        """The address of the server, without what may be secret in it."""
        scheme, host, port = self._base.origin
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}{self._base.path}"

    def models(self) -> list[str]:
        """Name the models of the server."""
        request = self._request("list models", "", "/models", None)
        value = self._ask(request, tries=1)
        listed = value.get("data") if isinstance(value, dict) else value
        if not isinstance(listed, list):
            raise request.failed("the answer is not a list of models")
        named = (one.get("id") if isinstance(one, dict) else one for one in listed)
        return [name for name in named if isinstance(name, str) and _is_fit(name)]

    def chat(
        self, model: str, messages: Sequence[Mapping[str, str]], max_tokens: int
    ) -> ModelReply:
        """Ask a model, always at temperature 0."""
        asked = {
            "model": model,
            "messages": list(map(dict, messages)),
            "max_tokens": max_tokens,
            "temperature": 0,
            "stream": False,
        }
        request = self._request("chat", model, "/chat/completions", asked)
        value = self._ask(request)
        text = _content(value)
        if text is None:
            raise request.failed("the answer holds no text")
        usage = value.get("usage")
        return ModelReply(text, _count(usage, "prompt_tokens"), _count(usage, "completion_tokens"))

    def embeddings(self, model: str, texts: Sequence[str]) -> list[list[float]]:
        """Return the vector of each text, in order."""
        if not texts:
            return []
        asked = {"model": model, "input": list(texts)}
        request = self._request("embed", model, "/embeddings", asked)
        vectors = _vectors(self._ask(request), len(texts))
        if vectors is None:
            raise request.failed("the answer is not one vector of numbers for each text")
        return vectors

    def _request(self, stage: str, model: str, path: str, asked: Any) -> _Request:
        base = self._base
        body = None if asked is None else encode(asked).encode()
        target = http.Target(base.origin, base.path.rstrip("/") + path)
        return _Request(stage, model[:_MOST_NAME], target, body)

    def _ask(self, request: _Request, tries: int = TRIES) -> Any:
        """Ask, and again where that may help; give the JSON of the answer."""
        for tried in range(tries):
            try:
                return self._ask_once(request)
            except _Again as again:
                trouble = again.trouble
                asked = again.seconds
            if asked is not None and asked > LONGEST_WAIT:
                break
            if tried + 1 < tries:
                self._sleep(_WAITS[min(tried, len(_WAITS) - 1)] if asked is None else asked)
        raise trouble

    def _ask_once(self, request: _Request) -> Any:
        with self._answer(request) as response:
            if response.status != _OK:
                raise self._complaint(request, response)
            pace = http.Pace(self._timeout, self._ticks)
            try:
                body = http.read_body(response, _MOST_JSON, request.target, pace)
            except TooLarge:
                what = f"the answer is longer than {_MOST_JSON:,} bytes"
                raise request.failed(what) from None
            except http.Interrupted as error:
                what = error.message.partition(": ")[2]
                raise _Again(request.failed(what, "check the connection")) from None
        try:
            return decode(body)
        except Invalid:
            raise request.failed("the answer is not JSON", f"{_CHECK}: most end in /v1") from None

    @contextmanager
    def _answer(self, request: _Request) -> Iterator[HTTPResponse]:
        """Make one request over a connection of its own, and name every trouble."""
        try:
            with _connected(request, self._timeout) as connection:
                verb = "GET" if request.body is None else "POST"
                self.requests += 1
                connection.request(verb, request.target.path, request.body, self._headers())
                with connection.getresponse() as response:
                    yield response
        except ssl.SSLCertVerificationError as error:
            hint = f"{error.verify_message}; SSL_CERT_FILE can name your own authorities"
            raise request.failed("the certificate is not trusted", hint) from None
        except TimeoutError:
            # Not asked again: the server may still be at it, and would be paid twice.
            what = f"no answer within {self._timeout:g} seconds"
            raise request.failed(what, "raise [model] timeout_secs") from None
        except (OSError, HTTPException) as error:
            what = (str(error) or type(error).__name__)[:200]
            raise _Again(request.failed(what, f"is the server running? {_CHECK}")) from None

    def _headers(self) -> dict[str, str]:
        headers = {
            "User-Agent": "threadkeep",
            "Accept": "application/json",
            "Content-Type": "application/json",
            "Connection": "close",
        }
        return headers | ({"Authorization": f"Bearer {self._key}"} if self._key else {})

    def _complaint(self, request: _Request, response: HTTPResponse) -> Exception:
        """Return what a refusal means, with the server's own words and without the key."""
        status = response.status
        said = self._words(request, response)
        what = f"HTTP {status}{f', {said}' if said else ''}"
        if status in {_TOO_MANY, _UNAVAILABLE}:
            headers = {name.lower(): value for name, value in response.headers.items()}
            told = (
                http.wait_after(status, headers, 0, self._clock())
                if "retry-after" in headers
                else None
            )
            return _Again(
                request.failed(what, "the server is busy; it will be retried later"), told
            )
        if status >= _SERVER_TROUBLE:
            return _Again(request.failed(what, "look at the log of the model server"))
        if status in _KEY_TROUBLE:
            return request.failed(what, "check the key in the variable of [model] api_key_env")
        if status in _REDIRECTS:
            return request.failed(
                f"{what}: it redirects elsewhere", f"{_CHECK}; redirects are not followed"
            )
        return request.failed(what, f"{_CHECK}: most end in /v1")

    def _words(self, request: _Request, response: HTTPResponse) -> str:
        try:
            pace = http.Pace(self._timeout, self._ticks)
            value = decode(http.read_tail(response, _MOST_COMPLAINT, request.target, pace).data)
        except (Invalid, http.Interrupted):
            return ""
        error = value.get("error", value) if isinstance(value, dict) else value
        said = error.get("message") if isinstance(error, dict) else error
        text = " ".join(said.split()) if isinstance(said, str) else ""
        return (text.replace(self._key, "[key]") if self._key else text)[:200]


# ---------------------------------------------------------------------- addresses


def _server(url: str) -> http.Target:
    try:
        target = http.parse_url(url.rstrip("/"))
    except Invalid as error:
        raise Invalid(
            error.message, hint="write [model] url like http://127.0.0.1:11434/v1"
        ) from None
    return http.Target(target.origin, target.path.partition("?")[0])


def _checked_key(key: str, origin: http.Origin) -> str:
    """Refuse a key that cannot stand in a header, or would go over a network in the open."""
    if not (key.isascii() and key.isprintable() and " " not in key):
        msg = "the model's key contains invalid characters"
        raise Invalid(msg, hint="check the variable that [model] api_key_env names")
    if origin.scheme == "http" and not http.is_loopback(origin.host):
        msg = f"the model's key would go to {origin.host} without encryption"
        raise Invalid(msg, hint="use https in [model] url, or unset the variable of the key")
    return key


def is_forbidden(address: str) -> bool:
    """Tell whether no model can live at an address: link-local, multicast, a metadata service."""
    found = ip_address(address.partition("%")[0])
    if isinstance(found, IPv6Address):
        found = found.ipv4_mapped or _translated(found) or found
    if found in _METADATA:
        return True
    return found.is_link_local or found.is_multicast or found.is_unspecified


def _translated(address: IPv6Address) -> IPv4Address | None:
    """Return the old address inside a new one, as networks without the old kind write it."""
    return IPv4Address(int(address) & 0xFFFFFFFF) if address in _NAT64 else None


def _addresses(request: _Request) -> list[str]:
    """Resolve the name of the server once; one forbidden address among them is enough to refuse."""
    place = request.target.origin
    found = socket.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)
    addresses = [str(entry[4][0]) for entry in found]
    for address in addresses:
        if is_forbidden(address):
            raise request.failed(f"{address} is not the address of a model server")
    return addresses


@contextmanager
def _connected(request: _Request, timeout: float) -> Iterator[HTTPConnection]:
    place = request.target.origin
    connection = HTTPConnection(place.host, place.port)
    try:
        connection.sock = _socket(request, timeout)
        yield connection
    finally:
        connection.close()


def _socket(request: _Request, timeout: float) -> socket.socket:
    """Connect to an address that was looked at, the next one if the first is deaf."""
    place = request.target.origin
    trouble: OSError = ConnectionError("the name of the server does not resolve")
    for address in _addresses(request):
        try:
            plain = socket.create_connection(
                (address, place.port), timeout=min(timeout, _CONNECT_SECONDS)
            )
        except OSError as error:
            trouble = error
            continue
        return _secured(plain, place, timeout)
    # Nothing was sent: a server that cannot be reached may be asked again, unlike a slow one.
    raise ConnectionError(str(trouble) or type(trouble).__name__)


def _secured(plain: socket.socket, place: http.Origin, timeout: float) -> socket.socket:
    try:
        plain.settimeout(timeout)
        if place.scheme == "http":
            return plain
        context = ssl.create_default_context()
        return context.wrap_socket(plain, server_hostname=place.host)
    except BaseException:
        plain.close()
        raise


# ---------------------------------------------------------------------- answers


def _content(value: Any) -> str | None:
    choices = value.get("choices") if isinstance(value, dict) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, dict) else None
    content = message.get("content") if isinstance(message, dict) else None
    if isinstance(content, list):  # some servers give parts
        content = "".join(
            part["text"]
            for part in content
            if isinstance(part, dict) and isinstance(part.get("text"), str)
        )
    return content if isinstance(content, str) else None


def _is_fit(name: str) -> bool:
    """Tell whether a name can stand in a row and on a line."""
    return 0 < len(name) <= _MOST_NAME and name.isprintable()


def _count(usage: Any, name: str) -> int | None:
    found = usage.get(name) if isinstance(usage, dict) else None
    is_count = isinstance(found, int) and not isinstance(found, bool) and 0 <= found < 1 << 40
    return found if is_count else None


def _vectors(value: Any, wanted: int) -> list[list[float]] | None:
    rows = value.get("data") if isinstance(value, dict) else None
    if not isinstance(rows, list) or len(rows) != wanted:
        return None
    vectors: list[list[float] | None] = [None] * wanted
    for at, row in enumerate(rows):
        numbers = row.get("embedding") if isinstance(row, dict) else None
        place = row.get("index", at) if isinstance(row, dict) else at
        if not (_is_vector(numbers) and isinstance(place, int) and 0 <= place < wanted):
            return None
        vectors[place] = [float(number) for number in numbers]
    whole = [vector for vector in vectors if vector is not None]
    return whole if len(whole) == wanted else None


def _is_vector(numbers: Any) -> TypeGuard[list[float]]:
    return isinstance(numbers, list) and bool(numbers) and all(map(_is_number, numbers))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _HUGE


# ------------------------------------------------------------------------------
# The look before a model is asked: whether there is a server, and whether it has the model.
#
# The outcome stands in the health row `brain-preflight`, where the contract wants it. A server that
# failed is left alone for a while, longer each time, by every process that reads the same file.

SOURCE: Final = "brain-preflight"
FIRST_WAIT_MS: Final = 5_000
LONGEST_WAIT_MS: Final = 900_000
_LONGEST_MESSAGE: Final = 500
_MOST_DOUBLINGS: Final = 20
# Parts of the names of models that make vectors and cannot chat.
_NO_CHAT: Final = ("embed", "nomic", "modernbert")

Outcome = Literal["ok", "unreachable", "no_models", "model_missing"]


class PreflightResult(NamedTuple):
    """What the look gave: the model to ask, or what is wrong."""

    outcome: Outcome
    model: str = ""
    message: str = ""


class Listing(Protocol):
    """A client, as far as the look needs one."""

    @property
    def endpoint(self) -> str:
        """The address of the server."""

    def models(self) -> list[str]:
        """Name the models of the server."""


def can_chat(model: str) -> bool:
    """Tell by its name whether a model is one to talk to."""
    name = model.lower()
    return not any(part in name for part in _NO_CHAT)


def choose_model(listed: Sequence[str], wanted: str | None) -> PreflightResult:
    """Choose among the models of a server: the wanted one, else the first that can chat."""
    if wanted is not None:
        for name in (wanted, f"{wanted}:latest"):  # the second is how Ollama completes names
            if name in listed:
                return PreflightResult("ok", name)
    chatting = [name for name in listed if can_chat(name)]
    if not chatting:
        return PreflightResult("no_models", message="the server has no model that can chat")
    if wanted is None:
        return PreflightResult("ok", chatting[0])
    some = ", ".join(chatting[:5])
    return PreflightResult("model_missing", message=f"the server has no model {wanted}, but {some}")


def look(client: Listing, wanted: str | None) -> PreflightResult:
    """Ask a server for its models and choose one."""
    try:
        listed = client.models()
    except ModelFailed as error:
        return PreflightResult("unreachable", message=str(error))
    return choose_model(listed, wanted)


def preflight(store: KnowledgeStore, client: Listing, wanted: str | None) -> PreflightResult:
    """Look, and write the outcome into the health row."""
    looked = look(client, wanted)
    note(store, looked, client.endpoint)
    return looked


def note(store: KnowledgeStore, looked: PreflightResult, endpoint: str) -> None:
    """Write an outcome into the health row."""
    now = store.clock()
    with store.write() as tx:
        if looked.outcome == "ok":
            note_success(tx, SOURCE, last_event=None, count=0, now=now)
        else:
            said = f"{looked.outcome}: {endpoint}: {looked.message}"
            note_failure(tx, SOURCE, said[:_LONGEST_MESSAGE], now)


def rests(found: Iterable[FailureStreak], now: int) -> bool:
    """Tell whether a server with such troubles is not asked yet."""
    pauses = ((one.last_at, wait_after_failures(one.failures)) for one in found)
    return any(not is_due(last + pause, now, pause) for last, pause in pauses)


def wait_after_failures(failures: int) -> int:
    """Return the milliseconds to wait after so many failures in a row: 5 s, 10 s … 15 min."""
    doubled = FIRST_WAIT_MS << min(max(failures - 1, 0), _MOST_DOUBLINGS)
    return min(doubled, LONGEST_WAIT_MS)


def is_resting(store: KnowledgeStore, endpoint: str) -> bool:
    """Tell whether a server that failed is to be left alone for now."""
    return rests(store.queues.troubles(endpoint), store.clock())
