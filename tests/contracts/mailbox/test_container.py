"""The container's verbs: what it is given, what it takes, what becomes of it, what it sends."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.mail import CHAT, GROUP, NOON, MailFactory, Pair, name_places, open_pair, texts
from threadkeep.errors import Busy, Conflict, Invalid, NotFound, TooLarge
from threadkeep.mailbox.container import inbox
from threadkeep.mailbox.context import Policy
from threadkeep.mailbox.records import OutMail, Place


@pytest.fixture
def pair(factory: MailFactory) -> Pair:
    return open_pair(factory)


def ids(mails: list[Any]) -> list[str]:
    return [mail.id for mail in mails]


# ---------------------------------------------------------------------- polling


def test_the_oldest_mail_comes_first_and_no_more_than_wanted(pair: Pair) -> None:
    for number in range(15):
        pair.host.send(str(number))
    assert texts(pair.container.poll()) == [str(number) for number in range(10)]
    assert texts(pair.container.poll(3)) == ["0", "1", "2"]


def test_a_backlog_goes_on_after_what_is_answered_without_waiting_for_the_host(pair: Pair) -> None:
    for number in range(25):
        pair.host.send(str(number))
    seen: list[str] = []
    while batch := pair.container.poll():
        seen += texts(batch)
        pair.container.claim(batch)
        pair.container.complete(batch)
    assert seen == [str(number) for number in range(25)]


def test_mail_in_somebodys_hands_or_answered_is_not_given_again(pair: Pair) -> None:
    claimed, done, failed, _ = (pair.host.send(word) for word in ("a", "b", "c", "open"))
    pair.container.claim([claimed])
    pair.container.complete([done])
    pair.container.fail([failed], "why")
    assert texts(pair.container.poll()) == ["open"]


def test_mail_for_the_program_takes_no_place_and_hides_nothing(pair: Pair) -> None:
    for number in range(12):
        pair.host.answer(f"q{number}", "yes")
    pair.host.send("hello")
    assert texts(pair.container.poll()) == ["hello"]
    assert len(pair.container.system_mail()) == 12


def test_mail_that_is_not_pending_is_not_given(pair: Pair) -> None:
    for status in ("completed", "failed", "paused"):
        pair.rows("UPDATE messages_in SET status = ? WHERE id = ?", status, pair.host.send("x").id)
    assert pair.container.poll() == []


def test_mail_for_the_moment_of_waking_comes_with_the_first_poll_only(pair: Pair) -> None:
    pair.host.send("restarted", on_wake=True)
    pair.host.send("hello")
    assert pair.container.triggered()
    assert texts(pair.container.poll()) == ["restarted", "hello"]
    assert texts(pair.container.poll()) == ["hello"]
    pair.container.start()
    assert texts(pair.container.poll()) == ["restarted", "hello"]


def test_mail_for_the_moment_of_waking_is_not_lost_behind_a_backlog(pair: Pair) -> None:
    for number in range(12):
        pair.host.send(str(number))
    pair.host.send("restarted", on_wake=True)
    assert texts(pair.container.poll()) == [*(str(number) for number in range(9)), "restarted"]


def test_a_first_poll_that_fails_was_none(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    pair.host.send("restarted", on_wake=True)

    def fail(*_: object, **__: object) -> None:
        raise Busy

    with monkeypatch.context() as patch:
        patch.setattr(inbox, "poll", fail)
        with pytest.raises(Busy):
            pair.container.poll()
    assert texts(pair.container.poll()) == ["restarted"]


def test_context_wakes_nobody_and_comes_before_what_does(pair: Pair) -> None:
    pair.host.send("chatter", trigger=False)
    assert not pair.container.triggered()
    assert pair.host.due() == 0
    pair.host.send("hey you")
    assert pair.container.triggered()
    found = pair.container.poll()
    assert [(mail.text, mail.trigger) for mail in found] == [("chatter", False), ("hey you", True)]
    pair.container.complete(found)
    assert not pair.container.triggered()


def test_content_that_is_no_json_is_shown_as_words(pair: Pair) -> None:
    mail = pair.host.send("x")
    pair.rows("UPDATE messages_in SET content = 'plain words' WHERE id = ?", mail.id)
    assert texts(pair.container.poll()) == ["plain words"]


def test_odd_values_of_another_host_stop_nothing(pair: Pair) -> None:
    pair.host.send("before")
    pair.rows(
        "INSERT INTO messages_in (id, seq, kind, timestamp, tries, platform_id, content)"
        " VALUES (x'ff', 4, x'00', 5, 'many', CAST(x'ff' AS TEXT), x'7b7d')"
    )
    pair.host.send("after")
    assert texts(pair.container.poll()) == ["before", "", "after"]
    assert texts(pair.host.inbox()) == ["before", "", "after"]


# ---------------------------------------------------------------------- claims


def test_a_claim_is_taken_once_and_written_as_nanoclaw_reads_it(pair: Pair) -> None:
    mail = pair.host.send("x")
    assert pair.container.claim([mail]) == [mail.id]
    assert pair.container.claim([mail]) == []
    assert pair.box.new_container().claim([mail.id]) == []
    acks = pair.rows("SELECT * FROM outbound.processing_ack")
    assert acks == [(mail.id, "processing", "2025-10-09 12:00:00")]


def test_no_mail_is_no_claim_and_unknown_mail_an_error(pair: Pair) -> None:
    assert pair.container.claim([]) == []
    pair.container.complete([])
    mail = pair.host.send("x")
    for act in (
        lambda: pair.container.claim(["nothing", mail.id]),
        lambda: pair.container.complete([mail.id, "nothing"]),
        lambda: pair.container.fail(["nothing"], "why"),
    ):
        with pytest.raises(NotFound, match="no inbound message 'nothing'"):
            act()
    assert pair.rows("SELECT * FROM outbound.processing_ack") == []


def test_mail_that_was_dealt_with_elsewhere_cannot_be_claimed_by_name(pair: Pair) -> None:
    mail = pair.host.insert_task("x")
    pair.rows("UPDATE messages_in SET status = 'completed'")
    assert pair.container.claim([mail.id]) == []


def test_the_first_word_on_mail_counts(pair: Pair) -> None:
    done, failed = pair.host.send("a"), pair.host.send("b")
    pair.container.claim([done, failed])
    pair.container.complete([done])
    pair.container.fail([done], "too late")
    pair.container.fail([failed], "broken")
    pair.container.complete([failed])
    acks = pair.rows("SELECT message_id, status FROM outbound.processing_ack ORDER BY 1")
    assert dict(acks) == {done.id: "completed", failed.id: "failed"}
    reasons = pair.rows("SELECT message_id, reason FROM outbound.tk_claim WHERE reason IS NOT NULL")
    assert reasons == [(failed.id, "broken")]


def tries(pair: Pair) -> int:
    return int(pair.rows("SELECT tries FROM outbound.tk_claim")[0][0])


def test_tries_are_counted_when_mail_is_claimed_and_end_after_six(pair: Pair) -> None:
    mail = pair.host.send("poison")
    for life in range(1, 7):
        pair.container.start()
        assert pair.container.claim(pair.container.poll()) == [mail.id]
        assert tries(pair) == life  # and here the container dies
    pair.container.start()
    assert pair.container.claim(pair.container.poll()) == []
    (ack,) = pair.rows("SELECT message_id, status FROM outbound.processing_ack")
    assert ack == (mail.id, "failed")
    assert pair.rows("SELECT reason FROM outbound.tk_claim") == [
        ("it was claimed 6 times and never finished",)
    ]
    assert pair.container.poll() == []


def test_tries_that_the_host_counted_count_as_well(pair: Pair) -> None:
    mail = pair.host.send("x")
    pair.rows("UPDATE messages_in SET tries = 5 WHERE id = ?", mail.id)
    assert pair.container.claim([mail.id]) == [mail.id]
    assert tries(pair) == 6
    pair.container.start()
    assert pair.container.claim(pair.container.poll()) == []


def test_poison_does_not_take_the_mail_beside_it_along(pair: Pair) -> None:
    poison, good = pair.host.send("poison"), pair.host.send("good")
    pair.rows("UPDATE messages_in SET tries = 6 WHERE id = ?", poison.id)
    assert pair.container.claim(pair.container.poll()) == [good.id]


def test_mail_that_is_given_back_was_no_try(pair: Pair) -> None:
    mail = pair.host.send("x")
    for _ in range(10):
        assert pair.container.claim(pair.container.poll()) == [mail.id]
        assert pair.container.release([mail]) == 1
    assert tries(pair) == 0
    assert pair.container.release([mail]) == 0
    pair.container.complete([mail])
    assert pair.container.release([mail]) == 0
    assert pair.container.poll() == []


# ---------------------------------------------------------------------- life


def test_a_start_releases_the_claims_of_an_earlier_life(pair: Pair) -> None:
    open_mail, done = pair.host.send("a"), pair.host.send("b")
    pair.container.claim([open_mail, done])
    pair.container.complete([done])
    assert pair.container.start() == 1
    assert ids(pair.container.poll()) == [open_mail.id]
    assert pair.container.start() == 0


@pytest.mark.parametrize("known", [None, "newer"])
def test_a_start_adopts_the_conversation_under_its_older_name(
    pair: Pair, known: str | None
) -> None:
    pair.container.set_state("sdk_session_id", "older")
    pair.container.set_state("continuation:claude", known)
    pair.container.start("Claude")
    assert pair.container.get_state("continuation:claude") == (known or "older")
    assert pair.container.get_state("sdk_session_id") is None


def test_a_container_that_stops_makes_room(pair: Pair) -> None:
    with pair.container:
        pair.container.start()
        pair.container.start()
        with pytest.raises(Conflict):
            pair.box.new_container().start()
    pair.box.new_container().start()


# ---------------------------------------------------------------------- memory


def test_values_are_kept_between_starts(pair: Pair) -> None:
    pair.container.set_state("k", "v")
    pair.container.set_state("k", "w")
    assert pair.box.new_container().get_state("k") == "w"
    kept = pair.rows("SELECT * FROM outbound.session_state")
    assert kept == [("k", "w", "2025-10-09T12:00:00.000Z")]
    pair.container.set_state("k", None)
    assert pair.container.get_state("k") is None
    with pytest.raises(Invalid, match="key is empty"):
        pair.container.set_state("", "v")


def test_clearing_forgets_the_conversations_and_nothing_else(pair: Pair) -> None:
    for key in (
        "sdk_session_id",
        "continuation:claude",
        "continuation:codex",
        "continuations",
        "x",
    ):
        pair.container.set_state(key, "v")
    assert pair.container.clear() == 3
    kept = pair.rows("SELECT key FROM outbound.session_state ORDER BY key")
    assert kept == [("continuations",), ("x",)]
    assert pair.container.clear() == 0


def test_the_host_can_see_which_tool_runs(pair: Pair) -> None:
    pair.container.tool_started("Bash", 600_000)
    at = "2025-10-09T12:00:00.000Z"
    assert pair.rows("SELECT * FROM outbound.container_state") == [(1, "Bash", 600_000, at, at)]
    pair.container.tool_ended()
    assert pair.rows("SELECT * FROM outbound.container_state") == [(1, None, None, None, at)]


# ---------------------------------------------------------------------- sending


def test_a_sent_row_has_every_column_that_nanoclaw_reads(pair: Pair) -> None:
    asked = pair.host.send("hi")
    mail = pair.container.send("hello", deliver_after="2025-10-09T15:00:00+02:00")
    columns = "id, seq, in_reply_to, timestamp, deliver_after, recurrence, kind, platform_id,"
    columns += " channel_type, thread_id, content"
    assert pair.rows(f"SELECT {columns} FROM outbound.messages_out") == [
        (
            *(mail.id, 3, asked.id, "2025-10-09T12:00:00.000Z", "2025-10-09 13:00:00", None),
            *("chat", "C1", "slack", "T1", '{"text":"hello"}'),
        )
    ]
    assert mail.id.startswith(f"msg-{NOON}-")


def test_mail_goes_to_a_name_or_to_where_the_session_is(pair: Pair) -> None:
    name_places(pair.host)
    assert pair.container.send("x").place == CHAT
    assert pair.container.send("x", to="family").place == Place("telegram", "F9", None)
    assert pair.container.send("x", to="helper").place == Place("agent", "ag-2-helper", None)


def test_the_name_of_the_own_chat_keeps_its_thread(pair: Pair) -> None:
    name_places(pair.host)
    pair.host.write_routing(Place("telegram", "F9", "topic"))
    assert pair.container.send("x", to="family").place.thread_id == "topic"


def test_without_a_place_of_its_own_the_only_name_is_meant(pair: Pair) -> None:
    pair.host.write_routing(Place())
    with pytest.raises(Invalid, match="no default destination"):
        pair.container.send("x")
    name_places(pair.host)
    with pytest.raises(Invalid, match="no default destination") as refused:
        pair.container.send("x")
    assert "family, helper" in refused.value.hint
    pair.host.write_destinations(pair.host.destinations()[:1])
    assert pair.container.send("x").place == Place("telegram", "F9", None)


def test_a_reply_names_the_newest_mail_of_its_place(pair: Pair) -> None:
    name_places(pair.host)
    family = pair.host.send("from family", place=Place("telegram", "F9", "topic"))
    here = pair.host.send("from here")
    assert pair.container.send("x").in_reply_to == here.id
    assert pair.container.send("x", to="family").in_reply_to == family.id
    assert pair.container.send("x", to="helper").in_reply_to is None
    assert pair.container.send("x", in_reply_to="other").in_reply_to == "other"


def test_the_same_id_twice_is_one_message_and_other_words_are_refused(pair: Pair) -> None:
    first = pair.container.send("hello", id="m1")
    assert pair.container.send("hello", id="m1") == first
    with pytest.raises(Conflict, match="with other content"):
        pair.container.send("goodbye", id="m1")
    assert texts(pair.host.outbox()) == ["hello"]


def test_the_same_words_are_said_once_if_wanted(pair: Pair) -> None:
    name_places(pair.host)
    first = pair.container.send("done")
    pair.clock.forward(30)
    assert pair.container.send("done", unless_said=60) == first
    assert pair.container.send("done", to="family", unless_said=60) != first
    pair.clock.forward(60)
    assert pair.container.send("done", unless_said=60) != first
    pair.host.send("and this?")
    assert pair.container.send("done", unless_said=60).in_reply_to is not None


def test_unasked_words_for_two_threads_are_two_messages(pair: Pair) -> None:
    for thread in ("t1", "t2", "t2"):
        place = Place("slack", "C7", thread)
        pair.container.insert_message("chat", {"text": "done"}, place, unless_said=60)
    assert [mail.place.thread_id for mail in pair.host.outbox()] == ["t1", "t2"]


def test_cards_have_their_shape(pair: Pair) -> None:
    mail = pair.container.card({"title": "T"}, "as text")
    assert mail.kind == "chat-sdk"
    assert mail.content == {"type": "card", "card": {"title": "T"}, "fallbackText": "as text"}


@pytest.mark.parametrize("kind, content", [("letter", {}), ("chat", "no JSON"), ("chat", "[]")])
def test_rows_of_no_known_kind_or_content_are_refused(pair: Pair, kind: str, content: Any) -> None:
    with pytest.raises(Invalid):
        pair.container.insert_message(kind, content, CHAT)
    assert pair.host.outbox() == []


def test_the_size_limit_has_a_type_of_its_own(factory: MailFactory) -> None:
    pair = open_pair(factory, policy=Policy(content_bytes=100))
    with pytest.raises(TooLarge):
        pair.container.send("x" * 200)


def test_nobody_is_named_when_there_is_nobody(pair: Pair) -> None:
    with pytest.raises(Invalid, match="no destination 'ann'") as refused:
        pair.container.send("x", to="ann")
    assert "not named any destination" in refused.value.hint


# ---------------------------------------------------------------------- edits and reactions


def test_what_was_sent_is_changed_by_the_name_the_channel_gave_it(pair: Pair) -> None:
    name_places(pair.host)
    sent = pair.container.send("helo", to="family")
    assert pair.container.edit(1, "hello").content["messageId"] == sent.id
    pair.rows("INSERT INTO delivered VALUES (?, 'tg-77', 'delivered', '')", sent.id)
    edit = pair.container.edit(1, "hello")
    assert edit.content == {"operation": "edit", "messageId": "tg-77", "text": "hello"}
    assert (edit.kind, edit.place) == ("chat", Place("telegram", "F9", None))


@pytest.mark.parametrize(
    "row_id, platform_id",
    [
        (f"1699.42:{GROUP}", "1699.42"),
        (f"a:b:{GROUP}", "a:b"),
        ("1699.42:ag-9-other0", "1699.42:ag-9-other0"),
        ("msg-1-abcdef", "msg-1-abcdef"),
    ],
)
def test_a_reaction_names_the_platforms_own_id(pair: Pair, row_id: str, platform_id: str) -> None:
    place = Place("discord", "D1", "T9")
    pair.host.send("x", id=row_id, place=place)
    reaction = pair.container.react(2, "thumbs_up")
    assert reaction.content == {
        "operation": "reaction",
        "messageId": platform_id,
        "emoji": "thumbs_up",
    }
    assert reaction.place == place


def test_a_derived_id_is_the_platforms_too(pair: Pair) -> None:
    pair.host.send("one", id=f"1699.42:{GROUP}")
    second = pair.host.send("two", id=f"1699.42:{GROUP}")
    assert second.id != f"1699.42:{GROUP}"
    assert pair.container.react(second.seq or 0, "eyes").content["messageId"] == "1699.42"


def test_an_id_is_cut_by_its_form_where_the_group_is_unknown(pair: Pair) -> None:
    pair.host.send("x", id=f"1699.42:{GROUP}")
    pair.rows("DELETE FROM tk_meta")
    assert pair.box.new_container().react(2, "eyes").content["messageId"] == "1699.42"


def test_mail_is_found_by_number_on_either_side(pair: Pair) -> None:
    pair.host.send("in")
    pair.container.send("out")
    found = [pair.container.mail(seq) for seq in (2, 3)]
    assert [type(mail).__name__ for mail in found] == ["Mail", "OutMail"]
    assert [mail.text for mail in found] == ["in", "out"]
    assert pair.container.mail(found[1].id) == found[1]


@pytest.mark.parametrize("seq", [0, 1, 4, -2, 2**62])
def test_a_number_that_is_nobodys_is_refused_and_nothing_is_written(pair: Pair, seq: int) -> None:
    pair.host.send("x")
    acts: list[Callable[[], object]] = [
        lambda: pair.container.edit(seq, "x"),
        lambda: pair.container.react(seq, "x"),
        lambda: pair.container.mail(seq),
    ]
    for act in acts:
        with pytest.raises(NotFound, match=f"no message {seq}"):
            act()
    with pytest.raises(Invalid, match="emoji is empty"):
        pair.container.react(2, " ")
    assert pair.host.outbox() == []


# ---------------------------------------------------------------------- questions


def test_a_question_goes_out_and_its_answer_comes_back(pair: Pair) -> None:
    question_id = pair.container.ask("Which?", ["A", "B"], title="Choose")
    (sent,) = pair.host.outbox()
    assert (sent.id, sent.kind) == (question_id, "chat-sdk")
    assert sent.content["questionId"] == question_id
    assert sent.content["options"][1] == {"label": "B", "selectedLabel": "B", "value": "B"}
    assert pair.container.answer(question_id) is None
    assert pair.container.wait_for_answer(question_id, timeout=0) is None
    answer = pair.host.answer(question_id, "B", user_id="u7")
    found = pair.container.wait_for_answer(question_id, timeout=0)
    assert found == {
        "type": "question_response",
        "questionId": question_id,
        "selectedOption": "B",
        "userId": "u7",
    }
    assert pair.rows("SELECT message_id, status FROM outbound.processing_ack") == [
        (answer.id, "completed")
    ]
    assert pair.container.answer(question_id) is None


def test_marks_that_mean_any_character_elsewhere_mean_themselves(pair: Pair) -> None:
    for question_id in ("a_b", "aXb", "100%", "100 times"):
        pair.host.answer(question_id, question_id)
    for question_id in ("a_b", "100%", "aXb", "100 times"):
        found = pair.container.answer(question_id)
        assert found is not None
        assert found["selectedOption"] == question_id


def test_a_question_without_options_is_refused(pair: Pair) -> None:
    with pytest.raises(Invalid, match="needs options"):
        pair.container.ask("Which?", [])
    assert pair.host.outbox() == []


# ---------------------------------------------------------------------- tasks


def test_a_task_is_asked_for_with_all_that_the_host_needs(pair: Pair) -> None:
    task_id = pair.container.schedule(
        "water", process_after="2025-10-10T09:00:00Z", recurrence="0 9 * * *", script="exit 0"
    )
    (sent,) = pair.host.outbox()
    assert (sent.kind, sent.place) == ("system", Place())
    assert json.loads(sent.raw or "") == {
        "action": "schedule_task",
        "taskId": task_id,
        "prompt": "water",
        "script": "exit 0",
        "processAfter": "2025-10-10T09:00:00.000Z",
        "recurrence": "0 9 * * *",
        "platformId": "C1",
        "channelType": "slack",
        "threadId": "T1",
    }
    assert task_id.startswith(f"task-{NOON}-")


def test_tasks_are_changed_by_name(pair: Pair) -> None:
    pair.container.cancel_task("t")
    pair.container.pause_task("t")
    pair.container.resume_task("t")
    pair.container.update_task("t", prompt="new", recurrence=None, process_after=NOON)
    said = [mail.content for mail in pair.host.outbox()]
    assert said == [
        {"action": "cancel_task", "taskId": "t"},
        {"action": "pause_task", "taskId": "t"},
        {"action": "resume_task", "taskId": "t"},
        {
            "action": "update_task",
            "taskId": "t",
            "prompt": "new",
            "recurrence": None,
            "processAfter": "2025-10-09T12:00:00.000Z",
        },
    ]


@pytest.mark.parametrize(
    "act",
    [
        lambda c: c.schedule("x"),
        lambda c: c.schedule(" ", recurrence="0 9 * * *"),
        lambda c: c.schedule("x", recurrence="61 * * * *"),
        lambda c: c.schedule("x", recurrence="* * *"),
        lambda c: c.schedule("x", process_after="soon"),
        lambda c: c.update_task("t"),
        lambda c: c.update_task("t", color="red"),
        lambda c: c.update_task("t", recurrence="often"),
        lambda c: c.update_task("t", process_after="soon"),
    ],
)
def test_bad_wishes_are_refused_where_they_can_be_mended(pair: Pair, act: Any) -> None:
    with pytest.raises(Invalid):
        act(pair.container)
    assert pair.host.outbox() == []


def test_the_tasks_to_come_are_listed(pair: Pair) -> None:
    pair.host.insert_task("later", process_after=NOON + 60_000)
    done = pair.host.insert_task("done")
    pair.rows("UPDATE messages_in SET status = 'completed' WHERE id = ?", done.id)
    pair.host.send("no task")
    assert texts(pair.container.tasks()) == ["later"]


def test_any_row_the_agent_may_send_is_typed(pair: Pair) -> None:
    sent = pair.container.act("create_agent", name="helper", instructions="help")
    assert isinstance(sent, OutMail)
    assert sent.content["action"] == "create_agent"


def test_either_side_finds_a_message_and_its_place_by_number(pair: Pair) -> None:
    name_places(pair.host)
    there = Place("slack", "C1", "t1")
    came = pair.host.send("in", id=f"1699.42:{GROUP}", place=there)
    went = pair.container.send("out")
    for side in (pair.host, pair.container):
        assert side.target(came.seq or 0) == ("1699.42", there)
        assert side.target(went.seq or 0) == (went.id, went.place)
        with pytest.raises(NotFound):
            side.target(99)


def test_an_answer_is_to_mail_that_has_come_not_to_a_task_for_later(pair: Pair) -> None:
    name_places(pair.host)
    came = pair.host.send("now")
    pair.host.insert_task("later", process_after="2090-01-01T00:00:00Z")
    assert pair.container.send("an answer").in_reply_to == came.id
