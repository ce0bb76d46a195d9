"""Scripts of SQL, cut into their statements as SQLite sees them."""

from sqlite3 import complete_statement


def split_statements(script: str) -> list[str]:
    """Cut a script into single statements, so that it can run inside a transaction of ours.

    `executescript()` of the standard library commits behind the caller's back.
    """
    statements: list[str] = []
    pending = ""
    for piece in script.split(";"):
        pending += piece + ";"
        if complete_statement(pending):
            if _has_code(pending):
                statements.append(pending.strip())
            pending = ""
    if _has_code(pending):
        msg = f"the script ends inside a statement: {pending.strip()[:60]!r}"
        raise ValueError(msg)
    return statements


def _has_code(statement: str) -> bool:
    lines = (line.strip() for line in statement.rstrip(";").splitlines())
    return any(line and not line.startswith("--") for line in lines)
