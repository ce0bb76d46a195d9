"""The commands of the chat store."""
