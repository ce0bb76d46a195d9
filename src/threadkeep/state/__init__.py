"""The state contract: session history in a file that Hermes Agent reads and writes, too."""
