"""Other software that loads bundles, each in an environment of its own, and what it answers.

`process.py` asks; `worker.py` runs in the client's interpreter, where txexport is not installed, and hands
calls to that client's own file, which holds no more than the client's documentation tells its users to write.
"""
