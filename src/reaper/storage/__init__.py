"""Everything on disk: atomic files, the store, checkpoints, packs and their checks."""
