"""Aider's histories: every line is kept, and who said it is told from how it was written."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from tests.lengths import examples
from tests.sources.test_copilot_cli import (
    FIXTURES,
    Fed,
    check_any_junk,
    check_any_split,
    document,
    read,
    real_files,
    said,
)
from threadkeep.errors import NotFound
from threadkeep.home.home import Home
from threadkeep.knowledge.records import Entry
from threadkeep.sources.aider import FILE_NAME, SOURCE, local_ms, messages_of, runs_of, usage_of
from threadkeep.sources.records import DocumentItem, Harvest, Log, Stamp, UnreadablePlace, UserHome

HISTORY = FIXTURES / "aider" / "projects" / "shop" / FILE_NAME


@pytest.fixture(autouse=True)
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def log_of(path: Path = HISTORY) -> Log:
    return Log(str(path), Stamp(0, 0, 0, 0), project_dir=path.parent.name)


def written(folder: Path, text: str) -> Log:
    path = folder / FILE_NAME
    path.write_bytes(text.encode())
    return log_of(path)


def runs(log: Log) -> list[list[Fed]]:
    return [document(SOURCE, log, item.item) for item in SOURCE.items(log)]


def whole_text(log: Log) -> str:
    return "".join(value["text"] for fed in runs(log) for value, _, _ in fed)


def read_run(log: Log, place: int) -> tuple[DocumentItem, list[Entry], Harvest]:
    item = list(SOURCE.items(log))[place]
    entries, harvest = read(SOURCE, log, document(SOURCE, log, item.item))
    assert {entry.session_id for entry in entries} == {item.item}
    assert list(harvest.facts) == [item.item]
    return item, entries, harvest


# ---------------------------------------------------------------------- finding


def test_find_looks_where_projects_are_and_nowhere_else(tmp_path: Path) -> None:
    wanted = ["", "projects", "projects/a", "src/a/b", "code/a/b/c"]
    unwanted = ["code/a/b/c/d", "src/node_modules/x", "src/.hidden", "music", ".config"]
    for folder in wanted + unwanted:
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / FILE_NAME).write_bytes(b"")
    (tmp_path / "src" / "loop").symlink_to(tmp_path / "src")
    (tmp_path / "work").symlink_to(tmp_path / "projects")
    found = list(SOURCE.find(UserHome(tmp_path)))
    assert [log.path for log in found] == sorted(str(tmp_path / w / FILE_NAME) for w in wanted)
    assert {log.project_dir for log in found} == {tmp_path.name, "projects", "a", "b", "c"}


def test_find_follows_the_variable_of_the_program(tmp_path: Path) -> None:
    (tmp_path / "chat.md").write_bytes(b"")
    for named in (str(tmp_path / "chat.md"), "~/chat.md"):
        user = UserHome(tmp_path, {"AIDER_CHAT_HISTORY_FILE": named})
        assert [log.path for log in SOURCE.find(user)] == [str(tmp_path / "chat.md")]
        assert tmp_path / "chat.md" in SOURCE.roots(user)
    relative = UserHome(tmp_path, {"AIDER_CHAT_HISTORY_FILE": "chat.md"})
    assert list(SOURCE.find(relative)) == []


# ---------------------------------------------------------------------- reading


def test_a_run_is_a_session() -> None:
    items = list(SOURCE.items(log_of()))
    assert len({item.item for item in items}) == len(items) == 3
    starts = [fed[0][0]["started"] for fed in runs(log_of())]
    assert starts == ["2026-06-02 11:47:49", "2026-06-02 12:02:21", "2026-06-02 12:02:21"]


def test_what_was_said_and_done() -> None:
    _, entries, harvest = read_run(log_of(), 1)
    shown = said(entries)
    assert shown[0][:2] == ("system", "note")
    assert shown[1] == ("user", "prompt", "Why does the basket forget?\n\n    max_age = 60")
    assert shown[2] == ("assistant", "reasoning", "The cookie may expire.")
    assert shown[3][:2] == ("assistant", "text")
    answer = shown[3][2]
    assert answer.startswith("# The answer\n\n> a quote of mine\n#### A heading of mine\n")
    assert ">>>>>>> REPLACE" in answer
    assert [one for one in shown if one[1] == "tool_call"] == [
        ("assistant", "tool_call", "session.py"),
        ("assistant", "tool_call", "9382d25 fix: The basket remembers"),
        ("assistant", "tool_call", "pytest"),
    ]
    assert [one[2] for one in shown if one[0] == "user"][1:] == [
        "Add file to the chat? (Y)es/(N)o/(A)ll/(S)kip all [Yes]: all",
        "/run pytest",
    ]
    assert [entry.kind for entry in entries if entry.role == "user"] == ["prompt", "note", "prompt"]
    assert len({entry.key for entry in entries}) == len(entries)
    assert {entry.at for entry in entries} == {1_780_394_541_000}  # 12:02:21 in summer is 10:02:21
    (segment,) = harvest.segments
    assert [name for name, _ in segment.tools or ()] == ["edit", "commit", "run"]
    assert segment.project_dir == "shop"


def test_facts_and_usage() -> None:
    item, _, harvest = read_run(log_of(), 1)
    facts = harvest.facts[item.item]
    assert (facts.model, facts.version) == ("gemini/gemini-2.5-pro", "0.86.1")
    assert facts.cwd == str(HISTORY.parent)
    (row,) = harvest.usage
    assert (row.input, row.cache_write, row.cache_read, row.output) == (900, 1200, 2000, 350)
    assert (row.model, row.session_id) == ("gemini/gemini-2.5-pro", item.item)
    _, _, last = read_run(log_of(), 2)
    assert [(row.input, row.output) for row in last.usage] == [(1_500_000, 12)]
    assert last.usage[0].key != row.key


@pytest.mark.parametrize(
    "line, given, output",
    [
        ("Tokens: 4.1k sent, 1.2k received. Cost: $0.01 message, $0.05 session.", 4100, 1200),
        ("Tokens: 350 sent, 7 received.", 350, 7),
        ("Tokens: 2M sent, 10.0k received.", 2_000_000, 10_000),
        ("Tokens: none", 0, 0),
    ],
)
def test_counts_are_read_with_their_unit(line: str, given: int, output: int) -> None:
    row = usage_of(line, "k", None, "m")
    assert (row.input, row.output) == (given, output)


def test_a_run_that_an_editor_stripped_is_told_by_its_beginnings(tmp_path: Path) -> None:
    text = "# aider chat started at 2026-01-02 03:04:05\n\n#### hi\n> Aider v1\n\nHello.\n"
    _, entries, _ = read_run(written(tmp_path, text), 0)
    assert said(entries) == [
        ("user", "prompt", "hi"),
        ("system", "note", "Aider v1"),
        ("assistant", "text", "Hello."),
    ]


def test_two_prompts_with_a_line_between_are_two(tmp_path: Path) -> None:
    text = "# aider chat started at 2026-01-02 03:04:05\n\n#### a  \n#### b  \n\n#### c  \n"
    _, entries, _ = read_run(written(tmp_path, text), 0)
    assert [entry.text for entry in entries] == ["a\nb", "c"]


def test_what_stands_before_the_first_run_is_kept(tmp_path: Path) -> None:
    log = written(tmp_path, "Cut off.\n\n# aider chat started at 2026-01-02 03:04:05\n\n#### a  \n")
    _, entries, _ = read_run(log, 0)
    assert [(entry.text, entry.at) for entry in entries] == [("Cut off.", None)]
    assert len(list(SOURCE.items(log))) == 2


def test_a_header_inside_of_a_line_begins_nothing(tmp_path: Path) -> None:
    begin = "# aider chat started at 2026-01-02 03:04:05\n"
    text = f"{begin}\nsee {begin}# aider chat started at noon\n"
    assert len(list(SOURCE.items(written(tmp_path, text)))) == 1


def test_growth_changes_the_run_it_belongs_to_alone(tmp_path: Path) -> None:
    content = HISTORY.read_text("utf-8")
    before = list(SOURCE.items(written(tmp_path, content)))
    log = written(tmp_path, content + "\n# aider chat started at 2026-06-03 09:00:00\n\n#### x  \n")
    after = list(SOURCE.items(log))
    assert after[:3] == before
    assert len(after) == 4
    again = list(SOURCE.items(written(tmp_path, content + "\n#### more  \n")))
    assert [item.item for item in again] == [item.item for item in before]
    assert [a == b for a, b in zip(again, before, strict=True)] == [True, True, False]


def test_keys_stay_when_a_run_grows(tmp_path: Path) -> None:
    content = HISTORY.read_text("utf-8")
    item = list(SOURCE.items(written(tmp_path, content)))[2].item
    log = log_of(tmp_path / FILE_NAME)
    before = dict(SOURCE.records(log, item))
    written(tmp_path, content + "\n#### more  \n")
    after = dict(SOURCE.records(log, item))
    assert list(after)[: len(before)] == list(before)
    assert [key for key, line in before.items() if after[key] != line] == list(before)[-1:]


def test_times_that_are_none_are_none() -> None:
    assert local_ms("2026-13-45 99:00:00") is None
    assert local_ms("") is None
    assert local_ms("2026-01-02 03:04:05") == 1_767_319_445_000  # an hour east of UTC in winter


# ---------------------------------------------------------------------- properties

history_lines = st.lists(
    st.sampled_from(
        [
            *("", "#### ask  ", "#### head", "####", "####  ", "> out  ", "> quote", ">", "text"),
            *("# aider chat started at 2026-01-02 03:04:05", "# aider", "a\u2028b\x0bc\r", "é"),
            *("> Tokens: 1k sent, 2 received.  ", "> Commit abc  ", "<thinking-content-1>"),
        ]
    ),
    max_size=14,
).map("\n".join)


@settings(max_examples=examples(200))
@given(history_lines)
def test_joined_the_records_are_the_file(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    log = written(tmp_path_factory.mktemp("h"), text)
    assert whole_text(log) == text
    assert "".join(run.data.decode() for run in runs_of("p", text.encode())) == text


@given(st.lists(st.text(max_size=6).map(lambda text: text.replace("\n", "") + "\n")))
def test_joined_the_messages_are_the_lines(lines: list[str]) -> None:
    assert "".join(text for _, text in messages_of(lines)) == "".join(lines)


@given(st.data())
def test_any_split_gives_the_same(data: st.DataObject) -> None:
    fed = runs(log_of())[1]
    check_any_split(SOURCE, log_of(), fed, data)


@settings(max_examples=examples(200))
@given(st.data())
def test_any_json_is_read(data: st.DataObject) -> None:
    check_any_junk(SOURCE, log_of(), runs(log_of())[1], data)


# ---------------------------------------------------------------------- real histories


def test_real_histories(shared_data: Path) -> None:
    for path in real_files(shared_data, "aider", FILE_NAME):
        log = log_of(path)
        assert whole_text(log) == path.read_bytes().decode()
        content = path.read_text("utf-8")
        items = list(SOURCE.items(log))
        assert len(items) == content.count("\n# aider chat started at ")
        answers = 0
        for item in items:
            entries, harvest = read(SOURCE, log, document(SOURCE, log, item.item))
            assert harvest.unknown == {}
            assert len({entry.key for entry in entries}) == len(entries)
            answers += len(harvest.usage)
            assert not any(
                line.startswith("> Applied") for e in entries for line in e.text.split("\n")
            )
        assert answers == content.count("\n> Tokens: ")


def test_folders_that_the_user_names_are_walked(tmp_path: Path) -> None:
    deep = tmp_path / "disk" / "a" / "b" / "c" / "d" / "e"
    deep.mkdir(parents=True)
    (deep / ".aider.chat.history.md").write_bytes(b"# aider chat started at 2026-01-01 00:00:00\n")
    told: list[UnreadablePlace] = []
    roots = (tmp_path / "disk", tmp_path / "not mounted")
    user = UserHome(tmp_path / "home", roots=roots, tell=told.append)
    assert [log.path for log in SOURCE.find(user)] == [str(deep / ".aider.chat.history.md")]
    assert [(one.path, one.is_failure) for one in told] == [(str(roots[1]), False)]


def test_repositories_in_which_agents_worked_are_looked_at(tmp_path: Path) -> None:
    """Neither below a usual place nor named: another agent was there, in a folder deep inside."""
    repository = tmp_path / "srv" / "x" / "y" / "quay"
    (repository / ".git").mkdir(parents=True)
    (repository / "src" / "deep").mkdir(parents=True)
    history = repository / ".aider.chat.history.md"
    history.write_bytes(b"# aider chat started at 2026-01-01 00:00:00\n")
    (tmp_path / "srv" / "x" / ".aider.chat.history.md").write_bytes(b"not of a project\n")
    user = UserHome(tmp_path / "home", projects=lambda: [repository / "src" / "deep"])
    assert [log.path for log in SOURCE.find(user)] == [str(history)]


def test_a_home_knows_the_projects_and_the_folders_of_its_configuration(tmp_path: Path) -> None:
    chat = b"# aider chat started at 2026-01-01 00:00:00\n\n#### hello  \n"
    user = tmp_path / "user"
    for place in ("disk/one", "srv/known", "other/two"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / ".aider.chat.history.md").write_bytes(chat)
    user.mkdir()
    home = Home(tmp_path / "tk", environ={"HOME": str(user)})
    home.paths().config.parent.mkdir(parents=True, exist_ok=True)
    home.paths().config.write_text(f'[capture]\nroots = ["{tmp_path / "disk"}"]\n')
    record = {
        "type": "user",
        "uuid": "u",
        "cwd": str(tmp_path / "srv" / "known"),
        "timestamp": "2026-03-01T10:00:01.000Z",
        "message": {"content": "hello"},
    }
    log = user / ".claude" / "projects" / "-p" / "s.jsonl"
    log.parent.mkdir(parents=True)
    log.write_text(json.dumps(record) + "\n")
    with home.history() as history:
        assert history.capture().agents["aider"].found == 1
        assert history.capture().agents["aider"].found == 2  # what was captured is known
    with home.history(roots=[tmp_path / "other"]) as history:
        assert history.capture().agents["aider"].found == 3
    with home.history() as history:  # what was found once is looked at without being named again
        (aider,) = [one for one in history.coverage().sources if one.name == "aider"]
        assert (aider.found, aider.gone) == (3, 0)
    with pytest.raises(NotFound):
        home.history(roots=[tmp_path / "nowhere"])
