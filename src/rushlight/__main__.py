"""`python -m rushlight`: the command line."""

import sys

from rushlight.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
