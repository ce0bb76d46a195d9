"""The AI SDK's stream: its protocol and frames, and how its chunks become a message."""
