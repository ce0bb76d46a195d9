"""The wire: how the chat store's records look outside, as pure functions."""
