"""The HTTP API over a running site: every store is written and read through it."""

import json
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPO
from tests.support.hermes_v6 import HermesV6
from tests.web.site import Answer, Site
from threadkeep.chat.store import ChatStore
from threadkeep.errors import ReadOnly
from threadkeep.home.home import Home
from threadkeep.home.stores import Stores
from threadkeep.verbs import TABLES
from threadkeep.web import aliases
from threadkeep.web.api import DESCRIBED

MODEL = {"agent": "helper", "model": "example/large"}
NEEDED = {"q": "test", "left": "a", "right": "b", "every": "0+8+*+*+*"}


def asked(site: Site, method: str, path: str, value: Any = None) -> Answer:
    return site.ask(method, path, json.dumps(value or {}).encode())


def done(answer: Answer, status: int = 200) -> Any:
    assert answer.status == status, answer.text
    return answer.json


def chat(site: Site, **more: Any) -> str:
    found = done(site.post("/api/chat/sessions", MODEL | more), 201)
    name: str = found["id"]
    return name


def pages(site: Site, path: str) -> list[Any]:
    """Read a list page by page."""
    items, cursor = [], ""
    while True:
        page = done(site.get(f"{path}{'&' if '?' in path else '?'}cursor={cursor}"))
        items += page["items"]
        if page["next"] is None:
            return items
        cursor = page["next"]


# ---------------------------------------------------------------------- its addresses

ADDRESSES = REPO / "tests" / "fixtures" / "addresses.txt"


def test_no_address_is_lost(site: Site) -> None:
    """Every address that any version had is served, under the methods that it had.

    A new one is added to the list: `described` names what is missing there.
    """
    kept = {tuple(line.split(" ", 1)) for line in ADDRESSES.read_text("utf-8").splitlines()}
    described = {
        (method.upper(), path)
        for path, operations in site.get("/api/openapi.json").json["paths"].items()
        for method in operations
    }
    assert described - kept == set()
    for path in {path for _, path in kept}:
        allowed = site.ask("OPTIONS", re.sub(r"\{\w+\}", "x", path)).headers["allow"]
        assert {method for method, one in kept if one == path} <= set(allowed.split(", ")), path


def test_a_verb_that_is_called_by_its_name_deletes_nothing_unless_it_is_told_to(
    site: Site,
) -> None:
    done(site.post("/api/call/state/create_session", {"session_id": "dry", "source": "cli"}))
    assert done(site.post("/api/call/state/delete_session", {"session_id": "dry"})) is True
    assert done(site.post("/api/call/state/get_session", {"session_id": "dry"}))["id"] == "dry"
    told = {"session_id": "dry", "dry_run": False}
    assert done(site.post("/api/call/state/delete_session", told)) is True
    assert done(site.post("/api/call/state/get_session", {"session_id": "dry"})) is None


def test_long_work_tells_how_far_it_is_where_that_is_asked_for(site: Site) -> None:
    chat(site, title="kept")
    body = b'{"reason": "test"}'
    answer = site.ask("POST", "/api/chat/backup", body, prefer="progress")
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    *steps, last = map(json.loads, answer.text.splitlines())
    assert steps
    assert all(list(step) == ["progress"] for step in steps)
    assert Path(last[0]["path"]).exists()
    assert list(done(site.ask("POST", "/api/chat/backup", body))) == ["path"]
    lines = {"content_type": "application/x-ndjson", "prefer": "progress"}
    refused = site.ask("POST", "/api/chat/import", b"{}\n", **lines)
    assert "problem" in json.loads(refused.text.splitlines()[-1])


def test_a_hint_names_the_address_of_a_verb(site: Site) -> None:
    kept = chat(site, title="first")
    said = done(site.post(f"/api/chat/sessions/{kept}/messages", {"text": "one"}), 201)["id"]
    again = {"message": said, "inclusive": True}
    done(site.post(f"/api/chat/sessions/{kept}/rewind", again))
    refused = done(site.post(f"/api/chat/sessions/{kept}/rewind", again), 400)
    assert "`POST /api/chat/sessions/{session}/unrewind` shows" in refused["hint"]
    named = site.post("/api/call/chat/rewind", {"session": kept, **again})
    assert "`ChatStore.unrewind()` shows" in done(named, 400)["hint"]


# ---------------------------------------------------------------------- how it answers


