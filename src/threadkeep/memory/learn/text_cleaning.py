"""Plain words out of captured text: what nobody wrote is taken out, sentences are found and cut.

Every pattern here is linear: each begins at a fixed character and repeats one class only, and long
texts are cut before they are looked at.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from threadkeep.memory.fence import strip_context


def words(text: str) -> frozenset[str]:
    """Return the words of a list that is written as one text."""
    return frozenset(text.split())


# The beginning and the end of a long text say most; its middle is left out.
FIELD_LIMIT: Final = 16_000
SENTENCE_LIMIT: Final = 280
_PROMPT_LIMIT: Final = 32_000
_LEADING_WORDS: Final = 6
_LABEL_WORDS: Final = 4
_LEFT_OUT: Final = "\n…\n"

_COLOURS: Final = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]{0,300}(?:\x07|\x1b\\)?")
_UNREADABLE: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff"
    "\U000e0000-\U000e007f]"
)

# Blocks that programs put into prompts: their notices, files, instructions, output.
_INJECTED: Final = (
    *("system-reminder", "system_reminder", "local-command-stdout", "local-command-stderr"),
    *("local-command-caveat", "command-name", "command-message", "command-contents"),
    *("environment_context", "environment_details", "user_instructions", "INSTRUCTIONS"),
    *("permissions instructions", "ide_opened_file", "ide_selection", "ide_diagnostics"),
    *("bash-stdout", "bash-stderr", "bash-input", "task-notification", "file_contents"),
    *("attached_files", "system_prompt", "context", "user_info", "rules", "skill", "skills"),
    *("turn_aborted", "user-prompt-submit-hook", "additional_context", "open_and_recently_viewed"),
)
_OPENING: Final = re.compile(rf"<({'|'.join(map(re.escape, _INJECTED))})(?:\s[^<>]{{0,200}})?>")
# Tags whose content is the person's own.
_WRAPPING: Final = re.compile(r"</?(?:user_query|user-query|command-args|user_request|query)>")
_FIRST_WORDS_OF_PROGRAMS: Final = (
    *("Caveat: The messages below were generated", "[Request interrupted by user"),
    *("Base directory for this skill:", "This session is being continued from a previous"),
    *("# AGENTS.md instructions for", "<permissions instructions>", "API Error:"),
    *("--- Content from referenced files", "[Image: source:", "Stop hook feedback:"),
    *("Your task is to create a detailed summary of the conversation",),
)
_MARKER_LINE: Final = re.compile(
    r"^\s*(?:\[\[ ?##[^\n\]]{0,60}\]\]|-{3,}|={3,}|`{3,}[^\n`]{0,40})\s*$"
)
_SLASH: Final = re.compile(r"^/[A-Za-z][\w:-]{0,40}(?=\s|$)")
_END_OF_SENTENCE: Final = re.compile(
    r"(?<=[.!?])[\"'”’)\]*_`]{0,3}\s+(?=[\"'“‘(\[*_`A-Z0-9])"
    r"|(?<=[!?])\s+|(?<=[a-z)][a-z)][a-z)]\.)\s+(?=[a-z])"  # not everybody writes capitals
    r"|[。！？]\s*|\n+"
)
# A line that continues in the next one.
_WRAPPED: Final = re.compile(r"(?<=[^\n.!?:;|`])\n[ \t]{0,8}(?=[a-z])")
_MARKS: Final = frozenset("-*•>[#")
_LIST_MARK: Final = re.compile(r"^(?:[-*•>]|\d{1,3}[.)]|\[[ xX]\])\s+")
_OF_A_LIST: Final = re.compile(r"\s*(?:#{1,6}\s|[-*•]\s|\*\*[^*\n]{1,80}\*\*:?\s*$|>)")
_HEADING: Final = re.compile(r"^#{1,6}\s+")
_EMPHASIS: Final = re.compile(r"\*\*|__(?=\S)|(?<=\S)__")
_ABBREVIATED: Final = ("e.g.", "i.e.", "etc.", "vs.", "cf.", "approx.", "Mr.", "Dr.", "No.")
_LETTERS: Final = re.compile(r"[^\W\d_]{2,}|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
# Said to continue, not to say what is wanted.
_AGREEING: Final = words(
    "yes yep yeah ok okay sure please do it go ahead on continue proceed thanks thank you great"
    " good nice perfect cool fine next again retry try commit push done and the that this now right"
    " lgtm looks sounds keep going yup y k hi hello hey"
)
_ROLE: Final = ("you are ", "your name is ", "act as ", "your role ", "# context", "your job ")


def plain(text: str, limit: int = FIELD_LIMIT) -> str:
    """Make text readable and storable, and cut a long one in its middle."""
    if len(text) > limit * 4:  # colours and controls may make up most of it
        text = text[: limit * 3] + _LEFT_OUT + text[-limit:]
    if not text.replace("\n", "").replace("\t", "").isprintable():
        text = _COLOURS.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
        text = _UNREADABLE.sub("", text)
    return cut_middle(text, limit)


def readable(text: str, limit: int) -> str:
    """Make text readable, without what memory itself had put into it."""
    return plain(strip_context(text), limit)


def cut_middle(text: str, limit: int) -> str:
    """Keep the beginning and the end of a long text, at the ends of lines where there are some."""
    if len(text) <= limit:
        return text
    head, tail = text[: limit * 2 // 3], text[-(limit // 3) :]
    at_line = head.rfind("\n", len(head) // 2)
    head = head[:at_line] if at_line > 0 else head
    first = tail.find("\n")
    tail = tail[first + 1 :] if 0 <= first < len(tail) // 2 else tail
    return head + _LEFT_OUT + tail


def one_line(text: str) -> str:
    """Put text on one line."""
    return " ".join(text.split())


def cut_words(text: str, limit: int = SENTENCE_LIMIT) -> str:
    """Cut one line of text between two words, with a sign that there was more."""
    if len(text) <= limit:
        return text
    head = text[: limit - 1]
    space = head.rfind(" ", limit // 2)
    return (head[:space] if space > 0 else head).rstrip(" ,;:-([{\"'`") + "…"


def split_injected(text: str) -> Iterator[tuple[str, str]]:
    """Yield the pieces of a text, each with the name of its block; empty: a person's own words."""
    open_ones = set[str]()  # a block that is not closed once is not closed later either
    at = 0
    while (found := _OPENING.search(text, at)) is not None:
        yield "", text[at : found.start()]
        close = f"</{found[1]}>"
        stop = -1 if close in open_ones else text.find(close, found.end())
        if stop < 0:
            open_ones.add(close)
            at = found.end()
            yield found[1], ""
            continue
        at = stop + len(close)
        yield found[1], text[found.end() : stop]
    yield "", text[at:]


