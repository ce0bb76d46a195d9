"""The captured history: what agents did on this machine, as commands at the top level."""
