"""The public API is frozen: a change of it is a decision, never an accident.

After one: `python -m tests.test_public_api > tests/fixtures/public_api.json`, and CHANGELOG.md.
"""

import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import threadkeep
from tests.conftest import REPO
from threadkeep import errors

FROZEN = REPO / "tests" / "fixtures" / "public_api.json"


def public_api() -> dict[str, Any]:
    """Describe every public name: signatures of functions and verbs, fields of records."""
    names = {name: describe(getattr(threadkeep, name)) for name in sorted(threadkeep.__all__)}
    return names | {
        "errors": {
            n: describe(kind) for n, kind in sorted(vars(errors).items()) if isinstance(kind, type)
        }
    }


def describe(thing: Any) -> Any:
    if inspect.ismodule(thing) or isinstance(thing, str):
        return type(thing).__name__
    if not inspect.isclass(thing):
        return signature(thing)
    own = [thing] if issubclass(thing, Exception) else thing.__mro__[-2::-1]  # without `object`
    for name in dir(thing):
        getattr(thing, name, None)  # a verb is made when it is first looked at
    members = {name: member for kind in own for name, member in vars(kind).items()}
    members = {name: member for name, member in members.items() if not name.startswith("_")}
    fields = getattr(thing, "__struct_fields__", ())
    shown = {name: signature(member) for name, member in sorted(members.items())}
    bases = [base.__name__ for base in thing.__bases__ if base is not object]
    return {"bases": bases, "members": shown | dict.fromkeys(fields, "field")}


def signature(member: Any) -> str:
    """Write names, kinds and defaults of the parameters; annotations are for the type checker."""
    if isinstance(member, property):
        return "property"
    function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
    if not callable(function):
        return type(member).__name__
    given = inspect.signature(function).parameters.values()
    return str(inspect.Signature([plain(parameter) for parameter in given]))


def plain(parameter: inspect.Parameter) -> inspect.Parameter:
    """Leave out the annotation; a function as a default is shown by its name."""
    default = parameter.default
    named = default.__name__ if inspect.isfunction(default) else default
    return parameter.replace(annotation=inspect.Parameter.empty, default=named)


def test_the_public_api_is_as_it_was_frozen() -> None:
    told = "run `python -m tests.test_public_api > tests/fixtures/public_api.json`"
    assert public_api() == json.loads(FROZEN.read_text("utf-8")), told


def test_every_public_name_can_be_had_and_no_other() -> None:
    from threadkeep import ChatStore, Home, Recorder

    assert {ChatStore, Home, Recorder} <= {getattr(threadkeep, n) for n in threadkeep.__all__}
    assert dir(threadkeep) == sorted(threadkeep.__all__)
    assert not hasattr(threadkeep, "nonsense")


def test_everything_public_explains_itself() -> None:
    for name in threadkeep.__all__:
        thing = getattr(threadkeep, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert thing.__doc__, name


def test_importing_opens_no_database_library() -> None:
    code = "import sys, threadkeep; print('sqlite3' in sys.modules, 'click' in sys.modules)"
    shown = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(Path(threadkeep.__file__).parent.parent)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.split() == ["False", "False"]


if __name__ == "__main__":
    print(json.dumps(public_api(), indent=1, ensure_ascii=False))
