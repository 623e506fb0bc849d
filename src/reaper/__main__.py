"""`python -m reaper`, where the command is not on the path."""

import sys

from reaper.cli.main import main

if __name__ == "__main__":  # not where worker processes import it anew
    sys.exit(main())
