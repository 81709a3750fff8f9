"""The command `txexport`, which is also `python -m txexport`."""

import signal
import sys

from txexport.errors import MissingLibraryError


def main() -> None:
    """Run the command line; without the libraries that it needs, say so in one line and exit with 2.

    Interrupted while it is still imported, it ends as it does later: without a traceback.
    """
    try:
        from txexport.cli.main import main as run

        run()
    except MissingLibraryError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)


if __name__ == "__main__":
    main()
