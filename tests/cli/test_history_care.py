"""redact, forget and knowledge: secrets, what goes again, and files of other versions."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import HOSTILE, Run, document
from tests.cli.histories import CODEX, DEMO, captured, claude_log, said
from tests.faults.old_knowledge_files import make_old_knowledge

SECRET = "postgres://harbor:Tidewater-Quay-7741x@db.internal:5432/harbor"


@pytest.fixture
def demo(run: Run) -> Run:
    return captured(run)


def ids(run: Run) -> set[str]:
    return {one["session_id"] for one in document(run("sessions", "--all", "--json"))["sessions"]}


# ---------------------------------------------------------------------- redact


@pytest.mark.parametrize("words, stdin", [([SECRET], None), ([], SECRET), (["-"], SECRET)])
def test_what_would_be_masked_and_by_which_rule(
    words: list[str], stdin: str | None, run: Run
) -> None:
    result = run("redact", "test", *words, stdin=stdin)
    rule, masked = result.stdout.splitlines()
    assert rule.startswith("url-password\t1\t18-38\tTide…\tPasswords inside URLs")
    assert "20 characters" in rule
    assert masked == "postgres://harbor:[REDACTED]@db.internal:5432/harbor"
    found = document(run("redact", "test", *words, "--json", stdin=stdin))
    (place,) = found["findings"]
    assert (place["rule"], place["line"], place["start"], place["end"]) == (
        "url-password",
        1,
        18,
        38,
    )
    assert "20 characters" in place["why"]
    assert found["masked"] == masked


def test_text_without_a_secret_is_told_so(run: Run, home: Path) -> None:
    result = run("redact", "test", f"nothing here {HOSTILE}")
    assert "No secrets found" in result.stderr
    assert "\x1b" not in result.stdout
    assert not home.exists()


def test_the_rules_are_listed_with_those_of_the_configuration(run: Run, home: Path) -> None:
    own = document(run("redact", "rules", "--json"))["rules"]
    assert len(own) > 50
    assert {rule["origin"] for rule in own} == {"threadkeep"}
    home.mkdir()
    (home / "config.toml").write_text('[redact]\nrules = ["mine.toml"]\n')
    good = "[[rules]]\nid = 'acme'\nregex = '''ACME-[0-9]{6}'''\nkeywords = ['acme-']\n"
    (home / "mine.toml").write_text(f"{good}[[rules]]\nid = 'bad'\nregex = '''(?<='''\n")
    result = run("redact", "rules")
    assert f"acme\t{home / 'mine.toml'}\tacme-" in result.stdout
    assert "bad is not used" in result.stderr
    assert "[REDACTED]" in run("redact", "test", "see ACME-123456").stdout


def test_secrets_that_came_in_before_their_rule_are_masked(demo: Run, home: Path) -> None:
    assert "0 lines" in demo("redact", "rescan").stderr
    (home / "config.toml").write_text('[redact]\nrules = ["mine.toml"]\n')
    (home / "mine.toml").write_text("[[rules]]\nid = 'quay'\nregex = '''North Pier'''\n")
    planned = document(demo("redact", "rescan", "--dry-run", "--json"))
    assert (planned["dry_run"], planned["rescan"]["lines"]) == (True, 1)
    assert "North Pier" in demo("raw", "c3b7").stdout
    result = demo("redact", "rescan")
    assert "masked 1 line of 1 log" in result.stderr
    assert "backup --store knowledge --list" in result.stderr
    assert "North Pier" not in demo("raw", "c3b7").stdout
    assert document(demo("redact", "rescan", "--json"))["rescan"]["lines"] == 0


# ---------------------------------------------------------------------- forget


def test_a_session_is_forgotten_and_not_captured_again(demo: Run) -> None:
    looked = demo("forget", "--session", "019caf", "--dry-run")
    assert "would delete 1 session" in looked.stderr
    assert CODEX in ids(demo)
    assert "deleted 1 session" in demo("forget", "--session", "019caf", "--yes").stderr
    assert CODEX not in ids(demo)
    demo("capture", "--quiet", "--user-home", str(DEMO))
    assert CODEX not in ids(demo)


def test_without_a_terminal_a_yes_must_be_typed(demo: Run) -> None:
    told = demo("forget", "--session", CODEX, code=2).stderr
    assert "confirmation required" in told
    assert "--dry-run" in told
    assert CODEX in ids(demo)


def test_what_is_meant_is_said_in_one_way(demo: Run) -> None:
    for words in ([], ["--project", "harbor", "--session", CODEX], ["--since", "2026-03-01"]):
        assert "--since" in demo("forget", *words, "--yes", code=2).stderr
    assert len(ids(demo)) == 9


def test_a_span_of_time_and_a_project_are_forgotten(demo: Run) -> None:
    demo("forget", "--since", "2026-03-06", "--until", "2026-03-06", "--yes")
    assert len(ids(demo)) == 7
    demo("forget", "--project", "harbor", "--agent", "cursor", "--yes")
    assert len(ids(demo)) == 6


def test_a_filter_says_what_is_forgotten(demo: Run) -> None:
    listed = document(demo("sessions", "agent:pi", "is:all", "--json"))["sessions"]
    planned = document(demo("forget", "agent:PI", "until:2027-01-01", "--dry-run", "--json"))
    assert planned["forgotten"]["sessions"] == len(listed) > 0
    demo("forget", "agent:PI", "until:2027-01-01", "--yes")
    assert len(ids(demo)) == 8


@pytest.mark.parametrize(
    "said, told",
    [
        (["project:harb"], "harbor"),  # only a part: it names what it is a part of
        (["--project", "ada/HARB"], "harbor"),
        (["agent:code"], "claude-code, codex"),
        (["agent:codex -project:harb"], "harbor"),
        (["agnet:codex"], "agnet:codex"),  # a mistake is a word, and words delete nothing
        (["agent:codex", "kind:command"], "kind"),
        (["is:all"], "nothing says what to forget"),
        (["project:harbor", "--agent", "codex"], "two ways"),
    ],
)
def test_what_is_not_said_exactly_is_refused(demo: Run, said: list[str], told: str) -> None:
    assert told in demo("forget", *said, "--yes", code=2).stderr
    assert len(ids(demo)) == 9


def test_lines_with_a_pattern_are_forgotten(demo: Run) -> None:
    planned = document(demo("forget", "--pattern", "North P[a-z]er", "--dry-run", "--json"))
    assert (planned["dry_run"], planned["forgotten"]["lines"]) == (True, 1)
    assert document(demo("search", "pier", "--json"))["hits"]
    done = document(demo("forget", "--pattern", "North P[a-z]er", "--yes", "--json"))
    assert (done["dry_run"], done["forgotten"]["lines"]) == (False, 1)
    assert document(demo("search", "pier", "--json"))["hits"] == []


def test_what_is_not_there_needs_no_yes(demo: Run) -> None:
    assert "would delete nothing" in demo("forget", "--project", "elsewhere").stderr
    assert "there is no session" in demo("forget", "--session", "nobody", code=3).stderr


def test_backups_that_still_hold_it_are_named(demo: Run) -> None:
    path = demo("backup", "--store", "knowledge").stdout.strip()
    told = demo("forget", "--session", CODEX, "--yes").stderr
    assert path in told
    assert "delete these files yourself" in told


def test_examples_do_no_harm(run: Run, tmp_path: Path) -> None:
    claude_log(tmp_path, said("user", HOSTILE))
    run("capture", "--quiet", "--user-home", str(tmp_path))
    result = run("forget", "--session", "last", "--dry-run")
    assert not set(result.stdout + result.stderr) & {"\x1b", "\x07", "\u202e"}


# ---------------------------------------------------------------------- knowledge


def test_a_file_of_our_version_is_sound(demo: Run, home: Path) -> None:
    found = document(demo("knowledge", "check", "--json"))
    assert (found["ok"], found["version"]["kind"], found["problems"]) == (True, "current", [])
    assert f"file\t{home / 'knowledge.db'}" in demo("knowledge", "check").stdout
    assert "there is no knowledge store" in demo("knowledge", "check", "nowhere.db", code=3).stderr


@pytest.mark.parametrize("version, kind", [(12, "older"), (20, "between"), (99, "unknown")])
def test_another_version_is_explained(version: int, kind: str, demo: Run, home: Path) -> None:
    with closing(sqlite3.connect(home / "knowledge.db")) as db:
        db.execute(f"PRAGMA user_version = {version}")
    found = document(demo("knowledge", "check", "--json", code=5))
    assert (found["ok"], found["version"]["kind"]) == (False, kind)
    result = demo("knowledge", "check", code=5)
    assert f"schema version\t{version}" in result.stdout
    assert "hint: " in result.stderr


def test_a_file_of_another_kind_or_none_at_all(run: Run, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "other.db")) as db:
        db.execute("CREATE TABLE mine (id)")
    assert (
        "not a knowledge store"
        in run("knowledge", "check", str(tmp_path / "other.db"), code=2).stderr
    )
    with closing(sqlite3.connect(tmp_path / "empty.db")) as db:
        db.execute("PRAGMA journal_mode = WAL")
    assert "it is new" in run("knowledge", "check", str(tmp_path / "empty.db")).stderr
    (tmp_path / "damaged.db").write_bytes(b"nonsense" * 1000)
    run("knowledge", "check", str(tmp_path / "damaged.db"), code=1)


def test_an_older_file_is_brought_up_after_a_look(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "hippo.db"
    make_old_knowledge(path, 12)
    before = path.read_bytes()
    planned = document(run("knowledge", "migrate", str(path), "--dry-run", "--json"))["migration"]
    assert (planned["dry_run"], planned["version_after"], planned["backup"]) == (True, 18, None)
    assert planned["steps"]
    assert path.read_bytes() == before
    result = run("knowledge", "migrate", str(path))
    assert f"from version {planned['version_before']} to 18" in result.stderr
    assert "as it was before is in" in result.stderr
    assert "nothing to do" in run("knowledge", "migrate", str(path)).stderr
    run("knowledge", "check", str(path))


def test_a_newer_file_is_not_brought_anywhere(demo: Run, home: Path) -> None:
    shutil.copy(home / "knowledge.db", home / "copy.db")
    with closing(sqlite3.connect(home / "copy.db")) as db:
        db.execute("PRAGMA user_version = 24")
    told = demo("knowledge", "migrate", str(home / "copy.db"), code=5).stderr
    assert "cannot be migrated to version 18" in told
