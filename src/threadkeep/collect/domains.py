"""Which sites are kept: a list of places where developers read, and how a name is compared."""

import re
import unicodedata
from collections.abc import Iterable
from typing import Final

# Sub-domains belong to each of them. Mail, chat and search engines are left out on purpose.
DEFAULT_DOMAINS: Final = (
    # code
    *("github.com", "github.io", "gitlab.com", "bitbucket.org", "codeberg.org", "sr.ht"),
    # packages
    *("crates.io", "docs.rs", "npmjs.com", "pypi.org", "pkg.go.dev", "rubygems.org"),
    *("mvnrepository.com", "packagist.org", "hex.pm"),
    # languages and their documentation
    *("python.org", "docs.python.org", "readthedocs.io", "rust-lang.org", "go.dev", "nodejs.org"),
    *("developer.mozilla.org", "typescriptlang.org", "swift.org", "ziglang.org", "kotlinlang.org"),
    *("cppreference.com", "learn.microsoft.com", "docs.astral.sh", "react.dev"),
    # systems, databases, infrastructure
    *("kubernetes.io", "docker.com", "postgresql.org", "sqlite.org", "redis.io", "man7.org"),
    *("kernel.org", "wiki.archlinux.org", "debian.org"),
    # models and papers
    *("arxiv.org", "huggingface.co", "anthropic.com", "openai.com", "lmstudio.ai"),
    # questions and answers
    *("stackoverflow.com", "stackexchange.com", "news.ycombinator.com", "lobste.rs", "dev.to"),
    # articles and talk, as Hippo has them
    *("medium.com", "substack.com", "hackernoon.com", "reddit.com"),
)

_HOST: Final = re.compile(r"[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*|\[[0-9a-f:.]+\]")
_HOST_LENGTH: Final = 253


def plain_domain(text: str) -> str | None:
    """Write a host name in the one form that can be compared; None when it is not a host name.

    Small letters, no dot at the end, names beyond ASCII as browsers send them (`xn--...`).
    """
    # Python's own "idna" codec follows the rules of 2003: it turns ß into ss, browsers do not.
    small = _folded(_folded(text).lower()).removesuffix(".")
    name = ".".join(_plain_label(label) for label in small.split("."))
    return name if len(name) <= _HOST_LENGTH and _HOST.fullmatch(name) else None


def is_allowed(domain: str, allowed: Iterable[str], excluded: Iterable[str] = ()) -> bool:
    """Tell whether a site is on the list, itself or its parent; an exclusion always wins."""
    return is_listed(domain, allowed) and not is_listed(domain, excluded)


def is_listed(domain: str, listed: Iterable[str]) -> bool:
    """Tell whether a host name is one of these domains, or below one of them."""
    name = plain_domain(domain)
    if name is None:
        return False
    parents = {plain_domain(entry.removeprefix("*.").removeprefix(".")) for entry in listed}
    return any(name == parent or name.endswith(f".{parent}") for parent in parents - {None})


def _folded(text: str) -> str:
    """Make wide and composed letters plain ones, and the ideographic full stop a dot."""
    return unicodedata.normalize("NFKC", text).replace("\u3002", ".")


def _plain_label(label: str) -> str:
    return label if label.isascii() else "xn--" + label.encode("punycode").decode("ascii")
