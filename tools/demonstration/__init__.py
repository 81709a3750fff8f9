"""tools/demo: exports, proves and runs models, and writes a page about it."""
