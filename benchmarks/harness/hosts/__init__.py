"""The machine that judges: its locks, cores and processor."""
