"""What was asked and done in a slice of a conversation, taken from the archive or from its row."""

import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from threadkeep.enrich import identifiers as ids
from threadkeep.enrich.commands import CHECKS, CommandLine, commit_message, read_line
from threadkeep.enrich.evidence import MessageEvidence, Slice
from threadkeep.enrich.outcomes import Attempt
from threadkeep.enrich.tools import bare_command, does, files_given
from threadkeep.enrich.wording import asked, one_line, readable

_PROMPT_LIMIT: Final = 6_000
_CALL_LIMIT: Final = 2_000
_RESULT_LIMIT: Final = 4_000
_TEXT_LIMIT: Final = 4_000
_STORED_PROMPT: Final = 500  # characters that a row keeps of each prompt
_SHOWN_FILES: Final = 60
_JUDGED: Final = CHECKS | {"committing", "publishing"}
_BROKEN_OFF: Final = ("[Request interrupted by user", "Request was aborted", "<turn_aborted>")
_SECTION: Final = re.compile(
    r"^(User (?:requests|prompts)|Work performed|Tool calls|Assistant|Time|Title|Snapshot)"
)
_QUOTED: Final = re.compile(r"^\s+\d{1,3}\. \"(.*)$")
_HEAD_LINES: Final = re.compile(
    r"^(?:Exit code:? \d+|Chunk ID: \w+|Wall time: .*|Process exited with code \d+"
    r"|Command exited with .*|Original token count: \d+|Total output lines: \d+|Output:)\n?",
    re.MULTILINE,
)


class CommandResult(NamedTuple):
    """A command, and how it ended."""

    command: str
    line: CommandLine
    output: str
    failed: bool
    ended_well: bool  # also where a pipe hides its exit code


class Work(NamedTuple):
    """A slice in order: what was asked, done, said, and what went wrong."""

    prompts: list[str]  # without what programs put in
    texts: list[str]  # what the agent said
    ran: list[CommandResult]
    changed: list[str]
    read: list[str]
    commits: list[str]
    problems: list[str]
    attempts: list[Attempt]
    others: list[str]  # names of tools that do none of this
    broken_off: bool


def work_of(piece: Slice) -> Work:
    """Read what was done in a slice: from the archive where it is there, else from its row."""
    said = list(map(_cleaned, piece.said)) or list(_from_row(piece))
    results = {one.call_id: one for one in said if one.kind == "tool_result" and one.call_id}
    calls = [one for one in said if one.kind == "tool_call"]
    ran = [_ran(call, results) for call in calls if does(call.tool) == "runs"]
    judged = [one for one in ran if _JUDGED.intersection(one.line.kinds)]
    return Work(
        prompts=[text for one in said if one.kind == "prompt" and (text := asked(one.text))],
        texts=[one.text for one in said if one.kind == "text" and one.role == "assistant"],
        ran=ran,
        changed=[*_files(calls, "changes", piece), *piece.changed],
        read=_files(calls, "reads", piece),
        commits=list(ids.unique([*_commits(ran, calls), *piece.commits], 8)),
        problems=list(ids.unique(_problems(said, ran), 8)),
        attempts=[Attempt(key, one.ended_well) for one in judged for key in one.line.tries],
        others=[one.tool for one in calls if does(one.tool) == "other" and "__" in one.tool],
        broken_off=_is_broken_off(said),
    )


def _cleaned(one: MessageEvidence) -> MessageEvidence:
    limits = {"prompt": _PROMPT_LIMIT, "tool_call": _CALL_LIMIT, "tool_result": _RESULT_LIMIT}
    limit = limits.get(one.kind, _TEXT_LIMIT)
    # A command is cut at its end: without its middle its quotes would not fit together.
    text = readable(one.text[:limit] if one.kind == "tool_call" else one.text, limit)
    if one.kind == "tool_result":
        text = _HEAD_LINES.sub("", text)
    elif one.kind == "tool_call" and does(one.tool) == "runs":
        text = bare_command(text)
    return MessageEvidence(one.role, one.kind, text, one.tool, one.call_id, one.error)


