"""What surfaces need to forget something that was captured."""
