"""What surfaces need to forget something that was captured."""

from threadkeep.capture.forgetting import Forget, Forgotten

__all__ = ["Forget", "Forgotten"]
