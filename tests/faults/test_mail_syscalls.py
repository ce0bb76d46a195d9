"""What the mailbox asks of the system: so many syncs per message, and no opening of links."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import need_tool
from tests.faults.programs import run_python
from threadkeep.mailbox.host.host import Host
from threadkeep.mailbox.records import Place

pytestmark = pytest.mark.faults

Trace = Callable[..., str]
# Of a file with a rollback journal: the journal twice, its folder, the file itself, and the folder
# again when the journal is gone, which is what makes it a commit.
COMMIT = 5

_BEGIN = """
import os, sys
sys.path.insert(0, {tests!r})
from threadkeep.mailbox.container.container import Container
from threadkeep.mailbox.host.host import Host
from tests.faults.mail_effects import Effects, Keyed
from pathlib import Path
folder = Path(sys.argv[1])
host, container = Host(folder), Container(folder)
channels = {{"keyed": Keyed(Effects(folder.with_name("effects")), lambda key: None)}}
"""
# Before the trace counts, and after: words that nothing else writes.
_MARKED = """
os.write(2, b"begin")
{}
os.write(2, b"end")
"""
SYNC = re.compile(r"\bf(?:data)?sync\(")
OPENED = re.compile(r'open(?:at)?\([^"]*"(?P<path>[^"]*)", (?P<flags>[A-Z_|]+)')


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = Host.create(tmp_path / "group" / "sess-1")
    made.write_routing(Place("keyed", "chat-1"))
    return made.context.folder.path


@pytest.fixture
def trace(tmp_path: Path, folder: Path) -> Trace:
    """Return the function that runs lines in a process and gives its calls while they ran."""
    strace, log = need_tool("strace"), tmp_path / "trace"

    def run(lines: str, before: str = "") -> str:
        calls = "trace=fsync,fdatasync,open,openat,write"
        watched = (strace, "-f", "-qq", "-s", "4000", "-o", str(log), "-e", calls)
        repo = str(Path(__file__).resolve().parents[2])
        script = _BEGIN.format(tests=repo) + before + _MARKED.format(lines)
        run_python(script, folder, *watched)
        said = log.read_text(errors="replace")
        return said[said.index('"begin"') : said.index('"end"')]

    return run


def syncs(calls: str) -> int:
    return len(SYNC.findall(calls))


@pytest.mark.parametrize(
    "verb",
    [
        "container.send('hello')",
        "host.send('hello')",
        "container.claim(['m-1', 'm-2'])",
        "container.complete(['m-1', 'm-2'])",
        "host.insert_task('do it', recurrence='0 9 * * *')",
    ],
)
def test_one_verb_is_one_commit(trace: Trace, folder: Path, verb: str) -> None:
    for number in (1, 2):
        Host(folder).send("hello", id=f"m-{number}")
    assert syncs(trace(verb)) == COMMIT


@pytest.mark.parametrize("verb", ["container.poll()", "host.drain(channels)", "host.sweep()"])
def test_without_news_nothing_is_written(trace: Trace, verb: str) -> None:
    before = "container.send('hello'); host.drain(channels); host.sweep()\n"
    assert syncs(trace(verb, before)) == 0


def test_a_drain_makes_one_commit_per_message_and_two_for_all(trace: Trace) -> None:
    counts = {}
    for number in (1, 9):
        before = f"for n in range({number}): container.send(f'hello {{n}}')\n"
        counts[number] = syncs(trace("host.drain(channels)", before))
    effects = 1  # of the channel itself, per message
    assert counts == {n: (n + 2) * COMMIT + n * effects for n in (1, 9)}


def test_the_host_follows_no_link_in_the_folder(trace: Trace, folder: Path) -> None:
    """SQLite opens its own files this way too; the folder itself is out of the agent's reach."""
    before = "container.send('hello', files=[('a.txt', b'data')])\n"
    calls = trace(
        "host.send('hello', attachments=[{'name': 'b.txt', 'data': 'ZGF0YQ=='}])\n"
        "host.drain(channels); host.sweep(); host.verify()",
        before,
    )
    opened = [found for found in OPENED.finditer(calls) if _is_inside(found["path"], folder)]
    assert len(opened) > 20
    assert [found[0] for found in opened if "O_NOFOLLOW" not in found["flags"]] == []


def _is_inside(path: str, folder: Path) -> bool:
    return path.startswith(f"{folder}/") or not path.startswith("/")
