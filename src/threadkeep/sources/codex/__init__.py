"""Codex: its rollout files, and the names it gives to threads."""
