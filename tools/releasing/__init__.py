"""The dependencies of a release: their licences, and a bill of materials. `tools/release` calls it."""
