"""`python -m threadkeep` is the same as the `threadkeep` command."""

import sys

from threadkeep.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
