"""One line for each verb of a store; all else is read from the function that does the work.

A line names a store's function and, where it has one, its address. What the verb takes is read from
the signature, what it says from the docstring, how it answers from the types: `Page[T]` is a page
and so is a list, `Iterator[T]` is a stream, a parameter `progress` is told how far the work is. So
HTTP, its description, the async face and the remote client cannot say anything else than the store.
"""

import inspect
import re
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec import Meta, UnsetType

from threadkeep.errors import Invalid, NotFound

Json = dict[str, Any]
Way = Literal["look", "ask", "change", "begin"]

SAME: Final = "same"

_LISTS: Final = (list, tuple, set, frozenset, Sequence, Iterable, Iterator, Collection)
_UNIONS: Final = (Union, types.UnionType)
_PLAIN: Final = (str, int, float, bool, type(None), UnsetType)
_ANY: Final = (Any, object)
# How an address says which of two kinds is wanted, or both.
_THREE: Final = {"no": False, "only": True, "any": None}


class Given(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a caller says; a name that is not known is refused."""


class VerbOwner(msgspec.Struct, frozen=True, dict=True):
    """A class with verbs, loaded when one of them is looked at."""

    store: str  # what addresses, the client and `Stores` call it
    module: str
    name: str
    reads: Way = "ask"  # what it is opened for by who only reads

    @cached_property
    def type(self) -> type:
        """The class itself."""
        found: type = getattr(import_module(self.module), self.name)
        return found


class VerbArgument(msgspec.Struct, frozen=True):
    """One thing that a verb takes, as it is sent."""

    name: str
    kind: Any
    default: Any = inspect.Parameter.empty

    @property
    def required(self) -> bool:
        """Whether it must be said."""
        return self.default is inspect.Parameter.empty


class Verb(msgspec.Struct, frozen=True, dict=True):
    """One verb of a store, and what its line in the table says of it."""

    owner: VerbOwner
    name: str  # of the store's function: the one name that all surfaces use
    method: str
    path: str  # its own address below /api, with {names}; empty: it has none
    status: int = 200
    begins: bool = False  # it may make the store
    destroys: bool = False  # over HTTP it is a dry run unless `dry_run` is false
    # What a write does when the same call arrives twice. `SAME`: no more than once does, and the
    # answer is the same; a name: that is so when this argument is given; empty: it is done again,
    # or refused.
    again: str = ""
    kept: bool = False  # it shows the captured history at a moment, and nothing else
    upload: str = ""  # the parameter that is sent as JSON lines
    shape: Any = None  # how the answer is shown at its address: a record, or the name of its field
    names: Mapping[str, str] = {}  # what the address calls a parameter -> the parameter
    preset: Mapping[str, Any] = {}  # what the address says by itself
    takes: tuple[str, ...] = ()  # the fields of a filter that the address has; none: all
    way: Way | None = None  # what the store is opened for, where that is something else
    tool: str = ""  # the tool that gives agents the same
    command: str = ""  # what one types for it, where a hint may say so
    also: str = ""  # the function of another class that it calls, as hints name it: Host.retry

    @cached_property
    def function(self) -> Callable[..., Any]:
        """What does the work; it takes the store first."""
        found: Callable[..., Any] = getattr(self.owner.type, self.name)
        return found

    @cached_property
    def said(self) -> str:
        """What it does, in the first sentences of its docstring."""
        return " ".join((inspect.getdoc(self.function) or "").split("\n\n")[0].split())

    @cached_property
    def hints(self) -> Json:
        """The types of parameters and answer."""
        return get_type_hints(inspect.unwrap(self.function), include_extras=True)

    @cached_property
    def answer(self) -> Any:
        """The type of the answer."""
        return self.hints.get("return", Any)

    @cached_property
    def parameters(self) -> dict[str, inspect.Parameter]:
        """What it takes from Python, but for the store."""
        own = list(inspect.signature(self.function).parameters.values())[1:]
        return {one.name: one for one in own}

    @cached_property
    def arguments(self) -> dict[str, VerbArgument]:
        """What of it can be sent: no paths, no functions, no records of open things."""
        found = {}
        for one in self.parameters.values():
            if one.kind is one.VAR_KEYWORD:
                continue
            kind = wire(self.hints.get(one.name, Any))
            if kind is not None:
                found[one.name] = VerbArgument(one.name, kind, one.default)
        return found

    @property
    def takes_more(self) -> bool:
        """Whether it takes arguments that its signature does not name."""
        return any(one.kind is one.VAR_KEYWORD for one in self.parameters.values())

    @property
    def reads(self) -> bool:
        """Whether it changes nothing."""
        return self.method == "GET"

    def may_come_twice(self, given: Mapping[str, Any]) -> bool:
        """Tell whether a call with these arguments may be sent again: twice does what once does."""
        if self.reads or self.again == SAME:
            return True
        return bool(self.again) and given.get(self.again) is not None

    @property
    def opened_to(self) -> Way:
        """What its store is opened for."""
        if self.begins:
            return "begin"
        return self.way or (self.owner.reads if self.reads else "change")

    @property
    def streams(self) -> bool:
        """Whether it gives one thing after the other."""
        return get_origin(self.answer) is Iterator

    @property
    def progresses(self) -> bool:
        """Whether it tells how far it is."""
        return "progress" in self.parameters

    @cached_property
    def in_path(self) -> tuple[str, ...]:
        """The names in its address."""
        return tuple(re.findall(r"{(\w+)}", self.path))

    @property
    def nothing(self) -> Any:
        """What it answers while its store is not there; None: that there is none."""
        kind = get_origin(self.answer) or self.answer
        if not self.reads or self.in_path:  # of something that is not there
            return None
        if isinstance(kind, type) and {"items", "next"} <= set(getattr(kind, "__match_args__", ())):
            return kind([], None)
        return {dict: {}, list: []}.get(kind)

    # -------------------------------------------------------------- at its own address

    @cached_property
    def filter(self) -> str:
        """The parameter that is a filter: its fields are arguments of the address; or none."""
        found = (name for name, one in self.arguments.items() if hasattr(one.kind, "SPREAD"))
        return next(found, "")

    @cached_property
    def _spread(self) -> dict[str, VerbArgument]:
        """The fields of the filter, and `q`, which says the same in the filter language."""
        if not self.filter:
            return {}
        kind = self.arguments[self.filter].kind
        wanted = self.takes or tuple(kind.SPREAD)
        said = "In the filter language: `agent:codex cost:>1 docker`."
        words = Annotated[str, Meta(max_length=2000, description=said)]
        found = {} if "q" in self.names else {"q": VerbArgument("q", words, "")}
        none = {bool: False, list: ()}
        for name, one in kind.SPREAD.items():
            if name in wanted:
                plain = bare(one)
                found[name] = VerbArgument(name, one, none.get(get_origin(plain) or plain))
        return found

    @cached_property
    def asked(self) -> type[Given]:
        """What is in its address."""
        every = self.method in ("GET", "DELETE") or self.upload
        return self._struct("asked", lambda name: bool(every) or name in self.in_path)

    @cached_property
    def body(self) -> type[Given] | None:
        """What is in the body of a request; None: it has no body of JSON."""
        if self.method in ("GET", "DELETE") or self.upload:
            return None
        return self._struct("body", lambda name: name not in self.in_path)

    def _struct(self, part: str, wanted: Callable[[str], bool]) -> type[Given]:
        named = [one for one in self._wire_names() if wanted(one[0])]
        fields = [self._field(name, one) for name, one in self._spread.items() if wanted(name)]
        fields += [self._field(name, self.arguments[target]) for name, target in named]
        made = f"{self.owner.store}_{self.name}_{part}"
        return cast(
            "type[Given]",
            msgspec.defstruct(made, fields, bases=(Given,), frozen=True, kw_only=True),
        )

    def _wire_names(self) -> Iterator[tuple[str, str]]:
        """Return what the address calls each parameter; some have two names."""
        renamed = set(self.names.values())
        for name in self.arguments:
            if name in (self.upload, self.filter) or name in self.preset:
                continue
            if name in renamed:
                yield from ((told, one) for told, one in self.names.items() if one == name)
            else:
                yield name, name

    @cached_property
    def _said_twice(self) -> frozenset[str]:
        """The parameters that have two names in the address."""
        targets = list(self.names.values())
        return frozenset(one for one in targets if targets.count(one) > 1)

    def _field(self, name: str, argument: VerbArgument) -> Any:
        if self.destroys and argument.name == "dry_run":
            said = "Show what would be done; do nothing."
            return name, Annotated[bool, Meta(description=said)], True
        if argument.name in self._said_twice:
            return name, argument.kind | None, None
        kind = argument.kind
        if name in self.in_path:
            return name, _without_none(kind)
        if self.reads and kind == bool | None and argument.default is not None:
            return name, Literal[tuple(_THREE)], _word_of(argument.default)
        if argument.required:
            return name, kind
        return name, kind, _default(argument.default)

    def taken(self, *parts: Given | None) -> Json:
        """Return the arguments that a request at its address says."""
        said: Json = {}
        for part in parts:
            if part is not None:
                said |= msgspec.structs.asdict(part)
        found = dict(self.preset)
        if self.filter:  # read by who knows the time and the zone
            found[self.filter] = {name: said.pop(name) for name in self._spread if name in said}
        for name, value in said.items():
            target = self.names.get(name, name)
            if target in self._said_twice:
                if value is None:
                    continue
                if target in found:
                    raise Invalid(
                        f"{name!r} and another option mean the same", hint="give one of them"
                    )
            found[target] = (value or None) if name == "cursor" else self._meant(target, value)
        missing = [n for n in self._needed() if n not in found]
        if missing:
            words = [name for name, target in self._wire_names() if target == missing[0]]
            raise Invalid(f"{missing[0]!r} is missing", hint=f"give {' or '.join(words)}")
        return found

    def _meant(self, name: str, value: Any) -> Any:
        """Read what an address can only say in words."""
        three = self.reads and isinstance(value, str) and self.arguments[name].kind == bool | None
        return _THREE[value] if three else value

    def _needed(self) -> Iterator[str]:
        for name, argument in self.arguments.items():
            if argument.required and name != self.upload:
                yield name

    @cached_property
    def shown_as(self) -> type[msgspec.Struct] | None:
        """The record that its address shows; None: the answer itself."""
        if not isinstance(self.shape, str):
            return cast("type[msgspec.Struct] | None", self.shape)
        made = f"{self.owner.store}_{self.name}_{self.shape}"
        return msgspec.defstruct(made, [(self.shape, self.answer)], frozen=True)

    def shown(self, value: Any, given: Mapping[str, Any]) -> Any:
        """Return an answer in the shape that it has at its address."""
        if self.shown_as is None:
            return value
        if isinstance(self.shape, str):
            return self.shown_as(value)
        return shaped(self.shown_as, value, given)

    # -------------------------------------------------------------- by its name

    def named(self, given: Mapping[str, Any]) -> Json:
        """Read arguments that were sent by their names; the store itself looks at their values."""
        # Also of a verb that takes more than it names: a path, say, is never sent.
        unknown = [
            name
            for name in given
            if name not in self.arguments and (not self.takes_more or name in self.parameters)
        ]
        if unknown:
            known = ", ".join(self.arguments)
            hint = f"it takes {known}" if known else "it takes no arguments"
            raise Invalid(f"there is no argument {unknown[0][:80]!r} here", hint=hint)
        found = dict(given)
        if self.destroys:
            found.setdefault("dry_run", True)
        for name, value in found.items():
            kind = self.arguments[name].kind if name in self.arguments else Any
            if has_record(kind):
                found[name] = _record(name, value, kind)
        return found


def verb(owner: VerbOwner, name: str, address: str, status: int = 200, **more: Any) -> Verb:
    """Make a line of the table: `verb(CHAT, "sessions", "GET /chat/sessions")`.

    Of a verb without an address of its own the line says only whether it reads (GET) or not (POST):
    it is called by its name.
    """
    method, _, path = address.partition(" ")
    return Verb(owner, name, method, path, status, **more)


def table(*verbs: Verb) -> dict[str, Verb]:
    """Put lines together, by the names of their verbs; one that cannot be right is refused."""
    found: dict[str, Verb] = {}
    for one in verbs:
        if one.name in found:
            raise Invalid(f"the verb {one.name!r} is in the table twice", hint="remove one")
        found[one.name] = one
    return found


_NAMED: Final = re.compile(r"`(\w+\.\w+)\((\w*)(?:=(\w+))?\)`")


def said_by(hint: str, verbs: Iterable[Verb], say: Callable[[Verb, str, str], str]) -> str:
    """Write the verbs that a hint names as a surface calls them: `say(verb, argument, value)`.

    A hint names a verb as Python calls it, `ChatStore.unrewind()`, with one argument at most. What
    the surface has no words for stays so.
    """
    if not _NAMED.search(hint):
        return hint
    known = {name: one for one in verbs for name in (f"{one.owner.name}.{one.name}", one.also)}

    def written(found: re.Match[str]) -> str:
        one = known.get(found[1])
        words = "" if one is None else say(one, found[2], found[3] or "")
        return f"`{words}`" if words else found[0]

    return _NAMED.sub(written, hint)


def find_verb(verbs: Mapping[str, Verb], store: str, name: str) -> Verb:
    """Return a verb by its name."""
    if name not in verbs:
        msg = f"the store {store!r} has no verb {name[:80]!r}"
        raise NotFound(msg, hint="see the table of verbs in threadkeep.verbs")
    return verbs[name]


def faults(verbs: Mapping[str, Verb], inside: Mapping[str, str], owner: VerbOwner) -> list[str]:
    """List what is wrong with a table: verbs of the class that are in no line, and lines of none.

    `inside` says of a verb that cannot be called from outside why that is so.
    """
    own = {
        name
        for name in dir(owner.type)
        if not name.startswith("_") and callable(getattr(owner.type, name))
    }
    told = set(inside) | {one.name for one in verbs.values() if one.owner is owner}
    found = [f"{name} is in no line" for name in sorted(own - told)]
    found += [f"{name} is not a verb" for name in sorted(told - own)]
    for one in verbs.values():
        if one.owner is owner and one.name in own:
            found += [f"{one.name}: {fault}" for fault in _faults_of(one)]
    return found


def _faults_of(one: Verb) -> Iterator[str]:
    said = {name for name, _ in one._wire_names()}  # noqa: SLF001  (of the same module)
    yield from (
        f"{name!r} of its address is not a parameter" for name in one.in_path if name not in said
    )
    for name, parameter in one.parameters.items():
        bare = parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
        if bare and name not in one.arguments:
            yield f"{name!r} cannot be sent"
    if "dry_run" in one.arguments and not one.reads and not one.destroys:
        yield "it has a dry run, and its line does not say that it destroys"
    if not one.said:
        yield "it has no docstring"


# ------------------------------------------------------------------------------
# What of a type can be sent.


def wire(hint: Any) -> Any:  # noqa: PLR0911  (one for each kind of type)
    """Return the type in which something is sent: a record that has an id is its id.

    None: it cannot be sent.
    """
    origin = get_origin(hint)
    if origin is Annotated:
        inner, *notes = get_args(hint)
        kind = wire(inner)
        return None if kind is None else Annotated[(kind, *notes)]
    if origin in _UNIONS:
        return _wire_union(get_args(hint))
    if origin is Literal or hint in _PLAIN:
        return hint
    if hint in _ANY or isinstance(hint, TypeVar):
        return Any
    if hint is dict or origin in (dict, Mapping):
        return _wire_dict(get_args(hint))
    if origin in _LISTS:
        item = wire(get_args(hint)[0])
        return None if item is None else list[item]  # type: ignore[valid-type]
    return hint if _is_record(hint) else None


def _wire_dict(args: tuple[Any, ...]) -> Any:
    value = wire(args[1]) if args else Any
    return None if value is None else dict[str, value]  # type: ignore[valid-type]


def _wire_union(members: tuple[Any, ...]) -> Any:
    if Path in members:
        return None
    kinds = [wire(one) for one in members]
    if str in kinds:  # a record may be named by its id
        kinds = [None if _is_record(kind) else kind for kind in kinds]
    left = [kind for kind in kinds if kind is not None]
    if not [kind for kind in left if kind not in (type(None), UnsetType)]:
        return None
    return Union[tuple(left)]  # noqa: UP007  (of a list)


def _is_record(kind: Any) -> bool:
    if not isinstance(kind, type):
        return False
    named = issubclass(kind, tuple) and hasattr(kind, "_fields")
    return named or issubclass(kind, msgspec.Struct)


def has_record(kind: Any) -> bool:
    """Tell whether a type has records in it, which are sent as plain values."""
    return _is_record(kind) or any(map(has_record, get_args(kind)))


def _record(name: str, value: Any, kind: Any) -> Any:
    try:
        return msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Invalid(f"{name}: {error}", hint="give what the store takes") from None


def _without_none(kind: Any) -> Any:
    """Take out "or nothing": a name in an address is always said."""
    if get_origin(kind) not in _UNIONS:
        return kind
    left = [one for one in get_args(kind) if one is not type(None)]
    return Union[tuple(left)]  # noqa: UP007  (of a list)


def bare(kind: Any) -> Any:
    """Take off what only describes a type."""
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def _word_of(value: bool | None) -> str:  # noqa: FBT001  (a value, no switch)
    return next(word for word, meant in _THREE.items() if meant is value)


def _default(value: Any) -> Any:
    if isinstance(value, Mapping):
        return msgspec.field(default_factory=lambda: dict(value))
    return tuple(value) if isinstance(value, list) else value


def shaped(shape: type[msgspec.Struct], value: Any, given: Mapping[str, Any]) -> Any:
    """Show an answer as a record: its fields are those of the answer, else arguments, else itself.

    A tuple gives one field after the other.
    """
    names = shape.__struct_fields__
    if type(value) is tuple and len(value) == len(names):
        return shape(*value)

    def field(name: str) -> Any:
        if name in given:
            return given[name]
        if isinstance(value, msgspec.Struct) and hasattr(value, name):
            return getattr(value, name)
        # What gives nothing back was done once.
        return 1 if value is None else int(value) if isinstance(value, bool) else value

    return shape(**{name: field(name) for name in names})


def plain(value: Any) -> Any:
    """Return an answer as plain values that JSON can write."""
    return msgspec.to_builtins(value, enc_hook=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Iterable):
        return list(value)
    raise NotImplementedError(type(value))
