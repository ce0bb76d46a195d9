"""A server put into an agent's own settings: everything else in the file stays as it is.

Text goes in and comes out; what does not parse, or would come out as something else than meant, is
refused.
"""

import json
import re
import tomllib
from collections.abc import Sequence
from typing import Any, Final

from threadkeep.errors import Invalid

Json = dict[str, Any]

_INDENT: Final = re.compile(r"^\{\s*\n([ \t]+)\S")


# ---------------------------------------------------------------------- JSON


def json_entry(text: str, keys: Sequence[str], file: str) -> Any:
    """Return what is at a place in a JSON file, None if nothing does."""
    return _found(_read_json(text, file), keys)


def _found(found: Any, keys: Sequence[str]) -> Any:
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def with_json_entry(text: str, keys: Sequence[str], value: Any, file: str) -> str:
    """Put a value at a place in a JSON file."""
    whole = _read_json(text, file)
    table = whole
    for key in keys[:-1]:
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            raise Invalid(f"{file}: {key} is not an object", hint="check the file and correct it")
    table[keys[-1]] = value
    return _write_json(whole, text)


def without_json_entry(text: str, keys: Sequence[str], file: str) -> str:
    """Take out what is at a place, and the tables that only held it."""
    if json_entry(text, keys, file) is None:
        return text
    whole = _read_json(text, file)
    tables = [whole]
    for key in keys[:-1]:
        tables.append(tables[-1][key])
    for table, key in zip(reversed(tables), reversed(keys), strict=True):
        del table[key]
        if table:
            break
    return _write_json(whole, text)


def _read_json(text: str, file: str) -> Json:
    if not text.strip():
        return {}
    try:
        found = json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        hint = "fix it first; or add the server by hand, --dry-run shows how"
        raise Invalid(f"{file} is not JSON: {error}", hint=hint) from None
    if not isinstance(found, dict):
        raise Invalid(f"{file} is not a JSON object", hint="check the file and correct it")
    return found


def _once(pairs: list[tuple[str, Any]]) -> Json:
    found = dict(pairs)
    if len(found) < len(pairs):
        msg = "a key is given twice"
        raise ValueError(msg)
    return found


def _write_json(whole: Json, before: str) -> str:
    found = _INDENT.match(before)
    indent = found[1] if found else "  "
    end = "" if before and not before.endswith("\n") else "\n"
    return json.dumps(whole, indent=indent, ensure_ascii=False) + end


# ---------------------------------------------------------------------- TOML


def toml_entry(text: str, keys: Sequence[str], file: str) -> Any:
    """Return what is at a place in a TOML file, None if nothing does."""
    return _found(_read_toml(text, file), keys)


def with_toml_entry(text: str, keys: Sequence[str], value: Json, file: str) -> str:
    """Put a table at a place in a TOML file: in place of the one that is there, or at the end."""
    bare = without_toml_entry(text, keys, file)
    lines = [f"[{'.'.join(keys)}]", *(f"{k} = {_toml(v)}" for k, v in value.items())]
    gap = "" if not bare else "\n" if bare.endswith("\n") else "\n\n"
    after = f"{bare}{gap}" + "\n".join(lines) + "\n"
    _check(toml_entry(after, keys, file) == value, file)
    return after


def with_toml_values(text: str, table: str, values: Json, file: str) -> str:
    """Set values of a table in a TOML file, in place of what is there, even if commented out."""
    lines = text.splitlines()
    headers = [at for at, line in enumerate(lines) if line.lstrip().startswith("[")]
    begin = next((at for at in headers if lines[at].split("#")[0].strip() == f"[{table}]"), None)
    if begin is None:
        lines += [*([""] if lines else []), f"[{table}]"]
        begin = len(lines) - 1
    end = next((at for at in headers if at > begin), len(lines))
    for key, value in values.items():
        said = re.compile(rf"\s*{re.escape(key)}\s*=")
        hidden = re.compile(rf"\s*#\s*{re.escape(key)}\s*=")
        inside = range(begin + 1, end)
        places = [at for one in (said, hidden) for at in inside if one.match(lines[at])]
        if places:
            lines[places[0]] = f"{key} = {_toml(value)}"
        else:
            lines.insert(begin + 1, f"{key} = {_toml(value)}")
            end += 1
    after = "\n".join(lines) + "\n"
    expected = _read_toml(text, file)
    expected[table] = {**expected.get(table, {}), **values}
    _check(_says(after, expected), file)
    return after


def without_toml_entry(text: str, keys: Sequence[str], file: str) -> str:
    """Take a table, and those below it, out of a TOML file."""
    if toml_entry(text, keys, file) is None:
        return text
    name = r"\s*\.\s*".join(rf'"?{re.escape(key)}"?' for key in keys)
    header = re.compile(rf"^\s*\[\s*{name}\s*(?:\.[^\]]*)?\]\s*(?:#.*)?$")
    kept: list[str] = []
    inside = False
    for line in text.splitlines(keepends=True):
        if line.lstrip().startswith("["):
            inside = header.match(line) is not None
        if not inside:
            kept.append(line)
    after = "".join(kept).rstrip("\n")
    after = f"{after}\n" if after else ""
    expected = _read_toml(text, file)
    _drop(expected, keys)
    _check(_says(after, expected), file)
    return after


def _read_toml(text: str, file: str) -> Json:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        hint = "fix it first; or add the server by hand, --dry-run shows how"
        raise Invalid(f"{file} is not TOML: {error}", hint=hint) from None


def _says(text: str, expected: Json) -> bool:
    try:
        return tomllib.loads(text) == expected
    except tomllib.TOMLDecodeError:  # a line inside a longer text was taken for a table
        return False


def _drop(table: Json, keys: Sequence[str]) -> None:
    if len(keys) > 1:
        _drop(table[keys[0]], keys[1:])
    if len(keys) == 1 or not table[keys[0]]:
        del table[keys[0]]


def _check(same: bool, file: str) -> None:  # noqa: FBT001  (a condition)
    if not same:
        msg = f"{file} is written in a way that cannot be edited safely"
        raise Invalid(msg, hint="edit it by hand: --dry-run of a new file shows what belongs there")


def _toml(value: Any) -> str:
    """Write a text or a list of texts; JSON's quotes are TOML's, too."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
