"""Graphs that read their whole input at once and have no cache: encoders with any head, and dual encoders."""

from txexport.contracts.contract import Contract

ONE_PASS = Contract("one pass", None)
