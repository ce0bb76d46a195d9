"""Collecting what shells, browsers and other programs report: spool, socket, native messages."""
