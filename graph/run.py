"""The front door for machines and terminals: `python -m graph.run`. It reads the environment; nothing below does."""

from __future__ import annotations

import errno
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from graph.arguments import parse
from memory.errors import TunewrightError

if TYPE_CHECKING:
    from graph.workshop import Equip

STOPPED = 130
SHUTDOWN_SECONDS = 20.0
"""Time to end the engines and close the database; a signal that comes meanwhile changes nothing."""

REFUSED = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS)
"""What the machine answers where it has no space or does not permit; any other OSError is a bug and keeps its trace."""


def main(argv: Sequence[str] | None = None, equip: Equip | None = None) -> int:
    """Do what the command line says. The exit code: 0 finished, 1 failed, 2 bad input, 3 not improved, 130 stopped.

    `equip` makes the workshop of a run; None makes the real one.
    """

    def work() -> int:
        settings = parse(sys.argv[1:] if argv is None else argv, os.environ)
        # LangGraph takes seconds to import, too long for --help or for the news of a misspelt name.
        from graph.commands import act
        from graph.workshop import workshop

        return act(settings, equip or workshop)

    return guarded(work)


def guarded(work: Callable[[], int], stopped: str = "") -> int:
    """Do the work of a front door: what may be expected to end it becomes one line and an exit code. `stopped` is said
    after Ctrl-C."""
    try:
        with stoppable():
            return work()
    except TunewrightError as error:
        print(f"tunewright: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        if stopped:
            print(stopped, file=sys.stderr)
        return STOPPED
    except BrokenPipeError:
        # The reader has seen enough, as `head` does. Python would fail once more when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if error.errno not in REFUSED:
            raise
        place = error.filename or "the disk"
        print(f"tunewright: {place}: {error.strerror}. What was finished is kept.", file=sys.stderr)
        return 1


@contextmanager
def stoppable() -> Iterator[None]:
    """Ctrl-C, SIGTERM and a closed terminal raise KeyboardInterrupt where the work is. While that is cleared away
    further ones are only answered; after SHUTDOWN_SECONDS they count again, in case the first was swallowed."""
    stopped_at = -SHUTDOWN_SECONDS

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal stopped_at
        if time.monotonic() - stopped_at < SHUTDOWN_SECONDS:
            os.write(2, b"stopping already; wait for the engines to end\n")
            return
        stopped_at = time.monotonic()
        raise KeyboardInterrupt

    # A signal that was ignored when we were started, as nohup does, stays ignored.
    heard = [
        each for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) != signal.SIG_IGN
    ]
    before = {each: signal.signal(each, stop) for each in heard}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


if __name__ == "__main__":
    sys.exit(main())
