"""Kimi Code: one line log per agent of a session; its folder and title stand in a file beside it.

Everything is written down several times: a prompt three times, usage three times, each message
once more when its turn ends. Only the first writing of each is read. A fork is a whole copy under
another id: what it copied has the same keys, and its usage counts once.
"""

from pathlib import Path
from typing import Any, Final

import msgspec

from threadkeep.knowledge.records import Entry, SessionFacts
from threadkeep.sources.blocks import call, moment, result, spent, spoken
from threadkeep.sources.common import (
    block_text,
    describe_input,
    number as count,
    numbered,
    pictures,
    plain,
    strange_name,
    table,
    text,
)
from threadkeep.sources.format import Documents, Keyed, LineLogs, Told
from threadkeep.sources.places import place
from threadkeep.sources.records import Log

_AGENT: Final = "kimi-code"
_LABEL: Final = "Kimi Code"
# What a hand-off writes for the eye alone: the program passes over types that it does not know.
NOTICE: Final = "threadkeep.notice"
# Repeats of what is read elsewhere, and the program's own matters.
_QUIET: Final = frozenset(
    (
        *("metadata", "context.append_message", "agent.message.appended", "turn.ended", "forked"),
        *("turn.cancel", "turn.started", "context.undo"),
    )
)
_QUIET_FAMILIES: Final = (
    *("runtime.", "permission.", "plugin.", "llm.", "token_counting.", "prompt.", "agent."),
    *("profile.", "step.", "goal.", "cron.", "mcp.", "tools.", "task.", "context.clear", "notify."),
    *("skill.", "todo.", "plan.", "plan_mode.", "swarm_mode.", "tower_mode.", "interaction."),
    *("interruptionReminder.", "file_history.", "config.", "turn.step.", "subagent.", "session."),
)


def _read(record: Any, number: int) -> Told:
    fields = table(record)
    kind, at = text(fields.get("type")), moment(fields.get("time"))
    told = Told()
    match kind:
        case "turn.prompt" | "turn.steer":  # the latter while an answer is given
            key = text(fields.get("promptId")) or text(fields.get("messageId")) or str(number)
            told.entries = numbered(_prompt(fields, at), key)
        case "context.append_loop_event":
            told = _event(table(fields.get("event")), at, number)
        case "usage.record":
            told.usage = [_usage(fields, at)]
        case "llm.request":
            told.facts = SessionFacts(model=text(fields.get("model")))
        case "profile.bind":
            cwd = text(table(fields.get("environmentDisclosure")).get("cwd"))
            told.facts = SessionFacts(cwd=cwd, agent=text(fields.get("profileName")))
        case _ if kind == NOTICE:
            said, failed = text(fields.get("text")), fields.get("error") is True
            told.entries = numbered(spoken("system", "note", said, at, error=failed), str(number))
        case _ if "compaction" in kind:
            told.entries = numbered(spoken("system", "summary", _summary(fields), at), str(number))
        case _ if kind in _QUIET or kind.startswith(_QUIET_FAMILIES):
            pass
        case _:
            told.unknown.append(strange_name(record, kind))
    return told


def _summary(fields: dict[str, Any]) -> str:
    """Return what a compaction left, which is a text or a message."""
    told = fields.get("summary") or table(fields.get("result")).get("summary")
    shown = text(told) or text(fields.get("contextSummary"))
    return shown or block_text(table(told).get("content"))


def _prompt(fields: dict[str, Any], at: int | None) -> list[Entry]:
    typed = text(table(fields.get("origin")).get("kind")) in {"", "user"}
    given = fields.get("input")
    found = spoken("user", "prompt" if typed else "note", block_text(given), at)
    for entry in found:
        entry.images = pictures(given)
    return found


def _event(event: dict[str, Any], at: int | None, number: int) -> Told:
    told, key = Told(), text(event.get("uuid")) or str(number)
    match event.get("type"):
        case "content.part":
            told.entries = _part(table(event.get("part")), at, told.unknown)
        case "tool.call":
            named, own = text(event.get("name")), text(event.get("toolCallId"))
            told.entries = [call(named, own, event.get("args"), at)]
        case "tool.result":
            key = f"{text(event.get('parentUuid')) or key}:out"
            told.entries = [_result(event, at)]
        case "step.begin" | "step.end":
            pass
        case other:
            told.unknown.append(strange_name(event, "event", other))
    numbered(told.entries, key)
    return told


def _part(part: dict[str, Any], at: int | None, strange: list[str]) -> list[Entry]:
    match part.get("type"):
        case "text":
            return spoken("assistant", "text", text(part.get("text")), at)
        case "think":
            return spoken("assistant", "reasoning", text(part.get("think")), at)
        case "image_url" | "audio_url" | "video_url":
            return []
        case other:
            strange.append(strange_name(part, "part", other))
            return []


def _result(event: dict[str, Any], at: int | None) -> Entry:
    told = table(event.get("result"))
    output = told.get("output")
    images = pictures(output)
    shown = block_text(output) or ("" if images else text(output) or describe_input(output))
    failed = told.get("isError") is True
    own = text(event.get("toolCallId"))
    return result(own, shown, at, error=failed, images=images)


def _usage(fields: dict[str, Any], at: int | None) -> Any:
    counts, model = table(fields.get("usage")), text(fields.get("model"))
    names = ("inputOther", "output", "inputCacheRead", "inputCacheCreation")
    # The same in every copy that a fork makes.
    told = [str(count(counts.get(name))) for name in names]
    return spent(":".join((str(at), model, *told)), at, model, counts, names)


_HOMES: Final = (
    *("$KIMI_CODE_HOME", "~/.kimi-code"),
    *(
        f"{{{base}}}/kimi-desktop/daimon-share/daimon/runtime/kimi-code/home"
        for base in ("support", "roaming", "config")
    ),
)
_ROOTS: Final = tuple(f"{home}/sessions" for home in _HOMES)
_MAIN: Final = "main"


def _identify(log: Log) -> Log:
    """Name the session: the folder's, and for another agent than the main one its own name too."""
    agent = Path(log.path).parent
    session = plain(agent.parent.parent.name)
    project = plain(agent.parent.parent.parent.name)
    if agent.name == _MAIN:
        return msgspec.structs.replace(log, session_id=session, project_dir=project)
    return msgspec.structs.replace(
        log,
        session_id=f"{session}/{plain(agent.name)}",
        project_dir=project,
        parent_session_id=session,
        is_subagent=True,
    )


SOURCE: Final = LineLogs(
    agent=_AGENT,
    label=_LABEL,
    places=(place(_ROOTS, "*/*/agents/*/wire.jsonl"),),
    identify=_identify,
    read=_read,
)


# ---------------------------------------------------------------------- what is known of a session


def _read_state(record: Any, _number: int) -> Told:
    fields = table(record)
    facts = SessionFacts(
        cwd=text(fields.get("cwd")),
        title=text(fields.get("title")),
        parent_session_id=text(fields.get("forkedFrom")),
    )
    return Told(facts=facts)


def _split(files: Any) -> list[Keyed]:
    return [("state", files.json())]


def _named(log: Log) -> Log:
    return msgspec.structs.replace(log, session_id=plain(Path(log.path).parent.name))


NAMES: Final = Documents(
    agent=_AGENT,
    names=True,
    label=_LABEL,
    places=(place(_ROOTS, "*/*/state.json"),),
    identify=_named,
    split=_split,
    read=_read_state,
)
