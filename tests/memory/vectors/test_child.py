"""The embedder in a child: started by need, ends when idle, never outlives its parent."""

import os
import select
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import REPO
from tests.memory.vectors.embedders import vector_of, write_tiny_model
from tests.support.children import Child
from threadkeep.errors import Closed, ThreadkeepError
from threadkeep.memory.vectors.builtin import open_builtin
from threadkeep.memory.vectors.child import ChildEmbedder

_PATIENCE_MS = 60_000  # only a test that is broken waits this long
WORK = """
import sys
from tests.memory.vectors.embedders import HashEmbedder
from threadkeep.memory.vectors.worker import answer_until_idle
answer_until_idle(HashEmbedder(), 0, 1, float(sys.argv[1]))
"""
# A child as a test wants it: it fails, says too little, or says nothing.
ENDS_AT_ONCE = "import sys; sys.exit(3)"
ENDS_AMID = "import os; os.read(0, 9); os.write(1, b'\\0\\0\\0\\x09abc')"
SILENT = "import os\nwhile os.read(0, 99): pass"


class Starts:
    """Starts children with a script and counts them."""

    def __init__(self, script: str = WORK, idle_seconds: float = 600) -> None:
        self._command = [sys.executable, "-c", script, str(idle_seconds)]
        self.count = 0
        self.started = threading.Event()

    def __call__(self) -> "subprocess.Popen[bytes]":
        self.count += 1
        path = os.pathsep.join([str(REPO / "src"), str(REPO)])
        self.started.set()
        return subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env=os.environ | {"PYTHONPATH": path},
        )


@contextmanager
def watched(pid: int) -> Iterator[select.poll]:
    """Return something that becomes ready when a process has ended, whoever's child it is."""
    descriptor = os.pidfd_open(pid)
    try:
        ended = select.poll()
        ended.register(descriptor, select.POLLIN)
        yield ended
    finally:
        os.close(descriptor)


needs_pidfd = pytest.mark.skipif(
    not hasattr(os, "pidfd_open"), reason="needs pidfd_open to wait for another's child"
)


def test_one_child_answers_again_and_again() -> None:
    start = Starts()
    embedder = ChildEmbedder(start, model="hash-8", dimensions=8)
    assert embedder.pid is None
    texts = ["one", "two" * 100_000, "", "中"]
    expected = [vector_of(text) if text else b"" for text in texts]
    assert embedder.embed(texts) == expected
    assert embedder.embed(texts[:1]) == expected[:1]
    assert embedder.embed([]) == []
    pid = embedder.pid
    assert pid is not None
    embedder.close()
    assert (start.count, embedder.pid) == (1, None)
    with pytest.raises(Closed):
        embedder.embed(["x"])


def test_a_child_that_nobody_asks_ends_by_itself() -> None:
    with Starts(idle_seconds=0)() as child:  # with its pipe still open
        assert child.wait(60) == 0


@needs_pidfd
def test_after_a_child_has_ended_the_next_text_starts_another() -> None:
    start = Starts()
    embedder = ChildEmbedder(start, model="hash-8", dimensions=8)
    embedder.embed(["x"])
    pid = embedder.pid
    assert pid is not None
    with watched(pid) as ended:
        os.kill(pid, 9)
        assert ended.poll(_PATIENCE_MS)
    assert embedder.embed(["y"]) == [vector_of("y")]
    assert start.count == 2
    embedder.close()


@needs_pidfd
def test_no_child_outlives_a_parent_that_was_killed() -> None:
    script = """
from tests.memory.vectors.test_child import Starts
from threadkeep.memory.vectors.child import ChildEmbedder
embedder = ChildEmbedder(Starts(), model="hash-8", dimensions=8)
embedder.embed(["x"])
say(embedder.pid)
hear()
"""
    with Child(script) as parent:
        pid = int(parent.hear())
        with watched(pid) as ended:
            assert not ended.poll(0)
            parent.process.kill()
            assert ended.poll(_PATIENCE_MS)


@pytest.mark.parametrize(
    "script, says",
    [(ENDS_AT_ONCE, "exited"), (ENDS_AMID, "exited"), (SILENT, "did not answer for 0.1 s")],
)
def test_a_child_that_does_not_answer_is_an_error_and_gone(script: str, says: str) -> None:
    start = Starts(script)
    seconds = 0.1 if script == SILENT else 60
    embedder = ChildEmbedder(start, model="hash-8", dimensions=8, answer_seconds=seconds)
    with pytest.raises(ThreadkeepError, match=says):
        embedder.embed(["x"])
    assert embedder.pid is None
    assert start.count == (1 if script == SILENT else 2)
    embedder.close()


def test_closing_does_not_wait_for_an_answer() -> None:
    start = Starts(SILENT)
    embedder = ChildEmbedder(start, model="hash-8", dimensions=8)
    with ThreadPoolExecutor(1) as others:
        waiting = others.submit(embedder.embed, ["x"])
        start.started.wait(60)
        embedder.close()
        with pytest.raises(Closed):
            waiting.result(60)
    assert (start.count, embedder.pid) == (1, None)


def test_the_real_child_reads_the_table_and_reports_what_is_wrong(tmp_path: Path) -> None:
    write_tiny_model(tmp_path / "model")
    made = open_builtin(tmp_path / "model", tmp_path / "cache", make=True)
    script = """
import sys
from pathlib import Path
from threadkeep.memory.vectors import worker as working
from threadkeep.memory.vectors.builtin import WeightsFolder as Found
folder = Path({folder!r})
working.look_for_weights = lambda: Found(folder if folder.is_dir() else None, "no weights here")
sys.exit(working.main([{cache!r}, "600"]))
"""
    for folder, works in (("model", True), ("nowhere", False)):
        about = {"folder": str(tmp_path / folder), "cache": str(tmp_path / "cache")}
        embedder = ChildEmbedder(Starts(script.format(**about)))
        if works:
            assert embedder.embed(["a cat", "..."]) == made.embed(["a cat", "..."])
        else:
            with pytest.raises(ThreadkeepError, match="no weights here"):
                embedder.embed(["a cat"])
        embedder.close()
