"""The settings of a session: a JSON object, in which marks of lineage stand, too."""

import json
from collections.abc import Mapping
from typing import Any


def read_config(text: object) -> dict[str, Any]:
    """Give the settings that a column holds; what is no JSON object is none."""
    try:
        found = json.loads(text) if isinstance(text, (str, bytes)) else text
    except (ValueError, RecursionError):
        return {}
    return dict(found) if isinstance(found, dict) else {}


def patch_config(text: object, patch: Mapping[str, Any]) -> str | None:
    """Give the column with settings set, or taken out where None is said; NULL if none is left."""
    merged = {**read_config(text), **patch}
    left = {name: value for name, value in merged.items() if name not in patch or value is not None}
    return json.dumps(left) if left else None
