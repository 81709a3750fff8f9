"""Other software that loads bundles, each in its own environment.

`process.py` sends calls. `worker.py` runs in the client's interpreter, where txexport is not installed, and
passes calls to that client's own file, which contains only what the client's documentation tells users to
write.
"""
