"""Cline and its relatives: the sessions of its command line, and the tasks of the editors."""