def test_an_answer_has_a_tag_and_is_not_sent_twice(site: Site) -> None:
    first = site.get("/api/sessions")
    tag = first.headers["etag"]
    again = site.get("/api/sessions", if_none_match=tag)
    assert (again.status, again.body) == (304, b"")
    assert site.get("/api/sessions?limit=1").headers["etag"] != tag
    head = site.ask("HEAD", "/api/sessions")
    assert (head.status, head.headers["etag"], head.body) == (200, tag, b"")


def test_a_method_that_is_not_there_is_refused_with_those_that_are(site: Site) -> None:
    refused = site.ask("DELETE", "/api/chat/sessions")
    assert (refused.status, refused.json["error"]) == (405, "method_not_allowed")
    assert refused.headers["allow"] == "GET, POST, HEAD, OPTIONS"
    told = site.ask("OPTIONS", "/api/chat/sessions")
    assert (told.status, told.headers["allow"]) == (204, refused.headers["allow"])
    assert site.get("/api/nothing").status == 404


@pytest.mark.parametrize("old, new", sorted(aliases.API.items()))
def test_an_old_address_answers_as_the_new_one_does(site: Site, old: str, new: str) -> None:
    described = site.get("/api/openapi.json").json["paths"]
    assert (f"/api{old}" in described, f"/api{new}" in described) == (False, True)
    method = "GET" if "get" in described[f"/api{new}"] else "POST"
    was, now = (asked(site, method, f"/api{re.sub(r'{[a-z]+}', '1', path)}") for path in (old, new))
    assert was.status == now.status != 405
    assert was.headers["content-type"] == now.headers["content-type"]


def test_old_addresses_of_the_site_still_answer(site: Site) -> None:
    assert "/nodes" in site.get("/").text
    assert site.get("/memory").status == 200
    assert site.get("/memory.json").json == site.get("/nodes.json").json


def test_old_names_of_parameters_are_read_as_the_new_ones(site: Site) -> None:
    new = done(site.get("/api/commands?role=tool&q=pytest"))
    assert done(site.get("/api/history/commands?kind=claude-tool&text=pytest")) == new
    assert done(site.get("/api/runs?repo=me/app")) == done(site.get("/api/runs?project=me/app"))
    assert site.get("/api/runs?repo=me/app&project=me/app").status == 400


def test_wrong_requests_are_refused_with_the_field(site: Site) -> None:
    for path in ("limit=0", "limit=501", "limit=x", "other=1"):
        refused = site.get(f"/api/chat/sessions?{path}")
        assert refused.status == 400
        assert path.partition("=")[0] in refused.json["message"]
    unfit = site.post("/api/chat/sessions", {"agent": 1, "model": "m"})
    assert (unfit.status, "agent" in unfit.json["message"]) == (422, True)
    lines = site.ask(
        "POST", "/api/chat/sessions", b"{}", **{"content-type": "application/x-ndjson"}
    )
    assert lines.status == 415
    assert site.get("/api/sessions?cursor=nonsense").status == 400


def test_no_answer_has_the_token(site: Site) -> None:
    for path in ("/api/health/status", "/api/health/doctor", "/api/openapi.json"):
        answer = site.get(path)
        assert (answer.status, site.token in answer.text) == (200, False)


# ---------------------------------------------------------------------- chat


def test_a_chat_session_lives_and_goes(site: Site) -> None:
    name = chat(site, title="First")
    said = done(site.post(f"/api/chat/sessions/{name}/messages", {"text": "hello lamp"}), 201)
    reply = {"role": "assistant", "parts": [{"type": "text", "text": "hello you"}]}
    done(asked(site, "PUT", f"/api/chat/sessions/{name}/messages/reply-1", reply))
    shown = pages(site, f"/api/chat/sessions/{name}/messages?limit=1")
    assert [one["parts"][0]["text"] for one in shown] == ["hello lamp", "hello you"]
    changed = asked(site, "PATCH", f"/api/chat/sessions/{name}", {"title": None, "archived": True})
    assert (done(changed)["title"], changed.json["archived_at"] is None) == (None, False)
    (hit,) = done(site.get("/api/chat/search?q=lamp&archived=true"))["items"]
    assert (hit["session_id"], hit["message_id"]) == (name, said["id"])
    fork = done(site.post(f"/api/chat/sessions/{name}/fork", {"message": said["id"]}), 201)
    assert fork["parent_id"] == name
    hidden = done(site.post(f"/api/chat/sessions/{name}/rewind", {"message": said["id"]}))
    assert hidden == {"messages": ["reply-1"]}
    assert done(site.post(f"/api/chat/sessions/{name}/unrewind", {})) == hidden
    assert done(site.get(f"/api/chat/sessions/{name}/timeline"))["session"]["id"] == name
    would = done(asked(site, "DELETE", f"/api/chat/sessions/{name}"))
    assert would == {"dry_run": True, "deleted": [name]}
    assert done(site.get(f"/api/chat/sessions/{name}"))["id"] == name
    assert done(site.ask("DELETE", f"/api/chat/sessions/{name}?dry_run=false"))["deleted"] == [name]
    assert site.get(f"/api/chat/sessions/{name}").status == 404


