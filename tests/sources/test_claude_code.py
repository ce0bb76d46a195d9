"""Claude Code's transcripts: where they are, what they say, and that no line stops the reader."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from tests.lengths import examples
from threadkeep.base.json import decode_line
from threadkeep.errors import Invalid
from threadkeep.knowledge.records import Entry, Usage
from threadkeep.sources.claude.transcripts import SOURCE, keep_larger
from threadkeep.sources.records import Harvest, Log, Stamp, UserHome

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures" / "sources" / "claude-code"
SESSION = "5e550000-0000-4000-8000-000000000001"
OLD = "5e550000-0000-4000-8000-000000000002"
Fed = tuple[Any, bytes, int]


def logs(config: Path = FIXTURES) -> dict[str, Log]:
    user = UserHome(Path("/nowhere"), {"CLAUDE_CONFIG_DIR": str(config)})
    return {log.session_id: log for log in SOURCE.find(user)}


def lines(path: str | Path) -> Iterator[Fed]:
    for number, line in enumerate(Path(path).read_bytes().split(b"\n"), 1):
        try:
            values = decode_line(line)
        except Invalid:
            continue
        for value in values:
            yield value, line, number


def read(log: Log, fed: Sequence[Fed] | None = None) -> tuple[list[Entry], Harvest]:
    parser = SOURCE.parser(log, None)
    entries = [entry for one in fed or lines(log.path) for entry in parser.feed(*one)]
    return entries, parser.harvest()


def some_log(session_id: str = "s", path: str = "/p/s.jsonl") -> Log:
    return Log(path, Stamp(1, 1_000_000_000, 1, 1), session_id, "p")


def one(record: dict[str, Any]) -> list[Entry]:
    return SOURCE.entries(record, b"", 7)


def said(text: str, **more: Any) -> list[tuple[str, str]]:
    record = {"type": "user", "uuid": "u", "message": {"content": text}, **more}
    return [(entry.kind, entry.text) for entry in one(record)]


# -- where they are --------------------------------------------------------------------------------


def test_find_names_sessions_subagents_and_workflows_and_nothing_else() -> None:
    found = logs()
    assert list(found) == [
        "agent-a1b2c3",
        "agent-w1",
        "journal-wf_1",
        SESSION,
        "agent-0a1b2c3d",
        OLD,
    ]
    assert {log.project_dir for log in found.values()} == {"-u-app", "-u-old"}
    below = {name: (log.is_subagent, log.parent_session_id) for name, log in found.items()}
    assert below[SESSION] == below["agent-0a1b2c3d"] == (False, None)
    assert below["agent-a1b2c3"] == below["agent-w1"] == below["journal-wf_1"] == (True, SESSION)


def test_find_looks_into_every_place_once_and_is_always_the_same(tmp_path: Path) -> None:
    places = {
        "moved": tmp_path / "moved" / "projects",
        "tilde": tmp_path / "own" / "projects",
        "usual": tmp_path / ".claude" / "projects",
        "settings": tmp_path / ".config" / "claude" / "projects",
        "linux": tmp_path / ".config/Claude/local-agent-mode-sessions/a/b/.claude/projects",
        "mac": tmp_path / "Library/Application Support/Claude/local-agent-mode-sessions/c/projects",
        "windows": tmp_path / "AppData/Roaming/Claude/local-agent-mode-sessions/d/projects",
        "store": tmp_path / "AppData/Local/Packages/x.Claude_1/LocalCache/Roaming/Claude"
        "/local-agent-mode-sessions/projects",
    }
    for name, place in places.items():
        (place / "-p").mkdir(parents=True)
        (place / "-p" / f"{name}.jsonl").write_bytes(b"{}\n")
    (tmp_path / "again").symlink_to(tmp_path / "moved")
    named = f"{tmp_path}/moved, ~/own,{tmp_path}/again,,{tmp_path}/missing"
    user = UserHome(tmp_path, {"CLAUDE_CONFIG_DIR": named})
    found = list(SOURCE.find(user))
    assert Counter(log.session_id for log in found) == Counter(list(places))
    assert found == list(SOURCE.find(user))
    assert {str(root) for root in SOURCE.roots(user)} >= {
        str(places["moved"]),
        str(places["usual"]),
    }
    elsewhere = UserHome(tmp_path, {"XDG_CONFIG_HOME": str(tmp_path / "moved")})
    assert "settings" not in {log.session_id for log in SOURCE.find(elsewhere)}


def test_find_survives_odd_names_loops_and_closed_folders(tmp_path: Path) -> None:
    project = tmp_path / ".claude" / "projects" / "-p"
    project.mkdir(parents=True)
    (project / "loop").symlink_to(project)
    (project / "self.jsonl").symlink_to(project / "self.jsonl")
    (project / "line\nbreak.jsonl").write_bytes(b"")
    Path(os.fsdecode(bytes(project) + b"/bad\xff.jsonl")).write_bytes(b"")
    closed = tmp_path / ".claude" / "projects" / "-q"
    closed.mkdir(mode=0)
    try:
        found = list(SOURCE.find(UserHome(tmp_path)))
    finally:
        closed.chmod(0o700)
    assert [log.session_id for log in found] == ["bad\ufffd", "line\nbreak"]
    assert all(Path(log.path).exists() and log.stamp.size == 0 for log in found)


# -- what they say ---------------------------------------------------------------------------------


def test_the_entries_of_a_session_are_what_was_said_and_done() -> None:
    entries, harvest = read(logs()[SESSION])
    assert Counter((entry.role, entry.kind) for entry in entries) == {
        ("system", "note"): 8,
        ("user", "note"): 8,
        ("user", "prompt"): 5,
        ("user", "summary"): 1,
        ("assistant", "reasoning"): 1,
        ("assistant", "text"): 2,
        ("assistant", "note"): 1,
        ("assistant", "tool_call"): 5,
        ("tool", "tool_result"): 3,
    }
    assert [entry.text for entry in entries if entry.kind == "prompt"] == [
        "/model opus",
        "Why does the build fail? See the picture.\n[image]",
        "and check the tests",
        "! git status",
        "Ça marche ? Write the fix – bitte.",
    ]
    results = [
        (entry.call_id, entry.text, entry.error) for entry in entries if entry.role == "tool"
    ]
    assert results == [
        ("toolu_1", "make: *** no rule to make target 'all'", True),
        ("toolu_2", "build:\n\tcc main.c\n[image]\n[tool WebFetch]", False),
        ("toolu_3", "Two tests fail.", False),
    ]
    calls = [(entry.tool, entry.call_id, entry.text) for entry in entries if entry.tool]
    assert calls[0] == ("Bash", "toolu_1", "make build\ndescription: Build it")
    assert len({entry.key for entry in entries}) == len(entries)
    assert harvest.unknown == {}


def test_notes_hold_what_the_program_put_in_and_snapshots_stay_in_the_archive() -> None:
    entries, _ = read(logs()[SESSION])
    notes = [entry for entry in entries if entry.kind == "note"]
    texts = [entry.text for entry in notes]
    for told in ("ready to work", "Write short sentences.", "first rule\nsecond rule"):
        assert told in texts
    assert "lint: one warning" in texts
    assert "newDate: 2026-09-01" in texts
    assert "model claude-a -> claude-b" in texts
    assert "API error: status: 529\nmessage: overloaded" in texts
    assert not any("once more" in entry.text for entry in entries)
    failed = [(entry.role, entry.model) for entry in notes if entry.error]
    assert failed == [("system", ""), ("assistant", "")]
    assert [entry.role for entry in notes if entry.text == "Today is Tuesday."] == ["user"]


def test_every_block_of_a_record_has_a_key_of_its_own() -> None:
    blocks = [
        {"type": "thinking", "thinking": "hm"},
        {"type": "thinking", "thinking": "", "signature": "x"},
        {"type": "text", "text": "yes"},
        {"type": "text", "text": " \n"},
        {"type": "server_tool_use", "id": "t", "name": "web_search", "input": {"query": "q"}},
        {"type": "web_search_tool_result", "tool_use_id": "t", "content": [{"type": "text"}]},
    ]
    record = {"type": "assistant", "uuid": "u", "message": {"model": "m", "content": blocks}}
    assert [(entry.key, entry.kind) for entry in one(record)] == [
        ("u", "reasoning"),
        ("u#1", "text"),
        ("u#2", "tool_call"),
        ("u#3", "tool_result"),
    ]
    assert {entry.model for entry in one(record)} == {"m"}
    assert [entry.key for entry in one({"type": "user", "message": {"content": "hi"}})] == [
        "line-7"
    ]


@pytest.mark.parametrize(
    "text, kind, shown",
    [
        ("  <html> is what I want", "prompt", "  <html> is what I want"),
        ("[1, 2] is a list", "prompt", "[1, 2] is a list"),
        ("<command-message>x</command-message>\n<command-name>x</command-name>", "prompt", "/x"),
        ("<command-name>", "note", "<command-name>"),
        ("<local-command-stderr>no</local-command-stderr>", "note", None),
        ("<bash-stderr>no</bash-stderr>", "note", None),
        ("[Request interrupted by user for tool use]", "note", None),
        ("<teammate-message teammate_id='a'>done</teammate-message>", "note", None),
        ("<user-memory-input>be brief</user-memory-input>", "prompt", "# be brief"),
        ("This session is being continued from a previous conversation. It was", "summary", None),
    ],
)
def test_a_prompt_is_what_a_person_said(text: str, kind: str, shown: str | None) -> None:
    assert said(text) == [(kind, text if shown is None else shown)]


def test_words_behind_what_the_program_put_in_are_the_persons() -> None:
    put_in = "<ide_selection>lines 1 to 3</ide_selection>"
    reminder = "<system-reminder>be kind</system-reminder>"
    assert said(f"{put_in}\n{reminder} What is this?") == [
        ("note", put_in),
        ("note", reminder),
        ("prompt", "What is this?"),
    ]
    assert said("<system-reminder>no end") == [("note", "<system-reminder>no end")]


def test_flags_of_a_record_decide_before_its_words() -> None:
    assert said("Base directory", isMeta=True) == [("note", "Base directory")]
    assert said("It went well", isCompactSummary=True) == [("summary", "It went well")]
    assert said("done", origin={"kind": "task-notification"}) == [("note", "done")]
    assert said("done", promptSource="system") == [("note", "done")]
    assert said("done", promptSource="typed", origin={"kind": "human"}) == [("prompt", "done")]
    teammate = "<teammate-message teammate_id='lead'>Check</teammate-message>"
    assert said(teammate, isSidechain=True) == [("prompt", teammate)]


# -- what is known about them ----------------------------------------------------------------------


def test_facts_of_a_session_and_of_the_subagents_it_started() -> None:
    _, harvest = read(logs()[SESSION])
    facts = harvest.facts[SESSION]
    assert (facts.title, facts.model, facts.agent) == (
        "The build rule",
        "claude-opus-4-8",
        "builder",
    )
    assert (facts.cwd, facts.git_branch) == ("/u/app/src", "fix")
    assert (facts.slug, facts.version) == ("quiet-river", "2.1.325")
    assert (facts.parent_session_id, facts.is_subagent, facts.hidden) == ("", False, False)
    agent = harvest.facts["agent-a1b2c3"]
    assert (agent.parent_session_id, agent.is_subagent) == (SESSION, True)
    assert (agent.agent, agent.title) == ("Explore", "Read the tests")
    assert set(harvest.facts) == {SESSION, "agent-a1b2c3"}


def test_facts_of_subagents_by_their_place() -> None:
    found = logs()
    for name, hidden in (("agent-a1b2c3", False), ("agent-w1", False), ("journal-wf_1", True)):
        facts = read(found[name])[1].facts[name]
        assert (facts.parent_session_id, facts.is_subagent, facts.hidden) == (SESSION, True, hidden)
    loose, harvest = found["agent-0a1b2c3d"], read(found["agent-0a1b2c3d"])[1]
    facts = harvest.facts[loose.session_id]
    assert (facts.parent_session_id, facts.is_subagent) == (SESSION, True)
    assert [segment.is_subagent for segment in harvest.segments] == [False]


def test_a_journal_is_kept_without_entries_and_segments() -> None:
    entries, harvest = read(logs()["journal-wf_1"])
    assert (entries, harvest.segments, harvest.unknown) == ([], [], {})


def test_the_oldest_layout_keeps_the_subagent_inside_and_glues_lines() -> None:
    entries, harvest = read(logs()[OLD])
    assert [entry.kind for entry in entries] == [
        *("prompt", "tool_call", "prompt", "text", "tool_result", "note")
    ]
    assert harvest.facts[OLD].title == "Porting the parser"
    assert [(segment.messages, segment.git_branch) for segment in harvest.segments] == [(7, "")]


@pytest.mark.parametrize(
    "order, title",
    [("sac", "custom"), ("cas", "custom"), ("sa", "ai"), ("as", "ai"), ("s", "sum"), ("", "")],
)
def test_the_persons_own_title_wins(order: str, title: str) -> None:
    titles = {
        "s": {"type": "summary", "summary": "sum"},
        "a": {"type": "ai-title", "aiTitle": "ai"},
        "c": {"type": "custom-title", "customTitle": "custom"},
    }
    before = [{"type": "summary", "summary": "of an older session"}]
    spoken = [{"type": "user", "message": {"content": "hi"}}]
    fed = [(record, b"", 1) for record in [*before, *spoken, *(titles[name] for name in order)]]
    assert read(some_log(), fed)[1].facts["s"].title == title


# -- what they cost --------------------------------------------------------------------------------


def test_usage_counts_every_answer_once_with_its_largest_output() -> None:
    _, harvest = read(logs()[SESSION])
    found = {usage.key: usage for usage in harvest.usage}
    assert len(found) == len(harvest.usage) == 6
    assert found["msg_1|req_1"] == Usage(
        key="msg_1|req_1",
        at=1788249612000,
        model="claude-opus-4-8",
        input=3,
        output=42,
        cache_read=9000,
        cache_write=500,
        cache_write_1h=400,
        reasoning=4,
        final=True,
        session_id=SESSION,
    )
    relayed = found["msg_s9|req_s9"]
    assert (relayed.output, relayed.final, relayed.model) == (1, False, "claude-haiku-4-5")
    whole = {usage.key: usage.output for usage in read(logs()["agent-a1b2c3"])[1].usage}
    assert whole == {"msg_s9|req_s9": 15}


def test_usage_without_ids_and_of_notices() -> None:
    def usage(**more: Any) -> list[Usage]:
        message = {"usage": {"output_tokens": 5, "input_tokens": True}, **more.pop("message", {})}
        fed = [({"type": "assistant", "message": message, **more}, b"", 3)]
        return read(some_log(), fed)[1].usage

    assert [found.key for found in usage(message={"id": "m"}, requestId="")] == ["m"]
    assert [found.key for found in usage(uuid="u")] == ["u"]
    assert [(found.key, found.input, found.final) for found in usage()] == [("s:3", 0, False)]
    nothing = {"model": "<synthetic>", "usage": {"output_tokens": 0}}
    assert [found.output for found in usage(message=nothing)] == [0]  # a message, though no spend


# -- nothing stops the reader, nothing depends on where it stopped ---------------------------------


@cache
def everything() -> list[Fed]:
    return list(lines(logs()[SESSION].path))


def in_batches(log: Log, fed: Sequence[Fed], cuts: set[int]) -> tuple[list[Entry], list[Harvest]]:
    entries: list[Entry] = []
    harvests: list[Harvest] = []
    parser = SOURCE.parser(log, None)
    for place, one_fed in enumerate(fed):
        entries += parser.feed(*one_fed)
        if place in cuts:
            harvests.append(parser.harvest())
            parser = SOURCE.parser(log, parser.state())
    return entries, [*harvests, parser.harvest()]


def merged(harvests: Sequence[Harvest]) -> tuple[object, ...]:
    usage: dict[str, Usage] = {}
    for found in (usage_ for harvest in harvests for usage_ in harvest.usage):
        keep_larger(usage, found)
    facts: dict[str, dict[str, object]] = {}
    for name, told in (item for harvest in harvests for item in harvest.facts.items()):
        known_facts = {key: getattr(told, key) for key in told.__struct_fields__}
        facts.setdefault(name, {}).update({k: v for k, v in known_facts.items() if v})
    segments = {found.index: found for harvest in harvests for found in harvest.segments}
    tools = {found.call_id: found for harvest in harvests for found in harvest.tools}
    unknown: Counter[str] = Counter()
    for harvest in harvests:
        unknown.update(harvest.unknown)
    return usage, facts, segments, tools, unknown


@settings(max_examples=examples(60))
@given(cuts=st.sets(st.integers(0, 58)))
def test_reading_in_pieces_is_reading_at_once(cuts: set[int]) -> None:
    log, fed = logs()[SESSION], everything()
    entries, harvests = in_batches(log, fed, cuts)
    whole_entries, whole = read(log, fed)
    assert entries == whole_entries
    assert merged(harvests) == merged([whole])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)


@given(values=st.lists(JSON, max_size=4))
def test_any_json_can_be_fed(values: list[Any]) -> None:
    fed = [(value, b"", number) for number, value in enumerate(values)]
    in_batches(some_log(), fed, {0, 2})


@st.composite
def mutated(draw: st.DrawFn) -> Any:
    """Take a real record and put something else at one place of it."""
    value: Any = copied(draw(st.sampled_from(everything()))[0])
    target, junk = value, draw(JSON)
    while True:
        keys = list(target) if isinstance(target, dict) else list(range(len(target)))
        if not keys:
            return value
        key = draw(st.sampled_from(keys))
        if isinstance(target[key], (dict, list)) and draw(st.booleans()):
            target = target[key]
        else:
            target[key] = junk
            return value


def copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: copied(item) for key, item in value.items()}
    return [copied(item) for item in value] if isinstance(value, list) else value


@settings(max_examples=examples(200))
@given(records=st.lists(mutated(), min_size=1, max_size=6))
def test_broken_records_can_be_fed_and_read_alone(records: list[Any]) -> None:
    fed = [(record, b"", number) for number, record in enumerate(records)]
    entries, _ = in_batches(some_log(), fed, set(range(0, 6, 2)))
    assert entries == [entry for one_fed in fed for entry in SOURCE.entries(*one_fed)]


def test_values_nested_beyond_all_sense_are_only_left_out() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    blocks = [{"type": "tool_use", "id": "t", "name": "X", "input": {"a": deep}}]
    record = {"type": "assistant", "message": {"content": blocks}}
    entries, harvest = read(some_log(), [(record, b"", 1)])
    assert [entry.text for entry in entries] == ["a: …"]
    assert [segment.tools for segment in harvest.segments] == [[("X", "a=...")]]


def test_unknown_types_are_counted_by_short_names() -> None:
    records = [
        {"type": "brand-new"},
        {"type": "brand-new"},
        {"type": "system", "subtype": "odd"},
        {"type": "assistant", "message": {"content": [{"type": "hologram"}, 3]}},
        {"type": "user", "message": {"content": [{"type": "smell"}]}},
        {"type": ["no", "text"]},
        {"type": "x" * 500},
        [1, 2],
        None,
    ]
    unknown = read(some_log(), [(record, b"", 1) for record in records])[1].unknown
    assert unknown == {
        "brand-new": 2,
        "system/odd": 1,
        "assistant/hologram": 1,
        "assistant/int": 1,
        "user/smell": 1,
        "no type": 1,
        "x" * 80: 1,
        "list": 1,
        "NoneType": 1,
    }
    many = [({"type": f"t{number}"}, b"", number) for number in range(1000)]
    assert len(read(some_log(), many)[1].unknown) == 200


def test_asking_twice_gives_news_once() -> None:
    log = logs()[SESSION]
    parser = SOURCE.parser(log, None)
    for fed in everything():
        parser.feed(*fed)
    first, second = parser.harvest(), parser.harvest()
    assert (second.usage, second.tools, second.unknown) == ([], [], {})
    assert second.segments == first.segments[-1:]
    assert second.facts == {log.session_id: first.facts[log.session_id]}


def test_line_logs_have_no_items() -> None:
    log = some_log()
    assert (SOURCE.agent, SOURCE.kind) == ("claude-code", "lines")
    assert (list(SOURCE.items(log)), list(SOURCE.records(log, "x"))) == ([], [])
