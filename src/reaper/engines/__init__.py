"""Engines run the stages of a plan: on this machine, or on a Ray cluster. A new engine is one file and one row here."""

from reaper.engines.base import ENGINES
from reaper.engines.local import LocalEngine
from reaper.engines.ray import RayEngine

ENGINES["local"] = LocalEngine
ENGINES["ray"] = RayEngine