def test_chat_sessions_come_page_by_page_and_travel_as_lines(site: Site) -> None:
    names = {chat(site, agent="traveller") for _ in range(5)}
    listed = pages(site, "/api/chat/sessions?agent=traveller&limit=2")
    assert ({one["id"] for one in listed}, len(listed)) == (names, 5)
    exported = site.get("/api/chat/export?agent=traveller")
    assert exported.headers["content-type"] == "application/x-ndjson"
    for name in names:
        site.ask("DELETE", f"/api/chat/sessions/{name}?dry_run=false")
    kind = {"content-type": "application/x-ndjson"}
    report = done(site.ask("POST", "/api/chat/import", exported.body, **kind))
    assert set(report["imported"]) == names
    for wrong in (b"nonsense\n", b""):
        assert site.ask("POST", "/api/chat/import", wrong, **kind).status == 400
    assert done(site.get("/api/chat/verify"))["ok"]


# ---------------------------------------------------------------------- state


def test_a_state_session_lives_and_goes(site: Site) -> None:
    made = {"session_id": "st-1", "source": "cli", "model": "m"}
    assert done(site.post("/api/state/sessions", made), 201)["id"] == "st-1"
    given = [{"role": "user", "content": f"word{number}"} for number in range(5)]
    done(site.post("/api/state/sessions/st-1/messages", {"messages": given}), 201)
    read = pages(site, "/api/state/sessions/st-1/messages?limit=2")
    assert [one["content"] for one in read] == [one["content"] for one in given]
    assert done(site.get("/api/state/search?q=word3"))["items"][0]["session_id"] == "st-1"
    done(asked(site, "PATCH", "/api/state/sessions/st-1", {"title": "Named", "pinned": True}))
    assert done(site.get("/api/state/sessions/Named"))["pinned_at"] is not None
    done(site.post("/api/state/sessions/st-1/usage", {"input_tokens": 7}))
    assert done(site.get("/api/state/usage"))["items"][0]["input_tokens"] == 7
    taken = done(site.post("/api/state/sessions/st-1/rewind", {"message_id": read[3]["id"]}))
    assert taken == {"done": 2}
    assert done(site.post("/api/state/sessions/st-1/unrewind", {})) == taken
    child = {"new_session_id": "st-2"}
    assert done(site.post("/api/state/sessions/st-1/branch", child), 201)["id"] == "st-2"
    assert len(done(site.get("/api/state/sessions/st-1/lineage"))["items"]) == 2
    assert done(site.post("/api/state/sessions/st-1/clear", {}))["messages"] == 5
    assert len(pages(site, "/api/state/sessions/st-1/messages")) == 5
    assert done(site.ask("DELETE", "/api/state/sessions/st-2?dry_run=false"))["deleted"] == ["st-2"]
    assert site.get("/api/state/sessions/st-2").status == 404
    assert done(site.get("/api/state/check"))["ok"]


def test_state_pages_go_on_behind_the_last_one_though_others_came(site: Site) -> None:
    for number in range(4):
        done(site.post("/api/state/sessions", {"session_id": f"pg-{number}", "source": "pg"}), 201)
    first = done(site.get("/api/state/sessions?source=pg&limit=2"))
    done(site.post("/api/state/sessions", {"session_id": "pg-new", "source": "pg"}), 201)
    rest = done(site.get(f"/api/state/sessions?source=pg&limit=9&cursor={first['next']}"))
    seen = [one["id"] for one in first["items"] + rest["items"]]
    assert seen == ["pg-3", "pg-2", "pg-1", "pg-0"]


# ---------------------------------------------------------------------- mail


