"""Pages that were read in a row become a node."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final
from urllib.parse import unquote, urlsplit

from threadkeep.enrich import identifiers as ids
from threadkeep.enrich.composing import counted, dense, joined, listed, themes_of
from threadkeep.enrich.evidence import VisitEvidence
from threadkeep.enrich.verbatim import verbatim
from threadkeep.enrich.wording import cut_middle, cut_words, one_line, plain, readable
from threadkeep.knowledge.drafts import Mentions, NodeDraft

GAP_MS: Final = 5 * 60_000
MOST: Final = 25
_TEXT_LIMIT: Final = 3_000
_SOURCE_LIMIT: Final = 40_000
_MINUTE_MS: Final = 60_000


def visit_chunks(visits: Iterable[VisitEvidence]) -> Iterator[list[VisitEvidence]]:
    """Cut visits where nothing was looked at for five minutes."""
    chunk: list[VisitEvidence] = []
    for visit in sorted(visits, key=lambda one: (one.at, one.id)):
        if chunk and (visit.at - chunk[-1].at > GAP_MS or len(chunk) >= MOST):
            yield chunk
            chunk = []
        chunk.append(visit)
    if chunk:
        yield chunk


def cleaned_visit(visit: VisitEvidence) -> VisitEvidence:
    """Give a visit with readable text of bearable length."""
    return VisitEvidence(
        *(visit.id, visit.at, plain(visit.url, 1_000), one_line(plain(visit.title, 300))),
        *(plain(visit.domain, 200), visit.dwell_ms, one_line(plain(visit.query, 300))),
        readable(visit.text, _TEXT_LIMIT),
    )


def describe_visits(chunk: Sequence[VisitEvidence]) -> str:
    """Write visits down as text: all that a node of them may take names from."""
    lines = ["Pages that a person looked at"]
    for visit in chunk:
        lines.append(f"{visit.title or visit.url}\n{visit.url} ({visit.domain})")
        if _path_words(visit) != visit.url:
            lines.append(_path_words(visit))
        if visit.query:
            lines.append(f"Searched for: {visit.query}")
        if visit.text:
            lines.append(visit.text)
    return cut_middle("\n".join(lines), _SOURCE_LIMIT)


def _path_words(visit: VisitEvidence) -> str:
    try:
        return plain(unquote(urlsplit(visit.url).path), 300)
    except ValueError:  # brackets where an address has none
        return ""


def visits_draft(chunk: Sequence[VisitEvidence], source: str) -> NodeDraft:
    """Derive a node from pages that were read in a row."""
    titles = ids.unique((visit.title for visit in chunk if visit.title), 12)
    queries = ids.unique((visit.query for visit in chunk if visit.query), 5)
    domains = ids.unique(visit.domain for visit in chunk if visit.domain)
    text = "\n".join((*titles, *queries))
    draft = NodeDraft(
        summary=joined(_sentences(chunk, titles, queries, domains)),
        intent=_intent(titles, queries, domains),
        entities=Mentions(
            domains=domains,
            services=ids.unique(ids.services_in(text)),
            errors=ids.unique(ids.error_names_in(text)),
            files=ids.unique(ids.files_in(text)),
            projects=ids.unique(filter(None, map(_repository, chunk)), 5),
        ),
        tags=ids.unique(["browser", *(["research"] if queries else []), *themes_of(text)[:3]]),
        embed_text=dense(queries, titles, domains, map(_path_words, chunk), _dense_text(chunk)),
    )
    return verbatim(draft, source)


def _dense_text(chunk: Sequence[VisitEvidence]) -> Iterator[str]:
    for visit in chunk:
        yield from ids.unique(ids.dense_words(visit.text), 15)


def _repository(visit: VisitEvidence) -> str:
    """Name the repository that a page belongs to, where its address says it."""
    parts = _path_words(visit).strip("/").split("/")
    known = visit.domain in {"github.com", "gitlab.com", "codeberg.org"}
    return parts[1] if known and len(parts) > 1 else ""


def _intent(titles: Sequence[str], queries: Sequence[str], domains: Sequence[str]) -> str:
    if queries:
        return cut_words(f"Find out about {listed([f'“{query}”' for query in queries], 2)}")
    if titles:
        return cut_words(f"Read {titles[0]}")
    return f"Look at pages of {listed(domains) or 'the web'}"


def _sentences(
    chunk: Sequence[VisitEvidence],
    titles: Sequence[str],
    queries: Sequence[str],
    domains: Sequence[str],
) -> Iterator[str]:
    minutes = sum(visit.dwell_ms for visit in chunk) // _MINUTE_MS
    spent = f" for {counted(minutes, 'minute')}" if minutes else ""
    yield f"Looked at {counted(len(chunk), 'page')} on {listed(domains) or 'the web'}{spent}"
    if queries:
        yield f"Searched for {listed([f'“{query}”' for query in queries], 5)}"
    if titles:
        yield f"Read {listed([f'“{cut_words(title, 120)}”' for title in titles], 5)}"
