"""How one SQLite file is opened, lent, guarded and checked; `base.database` is what others use."""
