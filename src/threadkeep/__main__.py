"""`python -m threadkeep` is the same as the `threadkeep` command."""

import sys

from threadkeep.cli import main

if __name__ == "__main__":
    sys.exit(main())
