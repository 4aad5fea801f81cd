"""The parent of every process that we start: when we are gone, however we went, so is everything below it.

It runs as a program of its own (standard library only) between us and the real child, and ends for one of three
reasons: the child exits, our end of its stdin is closed (optionally after a line `stop SECONDS`), or our process is no
longer there. Then it kills every descendant, also those that made a session of their own, removes their temporary
folder, and exits with the child's code (128 + signal where a signal ended it). It copies the child's output to its own
stdout up to a limit and drains the rest.
"""

from __future__ import annotations

import ctypes
import errno
import os
import selectors
import shutil
import signal
import sys
import tempfile
import time

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
KILL_SECONDS = 10.0
"""How long to go on killing: a process in uninterruptible sleep (a broken disk) must not keep us for ever."""


def prctl(option: int, value: int) -> None:
    """One call of prctl(2); raises OSError."""
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def say(text: str) -> None:
    """A line of our own in the log; a full disk is no reason to stop supervising."""
    try:
        os.write(1, f"[supervisor] {text}\n".encode())
    except OSError:
        pass


def descendants(root: int) -> list[int]:
    """Process ids below root, from /proc; zombies included, root excluded."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb") as file:
                # The name in parentheses may hold anything; ppid is the second field after the last one.
                parent = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, IndexError, ValueError):
            continue
        children.setdefault(parent, []).append(int(entry))
    found, queue = [], [root]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def start_child(argv: list[str], stdin: int, output: int) -> int:
    """Fork and exec argv in a new session with that stdin and its output in the pipe; the child dies if we do."""
    me = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != me:
            os._exit(125)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(stdin, 0)
        os.close(stdin)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.execvp(argv[0], argv)
    except OSError as error:
        os.write(output, f"[supervisor] cannot start {argv[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


class Supervisor:
    """One child, its output and the reasons to end it."""

    def __init__(self, parent: int, limit: int) -> None:
        self.parent = parent
        self.left = limit
        self.orders = b""
        self.child = 0
        self.code: int | None = None
        self.ending: float | None = None
        """Monotonic time at which everything is killed, once an end was asked for."""

    def run(self, argv: list[str], stdin: int) -> int:
        """Supervise argv, with the file descriptor `stdin` as its input, to its end and return its exit code."""
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        events = selectors.DefaultSelector()
        woken, wake = os.pipe()
        output, child_output = os.pipe()
        for end in (woken, wake, output):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: self.end(5.0))
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        self.child = start_child(argv, stdin, child_output)
        os.close(child_output)
        os.close(stdin)
        events.register(0, selectors.EVENT_READ, self.read_orders)
        events.register(woken, selectors.EVENT_READ, lambda: os.read(woken, 4096) and None)
        events.register(output, selectors.EVENT_READ, lambda: self.copy(output) is False and events.unregister(output))
        self.watch_parent(events)
        while self.code is None and (self.ending is None or time.monotonic() < self.ending):
            wait = None if self.ending is None else max(0.0, self.ending - time.monotonic())
            for key, _ in events.select(wait):
                key.data()
                if key.fileobj == 0 and self.ending is not None:
                    events.unregister(0)
            self.reap()
        self.kill_all()
        while self.copy(output):
            pass
        return self.code if self.code is not None else 128 + signal.SIGKILL

    def watch_parent(self, events: selectors.BaseSelector) -> None:
        """Notice the parent's death even where a forked copy of it still holds our stdin open (Linux 5.3 and later)."""
        try:
            handle = os.pidfd_open(self.parent)
        except OSError as error:
            if error.errno == errno.ESRCH:
                self.end(0.0)
            return
        if os.getppid() != self.parent:
            self.end(0.0)

        def gone() -> None:
            events.unregister(handle)
            self.end(0.0)

        events.register(handle, selectors.EVENT_READ, gone)

    def read_orders(self) -> None:
        """`stop SECONDS` asks for a polite end; the closed pipe for an immediate one."""
        got = os.read(0, 4096)
        self.orders += got
        if b"\n" in self.orders or not got:
            words = self.orders.split()
            self.end(float(words[1]) if len(words) == 2 and words[0] == b"stop" else 0.0)

    def end(self, grace: float) -> None:
        """Ask the child's group to stop and set the time of the kill; a second call can only bring it nearer."""
        at = time.monotonic() + grace
        if grace > 0 and self.child:
            try:
                os.killpg(self.child, signal.SIGTERM)
            except OSError:
                pass
        self.ending = at if self.ending is None else min(at, self.ending)

    def copy(self, output: int) -> bool | None:
        """Move one chunk of the child's output to ours; None when there is none now, False when there never will be."""
        try:
            chunk = os.read(output, 1 << 16)
        except BlockingIOError:
            return None
        if not chunk:
            return False
        kept = chunk[: self.left]
        if kept:
            self.left -= len(kept)
            try:
                os.write(1, kept)
            except OSError:
                self.left = 0  # a full disk: go on draining so that the child is not blocked
            if self.left == 0:
                say("output limit reached: the rest is not kept")
        return True

    def reap(self) -> None:
        """Collect whatever ended, orphans that came to us included."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self.child:
                code = os.waitstatus_to_exitcode(status)
                self.code = code if code >= 0 else 128 - code

    def kill_all(self) -> None:
        """Kill every descendant, again and again until none is left: a dying process may still fork."""
        until = time.monotonic() + KILL_SECONDS
        while left := descendants(os.getpid()):
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass  # gone already, or not ours to kill
            self.reap()
            if time.monotonic() > until:
                say(f"gave up on processes that do not die: {left}")
                return
            time.sleep(0.002)


def main() -> None:
    """supervisor.py PARENT-PID OUTPUT-LIMIT-BYTES STDIN -- ARGV...; STDIN is a file descriptor, or - for no input."""
    parent, limit, handed, dashes, *argv = sys.argv[1:]
    if dashes != "--" or not argv:
        raise SystemExit("usage: supervisor.py PARENT-PID OUTPUT-LIMIT-BYTES STDIN -- ARGV...")
    stdin = os.open(os.devnull, os.O_RDONLY) if handed == "-" else int(handed)
    place = tempfile.mkdtemp(prefix="tunewright-")
    os.environ["TMPDIR"] = place  # engines that are killed leave sockets and folders there
    try:
        code = Supervisor(int(parent), int(limit)).run(argv, stdin)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
