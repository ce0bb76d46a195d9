"""The folders, as a pure function of the environment."""

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from threadkeep.base.paths import below, find_paths
from threadkeep.errors import Invalid

NAMES = ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR")


def test_the_defaults_are_below_the_users_home() -> None:
    found = find_paths({"HOME": "/home/ann"})
    assert found.data == Path("/home/ann/.local/share/threadkeep")
    assert found.config == Path("/home/ann/.config/threadkeep/config.toml")
    assert found.state == Path("/home/ann/.local/state/threadkeep")
    assert found.cache == Path("/home/ann/.cache/threadkeep")
    assert found.runtime == Path("/home/ann/.local/state/threadkeep/run")


def test_the_xdg_variables_count_when_they_are_absolute() -> None:
    found = find_paths({name: f"/{name.lower()}" for name in NAMES})
    assert found.data == Path("/xdg_data_home/threadkeep")
    assert found.config == Path("/xdg_config_home/threadkeep/config.toml")
    assert found.state == Path("/xdg_state_home/threadkeep")
    assert found.cache == Path("/xdg_cache_home/threadkeep")
    assert found.runtime == Path("/xdg_runtime_dir/threadkeep")
    relative = {"HOME": "/h", **dict.fromkeys(NAMES, "not/absolute")}
    assert find_paths(relative) == find_paths({"HOME": "/h"})


def test_one_folder_overrides_them_all() -> None:
    environ = {"HOME": "/h", "THREADKEEP_HOME": "~/keep", **dict.fromkeys(NAMES, "/x")}
    assert find_paths(environ) == below(Path("/h/keep"))
    assert find_paths(environ, Path("/named")) == below(Path("/named"))


def test_the_configuration_may_be_elsewhere() -> None:
    environ = {"HOME": "/h", "THREADKEEP_CONFIG": "~/mine.toml"}
    assert find_paths(environ).config == Path("/h/mine.toml")
    assert find_paths(environ, Path("/named")).config == Path("/named/config.toml")


def test_without_a_home_it_says_what_to_do() -> None:
    with pytest.raises(Invalid, match="THREADKEEP_HOME"):
        find_paths({})


@given(st.dictionaries(st.sampled_from([*NAMES, "THREADKEEP_HOME"]), st.text(max_size=20)))
def test_any_environment_gives_five_paths(environ: dict[str, str]) -> None:
    found = find_paths({"HOME": "/h", **environ})
    assert found.config.suffix == ".toml"
