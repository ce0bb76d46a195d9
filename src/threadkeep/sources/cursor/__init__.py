"""Cursor: agent transcripts, chats, and what its editor keeps."""
