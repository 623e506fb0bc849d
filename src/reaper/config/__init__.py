"""Settings, presets and overrides: every number a run depends on."""
