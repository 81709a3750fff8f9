"""The answers of a reference that a bundle keeps, so that it can be verified where it runs.

`verify` records them; `verify_here` compares a device, an engine and its options with them, and needs neither
PyTorch nor transformers nor the checkpoint.
"""
