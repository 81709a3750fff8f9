"""Graphs that read their whole input at once and keep nothing: encoders under any head, and two towers."""

from txexport.contracts.contract import Contract

ONE_PASS = Contract("one pass", None)
