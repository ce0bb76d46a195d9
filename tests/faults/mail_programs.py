"""The two programs of the exchange that is killed again and again (see mail_exchange.py).

    mail_programs.py host FOLDER EFFECTS     sends what it is told, delivers, sweeps
    mail_programs.py agent FOLDER            takes mail, answers it, says that it is done

Each thing that happens is one line on stdout, written in one system call: whoever listens can kill
the program at any of them. The clock runs sixty times as fast as life, so that the pauses before
another try are short. Neither program knows anything that is not in the folder or in EFFECTS.
"""

import os
import select
import sys
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPO / "src"), str(REPO)]


def say(*words: object) -> None:
    """Tell the parent something."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


if __name__ == "__main__":
    say("begun")  # a kill from here on meets the program while it is starting

from tests.faults.mail_effects import ADAPTERS, ASKED, Effects, fast  # noqa: E402
from threadkeep.mailbox.container.container import Container  # noqa: E402
from threadkeep.mailbox.host.delivery import DeliveryReport  # noqa: E402
from threadkeep.mailbox.host.host import Host  # noqa: E402
from threadkeep.mailbox.records import Mail  # noqa: E402

PACE = 0.01  # between two looks while nothing happens


def orders(wait: float) -> list[str]:
    """Return what the parent has said meanwhile; end with it."""
    if not select.select([0], [], [], wait)[0]:
        return []
    said = os.read(0, 65536)
    if not said:
        sys.exit(0)
    return said.decode().splitlines()


# The host ---------------------------------------------------------------------------------


def run_host(folder: str, effects: str) -> None:
    host = Host(folder, clock=fast)
    say("up")
    ledger = Effects(Path(effects))
    channels = {
        name: kind(ledger, lambda key: say("effect", key)) for name, kind in ADAPTERS.items()
    }
    to_send: list[str] = []
    quiet = ""
    while True:
        for order in orders(0 if to_send else PACE):
            word, value = order.split()
            if word == "send":
                to_send.append(value)
            else:
                quiet = value
        if to_send:
            host.send(f"number {to_send[0]}", id=f"m-{to_send[0]}")
            say("sent", to_send.pop(0))
        for message_id in host.sweep().settled.completed:
            say("settled", message_id)
        # After the sweep: an answer is written before the agent says that it is done.
        drained = host.drain(channels)
        for message_id in drained.sent:
            say("delivered", message_id)
        if quiet and not to_send and is_quiet(host, drained):
            say("quiet", quiet)
            quiet = ""


def is_quiet(host: Host, drained: DeliveryReport) -> bool:
    """Tell whether all mail is settled and all answers are delivered."""
    open_ones = drained.deferred + drained.waiting + drained.sent
    return not open_ones and not host.inbox("pending", limit=1)


# The agent --------------------------------------------------------------------------------


def run_agent(folder: str) -> None:
    container = Container(folder, clock=fast)
    released = container.start()
    say("up", released)
    while True:
        mails = container.poll(3)
        if not mails:
            orders(PACE)
            continue
        claimed = container.claim(mails)
        say("claimed", len(claimed))
        for mail in mails:
            if mail.id in claimed:
                answer(container, mail)


def answer(container: Container, mail: Mail) -> None:
    """Answer mail with its number; even numbers under an id that a second answer shares."""
    if mail.id.startswith("m-"):
        number = int(mail.id.removeprefix("m-"))
        own_id = None if number % 2 else f"re-{number}"
        to = ASKED if number % 3 == 0 else None
        container.send(f"answer {number}", id=own_id, to=to, in_reply_to=mail.id)
        say("answered", number)
    container.complete([mail])
    say("done", mail.id)


if __name__ == "__main__":
    if sys.argv[1] == "host":
        run_host(*sys.argv[2:])
    else:
        run_agent(*sys.argv[2:])