def _from_row(piece: Slice) -> Iterator[MessageEvidence]:
    summary = readable(piece.summary, 24_000)
    prompts = tuple(map(_without_half_word, piece.prompts)) or tuple(_quoted(summary))
    tools = piece.tools or tuple(_listed(summary))
    for prompt in prompts:
        yield _cleaned(MessageEvidence("user", "prompt", prompt))
    for name, given in tools:
        yield _cleaned(MessageEvidence("assistant", "tool_call", given, name))
    for mark in ("Assistant reasoning:", "Assistant responses (excerpts):"):
        _, found, texts = summary.partition(mark)
        for text in texts.strip().split("\n\n" if "reasoning" in mark else "\n") if found else ():
            yield _cleaned(MessageEvidence("assistant", "text", text.strip(' -"')))


def _without_half_word(prompt: str) -> str:
    """Cut a prompt before its last word where the row had no room for all of it."""
    return prompt if len(prompt) < _STORED_PROMPT else prompt[: prompt.rfind(" ")]


def _quoted(summary: str) -> Iterator[str]:
    """Read the numbered requests of a summary; one may have several lines."""
    request: list[str] = []
    for line in summary.split("\n"):
        begins = _QUOTED.match(line)
        if begins or _SECTION.match(line):
            if request:
                yield "\n".join(request).rstrip().removesuffix('"')
            request = [begins[1]] if begins else []
        elif request:
            request.append(line)
    if request:
        yield "\n".join(request).rstrip().removesuffix('"')


def _listed(summary: str) -> Iterator[tuple[str, str]]:
    """Read the list of tool calls of a summary."""
    _, _, work = summary.partition("Work performed:\n")
    for line in work.split("\n"):
        name, colon, given = line.strip().removeprefix("- ").partition(": ")
        if _SECTION.match(line):
            return
        if colon and line.strip().startswith("- ") and name.replace("_", "").isalnum():
            yield name, given.partition(" -> ")[0]


def _ran(call: MessageEvidence, results: dict[str, MessageEvidence]) -> CommandResult:
    result = results.get(call.call_id)
    line = read_line(call.text)
    output, failed = (result.text, result.error) if result else ("", False)
    hidden = not failed and line.hides_its_end and bool(line.kinds)
    ended_well = not (failed or (hidden and ids.error_lines(output, 1)))
    return CommandResult(call.text, line, output, failed, ended_well)


def _files(calls: Iterable[MessageEvidence], what: str, piece: Slice) -> list[str]:
    folders = [folder for folder in (piece.cwd, piece.project_dir) if folder]
    names = (name for one in calls if does(one.tool) == what for name in files_given(one.text))
    return list(ids.distinct_files((ids.shortened(name, folders) for name in names), _SHOWN_FILES))


def _commits(ran: Iterable[CommandResult], calls: Iterable[MessageEvidence]) -> Iterator[str]:
    for one in ran:
        if one.failed:
            continue
        told = [f"{subject} ({sha})" for _, sha, subject in ids.commits_in(one.output)]
        message = commit_message(one.command)
        yield from told or ([message] if message else [])
    for call in calls:
        if does(call.tool) == "commits":
            yield one_line(call.text)


def _problems(said: Iterable[MessageEvidence], ran: Iterable[CommandResult]) -> Iterator[str]:
    for one in said:
        if one.error and one.kind == "tool_result":
            yield from ids.failure_lines(one.text)
    for command in ran:
        if not command.failed and not command.ended_well:
            yield from ids.error_lines(command.output, 2)


def _is_broken_off(said: list[MessageEvidence]) -> bool:
    last = [one for one in said[-3:] if one.kind in {"note", "prompt"}]
    return any(one.text.startswith(_BROKEN_OFF) for one in last)
