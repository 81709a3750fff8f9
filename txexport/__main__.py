"""The command `txexport`, which is also `python -m txexport`."""

import sys

from txexport.errors import MissingLibraryError


def main() -> None:
    """Run the command line; without the libraries that it needs, say so in one line and exit with 2."""
    try:
        from txexport.cli.main import main as run
    except MissingLibraryError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    run()


if __name__ == "__main__":
    main()
