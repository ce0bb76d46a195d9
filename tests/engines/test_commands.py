"""Every command over a home on a server: it works, or says in plain words what to do instead."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.support.user_homes import made_up_home
from threadkeep import Home
from threadkeep.base.postgres.database import PostgresDatabase
from threadkeep.base.postgres.schema import drop
from threadkeep.cli.root import cli
from threadkeep.state.session_db import SessionDB

Run = Callable[..., Result]
STREAM = "".join(
    f"{line}\n"
    for line in (
        '{"type": "start"}',
        '{"type": "text-start", "id": "t"}',
        '{"type": "text-delta", "id": "t", "delta": "ducks and geese"}',
        '{"type": "text-end", "id": "t"}',
        '{"type": "finish"}',
    )
)


@pytest.fixture(scope="module")
def run(server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Return what runs a command in a home on a server that has something of each kind."""
    folder = tmp_path_factory.mktemp("home")
    url = f"{server_url}&home=commands"
    user = made_up_home(tmp_path_factory.mktemp("user"))
    environ = {"HOME": str(user), "THREADKEEP_HOME": str(folder), "THREADKEEP_DB_URL": url}

    def run(*words: str, stdin: str = "", **more: str) -> Result:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in (environ | more).items():
                patch.setenv(name, value)
            return CliRunner().invoke(cli, list(words), input=stdin)

    with PostgresDatabase(url, "chat", {}) as database, database.connect() as connection:
        drop(connection, "commands")
        with SessionDB(url) as store:
            store.create_session("s1", "cli", model="m")
            store.append_message("s1", "user", content="hello")
        assert run("chat", "record", stdin=STREAM).exit_code == 0
        assert run("capture").exit_code == 0
        yield run
        drop(connection, "commands")


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    """status; paths; sources; sessions; show last; raw last; recall ducks; ask ducks; search ducks
    fixed ducks; similar ducks; context ducks; timeline --since 2026-01-01; open message:1; usage
    usage daily; commands; lessons; memories; label last --star; labels; export last; enrich
    alarms list; alarms prune; redact rescan; redact rules; statusline; probe
    chat ls; chat show last; chat search ducks; chat fork last; chat diff last last
    chat export --all; chat size; chat verify; chat archive last; chat prune --older-than 1d
    state ls; state show last; state search hello; state lineage last; state check; state compact
    state reindex; state sizes; state stats; state stats --by model; state title last new
    state pin last; state unpin last; state export --all; state prune --older-than 3650d
    state undo last; capture --dry-run; watchdog run; backup --list; doctor --json
    forget session:0199aaaa-0000-7000-8000-000000000003 --dry-run""".replace("\n", ";").split(";"),
)
def test_a_command_works(run: Run, command: str) -> None:
    done = run(*command.split())
    assert done.exit_code in {0, 1}, done.output  # 1: there are problems, which it names
    assert done.exception is None or isinstance(done.exception, SystemExit)
    assert "please report" not in done.output


def test_exports_are_written_and_read_again(run: Run, tmp_path: Path) -> None:
    for store in ("chat", "state"):
        file = tmp_path / f"{store}.jsonl"
        done = run(store, "export", "--all", "-o", str(file))
        assert done.exit_code == 0, done.output
        assert file.read_text() == run(store, "export", "--all").output
        assert run(store, "import", str(file)).exit_code == 0


@pytest.mark.parametrize(
    "command, said",
    [
        ("backup", "pg_dump --format=custom --schema='tk_commands*' --file=commands.dump"),
        ("backup --store knowledge", "pg_dump --format=custom"),
        ("knowledge check", "`threadkeep doctor` checks it"),
        ("knowledge migrate", "pg_dump"),
        ("state release", "`threadkeep migrate --from` makes files of it"),
    ],
)
def test_what_needs_a_file_says_what_to_do(run: Run, command: str, said: str) -> None:
    done = run(*command.split())
    assert done.exit_code == 2, done.output
    assert said in done.output
    assert "is on a server" in done.output


def test_data_of_other_programs_goes_through_a_folder(run: Run, tmp_path: Path) -> None:
    """The way that the refusal names is one that works."""
    theirs = tmp_path / "hermes.db"
    with SessionDB(theirs) as store:
        store.create_session("h1", "cli", model="m")
        store.append_message("h1", "user", content="of Hermes")
    done = run("import", "hermes", str(theirs))
    assert done.exit_code == 2
    assert "`threadkeep state import FILE`" in done.output
    folder, file = str(tmp_path / "folder"), str(tmp_path / "h.jsonl")
    assert run("--home", folder, "import", "hermes", str(theirs)).exit_code == 0
    assert run("--home", folder, "state", "export", "--all", "-o", file).exit_code == 0
    assert run("state", "import", file).exit_code == 0
    assert "of Hermes" in run("state", "show", "h1").output


def test_a_backup_takes_the_files_that_there_are(run: Run, tmp_path: Path) -> None:
    """A mailbox is always a file."""
    assert run("mail", "new", "tester").exit_code == 0
    done = run("backup")
    assert done.exit_code == 2
    assert "mailbox-" in done.output
    for store in ("chat", "state", "knowledge"):
        assert f"no backup of the {store} store" in done.output


def test_a_url_is_no_folder(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = run("sessions", THREADKEEP_HOME="postgresql://ann@db.example/agents")
    assert done.exit_code == 2
    assert "THREADKEEP_DB_URL" in done.output
    assert not list(tmp_path.iterdir())
    with pytest.raises(Exception, match="THREADKEEP_HOME is the URL of a server"):
        Home(environ={"THREADKEEP_HOME": "postgresql://ann@db.example/agents"})