def test_an_agent_has_a_zone_of_its_own(site: Site) -> None:
    asked_for = {"agent": "keeper", "zone": "Asia/Tokyo"}
    box = done(site.post("/api/mail/sessions", asked_for), 201)
    where = f"/api/mail/sessions/{box['session']['id']}/tasks"
    task = {"prompt": "x", "every": "0 9 * * *"}
    done(site.post(where, task), 201)
    (found,) = done(site.get(where))["items"]
    assert {time[10:] for time in found["next"]} == {"T00:00:00.000Z"}  # nine in Tokyo


def test_mail_is_sent_paused_and_traced(site: Site) -> None:
    box = done(site.post("/api/mail/sessions", {"agent": "clerk"}), 201)
    name = box["session"]["id"]
    for number in range(3):
        done(site.post(f"/api/mail/sessions/{name}/letters", {"text": f"letter {number}"}), 201)
    task = {"prompt": "read the news", "every": "0 8 * * 1-5"}
    made = done(site.post(f"/api/mail/sessions/{name}/tasks", task), 201)
    assert [one["seq"] for one in pages(site, f"/api/mail/sessions/{name}/letters?limit=2")] == [
        *(2, 4, 6, 8)
    ]
    (found,) = done(site.get(f"/api/mail/sessions/{name}/tasks"))["items"]
    assert (found["id"], found["prompt"], len(found["next"])) == (made["id"], task["prompt"], 5)
    where = f"/api/mail/sessions/{name}/tasks/{made['id']}"
    assert done(site.post(f"{where}/pause", {}))["changed"] == 1
    assert done(asked(site, "PATCH", where, {"prompt": "read less"}))["prompt"] == "read less"
    assert done(site.post(f"{where}/resume", {}))["changed"] == 1
    assert done(site.post(f"{where}/cancel", {}))["changed"] == 1
    assert done(site.get(f"/api/mail/sessions/{name}/letters/2/trace"))["items"][0]["what"]
    assert done(site.get(f"/api/mail/sessions/{name}/verify"))["ok"]
    assert done(site.get("/api/mail/sessions"))["items"][0]["open"]["pending"] == 3
    old = done(site.post(f"/api/mail/sessions/{name}/prune", {"keep": 10}))
    assert (old["messages"], old["answers"]) == (0, 0)
    assert done(site.post(f"/api/mail/sessions/{name}/close", {}))["status"] == "closed"


@pytest.mark.parametrize("ref", ["..", ".", "%2e%2e", "tests", "%2Fetc"])
def test_a_mailbox_is_a_session_and_never_a_folder(site: Site, ref: str) -> None:
    done(site.post("/api/mail/sessions", {"agent": "clerk"}), 201)
    answer = site.get(f"/api/mail/sessions/{ref}/letters")
    assert answer.status in {404, 405}


# ---------------------------------------------------------------------- history, memory, health


def test_the_captured_history_is_listed_opened_and_found_in(site: Site) -> None:
    listed = pages(site, "/api/sessions?limit=3")
    refs = [one["ref"] for one in listed]
    assert len(refs) == len(set(refs)) > 3
    ref = next(one["ref"] for one in listed if one["session"]["agent"] == "claude-code")
    detail = done(site.get(f"/api/sessions/{ref}"))
    assert detail["listed"]["ref"] == ref
    window = done(site.get(f"/api/sessions/{ref}/window?at=2&limit=3"))
    assert (len(window["messages"]), window["total"]) == (3, detail["listed"]["session"]["entries"])
    assert done(site.get(f"/api/sessions/{ref}/find?q=test"))["items"]
    raw = site.get(f"/api/sessions/{ref}/raw")
    assert all(json.loads(line) for line in raw.text.splitlines())
    only = done(site.get("/api/sessions?q=agent:codex"))["items"]
    assert {one["session"]["agent"] for one in only} == {"codex"}
    parsed = done(site.get("/api/sessions/parse?q=agent:codex%20docker"))
    assert parsed["query"]["text"] == "docker"
    assert done(site.get("/api/usage?q=agent:codex"))["by_agent"].keys() == {"codex"}
    assert done(site.get("/api/sessions/facets"))["agent"]
    commands = pages(site, "/api/commands?limit=2")
    assert len({one["id"] for one in commands}) == len(commands) > 2


