"""man: pages from the commands themselves, in roff that a formatter takes without a warning."""

import subprocess
from pathlib import Path

import click
import pytest
from hypothesis import given, strategies as st

from tests.cli.conftest import Run, document
from tests.conftest import need_tool
from threadkeep.cli.manual import all_commands, definition, escaped, page, paragraph
from threadkeep.cli.root import cli


def test_a_page_has_all_its_parts(run: Run) -> None:
    shown = run("man", "usage").stdout
    parts = ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLES", "SEE ALSO")
    assert [line for line in shown.splitlines() if line.startswith(".SH")] == [
        f'.SH "{name}"' for name in parts
    ]
    assert "\\fB\\-\\-breakdown\\fR\n" in shown
    assert document(run("man", "chat", "ls", "--json"))["command"] == "threadkeep chat ls"
    assert "no command 'chat nope'" in run("man", "chat", "nope", code=3).stderr


def test_every_command_has_a_page_where_man_looks(run: Run, tmp_path: Path) -> None:
    run("man", "--install", str(tmp_path))
    names = {file.name for file in (tmp_path / "man1").iterdir()}
    assert {"threadkeep.1", "threadkeep-chat.1", "threadkeep-chat-ls.1"} <= names
    assert len(names) == len(all_commands(click.Context(cli, info_name="threadkeep")))
    assert not {name for name in names if "native-host" in name}


def test_the_pages_are_good_roff() -> None:
    groff = need_tool("groff")
    root = click.Context(cli, info_name="threadkeep")
    text = "".join(page(found, ctx, path) for path, (found, ctx) in all_commands(root).items())
    done = subprocess.run(
        [groff, "-man", "-ww", "-Tutf8"], input=text.encode(), capture_output=True, check=True
    )
    assert done.stderr == b""
    assert b"THREADKEEP-CHAT-LS(1)" in done.stdout


@pytest.mark.parametrize("make", [escaped, paragraph, lambda text: definition(text, text)])
@given(text=st.text())
def test_no_text_becomes_a_request_or_an_escape(make: "type[str]", text: str) -> None:
    lines = make(text).split("\n")
    own = (".PP", ".TP")
    assert not [line for line in lines if line.startswith((".", "'")) and line not in own]
    bare = make(text).replace("\\e", "").replace("\\-", "").replace("\\&", "")
    for known in ("\\(ga", "\\(aq", "\\fB", "\\fR", "\\[u", "|\\:"):
        bare = bare.replace(known, "")
    assert "\\" not in bare
