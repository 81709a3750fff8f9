"""`python -m txexport` is the command line."""

from txexport.cli import main

main()
