"""Seeded mutations of everything that txexport reads from outside; run with tools/fuzz.

`seeds` writes the checkpoints and bundles that mutants begin from; `json_values`, `raw_bytes`, `containers`,
`protobuf` and `templates` change them; `targets` are the readers that are tried, those of arguments, commands
and requests in `arguments`, `commands` and `http`; `worker` and `pool` run mutants in processes with limits.
"""
