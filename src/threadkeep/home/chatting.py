"""What surfaces need of the chat store beyond its verbs, named in one place."""
