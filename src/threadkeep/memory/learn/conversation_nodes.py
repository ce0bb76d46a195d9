"""A slice of a conversation with an agent becomes a node."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from threadkeep.knowledge.records import Mentions, NodeDraft
from threadkeep.memory.learn import identifiers as ids
from threadkeep.memory.learn.commands import (
    CHECKS,
    Attempt,
    CommandLine,
    bare_command,
    commit_message,
    does,
    files_given,
    outcome_of_work,
    read_line,
    shown,
    tries,
)
from threadkeep.memory.learn.decisions import telling_sentences, weighed_in
from threadkeep.memory.learn.draft_text import (
    RESULT,
    counted,
    dense,
    joined,
    listed,
    place,
    project_of,
    themes_of,
)
from threadkeep.memory.learn.evidence import MessageEvidence, Slice
from threadkeep.memory.learn.name_check import verbatim
from threadkeep.memory.learn.text_cleaning import (
    asked,
    cut_middle,
    cut_words,
    first_request,
    one_line,
    plain,
    readable,
    says_something,
    sentences,
)

# ------------------------------------------------------------------------------
# What was asked and done in a slice of a conversation, taken from the archive or from its row.

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


SOURCE_LIMIT: Final = 40_000
_KEPT_OF_FIRST: Final = 200
_GUIDE: Final = 2_000
_SPOKEN: Final = 10_000
_REQUESTS: Final = 3
_LAST_WORDS: Final = 2
_DECISIONS: Final = 6
_PLANS: Final = (
    "Let me",
    "Now let me",
    "I'll ",
    "I’ll ",
    "Next",
    "Now I",
    "Let's",
    "Would you like",
    "[{",
    "{",
)


def agentic_project(piece: Slice) -> str:
    """Name the project that a slice belongs to."""
    return project_of(piece.cwd, piece.project_dir)


def describe_work(piece: Slice, work: Work) -> str:
    """Write a slice down as text: all that a node of it may take names from."""
    kind = "subagent of a session" if piece.is_subagent else "session"
    lines = [f"{piece.harness} {kind}", f"Folder: {piece.cwd or piece.project_dir}"]
    lines += [f"Branch: {piece.branch}"] if piece.branch else []
    lines += [f"Title: {_title(piece)}"] if piece.title else []
    lines += [f"It began with: {_began(piece)}"] if piece.began_with else []
    lines += [f"USER: {prompt}" for prompt in work.prompts]
    for one in work.ran:
        lines.append(f"$ {one.command}" + (" [failed]" if one.failed else ""))
        lines += [one.output] if one.output and (one.failed or one.line.kinds) else []
    lines += [f"Changed: {name}" for name in work.changed]
    lines += [f"Read: {name}" for name in work.read]
    lines += [f"Tool: {name}" for name in ids.unique(work.others)]
    lines += [f"Committed: {message}" for message in work.commits]
    lines += [f"Problem: {line}" for line in work.problems]
    lines += [f"AGENT: {text}" for text in work.texts]
    return cut_middle("\n".join(lines), SOURCE_LIMIT)


def agentic_draft(piece: Slice, work: Work, source: str) -> NodeDraft:
    """Derive a node from a slice of a conversation."""
    project = agentic_project(piece)
    requests = _requests(piece, work)
    commands = "\n".join(one.command for one in work.ran)
    files = ids.distinct_files((*work.changed, *work.read, *ids.files_in(commands)), 25)
    spoken = "\n".join((*work.prompts, *work.texts[-3:]))[:_SPOKEN]
    last = "\n".join(work.texts[-1:])
    decisions = telling_sentences((*work.prompts, *work.texts))
    draft = NodeDraft(
        summary=joined(_sentences(piece, work, requests, place(project, piece.branch))),
        intent=requests[0] if requests else _without_request(work, project),
        outcome=outcome_of_work(
            *(work.attempts, last, (work.prompts or [""])[-1]),
            changed=bool(work.changed),
            broken_off=work.broken_off,
        ),
        entities=Mentions(
            projects=(project,) if project else (),
            tools=ids.unique((*_programs(work), *work.others)),
            files=files,
            services=ids.unique(ids.services_in(f"{commands}\n{' '.join(work.prompts)[:4_000]}")),
            errors=ids.unique(name for line in work.problems for name in ids.error_names_in(line)),
            env_vars=ids.unique(ids.variables_in(f"{commands}\n{spoken}")),
            domains=ids.unique(ids.domains_in(f"{commands}\n{spoken}")),
        ),
        tags=_tags(piece, work, project, requests),
        key_decisions=tuple(decisions[:_DECISIONS]),
        problems_encountered=tuple(work.problems),
        design_decisions=weighed_in(decisions),
        embed_text=dense(
            requests,
            (project, piece.branch),
            files[:25],
            work.commits,
            work.problems,
            ids.unique(ids.dense_words(spoken), 80),
            ids.unique((shown(one.command, 100) for one in work.ran), 15),
        ),
    )
    return verbatim(draft, source)


def _requests(piece: Slice, work: Work) -> list[str]:
    """Return what was asked, one sentence for each prompt; else what the conversation is about."""
    if piece.title and len("".join(work.prompts[:1])) > _GUIDE and not _is_dull(piece.title):
        return [_title(piece)]  # a guide of several pages: the title says what it is for
    found = [request for prompt in work.prompts if (request := first_request([prompt]))]
    if found:
        return list(ids.unique(found, _REQUESTS))
    about = _began(piece) or _title(piece)
    return [about] if about else []


def _is_dull(title: str) -> bool:
    return title.startswith(("New session", "Untitled"))


def _began(piece: Slice) -> str:
    # The store keeps the beginning of it, which may end within a word.
    kept = readable(piece.began_with, 2_000)
    whole = len(kept) < _KEPT_OF_FIRST or kept.endswith((".", "?", "!"))
    return first_request([kept if whole else kept[: kept.rfind(" ")] + "…"])


def _title(piece: Slice) -> str:
    return cut_words(one_line(plain(piece.title, 400)), 160)


def _without_request(work: Work, project: str) -> str:
    kinds = ids.unique(kind for one in work.ran for kind in one.line.kinds)
    what = listed(kinds) or ("changing files" if work.changed else "a conversation")
    return f"{what.capitalize()} in {project}" if project else what.capitalize()


def _sentences(piece: Slice, work: Work, requests: Sequence[str], where: str) -> Iterator[str]:
    if requests:
        verb = "Asked" if work.prompts else "Continued"
        whom = " a subagent" if piece.is_subagent else ""
        yield f"{verb}{whom}: {'; then: '.join(one.rstrip('.') for one in requests)}"
    done = list(_done(work))
    if done:
        yield f"Work {where}: {'; '.join(done)}" if where else f"Work: {'; '.join(done)}"
    elif where:
        yield f"A conversation {where}"
    if work.problems:
        yield f"Problem: {cut_words(work.problems[0], 200)}"
    if work.broken_off:
        yield "It was interrupted"
    last = _last_words(work)
    if last:
        yield f"{RESULT}{last}"


def _done(work: Work) -> Iterator[str]:
    if work.changed:
        yield f"changed {listed(work.changed)}"
    elif work.read:
        yield f"read {listed(work.read)}"
    keys = ids.unique((attempt.key for attempt in work.attempts), 4)
    for key in keys:
        yield f"`{key}` {tries(work.attempts, key)}"
    if not keys and work.ran:
        programs = ids.unique(_programs(work))
        times = counted(len(work.ran), "command")
        yield f"ran {times} with {listed(programs)}" if programs else f"ran {times}"
    if work.commits:
        yield f"committed {listed([f'“{cut_words(one, 100)}”' for one in work.commits], 3)}"


def _programs(work: Work) -> Iterator[str]:
    return (name for one in work.ran for name in one.line.programs)


def _last_words(work: Work) -> str:
    """Return the first sentences of the agent's last answer that say something."""
    for text in reversed(work.texts[-2:]):
        found = list(islice(filter(_is_result, sentences(text)), _LAST_WORDS))
        if found:
            return cut_words(" ".join(found), 360)
    return ""


def _is_result(sentence: str) -> bool:
    """Tell whether a sentence says what came out, and not what comes next."""
    return (
        len(sentence) > 15  # noqa: PLR2004
        and not sentence.endswith(":")
        and not sentence.startswith(_PLANS)
        and says_something(sentence)
    )


def _tags(piece: Slice, work: Work, project: str, requests: Sequence[str]) -> tuple[str, ...]:
    kinds = [kind for one in work.ran for kind in one.line.kinds]
    about = [*themes_of(" ".join(requests)), *(["debugging"] if work.problems else [])]
    subagent = ["subagent"] if piece.is_subagent else []
    languages = ids.languages_of([*work.changed, *work.read])[:3]
    return ids.unique([piece.harness, project, *subagent, *languages, *about, *kinds])
