"""The engine of SQLite: files, locks, logs; stores see `base.database` and `base.tx` only."""
