"""What an agent types: `ncl` commands, which come as one row each and are answered by one.

The words of a command are joined by dashes, an id at their end included; its flags come beside
them. Every request gets one answer, also a refusal: else whoever asked waits for half a minute.
Where the answer is there, the request was done: after a crash nothing happens a second time.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from threadkeep.base import json
from threadkeep.base.tx import Tx
from threadkeep.errors import Conflict, Damaged, Invalid, NotFound, ThreadkeepError, TooLarge
from threadkeep.mailbox import content as shapes, inbound
from threadkeep.mailbox.adapters import Outgoing, Refused
from threadkeep.mailbox.arguments import shown
from threadkeep.mailbox.attachments import is_safe_name
from threadkeep.mailbox.context import MailContext, answer_row_id
from threadkeep.mailbox.inbound import NewMail
from threadkeep.mailbox.records import Json, Place

log = logging.getLogger(__name__)
Others = Callable[[], Iterable[MailContext]]

_HELP: Final = "help"
_GROUP: Final = ("group", "agent_group_id")
_SESSION: Final = "session"
# What says no to a request, wherever it is raised; other trouble is the host's, which tries again.
_REFUSALS: Final = (Invalid, NotFound, Conflict)
_SWITCHED: Final = {True: True, "true": True, "1": True, False: False, "false": False, "0": False}


class CommandRefused(Invalid):
    """A command was refused, under a code: unknown-command, invalid-args, forbidden, or another."""

    def __init__(self, code: str, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code = code


class Flag(NamedTuple):
    """One flag of a command; a switch has no value."""

    name: str
    about: str
    required: bool = False
    is_switch: bool = False


class CommandCall(NamedTuple):
    """One request while it is worked on: who asks, and with which flags."""

    ctx: MailContext
    request: Outgoing
    flags: Mapping[str, str | bool]

    @property
    def request_id(self) -> str:
        """What the answer is found by."""
        return str(self.request.content["requestId"])

    def text(self, name: str) -> str | None:
        """Return the value of a flag, None if it was not given."""
        value = self.flags.get(name)
        return value if isinstance(value, str) else None

    def need(self, name: str) -> str:
        """Return the value of a flag that must be there."""
        return self.text(name) or ""

    def is_on(self, name: str) -> bool:
        """Tell whether a switch was given."""
        return self.flags.get(name) is True


class CommandReply(NamedTuple):
    """What a command found or did, and the words in which that is printed, if it has any."""

    data: Any
    human: str | None = None


class HostCommand(NamedTuple):
    """One command: what it is called and takes, and what it does in a folder.

    `step` is done in the folder of whoever asks and, if it works `everywhere`, in the agent's
    others before that; `reply` makes one answer of what each step gave.
    """

    name: str
    about: str
    flags: tuple[Flag, ...]
    step: Callable[[CommandCall, MailContext, Tx], Any]
    reply: Callable[[CommandCall, list[Any]], CommandReply]
    everywhere: bool = True
    writes: bool = True
    concerns: Callable[[CommandCall, Tx], bool] = lambda _call, _tx: True
    """Tell whether there is anything to do in another folder, before it is opened to write."""


# ---------------------------------------------------------------------- one request, one answer


def answer(
    ctx: MailContext, request: Outgoing, commands: Mapping[str, HostCommand], others: Others = tuple
) -> None:
    """Do what a `cli_request` asks for and write its answer, once, however often it is called."""
    row_id = answer_id(request)
    with ctx.folder.inbound.read() as tx:
        if inbound.find(tx, row_id) is not None:
            return
    try:
        command, call = _understood(ctx, request, commands)
        if call.is_on(_HELP):
            write_frame(ctx, request, _good(call, CommandReply(text := help_text(command), text)))
            return
        if command is None:
            text = overview_text(commands.values())
            write_frame(ctx, request, _good(call, CommandReply(text, text)))
            return
        _do(call, command, _chosen(call, others))
    except _REFUSALS as error:
        write_frame(ctx, request, _refused(request, error))


def _do(call: CommandCall, command: HostCommand, folders: list[MailContext]) -> None:
    elsewhere = [ctx for ctx in folders if ctx is not call.ctx]
    given = [found for ctx in elsewhere for found in _step_elsewhere(call, command, ctx)]
    with call.ctx.folder.inbound.write() as tx:  # what is done here is written with the answer
        try:
            with tx.step():
                if len(elsewhere) < len(folders):
                    given.append(command.step(call, call.ctx, tx))
                frame = _good(call, command.reply(call, given))
        except _REFUSALS as error:
            frame = _refused(call.request, error)
        _put(call.ctx, tx, call.request, frame)
    for ctx in elsewhere if command.writes else ():
        _forget_step(call, ctx)


def _step_elsewhere(call: CommandCall, command: HostCommand, ctx: MailContext) -> list[Any]:
    """Do a step in another folder; one that cannot be read does not cut off the rest.

    What it gave is kept there until the answer is written: after a crash in between it is not
    done again.
    """
    try:
        with ctx.folder.inbound.read() as tx:
            if not command.writes:
                return [command.step(call, ctx, tx)]
            if _done_before(call, tx) is None and not command.concerns(call, tx):
                return []
        with ctx.folder.inbound.write() as tx:
            before = _done_before(call, tx)
            if before is not None:
                return [json.decode(before)]
            found = command.step(call, ctx, tx)
            tx.run("set_meta", {"key": _step_key(call), "value": json.encode(found)})
            return [found]
    except (Damaged, NotFound) as error:
        log.warning("%s was left out of %s: %s", ctx.folder.path, command.name, error)
        return []


def _done_before(call: CommandCall, tx: Tx) -> str | None:
    value: str | None = tx.value("meta", {"key": _step_key(call)})
    return value


def _forget_step(call: CommandCall, ctx: MailContext) -> None:
    try:
        with ctx.folder.inbound.read() as tx:
            if _done_before(call, tx) is None:
                return
        with ctx.folder.inbound.write() as tx:
            tx.run("forget_meta", {"key": _step_key(call)})
    except ThreadkeepError as error:  # it stays, and is in nobody's way
        log.info("a step was not forgotten in %s: %s", ctx.folder.path, error)


def _step_key(call: CommandCall) -> str:
    return f"{call.ctx.session}/{call.request_id}"


def _chosen(call: CommandCall, others: Others) -> list[MailContext]:
    """Return the folders that are meant: the agent's own, or the session it names."""
    wanted = call.text(_SESSION)
    folders = [*others(), call.ctx]
    found = [ctx for ctx in folders if wanted is None or ctx.session == wanted]
    if not found:
        raise CommandRefused("handler-error", f"session not found: {shown(wanted)}")
    return found


