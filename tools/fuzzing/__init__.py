"""Seeded mutations of all external inputs of txexport; run with tools/fuzz.

`seeds` writes the checkpoints and bundles to mutate; `json_values`, `raw_bytes`, `containers`, `protobuf` and
`templates` change them; `targets` lists the readers under test, whose functions are in `checkpoints`,
`settings`, `inputs` and `bundles`, those of arguments, commands and requests in `arguments`, `commands` and
`http`; `worker` and `pool` run mutants in processes with limits.
"""
