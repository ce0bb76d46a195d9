"""How the metadata of several chunks becomes the metadata of one message."""

from typing import Any, Final

# Keys that could reach a prototype in JavaScript.
_NEVER_MERGED: Final = frozenset({"__proto__", "constructor", "prototype"})


def merge_metadata(
    base: dict[str, Any] | None, override: dict[str, Any] | None
) -> dict[str, Any] | None:
    """Merge two metadata objects deeply, as the SDK does, without changing either.

    Objects merge; arrays, null and all other values replace. The first metadata of a message
    is taken as it is, whatever its keys.
    """
    if base is None or override is None:
        return base if override is None else override
    merged = dict(base)
    levels = [(merged, override)]  # a list, because nesting may exceed the recursion limit
    while levels:
        target, source = levels.pop()
        for key, value in source.items():
            if key in _NEVER_MERGED:
                continue
            if isinstance(value, dict) and isinstance(target.get(key), dict):
                target[key] = dict(target[key])
                levels.append((target[key], value))
            else:
                target[key] = value
    return merged