# ---------------------------------------------------------------------- what was typed


def _understood(
    ctx: MailContext, request: Outgoing, commands: Mapping[str, HostCommand]
) -> tuple[HostCommand | None, CommandCall]:
    typed, args = request.content.get("command"), request.content.get("args") or {}
    if not isinstance(typed, str) or not isinstance(args, dict):
        raise CommandRefused("invalid-args", "the command must be text, and its flags an object")
    name, task_id = split_command(typed, {*commands, _HELP})
    command = commands.get(name)
    flags = _own_group(ctx, read_flags(args))
    if name == _HELP:
        command = commands.get(f"tasks-{task_id}")
        return command, CommandCall(ctx, request, {_HELP: command is not None})
    if command is None:
        hint = "this host knows tasks; `ncl help` lists its commands"
        raise CommandRefused("unknown-command", f"no command {shown(typed)}", hint=hint)
    if flags.pop(_HELP, None):
        return command, CommandCall(ctx, request, {_HELP: True})
    if task_id is not None and flags.setdefault("id", task_id) != task_id:
        msg = f"two ids were given: {shown(task_id)} and {shown(flags['id'])}"
        raise CommandRefused("invalid-args", msg)
    return command, CommandCall(ctx, request, check_flags(command, flags))


def read_typed(arguments: Sequence[str]) -> tuple[str, dict[str, str | bool]]:
    """Read what was typed after `ncl`: the words of the command, and the flags among them.

    A flag takes the next argument for its value, unless that is a flag, or there is none.
    """
    words: list[str] = []
    flags: dict[str, str | bool] = {}
    name = ""
    for one in arguments:
        if one.startswith("--") and len(one) > len("--"):
            name = one.removeprefix("--")
            flags[name] = True
        elif name:
            flags[name], name = one, ""
        else:
            words.append(one)
    return " ".join(words), flags


def split_command(typed: str, names: Collection[str]) -> tuple[str, str | None]:
    """Find the longest command that the words begin with, '' if none; the rest is an id."""
    # Name by name: the words may be megabytes of dashes, each of which could end a command.
    fitting = [name for name in names if typed == name or typed.startswith(f"{name}-")]
    name = max(fitting, key=len, default="")
    return name, (typed[len(name) + 1 :] or None) if fitting else None


def read_flags(args: Mapping[str, Any]) -> dict[str, Any]:
    """Give flags by their names with underscores; refuse one that was given in two ways."""
    flags: dict[str, Any] = {}
    for name, value in args.items():
        plain = name.replace("-", "_")
        if flags.setdefault(plain, value) != value:
            raise CommandRefused("invalid-args", f"--{_typed(plain)} was given twice")
    return flags


