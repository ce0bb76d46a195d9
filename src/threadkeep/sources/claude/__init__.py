"""Claude Code: its transcripts, and the notes it keeps."""
