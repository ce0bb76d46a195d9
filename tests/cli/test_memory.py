"""recall, ask, fixed, timeline, context, open, enrich and others: memory as a person asks it."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import Result

from tests.cli.conftest import HOSTILE, Run, Start, document
from tests.cli.histories import claude_log, said
from tests.conftest import REPO
from threadkeep.home.home import Home
from threadkeep.knowledge.schema import NEWEST
from threadkeep.service.learn import enrich, learn_all

DEMO = REPO / "src" / "threadkeep" / "demo" / "history"
BROKER = "which message broker did we choose"
ASKING = {
    "recall": ("recall", "mosquitto"),
    "ask": ("ask", "mosquitto"),
    "timeline": ("timeline",),
    "fixed": ("fixed", "mosquitto"),
    "similar": ("similar", "mosquitto"),
    "context": ("context", "mosquitto"),
    "open": ("open", "message:1"),
}
LEARNING = {"enrich": ("enrich",), "embed": ("embed",)}


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Capture the whole demo once, and learn from it."""
    folder = tmp_path_factory.mktemp("learned")
    home = Home(folder, environ={})
    with home.history(user_home=DEMO) as history:
        history.capture()
        enrich(home, history, at_once=True, with_model=False)
        learn_all(home, history)
    with home.memory() as memory:
        memory.index()
    return folder