def test_memory_recalls_opens_and_answers(site: Site) -> None:
    found = done(site.get("/api/recall?q=flaky%20test&limit=3&explain=true"))
    best = found["hits"][0]
    assert best["why"]["total"] > 0
    assert done(site.get(f"/api/open/{best['ref']}"))["hit"]["ref"] == best["ref"]
    assert done(site.get(f"/api/similar?q={best['ref']}&limit=3"))["query"] == best["ref"]
    answer = done(site.post("/api/ask", {"question": "why was the test flaky?"}))
    assert (answer["by_model"], bool(answer["citations"])) == (False, True)
    assert "threadkeep-memory" in done(site.post("/api/context", {"about": "flaky"}))["text"]
    moments = pages(site, "/api/timeline?limit=7")
    times = [one["at"] for one in moments]
    assert (times, len({one["ref"] for one in moments})) == (
        sorted(times, reverse=True),
        len(times),
    )
    (node, *_) = pages(site, "/api/nodes?limit=2")
    assert done(site.get(f"/api/nodes/{node['id']}"))["row"] == node
    (entity, *_) = pages(site, "/api/entities?limit=2")
    assert done(site.get(f"/api/entities/{entity['id']}"))["row"] == entity
    assert site.get("/api/timeline?day=2026-02-30").status == 400


def test_one_question_is_answered_with_all_that_it_rests_on(site: Site) -> None:
    answer = done(site.post("/api/agent/query", {"query": "flaky test", "limit": 2}))
    assert all(hit["evidence"] and hit["confidence"]["explanation"] for hit in answer["hits"])
    assert site.post("/api/agent/query", {"query": "x", "source": "nobody"}).status == 400
    assert done(site.post("/api/notes/query", {})) == {"results": [], "truncated": False}
    assert site.post("/api/notes/history", {}).status == 400


def test_forgetting_only_says_what_would_go(site: Site) -> None:
    before = done(site.get("/api/sessions"))
    would = done(site.post("/api/forget", {"project": "harbor"}))
    for name in ("agent", "harness"):
        assert done(site.post("/api/forget", {"project": "harbor", name: "pi"}))["dry_run"]
    assert (would["dry_run"], would["forgotten"]["sessions"] > 0) == (True, True)
    assert done(site.post("/api/forget", {"q": "project:HARBOR"})) == would
    assert done(site.get("/api/sessions")) == before
    for body in (
        *({}, {"since": 1}, {"project": "a", "pattern": "b"}, {"q": "agent:pi", "pattern": "b"}),
        *({"q": "words"}, {"project": "harb"}),
    ):
        assert site.post("/api/forget", body).status == 400


def test_a_forgotten_session_is_gone(site: Site) -> None:
    ref = done(site.get("/api/sessions?q=agent:pi"))["items"][0]["ref"]
    gone = done(site.post("/api/forget", {"session": [ref], "dry_run": False}))
    assert (gone["dry_run"], gone["forgotten"]["sessions"]) == (False, 1)
    assert site.get(f"/api/sessions/{ref}").status == 404


def test_health_tells_of_stores_and_alarms(site: Site) -> None:
    assert done(site.get("/api/health/status"))["knowledge"]["exists"]
    assert done(site.get("/api/health/doctor"))["findings"]
    assert done(site.get("/api/health/alarms"))["items"] == []
    assert site.post("/api/health/alarms/7/ack", {}).status == 404


_SAMPLE = re.compile(r'(threadkeep_\w+)(?:\{(\w+="[^"\n]*",?)+\})? -?\d+(\.\d+)?(e[+-]\d+)?')


def test_numbers_are_there_for_a_scraper(site: Site) -> None:
    answer = site.get("/api/health/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    *lines, end = answer.body.decode().split("\n")
    assert end == ""
    declared: set[str] = set()
    for line in lines:
        if line.startswith("# TYPE "):
            assert line.split()[2] not in declared  # all of one name stand together
            declared.add(line.split()[2])
        elif not line.startswith("# HELP "):
            sample = _SAMPLE.fullmatch(line)
            assert sample is not None, line
            assert sample[1] in declared
    listed = len(pages(site, "/api/sessions?limit=200"))
    found = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert int(found['threadkeep_sessions{store="knowledge"}']) >= listed > 0
    assert found['threadkeep_store_up{store="knowledge"}'] == "1"


# ---------------------------------------------------------------------- what cannot be written


def test_a_store_that_cannot_be_written_is_read_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path)
    with home.chat() as chat:
        chat.create_session(agent="a", model="m", session_id="c1")

    opens, stores = home.chat, Stores(home)

    def refuse(*args: Any, **options: Any) -> ChatStore:
        if not options.get("read_only"):
            raise ReadOnly("the place cannot be written")
        return opens(*args, **options)

    monkeypatch.setattr(home, "chat", refuse)
    assert [one.id for one in stores.call(TABLES["chat"]["sessions"], {}).items] == ["c1"]
    with pytest.raises(ReadOnly):
        stores.call(TABLES["chat"]["delete"], {"session": "c1"})


