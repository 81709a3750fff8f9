"""`python -m txexport` is the command line."""

from txexport.cli.main import main

main()
