"""`threadkeep migrate`."""

import click

from threadkeep.cli.command import Call, command
from threadkeep.cli.output import counted, document, note, progress, table, write


@command(
    "migrate",
    "threadkeep migrate --to 'postgresql://ann@db.example/agents?home=team'",
    "threadkeep migrate --from 'postgresql://ann@db.example/agents?home=team' --to ./home",
    "threadkeep migrate --to 'postgresql://ann@db.example/agents?home=team' --abandon",
)
@click.option("--to", "target", required=True, help="The URL of a home, or a new folder.")
@click.option("--from", "source", help="A folder or a URL, instead of this home.")
@click.option("--abandon", is_flag=True, help="Remove what an interrupted move left behind.")
def migrate(call: Call, *, target: str, source: str | None, abandon: bool) -> None:
    """Move a home to a PostgreSQL server, or back to files; every row is compared.

    The source is read and stays as it is. The target is built under another name and renamed at
    the end. An interrupted move continues where it stopped when you run it again. Mailboxes
    stay files.
    """
    from threadkeep.home import migration

    if abandon:
        there = migration.abandon(target)
        if call.as_json:
            document(target=target, abandoned=there)
        else:
            note("the unfinished move was removed" if there else "there was no unfinished move")
        return
    with progress("copying") as advance:

        def tell(_: str, rows: int) -> None:
            if advance is not None:
                advance(rows, 0)

        done = migration.migrate(call.home, target, source=source, tell=tell)
    if call.as_json:
        document(source=done.source, target=done.target, stores=done.stores)
        return
    table(
        ("store", "rows", "written"),
        [(s.store, f"{s.rows:,}", f"{s.written:,}") for s in done.stores],
    )
    note(f"{counted(len(done.stores), 'store')} moved and compared row by row")
    write(done.target)
