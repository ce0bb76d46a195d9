"""The team server of compose.yaml, as far as it can be tried without containers."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.conftest import REPO
from tests.support.postgres import connect
from threadkeep.base.config import load_config
from threadkeep.base.engines import is_url
from threadkeep.base.postgres.pool import HomeAddress
from threadkeep.base.postgres.schema import StorePlace, drop, enter, prepare_on
from threadkeep.chat.schema import SCHEMA as CHAT

ROLE = f"threadkeep_{os.getpid()}"


@pytest.fixture
def compose() -> Any:
    yaml = pytest.importorskip("yaml")  # comes with what builds the site
    return yaml.safe_load((REPO / "compose.yaml").read_text("utf-8"))


@pytest.fixture
def login(compose: Any, server: psycopg.Connection[Any]) -> Iterator[str]:
    """Return what the login of the script connects with, once the script has made it."""
    script = compose["configs"]["roles"]["content"]
    (sql,) = re.findall(r"<<'SQL'\n(.*)SQL\n", script, re.DOTALL)
    for statement in sql.split(";"):
        if statement.strip() and "EXTENSION" not in statement:  # those are of the image
            made = re.sub(r"\bthreadkeep\b", ROLE, statement).replace(":'password'", "'secret'")
            server.execute(re.sub(r"\bDATABASE agents\b", "DATABASE postgres", made).encode())
    yield make_conninfo(server.info.dsn, user=ROLE)
    server.execute(f"DROP OWNED BY {ROLE}".encode())
    server.execute(f"DROP ROLE {ROLE}".encode())


def test_its_login_can_make_a_home_and_is_held_by_row_security(login: str) -> None:
    place = StorePlace(f"compose{os.getpid()}", "chat")
    with connect(login) as connection:
        prepare_on(connection, place, CHAT)
        assert enter(connection, place).owner
        row = connection.execute(
            "SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = session_user"
        ).fetchone()
        assert row == (False,)
        roles = connection.execute(f"SELECT member_role FROM {place.home}.tk_home".encode())
        assert roles.fetchone() != (None,)  # others can be let in
        drop(connection, place.home_name)


def test_its_settings_are_settings_and_put_the_page_behind_tls(
    compose: Any, tmp_path: Path
) -> None:
    path = tmp_path / "config.toml"
    path.write_text(compose["configs"]["settings"]["content"], "utf-8")
    web = load_config(path).web
    assert (web.host, web.allow_remote) == ("0.0.0.0", False)
    mounted = [one.split(":")[1] for one in compose["services"]["threadkeep"]["volumes"]]
    for file in (web.tls_cert, web.tls_key):
        assert file is not None
        assert str(Path(file).parent) in mounted
    (port,) = compose["services"]["threadkeep"]["ports"]
    assert port.endswith(f":{web.port}")


def test_its_url_names_the_database_beside_it(compose: Any) -> None:
    service = compose["services"]["threadkeep"]
    url = service["environment"]["THREADKEEP_DB_URL"].replace("${THREADKEEP_PASSWORD}", "secret")
    assert is_url(url)
    assert HomeAddress.read(url).home == "team"
    database = compose["services"]["database"]["environment"]["POSTGRES_DB"]
    assert url.partition("?")[0].endswith(f"@database/{database}")
    assert set(service["depends_on"]) == {"database"}
