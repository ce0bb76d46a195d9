"""The little of roff that manual pages need: pure text, every line harmless."""

from collections.abc import Iterator


def escaped(text: str) -> str:
    """Write text so that roff shows it as it is: no escape, no request, no typographic dash."""
    plain = (
        text.replace("\\", "\\e").replace("-", "\\-").replace("`", "\\(ga").replace("'", "\\(aq")
    )
    ascii_only = "".join(one if one.isascii() else f"\\[u{ord(one):04X}]" for one in plain)
    lines = ascii_only.replace("\r", "").split("\n")
    return "\n".join(f"\\&{line}" if line.startswith(".") else line for line in lines)


def title(name: str, section: str, source: str) -> str:
    """Begin a page; without a date, so that the same commands give the same page."""
    return f'.TH "{_quoted(name.upper())}" "{section}" "" "{_quoted(source)}" "threadkeep manual"\n'


def heading(text: str) -> str:
    """Begin a section."""
    return f'.SH "{_quoted(text.upper())}"\n'


def subheading(text: str) -> str:
    """Begin a part of a section."""
    return f'.SS "{_quoted(text)}"\n'


def paragraph(text: str) -> str:
    """Write a paragraph; its lines are joined, and blanks in them are single."""
    return f".PP\n{escaped(' '.join(text.split()))}\n"


def literal(text: str) -> str:
    """Write a line of text."""
    return f"{escaped(_flat(text))}\n"


def bold(text: str) -> str:
    """Write a line of bold text."""
    return f".B {escaped(_flat(text))}\n"


def definition(term: str, text: str) -> str:
    """Write a term, and what it means below it."""
    return "".join(_definition(term, text))


def _definition(term: str, text: str) -> Iterator[str]:
    yield ".TP\n"
    yield f"\\fB{escaped(_flat(term))}\\fR\n"
    yield f"{escaped(_flat(text))}\n"


def _flat(text: str) -> str:
    return " ".join(text.split())


def _quoted(text: str) -> str:
    return escaped(_flat(text)).replace('"', "\\(dq")
