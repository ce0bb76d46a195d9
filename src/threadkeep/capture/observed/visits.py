"""From a browser's message to a visit that may be kept: rules, clean addresses, ids."""

import math
import re
import unicodedata
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import parse_qs, quote, quote_plus, unquote_plus

import msgspec

from threadkeep.base.clock import Clock
from threadkeep.base.config import BrowserSettings
from threadkeep.base.frames import NATIVE_LIMIT, FrameDecoder, encode_frame
from threadkeep.base.json import decode, encode
from threadkeep.base.text import pattern
from threadkeep.capture.observed.envelopes import (
    NAME_LIMIT,
    PAGE_LIMIT,
    TITLE_LIMIT,
    URL_LIMIT,
    cut,
)
from threadkeep.capture.observed.protocol import error_of
from threadkeep.errors import Invalid, ThreadkeepError, TooLarge
from threadkeep.knowledge.records import Heartbeat, Observed, Visit

# ------------------------------------------------------------------------------
# Which sites are kept: a list of places where developers read, and how a name is compared.

# Sub-domains belong to each of them. Mail, chat and search engines are left out on purpose.
DEFAULT_DOMAINS: Final = (
    # code
    *("github.com", "github.io", "gitlab.com", "bitbucket.org", "codeberg.org", "sr.ht"),
    # packages
    *("crates.io", "docs.rs", "npmjs.com", "pypi.org", "pkg.go.dev", "rubygems.org"),
    *("mvnrepository.com", "packagist.org", "hex.pm"),
    # languages and their documentation
    *("python.org", "docs.python.org", "readthedocs.io", "rust-lang.org", "go.dev", "nodejs.org"),
    *("developer.mozilla.org", "typescriptlang.org", "swift.org", "ziglang.org", "kotlinlang.org"),
    *("cppreference.com", "learn.microsoft.com", "docs.astral.sh", "react.dev"),
    # systems, databases, infrastructure
    *("kubernetes.io", "docker.com", "postgresql.org", "sqlite.org", "redis.io", "man7.org"),
    *("kernel.org", "wiki.archlinux.org", "debian.org"),
    # models and papers
    *("arxiv.org", "huggingface.co", "anthropic.com", "openai.com", "lmstudio.ai"),
    # questions and answers
    *("stackoverflow.com", "stackexchange.com", "news.ycombinator.com", "lobste.rs", "dev.to"),
    # articles and talk, as Hippo has them
    *("medium.com", "substack.com", "hackernoon.com", "reddit.com"),
)

_HOST: Final = pattern(r"[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*|\[[0-9a-f:.]+\]")
_HOST_LENGTH: Final = 253


def plain_domain(text: str) -> str | None:
    """Write a host name in the one form that can be compared; None when it is not a host name.

    Small letters, no dot at the end, names beyond ASCII as browsers send them (`xn--...`).
    """
    # Python's own "idna" codec follows the rules of 2003: it turns ß into ss, browsers do not.
    small = _folded(_folded(text).lower()).removesuffix(".")
    name = ".".join(_plain_label(label) for label in small.split("."))
    return name if len(name) <= _HOST_LENGTH and _HOST.fullmatch(name) else None


def is_allowed(domain: str, allowed: Iterable[str], excluded: Iterable[str] = ()) -> bool:
    """Tell whether a site is on the list, itself or its parent; an exclusion always wins."""
    return is_listed(domain, allowed) and not is_listed(domain, excluded)


def is_listed(domain: str, listed: Iterable[str]) -> bool:
    """Tell whether a host name is one of these domains, or below one of them."""
    name = plain_domain(domain)
    if name is None:
        return False
    parents = {plain_domain(entry.removeprefix("*.").removeprefix(".")) for entry in listed}
    return any(name == parent or name.endswith(f".{parent}") for parent in parents - {None})


def _folded(text: str) -> str:
    """Make wide and composed letters plain ones, and the ideographic full stop a dot."""
    return unicodedata.normalize("NFKC", text).replace("\u3002", ".")


def _plain_label(label: str) -> str:
    return label if label.isascii() else "xn--" + label.encode("punycode").decode("ascii")


