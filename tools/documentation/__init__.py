"""Builds the documentation: pages of docs/, with parts generated from the code, as a folder of HTML."""
