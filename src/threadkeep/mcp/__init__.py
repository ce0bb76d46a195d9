"""The MCP server: agents ask their own history."""
