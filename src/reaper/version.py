"""The version of the package, from its metadata."""

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("reaper-rl")
except PackageNotFoundError:  # run from a source tree that was never installed
    VERSION = "0+unknown"
