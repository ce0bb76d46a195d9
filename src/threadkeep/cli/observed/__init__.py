"""What people and machines did around the agents: commands, pages, CI."""
