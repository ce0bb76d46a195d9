"""Stands in for Hermes Agent's module of this name: import SessionDB from here instead."""

from threadkeep.state.layout import SCHEMA_VERSION
from threadkeep.state.opening import default_path
from threadkeep.state.session_db import SessionDB

DEFAULT_DB_PATH = default_path()

__all__ = ["DEFAULT_DB_PATH", "SCHEMA_VERSION", "SessionDB"]
