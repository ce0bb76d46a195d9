"""A store is the only one who knows its tables.

Outside a store's package nobody names one of its queries, runs SQL, or reaches for what is below
the store.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache

from tests.test_layers import SRC, STORES, modules, room_of
from threadkeep.base.sql import parse_queries
from threadkeep.base.tx import Tx
from threadkeep.knowledge.store import QUERIES

# What a transaction has for those who name queries, and for those who write SQL themselves.
_NO_QUERY = {"columns", "copy_to", "end", "is_alive", "script", "step", "tables"}
_BY_NAME = {name for name in vars(Tx) if not name.startswith("_")} - _NO_QUERY
_OF_SQLITE = {"execute", "executemany", "executescript", "script"}
_TXS = {"tx", "_tx"}
# What is inside a store, and what else has a context.
_INSIDE = {"KnowledgeContext", "QUERIES", "Sql", "open_knowledge"}
_OTHER_CONTEXTS = {"memory", "context_block", "error"}


@cache
def query_names() -> frozenset[str]:
    """Return the names of all queries of all stores."""
    folders = (SRC / store / "sql" for store in STORES)
    texts = [file.read_text() for folder in folders for file in folder.glob("*.sql")]
    return frozenset({*QUERIES, *(name for text in texts for name in parse_queries(text))})


def broken(module: str, tree: ast.Module) -> Iterator[str]:
    """Yield the places of one module that know what only a store may know."""
    if room_of(module) in {"base", *STORES}:
        return
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr=verb)) if verb in _OF_SQLITE:
                yield f"{module}:{node.lineno} runs SQL"
            case ast.Call() if _names_a_query(node):
                yield f"{module}:{node.lineno} names a query"
            case ast.Attribute(attr="context", value=of) if _last_name(of) not in _OTHER_CONTEXTS:
                yield f"{module}:{node.lineno} reaches below a store"
            case ast.Attribute(
                attr="db",
                value=ast.Name(id="context" | "ctx") | ast.Attribute(attr="_context" | "_ctx"),
            ):
                yield f"{module}:{node.lineno} reaches below a store"
            case ast.ImportFrom(names=names) if any(one.name in _INSIDE for one in names):
                yield f"{module}:{node.lineno} takes what is inside a store"


def _names_a_query(call: ast.Call) -> bool:
    """Tell whether a call has a transaction run a query, or gives its name to somebody with one."""
    match call.func:
        case ast.Attribute(attr=verb, value=of) if verb in _BY_NAME:
            return _last_name(of) in _TXS or any(map(_may_be_a_query, call.args[:1]))
    with_tx = any(_last_name(one) in _TXS for one in call.args)
    return with_tx and any(map(_may_be_a_query, call.args))


def _may_be_a_query(value: ast.expr) -> bool:
    match value:
        case ast.Constant(value=str(text)):
            return text in query_names()
        case ast.IfExp(body=one, orelse=other):
            return _may_be_a_query(one) or _may_be_a_query(other)
        case ast.JoinedStr(values=parts):
            told = [
                re.escape(str(one.value)) if isinstance(one, ast.Constant) else "\\w+"
                for one in parts
            ]
            pattern = re.compile("".join(told))
            return any(map(pattern.fullmatch, query_names()))
    return False


def _last_name(value: ast.expr) -> str:
    """Return the last word of `a`, `a.b`, `a.b()`."""
    match value:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Call(func=func):
            return _last_name(func)
    return ""


def test_only_a_store_knows_its_tables() -> None:
    assert [place for module, tree in modules() for place in broken(module, tree)] == []


def test_only_the_index_knows_how_full_text_is_asked() -> None:
    allowed = {"base/sql.py", "base/sqlite/fts5.py", "base/sqlite/outside.py"}
    asks = re.compile(r"\bMATCH [:?'{]|'(?:optimize|integrity-check|delete-all|merge|rebuild)'")
    files = [*SRC.rglob("*.py"), *SRC.rglob("*.sql")]
    found = {str(file.relative_to(SRC)) for file in files if asks.search(file.read_text())}
    assert found <= allowed, "a store names its index and gives a match (base/word_index.py)"
    assert "base/sql.py" in found
