"""Templates: everything that comes from a store is escaped, without exception."""

import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any
from zoneinfo import ZoneInfo

from jinja2 import Environment, PackageLoader, StrictUndefined

from threadkeep.web import blocks, drawing, markup, wording


class Renderer:
    """Fills templates; times are those of one zone."""

    def __init__(self, zone: ZoneInfo) -> None:
        self._environment = Environment(
            loader=PackageLoader("threadkeep.web", "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.globals["asset"] = asset
        self._environment.globals |= drawing.helpers(zone)
        self._environment.filters |= wording.filters(zone) | markup.filters() | blocks.filters()

    def render(self, template: str, values: Mapping[str, Any], *, piece: bool = False) -> str:
        """Fill a template; of a piece only its block `content`."""
        found = self._environment.get_template(template)
        if not piece:
            return found.render(values)
        context = found.new_context(dict(values))
        return "".join(found.blocks["content"](context))


@cache
def asset(name: str) -> str:
    """Give the address of a file of the page; it changes with the file, so it may be kept."""
    digest = hashlib.blake2b(files("threadkeep.web").joinpath("static", name).read_bytes())
    return f"/static/{name}?v={digest.hexdigest()[:12]}"
