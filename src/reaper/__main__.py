"""`python -m reaper`, for when the `reaper` script is not on the path."""

import sys

from reaper.cli.main import main

if __name__ == "__main__":  # worker processes import this module too
    sys.exit(main())
