"""Mailboxes: how a host and a sandboxed agent exchange mail through two files of a folder."""
