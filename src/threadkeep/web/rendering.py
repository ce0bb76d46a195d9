"""Templates: everything that comes from a store is escaped, without exception."""

import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from jinja2 import (
    Environment,
    FileSystemBytecodeCache,
    PackageLoader,
    StrictUndefined,
    Template,
)

from threadkeep.web import blocks, drawing, markup, wording


class Renderer:
    """Fills templates; times are those of one zone.

    `cache` gives the folder of what templates were compiled to: all of them take 300 ms to
    compile, and 10 ms to read again. A template that was changed is compiled anew.
    """

    def __init__(self, zone: ZoneInfo, cache: Callable[[], Path | None] = lambda: None) -> None:
        self._environment = Environment(
            loader=PackageLoader("threadkeep.web", "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._cache = cache
        self._environment.globals["asset"] = asset
        self._environment.globals |= drawing.helpers(zone)
        self._environment.filters |= wording.filters(zone) | markup.filters() | blocks.filters()

    def render(self, template: str, values: Mapping[str, Any], *, piece: bool = False) -> str:
        """Fill a template; of a piece only its block `content`."""
        found = self._template(template)
        if not piece:
            return found.render(values)
        context = found.new_context(dict(values))
        return "".join(found.blocks["content"](context))

    def _template(self, name: str) -> Template:
        if not self._environment.cache and (folder := self._cache()) is not None:
            self._environment.bytecode_cache = FileSystemBytecodeCache(str(folder))
        try:
            return self._environment.get_template(name)
        except Exception:  # noqa: BLE001  (nothing is hidden: see below)
            # A full disk, a torn file: it works without. What is wrong with the template itself
            # is said at the second try.
            self._forget_cache()
            return self._environment.get_template(name)

    def _forget_cache(self) -> None:
        kept, self._environment.bytecode_cache = self._environment.bytecode_cache, None
        if kept is not None:
            with suppress(OSError):
                kept.clear()


@cache
def asset(name: str) -> str:
    """Give the address of a file of the page; it changes with the file, so it may be kept."""
    digest = hashlib.blake2b(files("threadkeep.web").joinpath("static", name).read_bytes())
    return f"/static/{name}?v={digest.hexdigest()[:12]}"
