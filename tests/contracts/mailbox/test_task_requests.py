import pytest

from tests.contracts.mailbox.postal import Clock, Desk
from tests.support.mail import MailFactory
from threadkeep.mailbox.commands import CommandRefused


def test_our_host_need_not_be_waited_for_and_knows_both(
    factory: MailFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(factory, Clock())
    monkeypatch.setattr(
        "threadkeep.mailbox.container.requests.time.sleep", lambda _: desk.host.drain({})
    )
    task_id = desk.container.schedule("water", recurrence="0 9 * * *")  # nothing waits for a host
    (row,) = desk.container.command("tasks  list", {"status": "pending"})
    assert row["series_id"] == task_id
    made = desk.container.command("tasks create", {"prompt": "x", "recurrence": "0 8 * * *"})
    assert {task.id for task in desk.container.tasks()} == {task_id, made["series_id"]}
    with pytest.raises(CommandRefused) as caught:
        desk.container.command("users list")
    assert caught.value.code == "unknown-command"
