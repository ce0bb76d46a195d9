"""What a newcomer can rely on: one name for one thing, modules named for what they are.

The lists of exceptions may only shrink: an entry that is not needed any more is refused, too.
"""

import ast
from collections import Counter, defaultdict

from tests.test_layers import ORDER, ROOMS, modules, room_of

# Modules whose names end in -ing: what they hold is a noun of the field all the same.
NOUNS = {
    "home/opening.py": "how each store of a home is opened",
    "knowledge/opening.py": "how a knowledge file is opened",
    "memory/learn/text_cleaning.py": "texts without what says nothing",
    "memory/ranking.py": "the order of hits",
    "state/naming.py": "how a session of a state file is named",
}

# Public class names that exist more than once, each with its reason.
TWICE: dict[str, str] = {}


def public_classes() -> dict[str, list[str]]:
    """Return the modules of every public class, by its name."""
    found: dict[str, list[str]] = defaultdict(list)
    for module, tree in modules():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(module)
    return found


def is_gate(tree: ast.Module) -> bool:
    """Tell whether a module only passes names on."""
    body = [node for node in tree.body if not isinstance(node, ast.Expr)]
    passed = [
        node
        for node in body
        if isinstance(node, ast.Import | ast.ImportFrom)
        or (isinstance(node, ast.Assign | ast.AugAssign) and "__all__" in ast.unparse(node))
    ]
    return bool(body) and len(passed) == len(body)


def test_a_class_name_exists_once() -> None:
    twice = {name: where for name, where in public_classes().items() if len(where) > 1}
    assert sorted(twice) == sorted(TWICE)


def test_modules_are_named_with_nouns() -> None:
    ing = {module for module, _ in modules() if module.removesuffix(".py").endswith("ing")}
    assert ing == set(NOUNS)


def test_no_module_only_passes_names_on() -> None:
    gates = [m for m, tree in modules() if not m.endswith("__init__.py") and is_gate(tree)]
    assert gates == []


def test_every_package_says_what_it_is_for() -> None:
    silent = [
        module
        for module, tree in modules()
        if module.endswith("__init__.py") and len((ast.get_docstring(tree) or "").split()) < 3
    ]
    assert silent == []


def test_there_are_fourteen_rooms_on_four_floors() -> None:
    found = Counter(room_of(module) for module, _ in modules() if "/" in module)
    found.pop("testing")  # what users need for their own tests stands beside the rooms
    assert sorted(found) == sorted(ROOMS)
    assert len(ROOMS) == 14
    assert len(ORDER) == 10
