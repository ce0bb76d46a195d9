"""The container's side: reading, answering and asking, and the loop of an agent."""
