"""Text of a transcript as markup: Markdown that was made harmless, and found words marked.

Nothing that an agent or a tool wrote reaches a page as markup but through `markdown`: HTML in it is
text, links lead to http and https only, pictures become links that nobody loads, and what comes out
is cleaned once more by a second program that knows only the tags below.
"""

import hashlib
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

import nh3
from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from markdown_it.utils import OptionsDict
from markupsafe import Markup

from threadkeep.knowledge.library import AnswerCache
from threadkeep.web.code import CLASSES, code, language_named

_TAGS: Final = {
    *("a", "blockquote", "br", "code", "del", "em", "h4", "h5", "h6", "hr", "li"),
    *("ol", "p", "pre", "s", "span", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul"),
}
_ATTRIBUTES: Final = {"a": {"href", "title"}, "ol": {"start"}}
_SCHEMES: Final = ("http://", "https://")
_NESTING: Final = 40  # quotes in lists in quotes: deeper than this is no text for people
_WIDE: Final = '<div class="scroll" tabindex="0"><table>'
_BELOW: Final = 3  # headings of an answer stand below those of the page
_BEGIN, _END = ">>>", "<<<"
# While Markdown is read, marks are two characters that mean nothing to anybody.
_OPENS, _CLOSES = "\ue000", "\ue001"
_RESERVED: Final = re.compile("[\ue000\ue001]")
_HELD: Final = re.compile("\ue000([^<>\ue000\ue001]{1,500})\ue001")
_INLINE_TAGS: Final = {"code", "del", "em", "s", "strong"}
# What begins a block means nothing in the middle of a line: fences, headings, quotes, rules.
_BLOCKS: Final = re.compile(
    r"(?:^|(?<=\n))[ \t]{0,3}(?:#{1,6}[ \t]|>(?!>)[ \t]?|-{3,}$|```\w*)|```"
)
_LINK: Final = re.compile(r"\[([^\[\]\n]{1,200})\]\([^()\s]{1,300}\)")
_GAP: Final = re.compile(r"\n\s+")
# What Codex writes above the output of a command.
_HEADER: Final = re.compile(
    r"(?:Chunk ID: \w+\s+)?(?:Exit code: \d+\s+)?Wall time: [\d.]+ seconds\s+"
    r"(?:Process [a-z ]+(?:code|ID) \d+\s+)?"
    r"(?:(?:Original token count|Total output lines): \d+\s+)*Output:\s*"
)
_KEPT_CHARACTERS: Final = 4_000_000


def filters() -> dict[str, Callable[..., Any]]:
    """Return the filters of the templates."""
    return {
        "markdown": markdown,
        "marked": marked,
        "inline": inline,
        "ticked": ticked,
        "anchor": anchor,
    }


# The same window is asked for again while a session is followed, or by others who read it.
_SHOWN: Final = AnswerCache(_KEPT_CHARACTERS, weigh=len)


def markdown(text: str) -> Markup:
    """Show Markdown, with nothing in it that runs or loads."""
    return _SHOWN.get(text, lambda: _markdown(text))


def _markdown(text: str) -> Markup:
    shown = nh3.clean(
        _parser().render(text.encode("utf-8", "replace").decode()),  # half characters are none
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        allowed_classes={"span": set(CLASSES)},
        url_schemes={"http", "https"},
        url_relative="deny",
        link_rel="noopener noreferrer",
        set_tag_attribute_values={"a": {"target": "_blank"}, "pre": {"tabindex": "0"}},
    )
    wide = shown.replace("<table>", _WIDE).replace("</table>", "</table></div>")
    return Markup(wide)  # noqa: S704  (cleaned just before)


def marked(snippet: str) -> Markup:
    """Show a snippet as Markdown on one line; found words stand between >>> and <<<."""
    held = _RESERVED.sub("", snippet).replace(_BEGIN, _OPENS).replace(_END, _CLOSES)
    shown = _inlined(held, "emphasis", "strikethrough", "escape")
    # A word that begins inside an emphasis and ends outside of it is not marked.
    shown = _HELD.sub(r"<mark>\1</mark>", shown)
    return Markup(_RESERVED.sub("", shown))  # noqa: S704  (cleaned just before)


def inline(text: str) -> Markup:
    """Show some lines of Markdown without paragraphs, lists and headings."""
    return Markup(_inlined(text, "emphasis", "strikethrough", "escape"))  # noqa: S704  (cleaned)


def ticked(title: str) -> Markup:
    """Show what stands between backticks in a title as code, and all else as it is."""
    return Markup(_inlined(title)) if "`" in title else Markup.escape(title)  # noqa: S704  (cleaned)


def _inlined(text: str, *rules: str) -> str:
    if rules:
        text = _LINK.sub(r"\1", _BLOCKS.sub(" ", _HEADER.sub("", text))).lstrip()
    shown = _inline(rules).renderInline(_GAP.sub("\n", text).encode("utf-8", "replace").decode())
    return nh3.clean(shown, tags=_INLINE_TAGS, attributes={})


def anchor(key: str) -> str:
    """Name the place of an entry on a page: always the same, whatever its key is made of."""
    return "k" + hashlib.blake2b(key.encode("utf-8", "replace"), digest_size=6).hexdigest()


@lru_cache(maxsize=2)
def _inline(rules: tuple[str, ...]) -> MarkdownIt:
    parser = MarkdownIt("zero", {"html": False, "maxNesting": _NESTING})
    return parser.enable(["backticks", *rules])


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "breaks": True, "maxNesting": _NESTING})
    parser.enable(["table", "strikethrough"])
    parser.validateLink = _leads_out  # type: ignore[method-assign, assignment]
    parser.core.ruler.push("lower_headings", _lower_headings)
    parser.add_render_rule("image", _as_link)
    parser.add_render_rule("fence", _fenced)
    return parser


def _leads_out(address: str) -> bool:
    """Let only addresses of the web be links; anything else stays the text that it is."""
    return address.lower().startswith(_SCHEMES)


def _lower_headings(state: StateCore) -> None:
    for token in state.tokens:
        if token.type in {"heading_open", "heading_close"}:
            token.tag = f"h{min(6, int(token.tag[1]) + _BELOW)}"


def _as_link(
    _: Any, tokens: Sequence[Token], index: int, __: OptionsDict, ___: dict[str, Any]
) -> str:
    token = tokens[index]
    link = Markup('<a href="{}">picture: {}</a>')
    return link.format(token.attrs.get("src", ""), token.content or token.attrs.get("src", ""))


def _fenced(
    _: Any, tokens: Sequence[Token], index: int, __: OptionsDict, ___: dict[str, Any]
) -> str:
    token = tokens[index]
    language = language_named(token.info.split()[0]) if token.info.strip() else ""
    return Markup("<pre><code>{}</code></pre>\n").format(code(token.content, language))