def _own_group(ctx: MailContext, flags: dict[str, Any]) -> dict[str, Any]:
    """Take out the agent's own group, which is what is meant; refuse any other."""
    for name in _GROUP:
        if name in flags and flags[name] != ctx.agent_group:
            msg = f"--{_typed(name)}: an agent can reach its own group only"
            raise CommandRefused("forbidden", msg)
    return {name: value for name, value in flags.items() if name not in _GROUP}


def check_flags(command: HostCommand, flags: Mapping[str, Any]) -> dict[str, str | bool]:
    """Return the flags of a command; refuse what it does not have, lacks, or needs a value for."""
    known = {flag.name: flag for flag in command.flags}
    for name in flags:
        if name not in known:
            msg = f"{command.name} has no --{_typed(name)[:80]}"
            takes = ", ".join(f"--{_typed(flag.name)}" for flag in command.flags)
            raise CommandRefused("invalid-args", msg, hint=f"it takes {takes}")
    checked = {name: _value(known[name], value) for name, value in flags.items()}
    for flag in command.flags:
        if flag.required and not checked.get(flag.name):
            raise CommandRefused("invalid-args", f"--{_typed(flag.name)} is required")
    return checked


def _value(flag: Flag, value: Any) -> str | bool:
    if flag.is_switch:
        found = _SWITCHED.get(value) if isinstance(value, str | bool) else None
        if found is None:
            raise CommandRefused("invalid-args", f"--{_typed(flag.name)} takes no value")
        return found
    if not isinstance(value, str):
        raise CommandRefused("invalid-args", f"--{_typed(flag.name)} needs a value")
    return value


def _typed(name: str) -> str:
    return name.replace("_", "-")


# ---------------------------------------------------------------------- help


def help_text(command: HostCommand | None) -> str:
    """Say what a command does and takes."""
    if command is None:
        return ""
    words = command.name.replace("-", " ", 1)
    lines = [f"Usage: ncl {words}{' [options]' if command.flags else ''}", "", command.about]
    wide = max((len(flag.name) for flag in command.flags), default=0)
    for flag in command.flags:
        need = " (required)" if flag.required else ""
        lines.append(f"  --{_typed(flag.name).ljust(wide)}  {flag.about}{need}")
    return "\n".join(lines)


def overview_text(commands: Iterable[HostCommand]) -> str:
    """List the commands there are."""
    known = {f"ncl {one.name.replace('-', ' ', 1)}": one.about for one in commands}
    wide = max(map(len, known), default=0)
    lines = [f"  {name.ljust(wide)}  {about.splitlines()[0]}" for name, about in known.items()]
    return "\n".join(["Commands (each has --help):", *lines])


# ---------------------------------------------------------------------- frames


def _good(call: CommandCall, reply: CommandReply) -> Json:
    frame: Json = {"id": call.request_id, "ok": True, "data": reply.data}
    return frame if reply.human is None else {**frame, "human": reply.human}


def refusal(request: Outgoing, code: str, message: str) -> Json:
    """Shape an answer that says no."""
    error = {"code": code, "message": message}
    return {"id": request.content["requestId"], "ok": False, "error": error}


def _refused(request: Outgoing, error: ThreadkeepError) -> Json:
    code = error.code if isinstance(error, CommandRefused) else "handler-error"
    return refusal(request, code, str(error))


def answer_id(request: Outgoing) -> str:
    """Return the id of the row that answers a request; refuse one that no row can answer."""
    request_id = request.content.get("requestId")
    if not isinstance(request_id, str) or not request_id:
        raise Refused("it names no requestId", hint="give one, so that it can be answered")
    row_id = answer_row_id(request_id)
    if not is_safe_name(row_id):
        msg = f"the requestId {shown(request_id)} cannot be part of the id of its answer"
        raise Refused(msg, hint="no slashes, no NUL, at most 240 bytes")
    return row_id


def write_frame(ctx: MailContext, request: Outgoing, frame: Json) -> None:
    """Write the answer to a request, once."""
    with ctx.folder.inbound.write() as tx:
        _put(ctx, tx, request, frame)


def _put(ctx: MailContext, tx: Tx, request: Outgoing, frame: Json) -> None:
    row_id = answer_id(request)
    if inbound.find(tx, row_id) is not None:
        return
    try:
        text = _answer_text(ctx, frame)
    except TooLarge as error:
        text = _answer_text(ctx, refusal(request, "handler-error", str(error)))
    new = NewMail(row_id, "system", text, ctx.now_iso(), Place(), trigger=False)
    inbound.put(tx, new)


def _answer_text(ctx: MailContext, frame: Json) -> str:
    said = {"type": "cli_response", "requestId": frame["id"], "frame": frame}
    return shapes.compact(said, ctx.policy.content_bytes)