def without_injected(text: str) -> str:
    """Take out the blocks that programs put into what people write."""
    return _WRAPPING.sub("", "".join(words for name, words in split_injected(text) if not name))


def asked(prompt: str) -> str:
    """Return what a person asked in a prompt; empty if a program wrote it."""
    text = without_injected(strip_context(prompt[:_PROMPT_LIMIT])).strip()
    if text.startswith(_FIRST_WORDS_OF_PROGRAMS):
        return ""
    return "\n".join(line for line in text.split("\n") if not _MARKER_LINE.match(line)).strip()


def without_fences(text: str) -> str:
    """Take out code blocks: sentences are looked for in prose."""
    pieces = text.split("```")
    return "\n".join(pieces[::2]) if len(pieces) > 2 else text  # noqa: PLR2004  (one fence is open)


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of prose, each on one line, without the marks of lists and headings."""
    waiting = ""
    for piece in _END_OF_SENTENCE.split(_WRAPPED.sub(" ", without_fences(text))):
        sentence = _bare(piece)
        if not sentence:
            continue
        waiting = f"{waiting} {sentence}" if waiting else sentence
        if waiting.endswith(_ABBREVIATED) and len(waiting) < SENTENCE_LIMIT:
            continue
        yield waiting
        waiting = ""
    if waiting:
        yield waiting


def _bare(piece: str) -> str:
    line = one_line(piece)
    if not line or line[0] == "|":
        return ""
    if line[0] in _MARKS or line[0].isdigit():
        line = _HEADING.sub("", _LIST_MARK.sub("", line))
    return (_EMPHASIS.sub("", line) if "**" in line or "__" in line else line).strip()


def says_something(sentence: str) -> bool:
    """Tell whether a sentence says what is wanted, and not just to continue."""
    said = [word.lower() for word in islice(_LETTERS.findall(sentence), 12)]
    if not said:
        return False
    return any(word not in _AGREEING for word in said) and not _is_path_alone(sentence)


def _is_path_alone(sentence: str) -> bool:
    return all("/" in word or "\\" in word for word in sentence.split()[:20])


def first_request(prompts: Iterable[str]) -> str:
    """Return the first sentence that says what was wanted; empty if none does.

    Headings, lists and what an agent is told to be come after plain sentences.
    """
    second = ""
    for prompt in prompts:
        text = _without_command(asked(prompt)).lstrip("\"'“ ")
        if not text:
            continue
        prose = "\n".join(line for line in text.split("\n") if not _OF_A_LIST.match(line))
        found = next(filter(_is_request, islice(sentences(prose), 40)), "")
        if found:
            return _whole(_with_list(found, text))
        second = second or next(filter(says_something, islice(sentences(text), 40)), "")
    return _whole(second)


def _with_list(sentence: str, text: str) -> str:
    """Add what follows a sentence that only leads to a list: `I want you to`."""
    if len(sentence.split()) > _LEADING_WORDS or sentence.endswith((".", "?", "!", "…")):
        return sentence
    rest = islice(sentences(text), 40)
    follows = next((next(rest, "") for one in rest if one == sentence), "")
    return f"{sentence.rstrip(': ')}: {follows}" if follows else sentence


def _without_command(text: str) -> str:
    command = _SLASH.match(text)
    return text[command.end() :].strip() if command else text


def _is_request(sentence: str) -> bool:
    length = len(sentence.split())
    is_label = length == 1 or (length <= _LABEL_WORDS and sentence.endswith(":"))
    return says_something(sentence) and not is_label and not sentence.lower().startswith(_ROLE)


def _whole(sentence: str) -> str:
    return cut_words(sentence.rstrip(": "))
