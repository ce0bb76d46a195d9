"""Read-only views on the programs that keep conversations: one module for each producer."""