def test_looking_at_a_file_of_hermes_leaves_it_alone(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    with HermesV6(file) as hermes:
        hermes.create_session("s1", "cli")
        hermes.append("s1", "user", "hello")
    stores = Stores(Home(tmp_path))
    verbs = TABLES["state_sessions"]
    assert [one["id"] for one in stores.call(verbs["sessions"], {}).items] == ["s1"]
    found = stores.call(verbs["search"], {"text": "hello"}).items
    assert [one["session_id"] for one in found] == ["s1"]
    with sqlite3.connect(file) as database:
        names = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
    assert not [name for name in names if name.startswith("tk_")]


# ---------------------------------------------------------------------- a home without stores


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("bare") / "home"
    folder.mkdir()
    found = Site(folder)
    yield found
    found.close()


def test_looking_at_stores_that_are_missing_gives_nothing_and_makes_none(bare: Site) -> None:
    for one in (one for one in DESCRIBED if one.method == "GET"):
        path = re.sub(r"\{\w+\}", "1", one.path)
        wanted = [name for name in one.asked.__struct_fields__ if f"{{{name}}}" not in one.path]
        query = "&".join(f"{name}={text}" for name, text in NEEDED.items() if name in wanted)
        answer = bare.get(f"/api{path}?{query}")
        assert answer.status in {200, 404}, (path, answer.text)
        assert answer.status == 200 or answer.json["hint"], path
    assert {path.name for path in Path(bare.folder).iterdir()} == {"web.token"}


def test_changing_what_is_not_there_is_not_found(bare: Site) -> None:
    assert bare.post("/api/chat/prune", {"keep": 1}).status == 404
    assert bare.post("/api/state/prune", {}).status == 404
    assert bare.post("/api/forget", {"project": "x"}).status == 404
    assert bare.post("/api/mail/sessions/x/letters", {"text": "x"}).status == 404
    assert {path.name for path in Path(bare.folder).iterdir()} == {"web.token"}


@pytest.mark.parametrize("address", ["sessions", "usage", "sessions/facets"])
def test_fields_and_the_filter_language_say_the_same(address: str, site: Site) -> None:
    typed = done(site.get(f"/api/{address}?q=agent:codex%20agent:claude-code%20until:2030-01-01"))
    named = "agent=codex&agent=claude-code&until=1893542400000"
    assert done(site.get(f"/api/{address}?{named}")) == typed
    assert typed != done(site.get(f"/api/{address}?agent=codex&agent=nobody-at-all"))


def test_commands_are_chosen_by_fields_and_by_the_filter_language(site: Site) -> None:
    failed = done(site.get("/api/commands?failed=true"))
    assert done(site.get("/api/commands?q=outcome:failed")) == failed
    assert done(site.get("/api/commands?outcome=failure")) == failed
    everything = done(site.get("/api/commands?outcome=failure&outcome=success&outcome=unknown"))
    assert everything == done(site.get("/api/commands"))
    refused = site.get("/api/commands?q=cost:%3E1")
    assert (refused.status, "bounds" in refused.text) == (400, True)
    assert "it takes q, session, agent" in site.get("/api/commands?agnet=x").text


def test_labels_are_put_and_read_by_their_addresses(site: Site) -> None:
    ref = done(site.get("/api/sessions?limit=1"))["items"][0]["ref"]
    put = asked(site, "PATCH", f"/api/labels/{ref}", {"star": True, "add": ["Flaky"], "note": "x"})
    assert done(put) == {"starred": True, "tags": ["flaky"], "note": "x"}
    assert done(site.get(f"/api/labels/{ref}")) == done(put)
    assert [one["ref"] for one in pages(site, "/api/labels?limit=1")] == [ref]
    assert done(site.get("/api/tags"))["items"] == [{"tag": "flaky", "count": 1}]
    found = done(site.get("/api/sessions?tag=flaky&q=is:starred"))["items"]
    assert [(one["ref"], one["labels"]) for one in found] == [(ref, done(put))]
    refused = asked(site, "PATCH", f"/api/labels/{ref}", {"add": ["no tag"]})
    assert refused.status == 400
    asked(site, "PATCH", f"/api/labels/{ref}", {"star": False, "remove": ["flaky"], "note": ""})
    assert done(site.get("/api/labels"))["items"] == []