# Hippo's programs make the same ids, so that a visit that comes both ways is one visit.
VISIT_IDS: Final = uuid.UUID("8a3b7c01-d4e5-4f6a-9b2c-1e0fa85d3c7e")
PROBE_DOMAIN: Final = "probe.hippo.local"

DAY_MS: Final = 86_400_000
# Cut out of addresses whatever the configuration says; nobody looks a page up by them.
ALWAYS_STRIPPED: Final = frozenset(
    (
        *("access_token", "refresh_token", "id_token", "private_token", "oauth_token"),
        *("client_secret", "apikey", "api-key", "access_key", "secret_key", "jwt", "signature"),
        *("passwd", "pwd", "passphrase", "sessionid", "session_id", "jsessionid", "phpsessid"),
        *("x-amz-signature", "x-amz-credential", "x-amz-security-token"),
        *("x-goog-signature", "x-goog-credential"),
    )
)

_ADDRESS: Final = pattern(r"(https?://)([^/?#\\]*)([^?#]*)(\?[^#]*)?(#.*)?", re.IGNORECASE)
_OTHER_SCHEME: Final = pattern(r"(?!https?:)[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_CONTROL: Final = pattern(r"[\x00-\x1f\x7f]")
_PATH_BEFORE: Final = pattern(r".*[/!]", re.DOTALL)
_PORT: Final = pattern(r":[0-9]*$")
_PORTS: Final = {"http://": ":80", "https://": ":443"}
_IN_PATH: Final = "!$%&'()*+,/:;=@[]^|~"  # what is not escaped beside letters and digits
_IN_FRAGMENT: Final = _IN_PATH + "#?{}\\"
_GOOGLE: Final = pattern(r"(?:.+\.)?google\.(?:com|[a-z]{2}|com?\.[a-z]{2})")
_SEARCH_SITES: Final = ("duckduckgo.com", "bing.com", "kagi.com", "ecosia.org")
_AGAIN: Final = "reload the extension; `threadkeep browser install` brings the one that fits"


class VisitRules(msgspec.Struct, frozen=True):
    """What decides whether a visit is kept, and in which form."""

    enabled: bool = True
    domains: tuple[str, ...] = DEFAULT_DOMAINS
    exclude: tuple[str, ...] = ()
    strip_params: tuple[str, ...] = BrowserSettings().strip_params
    min_dwell_ms: int = 3000  # told to the extension, which reports no shorter visit
    dedup_window_minutes: int = 30
    probe_domain: str = PROBE_DOMAIN


class VisitRejection(msgspec.Struct, frozen=True):
    """A visit that is in order but not kept, and why."""

    reason: str


class Address(NamedTuple):
    """The pieces of an http address; `query` and `fragment` with the sign before them."""

    scheme: str
    host: str  # with its port, without user and password
    path: str
    query: str
    fragment: str

    def domain(self) -> str:
        """The host as it is compared; empty when it is not a host name."""
        return plain_domain(_PORT.sub("", self.host)) or ""


def rules_of(settings: BrowserSettings) -> VisitRules:
    """Take the rules from the table `[browser]` of the configuration."""
    return VisitRules(
        enabled=settings.enabled,
        domains=DEFAULT_DOMAINS if settings.domains is None else settings.domains,
        exclude=settings.exclude,
        strip_params=settings.strip_params,
        min_dwell_ms=settings.min_dwell_ms,
        dedup_window_minutes=settings.dedup_window_minutes,
    )


def visit_of(message: Mapping[str, Any], rules: VisitRules, now_ms: int) -> Visit | VisitRejection:
    """Read a browser's message about a page; one that makes no sense is refused with `Invalid`."""
    if not rules.enabled:
        return VisitRejection("capture of browsers is switched off")
    address = _address_of(message)
    if address is None:
        return VisitRejection("only pages over http and https are kept")
    domain = _domain_of(message, address)
    tag = _text(message, "probe_tag", NAME_LIMIT)
    is_probe = tag is not None and {domain, address.domain()} == {plain_domain(rules.probe_domain)}
    if not is_probe and not _both_allowed(domain, address, rules):
        return VisitRejection("the domain is not on the list, or was excluded")
    dwell = _clamped(_number(message, "dwell_ms") or 0, DAY_MS)
    at = time_in(message, "timestamp", now_ms)
    url = stripped(address, rules.strip_params)
    referrer, search_query = _origin_of(message, rules)
    scroll = _number(message, "scroll_depth")
    return Visit(
        envelope_id=probe_id(tag) if tag else visit_id(url, at, rules.dedup_window_minutes),
        at=at,
        url=url,
        domain=domain,
        title=_text(message, "title", TITLE_LIMIT),
        dwell_ms=int(dwell),
        scroll_depth=None if scroll is None else float(_clamped(scroll, 1)),
        extracted_text=_text(message, "extracted_text", PAGE_LIMIT),
        search_query=search_query,
        referrer=referrer,
        probe_tag=tag,
    )


def visit_id(url: str, at: int, window_minutes: int) -> str:
    """Return the envelope id of a visit: the same for one address within one window of time."""
    minute = at // 1000 // 60
    bucket = minute // window_minutes if window_minutes else minute
    return str(uuid.uuid5(VISIT_IDS, f"{url}:{bucket}"))


def probe_id(tag: str) -> str:
    """Return the envelope id of a synthetic visit."""
    return str(uuid.uuid5(VISIT_IDS, f"probe:{tag}"))


def time_in(message: Mapping[str, Any], field: str, now_ms: int) -> int:
    """Read a time out of a message; it is now when there is none that can be true."""
    at = _number(message, field) or 0
    return int(at) if 0 < at <= now_ms + DAY_MS else now_ms


def split_address(text: str) -> Address | None:
    """Take an http address apart; None when it is not one. User and password are left out."""
    found = None if _CONTROL.search(text) else _ADDRESS.fullmatch(text)
    if found is None:
        return None
    scheme, authority, path, query, fragment = found.groups(default="")
    return Address(scheme, authority.rpartition("@")[2], path, query, fragment)


def stripped(address: Address, strip_params: Sequence[str]) -> str:
    """Write an address without its secret parameters, in the form that Hippo gives it.

    Ids are made of addresses, so the form must be the same: a browser's own, with the parameters
    that are left written as a form would send them.
    """
    names = ALWAYS_STRIPPED.union(name.casefold() for name in strip_params)
    query = _as_form(_without(address.query, "?", names))
    fragment = quote(_safe_fragment(address.fragment, names), safe=_IN_FRAGMENT)
    path = quote(address.path.replace("\\", "/"), safe=_IN_PATH) or "/"
    return f"{address.scheme.lower()}{_plain_host(address)}{path}{query}{fragment}"


def _plain_host(address: Address) -> str:
    host = address.host if address.host.isascii() else address.domain() + _port_of(address)
    return host.lower().removesuffix(_PORTS[address.scheme.lower()])


def _port_of(address: Address) -> str:
    found = _PORT.search(address.host)
    return found[0] if found else ""


def _as_form(query: str) -> str:
    pairs = (piece.partition("=") for piece in query.removeprefix("?").split("&") if piece)
    written = "&".join(f"{_form_text(name)}={_form_text(value)}" for name, _, value in pairs)
    return f"?{written}" if written else ""


def _form_text(text: str) -> str:
    return quote_plus(unquote_plus(text), safe="*").replace("~", "%7E")


def search_query_of(referrer: Address) -> str | None:
    """Return the words that somebody searched for on the page that led here."""
    domain = referrer.domain()
    is_search = _GOOGLE.fullmatch(domain) or is_listed(domain, _SEARCH_SITES)
    if not is_search and not (domain == "github.com" and referrer.path == "/search"):
        return None
    words = parse_qs(referrer.query.removeprefix("?")).get("q", [""])[0]
    return cut(words.strip(), TITLE_LIMIT) or None


def _without(params: str, sign: str, names: frozenset[str]) -> str:
    """Drop secret parameters; with the last one goes the sign before them."""
    text = params.removeprefix(sign)
    groups = (
        [piece for piece in group.split(";") if not _is_secret(piece, names)]
        for group in text.split("&")
    )
    kept = "&".join(";".join(pieces) for pieces in groups if pieces)
    return params if kept == text else sign + kept if kept else ""


def _is_secret(piece: str, names: frozenset[str]) -> bool:
    """Tell by its name; in a fragment a path may stand before that: `#/back/token=…`."""
    name = unquote_plus(piece.partition("=")[0]).strip()
    return _PATH_BEFORE.sub("", name).casefold() in names


def _safe_fragment(fragment: str, names: frozenset[str]) -> str:
    """Clean a fragment where it holds parameters: `#access_token=…`, `#/page?token=…`."""
    head, sign, tail = fragment.removeprefix("#").partition("?")
    named = _without(head, "", names) if "=" in head else head
    left = named + _without(sign + tail, "?", names)
    return f"#{left}" if left or fragment == "#" else ""


def _address_of(message: Mapping[str, Any]) -> Address | None:
    """Read the page's address; None for a page of the browser itself, a file and the like."""
    url = message.get("url")
    if not isinstance(url, str) or not url:
        raise Invalid("a visit has no address: `url` must be text", hint=_AGAIN)
    if not _fits(url):
        raise TooLarge(f"the address of a page is over {URL_LIMIT} bytes", hint="it is not kept")
    if _OTHER_SCHEME.match(url):
        return None
    address = split_address(cut(url, URL_LIMIT))
    if address is None or not address.domain():
        raise Invalid("the `url` of a visit is not an address", hint=_AGAIN)
    return address


def _fits(url: str) -> bool:
    return len(url.encode("utf-8", "surrogatepass")) <= URL_LIMIT


def _domain_of(message: Mapping[str, Any], address: Address) -> str:
    """Return the domain that the message names; the one of its address when it names none."""
    named = message.get("domain")
    if named is None:
        return address.domain()
    domain = plain_domain(named) if isinstance(named, str) else None
    if domain is None:
        raise Invalid("the `domain` of a visit is not a host name", hint=_AGAIN)
    return domain


def _both_allowed(domain: str, address: Address, rules: VisitRules) -> bool:
    """The domain is what the extension says; where the page really was counts as well."""
    return all(is_allowed(d, rules.domains, rules.exclude) for d in (domain, address.domain()))


def _origin_of(message: Mapping[str, Any], rules: VisitRules) -> tuple[str | None, str | None]:
    """Return referrer and search words; neither when they come from a site that was excluded."""
    named = message.get("referrer")
    if named is not None and not isinstance(named, str):
        raise Invalid("the `referrer` of a visit must be text", hint=_AGAIN)
    words = _text(message, "search_query", TITLE_LIMIT)
    # A cut would leave an address that nobody can follow, and half a secret in it.
    if named is None or not _fits(named):
        return None, words
    referrer = split_address(cut(named, URL_LIMIT))
    if referrer is None:  # nothing, or a page of another program
        return _CONTROL.sub("", cut(named, URL_LIMIT)), words
    if is_listed(referrer.domain(), rules.exclude):
        return None, None
    if "search_query" not in message:  # null means that the extension has looked
        words = search_query_of(referrer)
    return stripped(referrer, rules.strip_params), words


def _number(message: Mapping[str, Any], field: str) -> int | float | None:
    value = message.get(field)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Invalid(f"the `{field}` of a message must be a number", hint=_AGAIN)
    return None if isinstance(value, float) and math.isnan(value) else value


def _clamped(number: float, most: int) -> int | float:
    return max(0, min(number, most))


def _text(message: Mapping[str, Any], field: str, limit: int) -> str | None:
    value = message.get(field)
    if value is not None and not isinstance(value, str):
        raise Invalid(f"the `{field}` of a visit must be text", hint=_AGAIN)
    return None if value is None else cut(value, limit)


# ------------------------------------------------------------------------------
# The native-messaging host: a browser starts it, sends what was read, and gets short answers.
#
# Standard output belongs to the browser: whoever calls `serve` must see to it that nothing else in
# the process prints there.

Deliver = Callable[[Observed], object]

_CHUNK: Final = 1 << 16
_ORIGIN: Final = pattern(r"chrome-extension://[a-p]{32}/")
_SHOWN: Final = 200


class ByteSource(Protocol):
    """What messages are read from: `sys.stdin.buffer`, for example."""

    def read1(self, size: int, /) -> bytes:
        """Return what is there, at most `size` bytes; nothing means the end."""


class ByteSink(Protocol):
    """What answers are written to: `sys.stdout.buffer`, for example."""

    def write(self, data: bytes, /) -> int:
        """Take all of the bytes."""

    def flush(self) -> None:
        """Send them on their way."""


def check_caller(arguments: Sequence[str]) -> None:
    """Refuse arguments that no browser passes.

    Chromium names the extension's origin, Firefox the manifest and the extension's id. Which
    extension may call is in the manifest; the browser has seen to that before it started us.
    """
    match arguments:
        case [] | [_, _]:
            return
        case [origin, *_] if _ORIGIN.fullmatch(origin):
            return
    raise Invalid(
        "the native-messaging host was called with arguments that no browser passes",
        hint="a browser starts it; set it up with `threadkeep browser install`",
    )


def serve(
    stdin: ByteSource, stdout: ByteSink, rules: VisitRules, deliver: Deliver, clock: Clock
) -> None:
    """Answer a browser's messages, one after the other, until it closes its side.

    A wrong length ends it after one answer: nobody can tell where the next message begins.
    """
    frames = FrameDecoder(limit=NATIVE_LIMIT, order="native")
    try:
        while data := stdin.read1(_CHUNK):
            frames.feed(data)
            for message in iter(frames.take, None):
                _send(stdout, answer(message, rules, deliver, clock))
    except TooLarge as error:
        _send(stdout, _error(error.message))
    except BrokenPipeError:  # the browser is gone, and what it sent is kept
        return


def answer(message: bytes, rules: VisitRules, deliver: Deliver, clock: Clock) -> dict[str, Any]:
    """Do what one message asks for, and give the answer to it."""
    try:
        found = _understood(message, rules, clock())
    except Invalid as error:
        return _error(error.message)
    if isinstance(found, dict):
        return found
    if isinstance(found, VisitRejection):
        return {"status": "filtered"}
    try:
        deliver(found)
    except (ThreadkeepError, OSError) as error:
        # Its own words may name folders of this machine, and a browser is not the place for them.
        return _error(f"threadkeep could not keep it: {type(error).__name__}")
    return {"status": "ok"}


def _understood(
    message: bytes, rules: VisitRules, now_ms: int
) -> Observed | VisitRejection | dict[str, Any]:
    """Read one message: something to deliver, something left out, or the answer itself."""
    value = decode(message)
    if not isinstance(value, dict):
        raise Invalid("a message must be a JSON object", hint="send one object per message")
    match value.get("type"):
        case "heartbeat":
            said = value.get("last_error_msg")
            error = error_of(said if isinstance(said, str) else None)
            return Heartbeat("browser", time_in(value, "sent_at_ms", now_ms), error)
        case "config":
            return _configuration(rules)
        case _:  # older extensions name visits in other ways, or not at all
            return visit_of(value, rules, now_ms)


def _configuration(rules: VisitRules) -> dict[str, Any]:
    """Tell the extension what it need not send at all."""
    return {
        "status": "ok",
        "enabled": rules.enabled,
        "domains": list(rules.domains),
        "exclude": list(rules.exclude),
        "min_dwell_ms": rules.min_dwell_ms,
    }


def _error(said: str) -> dict[str, Any]:
    return {"status": "error", "error": said[:_SHOWN]}


def _send(stdout: ByteSink, reply: dict[str, Any]) -> None:
    body = encode(reply).encode()
    if len(body) > NATIVE_LIMIT:  # a browser would end the connection
        body = encode(_error("the answer is too large for a browser")).encode()
    stdout.write(encode_frame(body, limit=NATIVE_LIMIT, order="native"))
    stdout.flush()
