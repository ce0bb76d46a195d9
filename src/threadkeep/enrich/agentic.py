"""A slice of a conversation with an agent becomes a node."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from threadkeep.enrich import identifiers as ids
from threadkeep.enrich.commands import shown
from threadkeep.enrich.composing import (
    RESULT,
    counted,
    dense,
    joined,
    listed,
    place,
    project_of,
    themes_of,
)
from threadkeep.enrich.deciding import telling_sentences, weighed_in
from threadkeep.enrich.evidence import Slice
from threadkeep.enrich.outcomes import outcome_of_work, tries
from threadkeep.enrich.verbatim import verbatim
from threadkeep.enrich.wording import (
    cut_middle,
    cut_words,
    first_request,
    one_line,
    plain,
    readable,
    says_something,
    sentences,
)
from threadkeep.enrich.work import Work
from threadkeep.knowledge.drafts import Mentions, NodeDraft

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
    """Give what was asked, one sentence for each prompt; else what the conversation is about."""
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
    """Give the first sentences of the agent's last answer that say something."""
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
