"""`python -m threadkeep` is the same as the `threadkeep` command."""

import sys

from threadkeep.cli.app import program

if __name__ == "__main__":
    sys.exit(program())
