"""The agent of the sandbox tests: does what mail asks for, and says so line by line.

It runs where only /workspace is shared with the host. With a number as its argument it becomes
that user first. Stdout is for the test alone: it tells when to look into the folder.
"""

import errno
import json
import os
import select
import signal
import socket
import sys
from pathlib import Path

if len(sys.argv) > 1:
    os.setgroups([])
    os.setgid(int(sys.argv[1]))
    os.setuid(int(sys.argv[1]))

import threadkeep
from threadkeep.mailbox.container.container import Container, open_here
from threadkeep.mailbox.records import Mail

PACE = 0.02


def say(*words: object) -> None:
    """Tell the test something."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def surroundings() -> dict[str, object]:
    """Tell what can be seen from in here."""
    return {
        "uid": os.getuid(),
        "pid": os.getpid(),
        "links": [name for _, name in socket.if_nameindex()],
        "root": [path.name for path in Path("/").iterdir()],
        "tmp": [path.name for path in Path("/tmp").iterdir()],
    }


def echo(container: Container, mail: Mail) -> None:
    container.send(mail.text.upper(), in_reply_to=mail.id)


def turn_around(container: Container, mail: Mail) -> None:
    """Send the file back with its bytes in the other order."""
    data = container.attachment(mail, "there.bin")
    container.send("and back", files=[("back.bin", data[::-1])], in_reply_to=mail.id)


def ask(container: Container, mail: Mail) -> None:
    question = container.ask("Which one?", ["left", "right"], title="A choice")
    say("asked", question)
    answer = None
    while answer is None:
        select.select([0], [], [], PACE)
        answer = container.answer(question)
    container.send(f"so {answer['selectedOption']}", in_reply_to=mail.id)


def hang_once(container: Container, mail: Mail) -> None:
    if container.get_state("hung") is None:
        container.set_state("hung", mail.id)
        say("hanging")
        signal.pause()
    container.send("not this time", in_reply_to=mail.id)


def peek(container: Container, mail: Mail) -> None:
    """Try to write into the program that the host itself runs."""
    try:
        Path(threadkeep.__file__).with_name("marker").write_text("here", encoding="utf-8")
    except OSError as error:
        container.send(errno.errorcode[error.errno or 0], in_reply_to=mail.id)
    else:
        container.send("written", in_reply_to=mail.id)


DEEDS = {"file": turn_around, "ask": ask, "hang": hang_once, "peek": peek}


def main() -> None:
    container = open_here()
    say("up", container.start(), json.dumps(surroundings()))
    while True:
        for mail in container.poll():
            if container.claim([mail]):
                container.beat()
                DEEDS.get(mail.text, echo)(container, mail)
                container.complete([mail])
                say("done", mail.id)
        if select.select([0], [], [], PACE)[0] and not os.read(0, 1):
            return


if __name__ == "__main__":
    main()
