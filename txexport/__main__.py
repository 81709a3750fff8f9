"""The command `txexport`, which is also `python -m txexport`."""

import _thread
import signal
import sys
import time

from txexport.errors import MissingLibraryError


def main() -> None:
    """Run the command line; without the libraries that it needs, say so in one line and exit with 2.

    Interrupted while it is still imported, it ends as it does later: without a traceback.
    """
    sys.unraisablehook = _interrupt_again
    try:
        from txexport.cli.main import main as run

        run()
    except MissingLibraryError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)


def _interrupt_again(ignored: "sys.UnraisableHookArgs") -> None:
    """Interrupt once more where Python ignored it: in a finaliser or a callback of a weak reference.

    Every import runs such callbacks: without this, Ctrl-C at times printed a traceback and changed nothing.
    """
    if issubclass(ignored.exc_type, KeyboardInterrupt):
        _thread.start_new_thread(_interrupt_soon, (_thread.get_ident(),))
    else:
        sys.__unraisablehook__(ignored)


def _interrupt_soon(thread: int) -> None:
    """Interrupt the main thread after it has left the callback; also a call that waits, except on Windows."""
    time.sleep(0.01)
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(thread, signal.SIGINT)
    else:  # Windows
        _thread.interrupt_main()


if __name__ == "__main__":
    main()
