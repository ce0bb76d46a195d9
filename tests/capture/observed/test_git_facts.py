"""Git facts from files alone: what git says, at every moment, and no harm from hostile ones."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tests.conftest import need_tool
from threadkeep.knowledge.records import GitState
from threadkeep.sources import git_facts
from threadkeep.sources.git_facts import GitCache, facts_at, origin_url, owner_and_name

EPOCH = 1_700_000_000
LATE = 4_000_000_000_000


def git(folder: Path, *words: str, at: int = EPOCH) -> str:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_COMMITTER_DATE": f"{at} +0200",
        "GIT_AUTHOR_DATE": f"{at} +0200",
        **dict.fromkeys(("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"), "An > Author"),
        **dict.fromkeys(("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"), "a@example.org"),
    }
    command = [need_tool("git"), "-c", "protocol.file.allow=always", *words]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def says(folder: Path) -> tuple[str, str]:
    """What git itself says of this moment."""
    branch = git(folder, "rev-parse", "--abbrev-ref", "HEAD")
    return branch, git(folder, "rev-parse", "--short=7", "HEAD")


def ours(folder: Path | str, at_ms: int = LATE) -> tuple[str | None, str | None]:
    found = facts_at(str(folder), at_ms, GitCache())
    assert found is not None
    return found.branch, found.commit


def repository(folder: Path, branch: str = "main") -> Path:
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", branch)
    return folder


def commit(folder: Path, message: str = "x", at: int = EPOCH) -> None:
    git(folder, "commit", "-q", "--allow-empty", "-m", message, at=at)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    made = repository(tmp_path / "wörk tree")
    commit(made)
    return made


STEPS = [
    ("commit", "--allow-empty", "-m", "second"),
    ("checkout", "-b", "feature/ünï"),
    ("commit", "--allow-empty", "-m", "checkout: moving from a to b"),
    ("switch", "main"),
    ("tag", "v1"),
    ("checkout", "v1"),
    ("commit", "--allow-empty", "-m", "detached"),
    ("checkout", "feature/ünï"),
    ("branch", "-m", "renamed"),
    ("commit", "--allow-empty", "-m", "on the renamed branch"),
    ("checkout", "HEAD~1"),
    ("switch", "-"),
    ("reset", "--hard", "HEAD~1"),
    ("merge", "--no-ff", "-m", "merged", "main"),
    ("checkout", "main"),
]


def test_every_moment_is_what_git_said_then(repo: Path) -> None:
    truth = [says(repo)]
    for number, step in enumerate(STEPS, 1):
        git(repo, *step, at=EPOCH + 10 * number)
        truth.append(says(repo))
    cache = GitCache()
    for number, (branch, known) in enumerate(truth):
        for second in (0, 9):
            found = facts_at(str(repo), (EPOCH + 10 * number + second) * 1000 + 999, cache)
            assert found == GitState("wörk tree", branch, known), STEPS[number - 1]
    assert len(set(truth)) > 8


def test_before_its_first_commit_nothing_is_known_of_a_repository(repo: Path) -> None:
    assert ours(repo, (EPOCH - 1) * 1000) == (None, None)


def test_before_a_log_that_was_trimmed_is_what_its_first_entry_left(repo: Path) -> None:
    first = says(repo)
    git(repo, "checkout", "-q", "-b", "other", at=EPOCH + 5)
    commit(repo, at=EPOCH + 9)
    log = repo / ".git/logs/HEAD"
    log.write_text("".join(log.read_text().splitlines(keepends=True)[1:]))
    assert ours(repo, 0) == first


def test_a_clock_that_was_set_back_leaves_the_last_move_in_force(repo: Path) -> None:
    commit(repo, "later", at=EPOCH + 100)
    commit(repo, "set back", at=EPOCH + 50)
    assert ours(repo, (EPOCH + 60) * 1000) == says(repo)
    assert ours(repo, (EPOCH + 200) * 1000) == says(repo)


def test_without_a_log_it_is_what_head_says(repo: Path) -> None:
    (repo / ".git/logs/HEAD").unlink()
    assert ours(repo, 0) == says(repo)
    git(repo, "pack-refs", "--all")
    assert not (repo / ".git/refs/heads/main").exists()
    assert ours(repo) == says(repo)
    git(repo, "checkout", "-q", "--detach")
    (repo / ".git/logs/HEAD").unlink()
    assert ours(repo) == says(repo)
    assert ours(repo)[0] == "HEAD"


def test_a_branch_without_a_commit_is_named(tmp_path: Path) -> None:
    assert ours(repository(tmp_path / "new", "trunk")) == ("trunk", None)


def test_folders_inside_are_found_and_their_links_too(repo: Path, tmp_path: Path) -> None:
    deep = repo / "a" / "b"
    deep.mkdir(parents=True)
    assert ours(deep) == ours(repo / ".git") == ours(f"{deep}/..//") == says(repo)
    assert facts_at(str(tmp_path), LATE, GitCache()) is None
    assert facts_at(str(repo / "gone"), LATE, GitCache()) is None


@pytest.mark.parametrize("cwd", ["", "relative/path", "/\0", "/" + "x" * 5000, "/\ud800", "~"])
def test_what_is_no_folder_is_in_no_repository(cwd: str) -> None:
    assert facts_at(cwd, LATE, GitCache()) is None


def test_linked_work_trees_have_their_own_branch_and_the_shared_origin(
    repo: Path, tmp_path: Path
) -> None:
    git(repo, "remote", "add", "origin", "git@example.org:team/tool.git")
    linked = tmp_path / "linked"
    git(repo, "worktree", "add", "-q", "-b", "side", str(linked), at=EPOCH + 5)
    commit(linked, at=EPOCH + 9)
    found = facts_at(str(linked), LATE, GitCache())
    assert found == GitState("team/tool", *says(linked))
    assert found.branch == "side"
    (repo / ".git/worktrees/linked/logs/HEAD").unlink()
    git(repo, "pack-refs", "--all")
    assert ours(linked) == says(linked)
    assert ours(repo) == says(repo)


def test_submodules_are_repositories_of_their_own(repo: Path, tmp_path: Path) -> None:
    part = repository(tmp_path / "part")
    commit(part, "another root")
    git(repo, "submodule", "--quiet", "add", str(part), "libs/part")
    found = facts_at(str(repo / "libs/part"), LATE, GitCache())
    assert found == GitState("part", *says(repo / "libs/part"))


def test_bare_repositories(repo: Path, tmp_path: Path) -> None:
    bare = tmp_path / "tool.git"
    git(tmp_path, "clone", "-q", "--bare", str(repo), str(bare))
    found = facts_at(str(bare / "refs"), LATE, GitCache())
    assert found == GitState("tool", *says(bare))


def test_one_batch_reads_a_repository_once_and_forgets_in_time(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = GitCache()
    before = facts_at(str(repo), LATE, cache)
    commit(repo, "new", at=EPOCH + 5)
    assert facts_at(str(repo), LATE, cache) == before
    assert ours(repo) == says(repo)
    monkeypatch.setattr(git_facts, "_MOST_FOLDERS", 2)
    for name in "abcde":
        (repo / name).mkdir()
        facts_at(str(repo / name), LATE, cache)
        assert len(cache._repositories) <= 2


# ---------------------------------------------------------------------- hostile repositories


def test_links_pipes_and_second_names_are_not_opened(repo: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(f"{'a' * 40}\n")
    log, ref = repo / ".git/logs/HEAD", repo / ".git/refs/heads/main"
    log.unlink()
    os.mkfifo(log)
    ref.unlink()
    ref.symlink_to(secret)
    assert ours(repo) == ("main", None)
    ref.unlink()
    ref.hardlink_to(secret)
    assert ours(repo) == ("main", None)
    (repo / ".git/HEAD").unlink()
    (repo / ".git/HEAD").symlink_to(secret)
    assert facts_at(str(repo), LATE, GitCache()) is None


@pytest.mark.parametrize(
    "head",
    [
        "ref: refs/heads/../../../secret",
        "ref: refs/heads/.invalid",
        "ref: /etc/passwd",
        "ref: refs/heads/a b",
        "ref: refs/heads/",
        "ref: refs//x",
        "ref: refs/heads/x.lock",
        "",
        "nonsense",
        "a" * 39,
    ],
)
def test_a_head_that_git_would_not_write_tells_nothing(repo: Path, head: str) -> None:
    (repo / ".git/logs/HEAD").unlink()
    (repo.parent / "secret").write_text("b" * 40)
    (repo / ".git/HEAD").write_text(head + "\n")
    assert ours(repo) == (None, None)


def test_refs_that_name_each_other_end(repo: Path) -> None:
    (repo / ".git/logs/HEAD").unlink()
    (repo / ".git/refs/heads/main").write_text("ref: refs/heads/main\n")
    assert ours(repo) == ("main", None)


def test_files_of_any_size_and_content_do_no_harm(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = says(repo)
    log = repo / ".git/logs/HEAD"
    good = log.read_bytes()
    log.write_bytes(b"\xff\0 garbage\n" + b"0" * 10_000 + b"\n" + good)
    assert ours(repo) == known
    (repo / ".git/config").write_bytes(b'[remote "origin"\nurl = \xff\n[' + b" " * 50_000 + b'"\\')
    assert ours(repo) == known
    (repo / ".git/config").write_text("")
    monkeypatch.setattr(git_facts, "_REFLOG", 10_000)
    commit(repo, "behind too long a log", at=EPOCH + 5)
    assert ours(repo, EPOCH * 1000) == says(repo)


def test_a_dot_git_file_may_name_anything(tmp_path: Path) -> None:
    for content in (b"gitdir: /\n", b"gitdir: \0\n", b"gitdir:", b"\xff", b"gitdir: ../.git\n"):
        (tmp_path / ".git").write_bytes(content)
        assert facts_at(str(tmp_path), LATE, GitCache()) is None


def test_a_link_to_itself_is_no_repository(tmp_path: Path) -> None:
    (tmp_path / ".git").symlink_to(".git")
    assert facts_at(str(tmp_path), LATE, GitCache()) is None


# ---------------------------------------------------------------------- addresses


@pytest.mark.parametrize(
    "url, expected",
    [
        ("https://github.com/owner/name.git", "owner/name"),
        ("https://github.com/owner/name/", "owner/name"),
        ("http://user:pass@host:8080/deep/group/owner/name", "owner/name"),
        ("https://ghp_token@github.com/owner/name.git?token=t#f", "owner/name"),
        ("https://user:pa/s@s@host/owner/name", "owner/name"),
        ("ssh://git@host:2222/owner/name.git", "owner/name"),
        ("SSH://git@host/~owner/name", "~owner/name"),
        ("git://host/owner/name.git", "owner/name"),
        ("git@github.com:owner/name.git", "owner/name"),
        ("host:owner/name", "owner/name"),
        ("https://host/name.git", None),
        ("https://secret@host", None),
        ("https://user:secret/x@name", None),
        ("git@host:name", None),
        ("/srv/git/owner/name.git", None),
        ("../owner/name", None),
        ("file:///srv/owner/name", None),
        ("ext::sh -c evil/a/b", None),
        ("host:../../name", None),
        ("", None),
    ],
)
def test_addresses(url: str, expected: str | None) -> None:
    assert owner_and_name(url) == expected


WORD = st.text("abcdefghijklmnopqrstuvwxyz0123456789-_.", min_size=1, max_size=12).filter(
    lambda word: word.strip(".") and not word.endswith(".git")
)
SECRET = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(
    st.sampled_from(["https", "http", "ssh", "git"]),
    SECRET,
    WORD,
    st.lists(WORD, max_size=4),
    SECRET,
)
def test_credentials_never_survive(
    scheme: str, secret: str, host: str, path: list[str], tail: str
) -> None:
    tail = tail.replace("@", "")
    url = f"{scheme}://user:SECRET{secret}SECRET@{host}/{'/'.join(path)}?SECRET{tail}"
    found = owner_and_name(url)
    assert found is None or "SECRET" not in found
    if "\n" not in secret + tail and "\r" not in secret + tail:
        assert found == ("/".join(path[-2:]) if len(path) >= 2 else None)


@given(st.text(max_size=60))
def test_any_text_is_an_address_or_none(url: str) -> None:
    found = owner_and_name(url)
    assert found is None or found.count("/") == 1


@pytest.mark.parametrize(
    "config",
    [
        '[remote "origin"]\n\turl = git@h:o/r\n',
        '[core]\n\tbare = false\n[Remote "origin"]\n\tfetch = +x\n\tURL=git@h:o/r ; comment\n',
        '[remote "upstream"]\nurl = git@h:wrong/one\n[remote "origin"] url = "git@h:o/r" # c\n',
        "[remote.origin]\r\nurl = git@h:\\\r\no/r\r\nurl = git@h:second/one\r\n",
        '[remote "origin"]\nurl = "git@h:o"/r\n[remote "Origin"]\nurl = x\n',
    ],
)
def test_the_configuration_is_read_as_git_reads_it(config: str, repo: Path) -> None:
    assert origin_url(config) == "git@h:o/r"
    (repo / ".git/config").write_bytes(config.encode())
    if "bare" not in config:
        assert git(repo, "remote", "get-url", "origin") == "git@h:o/r"
    found = facts_at(str(repo), LATE, GitCache())
    assert found is not None
    assert found.repo == "o/r"


@given(st.text(st.sampled_from('[]"\\#; \t\n=urlremotiogn'), max_size=200))
def test_any_configuration_is_read(config: str) -> None:
    assert origin_url(config) is None or "url" in config.lower()
