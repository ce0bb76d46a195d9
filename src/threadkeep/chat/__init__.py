"""Contract 1: conversations in the AI SDK's shape, recorded chunk by chunk."""