@pytest.fixture
def demo(run: Run, learned: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("THREADKEEP_HOME", str(learned))
    return run


@pytest.fixture
def own(run: Run, learned: Path, home: Path) -> Run:
    """Return a copy of the demo's home that a test may change."""
    shutil.copytree(learned, home)
    return run


def lines(result: Result) -> list[str]:
    return result.stdout.splitlines()


# ---------------------------------------------------------------------- recall and open


def test_a_question_finds_its_answer_and_the_command_that_opens_it(demo: Run) -> None:
    shown = lines(demo("recall", "E0425", "warm_up", "--kind", "message", "--limit", "3"))
    assert shown[0].startswith("message · 2026-")
    assert "warm_up" in shown[1]
    words = shown[2].split()
    assert words[:2] == ["threadkeep", "open"]
    assert "warm_up" in demo(*words[1:]).stdout


def test_recall_as_json_has_what_a_program_needs(demo: Run) -> None:
    found = document(demo("recall", "--json", "--explain", "mosquitto"))
    hit = found["hits"][0]
    assert hit["ref"].split(":")[0] == hit["kind"]
    assert hit["why"]["terms"]
    assert hit["open"] == f"threadkeep open {hit['ref']}"


def test_filters_choose_and_wrong_ones_are_refused(demo: Run) -> None:
    hits = document(demo("recall", "--json", "test", "--project", "harbor", "--role", "user"))
    assert {(hit["project"], hit["role"]) for hit in hits["hits"]} == {("harbor", "user")}
    assert "--kind" in demo("recall", "x", "--kind", "nonsense", code=2).stderr
    assert "cannot read 'soonish'" in demo("recall", "x", "--since", "soonish", code=2).stderr
    assert "No matches" in demo("recall", "zzzunheardof").stderr


def test_a_node_opens_as_a_note_that_leads_to_its_session(demo: Run) -> None:
    found = document(demo("recall", "--json", "fog horn sensors mosquitto", "--kind", "node"))
    ref = found["hits"][0]["ref"]
    shown = lines(demo("open", ref))
    assert shown[1].startswith("Asked: ")
    assert any(line.startswith("decided: Decided: mosquitto") for line in shown)
    assert any(line.startswith("files: deploy/mosquitto.conf") for line in shown)
    assert "{" not in "\n".join(shown)  # a person reads no JSON
    session = shown[-1].split()
    assert session[:2] == ["threadkeep", "open"]
    assert "fog horn" in demo(*session[1:]).stdout


def test_the_words_that_a_node_is_only_found_by_are_not_shown(demo: Run) -> None:
    for hit in document(demo("recall", "--json", "docker image", "--kind", "node"))["hits"]:
        assert "Work in" in document(demo("open", "--json", hit["ref"]))["opened"]["text"]
        assert hit["snippet"].replace(">>>", "").replace("<<<", "").strip(". ") in " ".join(
            document(demo("open", "--json", hit["ref"]))["opened"]["text"].split()
        )


def test_what_is_not_there_cannot_be_opened(demo: Run) -> None:
    assert "there is no node:99999" in demo("open", "node:99999", code=3).stderr
    assert "not a reference" in demo("open", "rubbish", code=2).stderr


# ---------------------------------------------------------------------- ask


def test_ask_quotes_the_decision_that_answers(demo: Run) -> None:
    answer = document(demo("ask", "--json", BROKER))["answer"]
    first = [one["quote"] for one in answer["citations"][:2]]
    assert any(quote.startswith("Decided: mosquitto with QoS 1") for quote in first)
    assert answer["confidence"] == "strong"
    shown = demo("ask", BROKER).stdout
    assert "No certain answer" not in shown
    assert "[1] 2026-" in shown


def test_the_reason_is_quoted_though_it_has_none_of_the_words(demo: Run) -> None:
    answer = document(demo("ask", "--json", "why do mails land in spam"))["answer"]
    quotes = [one["quote"] for one in answer["citations"]]
    assert any("DKIM and DMARC are missing" in quote for quote in quotes)


def test_every_quotation_stands_at_its_place(demo: Run) -> None:
    answer = document(demo("ask", "--json", "why was the departures page slow"))["answer"]
    assert answer["citations"]
    for one in answer["citations"]:
        text = document(demo("open", "--json", one["ref"]))["opened"]["text"]
        assert one["quote"] in text


def test_ask_says_when_it_knows_little_or_nothing(demo: Run) -> None:
    assert demo("ask", "who paints the tide tables of Lisbon").stdout.startswith(
        "No certain answer"
    )
    assert demo("ask", "zzzunheardof").stdout == "No matches for this.\n"


# ---------------------------------------------------------------------- fixed, timeline, similar


def test_fixed_tells_what_ended_an_error(demo: Run) -> None:
    shown = lines(demo("fixed", "TS2304 cannot find name devicePixelRatio"))
    assert "TS2304" in shown[0]
    assert [line.split()[0] for line in shown[1:3]] == ["failed", "then"]
    assert any(line.startswith("  passed") and "tsc" in line for line in shown)
    piped = demo("fixed", "-", "--json", stdin="x\nerror TS2304: Cannot find name 'y'.\n")
    assert document(piped)["fixes"][0]["evidence"] == "same session"
    assert "no failure like this" in demo("fixed", "zzzunheardof").stderr


def test_a_day_is_told_in_order(demo: Run) -> None:
    told = document(demo("timeline", "--json", "--day", "2026-01-08"))["timeline"]
    assert [one["at"] for one in told] == sorted(one["at"] for one in told)
    assert {one["kind"] for one in told} >= {"prompt", "answer"}
    assert "mosquitto" in demo("timeline", "--day", "2026-01-08").stdout
    assert "cannot read" in demo("timeline", "--day", "someday", code=2).stderr
    assert "Nothing recorded" in demo("timeline", "--day", "1999-01-01").stderr


def test_similar_gives_others_not_the_thing_itself(demo: Run) -> None:
    ref = document(demo("recall", "--json", "flaky test"))["hits"][0]["ref"]
    refs = [hit["ref"] for hit in document(demo("similar", "--json", ref))["hits"]]
    assert refs
    assert ref not in refs


def test_context_is_one_fenced_block_of_readable_text(demo: Run) -> None:
    block = demo("context", "fog horn broker", "--max-chars", "1500").stdout
    first, *inside, last = block.splitlines()
    name = first.split("id=")[1]
    assert last == f"threadkeep-memory id={name}>>>"
    assert len(block) <= 1500 + 1
    assert all(line.startswith(("[", "| ", "Recalled from")) for line in inside)
    assert document(demo("context", "--json", "zzzunheardof"))["context"] == ""
    assert "Nothing is remembered" in demo("context", "zzzunheardof").stderr


# ---------------------------------------------------------------------- learning


def test_enrich_counts_every_failure_however_many_rows_there_are(run: Run, tmp_path: Path) -> None:
    records = []
    for n in range(1, 120):  # two rows each: more than one step of learning looks at
        call = {"type": "tool_use", "id": f"t{n}", "name": "Bash", "input": {"command": "make it"}}
        done = {"type": "tool_result", "tool_use_id": f"t{n}", "is_error": True}
        records += [
            said("assistant", [call], 2 * n),
            said("user", [{**done, "content": "error: no rule"}], 2 * n + 1),
        ]
    for number, record in enumerate(records):
        record["timestamp"] = f"2026-03-01T10:{number // 60:02}:{number % 60:02}.000Z"
    claude_log(tmp_path / "user", said("user", "make it work", 1), *records)
    run("capture", "--quiet", "--user-home", str(tmp_path / "user"))
    (lesson,) = document(run("lessons", "--json"))["lessons"]
    assert lesson["occurrences"] == 119
    assert lines(run("lessons"))[0] == "119 times  make it: error: no rule"
    assert document(run("enrich", "--json"))["enrich"]["failures"] == 0


def test_status_tells_nodes_vectors_queue_and_what_the_model_used_today(
    own: Run, home: Path
) -> None:
    found = document(own("status", "--json"))["knowledge"]["learned"]
    assert found["nodes"] > 20
    assert (found["vectors"], found["waiting"], found["failed"]) == (0, 0, 0)
    assert f"{found['nodes']} nodes, 0 vectors; 0 waiting" in own("status").stdout
    assert "\nmodel" not in own("status").stdout
    with closing(sqlite3.connect(home / "knowledge.db")) as database, database:
        database.execute(
            "INSERT INTO tk_model_days (day, model, purpose, calls, failures, input_tokens,"
            " output_tokens, updated_at) VALUES (date(), 'm', 'enrich', 3, 1, 1000, 200, 0)"
        )
    assert "3 calls, 1 failed, 1,200 of 200,000 tokens today" in own("status").stdout


def test_embed_says_what_is_missing(own: Run, home: Path) -> None:
    (home / "config.toml").write_text('[embeddings]\nprovider = "off"\n')
    assert "switched off" in own("embed", code=3).stderr


# ---------------------------------------------------------------------- other stores


@pytest.mark.parametrize("words", [*ASKING.values(), *LEARNING.values()], ids=lambda w: w[0])
def test_without_a_store_each_says_so_and_makes_none(
    words: tuple[str, ...], run: Run, home: Path
) -> None:
    result = run(*words, code=3)
    assert "knowledge.db" in result.stderr
    assert "hint:" in result.stderr
    assert not (home / "knowledge.db").exists()


@pytest.mark.parametrize("words", list(ASKING.values())[:-1], ids=lambda w: w[0])
def test_an_empty_store_has_an_answer_for_each(
    words: tuple[str, ...], run: Run, tmp_path: Path
) -> None:
    (tmp_path / "nobody").mkdir()
    run("capture", "--quiet", "--user-home", str(tmp_path / "nobody"))
    result = run(*words)
    assert result.stderr or result.stdout == "No matches for this.\n"
    assert document(run(*words, "--json"))


def test_a_store_that_can_only_be_read_answers_all_the_same(own: Run, home: Path) -> None:
    with closing(sqlite3.connect(home / "knowledge.db")) as database, database:
        database.execute(f"PRAGMA user_version = {NEWEST + 1}")  # only read, never written
    for words in ASKING.values():
        own(*words)
    assert "mosquitto" in own("recall", "mosquitto").stdout
    for words in LEARNING.values():
        assert "a newer Hippo" in own(*words, code=5).stderr


def test_what_waits_in_the_spool_is_found_at_once(own: Run) -> None:
    own("run", "--", "sh", "-c", "echo 'error: frobnicator jammed' >&2; exit 3", code=3)
    assert "frobnicator jammed" in lines(own("fixed", "frobnicator jammed"))[0]


def test_hostile_text_does_not_reach_the_terminal(run: Run, tmp_path: Path) -> None:
    call = {"type": "tool_use", "id": "t1", "name": HOSTILE, "input": {"command": HOSTILE}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": HOSTILE, "is_error": True}
    claude_log(
        tmp_path / "user",
        said("user", f"find the needle {HOSTILE}", 1),
        said("assistant", [call], 2),
        said("user", [result], 3),
        said("assistant", [{"type": "text", "text": f"needle found because {HOSTILE}"}], 4),
        said("user", "thanks, now find the other needle in the hay", 5),
    )
    run("capture", "--quiet", "--user-home", str(tmp_path / "user"))
    node = document(run("recall", "--json", "needle", "--kind", "node"))["hits"][0]["ref"]
    asked = [("recall", "needle"), ("ask", "needle"), ("context", "needle"), ("open", node)]
    for words in [*asked, ("open", "message:1"), ("timeline", "--day", "2026-03-01")]:
        assert not set(run(*words).stdout) & {"\x1b", "\x07", "\u202e"}, words


def test_kinds_are_offered_to_a_shell(start: Start) -> None:
    process = start(
        _THREADKEEP_COMPLETE="zsh_complete",
        COMP_WORDS="threadkeep recall x --kind no",
        COMP_CWORD="4",
    )
    assert "node" in process.communicate()[0].decode().splitlines()


@pytest.mark.parametrize("name", [*ASKING, *LEARNING, "lessons"])
def test_help_has_an_example(name: str, run: Run) -> None:
    shown = run(name, "--help").stdout
    assert f"threadkeep {name}" in shown.partition("Example")[2]


def test_a_question_loads_no_model_and_no_numpy(demo: Run, start: Start, learned: Path) -> None:
    process = start(
        "recall", "mosquitto", PYTHONPROFILEIMPORTTIME="1", THREADKEEP_HOME=str(learned)
    )
    loaded = process.communicate()[1].decode()
    assert "threadkeep.memory.memory" in loaded
    assert "numpy" not in loaded
    assert "http.client" not in loaded
