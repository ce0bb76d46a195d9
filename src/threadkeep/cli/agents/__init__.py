"""The commands for agents, as they stand at the top level."""

from threadkeep.cli.agents.mcp import mcp

__all__ = ["COMMANDS"]

COMMANDS = (mcp,)
