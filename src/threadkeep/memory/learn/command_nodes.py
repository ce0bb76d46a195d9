"""Commands of one session that belong together become a node."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from threadkeep.knowledge.evidence import CommandEvidence, VisitEvidence
from threadkeep.knowledge.records import Mentions, NodeDraft
from threadkeep.memory.learn import identifiers as ids
from threadkeep.memory.learn.commands import (
    Attempt,
    CommandLine,
    commit_message,
    does,
    files_given,
    outcome_of,
    read_line,
    shown,
    tries,
)
from threadkeep.memory.learn.draft_text import counted, dense, joined, listed, place, project_of
from threadkeep.memory.learn.name_check import verbatim
from threadkeep.memory.learn.text_cleaning import cut_middle, cut_words, one_line, plain, readable

GAP_MS: Final = 60_000
MOST: Final = 25
SOURCE_LIMIT: Final = 40_000
_COMMAND_LIMIT: Final = 2_000
_OUTPUT_LIMIT: Final = 2_000
_FAILED_OUTPUT_LIMIT: Final = 6_000
_PLACE_LIMIT: Final = 400
_FINE: Final = frozenset({0, 130, 141})  # also what was stopped by hand or by a closed pipe


class _Ran(NamedTuple):
    """A command line, and what it does; None for the call of a tool that is no shell."""

    one: CommandEvidence
    line: CommandLine | None


class _Found(NamedTuple):
    """What the commands of a chunk name."""

    ran: list[_Ran]
    attempts: list[Attempt]
    problems: tuple[str, ...]
    files: tuple[str, ...]
    programs: tuple[str, ...]
    kinds: tuple[str, ...]
    commits: tuple[str, ...]


def chunks_of(commands: Iterable[CommandEvidence]) -> Iterator[list[CommandEvidence]]:
    """Cut the commands of each session where nothing ran for a minute, or where it gets long."""
    chunk: list[CommandEvidence] = []
    for command in sorted(commands, key=lambda one: (one.session, one.at, one.id)):
        if chunk and (_is_apart(chunk[-1], command) or len(chunk) >= MOST):
            yield chunk
            chunk = []
        chunk.append(command)
    if chunk:
        yield chunk


def _is_apart(before: CommandEvidence, after: CommandEvidence) -> bool:
    # A report comes at the end of a command or at its start: either way it was not idle meanwhile.
    busy = max(before.duration_ms, after.duration_ms)
    return before.session != after.session or after.at - before.at - busy > GAP_MS


def cleaned(command: CommandEvidence) -> CommandEvidence:
    """Return a command with readable text of bearable length."""
    failed = command.exit_code not in {0, None}
    return msgspec.structs.replace(
        command,
        command=plain(command.command[:_COMMAND_LIMIT]),
        output=readable(command.output, _FAILED_OUTPUT_LIMIT if failed else _OUTPUT_LIMIT),
        cwd=plain(command.cwd, _PLACE_LIMIT),
        repo=plain(command.repo, _PLACE_LIMIT),
        branch=plain(command.branch, _PLACE_LIMIT),
    )


def describe(chunk: Sequence[CommandEvidence], visits: Sequence[VisitEvidence] = ()) -> str:
    """Write the commands of a chunk down as text: all that a node of them may take names from."""
    first = chunk[0]
    who = "Claude Code (AI agent)" if first.by_agent else "developer (human)"
    lines = [f"Shell commands run by {who}", f"Folder: {first.cwd}"]
    lines += [f"Repository: {first.repo}"] if first.repo else []
    lines += [f"Branch: {first.branch}"] if first.branch else []
    for one in chunk:
        end = "" if one.exit_code is None else f" [exit code {one.exit_code}]"
        moved = f" [in {one.cwd}]" if one.cwd != first.cwd else ""
        lines += (
            [f"$ {one.command}{end}{moved}", one.output]
            if one.output
            else [f"$ {one.command}{end}{moved}"]
        )
    if visits:
        lines += ["Pages looked at meanwhile:", *(_page(visit) for visit in visits)]
    return cut_middle("\n".join(lines), SOURCE_LIMIT)


def _page(visit: VisitEvidence) -> str:
    query = f" (searched for: {visit.query})" if visit.query else ""
    return f"- {one_line(plain(visit.title, 300))} {plain(visit.url, 300)}{query}"


def shell_project(chunk: Sequence[CommandEvidence]) -> str:
    """Name the project that commands belong to."""
    return project_of(chunk[0].repo, chunk[0].cwd)


def shell_draft(
    chunk: Sequence[CommandEvidence], visits: Sequence[VisitEvidence], source: str
) -> NodeDraft:
    """Derive a node from commands that belong together, given with their text."""
    found = _look(chunk)
    project = shell_project(chunk)
    branch = chunk[-1].branch
    text = "\n".join(one.command for one in chunk)
    draft = NodeDraft(
        summary=joined(_sentences(chunk, found, visits, place(project, branch))),
        intent=_intent(found, visits, project),
        outcome=outcome_of(found.attempts),
        entities=Mentions(
            projects=(project,) if project else (),
            tools=found.programs,
            files=found.files,
            services=ids.unique(ids.services_in(text)),
            errors=ids.unique(name for line in found.problems for name in ids.error_names_in(line)),
            env_vars=ids.unique(ids.variables_in(text)),
            domains=ids.unique([*ids.domains_in(text), *(visit.domain for visit in visits)]),
        ),
        tags=_tags(chunk, found, project),
        problems_encountered=found.problems,
        embed_text=dense(
            (shown(one.command, 200) for one, line in found.ran if line is not None),
            *((project, branch), found.files, found.commits, found.problems),
            ids.dense_words(text),
            (one_line(visit.title) for visit in visits[:3]),
        ),
    )
    return verbatim(draft, source)


def _look(chunk: Sequence[CommandEvidence]) -> _Found:
    ran = [_Ran(one, _line(one)) for one in chunk]
    typed = [(one, line) for one, line in ran if line is not None]
    folders = [path for path in (chunk[0].repo, chunk[0].cwd) if path]
    given = (name for one, line in ran if line is None for name in files_given(one.command))
    named = (name for one, _ in typed for name in ids.files_in(one.command))
    return _Found(
        ran=ran,
        attempts=[
            Attempt(key, _ended_well(one, line)) for one, line in typed for key in line.tries
        ],
        problems=ids.unique((line for one in chunk for line in _problems(one)), 8),
        files=ids.distinct_files(ids.shortened(name, folders) for name in (*given, *named)),
        programs=ids.unique(name for _, line in typed for name in line.programs),
        kinds=ids.unique(kind for _, line in typed for kind in line.kinds),
        commits=ids.unique(_commits(one for one, _ in typed), 5),
    )


def _line(one: CommandEvidence) -> CommandLine | None:
    return read_line(one.command) if not one.tool or does(one.tool) == "runs" else None


def _ended_well(one: CommandEvidence, line: CommandLine) -> bool | None:
    # What only looks around, as a search that finds nothing, neither works nor fails.
    if one.exit_code is None or not line.programs:
        return None
    if one.exit_code == 0 and line.hides_its_end and line.kinds:
        return not ids.error_lines(one.output, 1)
    return one.exit_code in _FINE


def _problems(one: CommandEvidence) -> list[str]:
    has_failed = one.exit_code is not None and one.exit_code not in _FINE
    return ids.failure_lines(one.output) if has_failed else []


def _commits(commands: Iterable[CommandEvidence]) -> Iterator[str]:
    for one in commands:
        if one.exit_code in {0, None}:
            message = commit_message(one.command)
            told = [f"{subject} ({sha})" for _, sha, subject in ids.commits_in(one.output)]
            yield from told or ([message] if message else [])


def _intent(found: _Found, visits: Sequence[VisitEvidence], project: str) -> str:
    query = next((visit.query for visit in visits if visit.query), "")
    work = listed([kind.capitalize() if at == 0 else kind for at, kind in enumerate(found.kinds)])
    lines = [(one, line) for one, line in found.ran if line is not None]
    telling = [one for one, line in lines if line.kinds or (line.programs and not work)]
    if not telling and found.files:
        doing = f"Work on {listed(found.files)}"
    else:
        tried = shown((telling or [one for one, _ in found.ran])[0].command)
        doing = f"{work}: {tried}" if work else f"Run {tried}"
    where = f" in {project}" if project else ""
    return f"{doing}{where}" + (f", after a search for “{one_line(query)}”" if query else "")


def _sentences(
    chunk: Sequence[CommandEvidence], found: _Found, visits: Sequence[VisitEvidence], where: str
) -> Iterator[str]:
    who = "Claude Code" if chunk[0].by_agent else "A developer"
    yield f"{who} ran {counted(len(chunk), 'command')} {where}".rstrip()
    first = {
        key: shown(one.command, 90)
        for one, line in reversed(found.ran)
        for key in (line.tries if line is not None else ())
    }
    ends: dict[str, str] = {}
    for key in ids.unique((attempt.key for attempt in found.attempts), 8):
        end = tries(found.attempts, key)
        ends[first[key]] = end if "failed" in end else ends.get(first[key], end)
    yield "; ".join(f"`{command}` {end}".rstrip() for command, end in ends.items())
    if found.files:
        yield f"Files: {listed(found.files)}"
    if found.commits:
        yield f"Committed {listed([f'“{one}”' for one in found.commits], 3)}"
    if found.problems:
        yield f"Problem: {found.problems[0]}"
    if visits:
        titles = ids.unique(one_line(visit.title) or visit.url for visit in visits)
        yield f"Read meanwhile: {listed([cut_words(title, 90) for title in titles], 3)}"


def _tags(chunk: Sequence[CommandEvidence], found: _Found, project: str) -> tuple[str, ...]:
    who = "agent" if chunk[0].by_agent else "shell"
    languages = ids.languages_of(found.files)[:3]
    problems = ["debugging"] if found.problems else []
    return ids.unique([who, project, *found.kinds, *languages, *problems])
