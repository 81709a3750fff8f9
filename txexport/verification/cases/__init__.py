"""The cases of a verification: planned, seeded, and run."""
