"""The commands of the state store."""
