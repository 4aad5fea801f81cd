"""The front door for people with a browser: `python app.py` serves the page until Ctrl-C. It reads the environment.

Runs go on when it ends: each has a process of its own.
"""

from __future__ import annotations

import hmac
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from graph.live import tell
from graph.options import Parser
from graph.run import guarded
from graph.values import port
from memory.errors import InputError
from tools.engines.environments import cache_folder
from tools.private_folder import PrivateFolder

if TYPE_CHECKING:
    from graph.workshop import Equip

PORT = 7860
LOOPBACK = ("127.0.0.1", "localhost", "::1")
PASSWORD = "TUNEWRIGHT_PASSWORD"
SHORTEST_PASSWORD = 8
"""Characters; logins are throttled to a guess a minute."""
QUIET = {"GRADIO_ANALYTICS_ENABLED": "False", "HF_HUB_DISABLE_TELEMETRY": "1"}
"""The page asks nobody outside for anything."""


class Doorway(NamedTuple):
    """Where the page is served, and to whom."""

    runs: Path
    cache: Path
    host: str
    port: int
    share: bool
    password: str


def main(argv: Sequence[str] | None = None, module: str = "graph.run", equip: Equip | None = None) -> int:
    """Serve the page until Ctrl-C. The exit code: 2 bad input, 130 stopped. `module` carries the runs, and `equip`
    makes engines for the page itself; None makes the real ones."""

    def work() -> int:
        doorway = parse(sys.argv[1:] if argv is None else argv, os.environ)
        home = PrivateFolder("tunewright-page-")
        try:
            serve(doorway, home.path, module, equip)
        finally:
            home.remove()
        return 0

    return guarded(work, stopped="tunewright: the page is closed. Runs go on; `python app.py` shows them again.")


def parse(argv: Sequence[str], environment: Mapping[str, str]) -> Doorway:
    """Read the command line. Raises InputError with one clear line."""
    parser = Parser(prog="python app.py", description="Start, watch and steer runs in a browser.", allow_abbrev=False)
    parser.add_argument("--run-dir", default="runs", metavar="DIR", help="holds the runs (default ./runs)")
    parser.add_argument("--port", type=port, default=PORT, metavar="N", help=f"default {PORT}")
    parser.add_argument("--host", default=LOOPBACK[0], metavar="NAME", help="others than this machine need a password")
    parser.add_argument("--share", action="store_true", help="a public link through Gradio's tunnel; needs a password")
    parser.add_argument(
        "--password-file", metavar="FILE", help=f"its first line is the password; the variable {PASSWORD} does the same"
    )
    given = parser.parse_args(argv)
    password = read_password(given.password_file, environment)
    if (given.share or given.host not in LOOPBACK) and not password:
        way_out = f"Give --password-file FILE, or set {PASSWORD}."
        raise InputError("a page that others can reach needs a password", way_out)
    if password and len(password) < SHORTEST_PASSWORD:
        raise InputError("the password is too short", f"Take {SHORTEST_PASSWORD} characters or more.")
    runs = Path(given.run_dir).expanduser().absolute()
    return Doorway(runs, cache_folder(environment), given.host, given.port, given.share, password)


def read_password(file: str | None, environment: Mapping[str, str]) -> str:
    """The password of the file, else of the environment; empty where there is none. Raises InputError."""
    if file is None:
        return environment.get(PASSWORD, "")
    try:
        lines = Path(file).expanduser().read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the password from {file}", "Name a readable text file.") from error
    if not lines or not lines[0]:
        raise InputError(f"{file} holds no password", "Its first line is the password.")
    return lines[0]


def serve(doorway: Doorway, home: Path, module: str, equip: Equip | None) -> None:
    """Build the page and serve it until KeyboardInterrupt. Raises InputError where the port is taken."""
    settle(home)
    # Gradio takes seconds to import, and reads the environment while it does.
    from starlette.middleware import Middleware

    from graph.background import Launch
    from graph.page.door import Door, Throttle
    from graph.page.place import Place
    from graph.page.shell import CSS, page, theme
    from graph.page.tabs import TABS
    from graph.page.uploads import LARGEST_BYTES
    from graph.workshop import workshop

    place = Place(doorway.runs, doorway.cache, home / "files", Launch(module), equip or workshop)
    blocks = page(place, TABS)
    hosts = () if doorway.share or doorway.host not in LOOPBACK else LOOPBACK
    try:
        _, address, public = blocks.launch(
            server_name=doorway.host,
            server_port=doorway.port,
            share=doorway.share,
            auth=password_check(doorway.password) if doorway.password else None,
            auth_message="Any name will do; the password is the one with which the page was started.",
            app_kwargs={"middleware": [Middleware(Door, throttle=Throttle(), hosts=hosts)]},
            theme=theme(),
            css=CSS,
            max_file_size=LARGEST_BYTES,
            footer_links=["settings"],
            run_history=False,
            show_error=False,
            ssr_mode=False,
            pwa=False,
            mcp_server=False,
            quiet=True,
            prevent_thread_lock=True,
        )
    except OSError as error:
        taken = f"port {doorway.port} of {doorway.host} cannot be used"
        raise InputError(taken, "Give another one: --port N.") from error
    tell(sys.stdout, f"tunewright: {public or address} shows the runs in {doorway.runs}. Ctrl-C ends the page only.")
    try:
        threading.Event().wait()
    finally:
        blocks.close(verbose=False)


def settle(home: Path) -> None:
    """Let Gradio find nothing to serve but what we hand out: its working folder is empty, its uploads lie in `home`."""
    for name in ("files", "empty"):
        (home / name).mkdir()
    os.environ.update(QUIET, GRADIO_TEMP_DIR=str(home / "files"))
    os.environ.pop(PASSWORD, None)  # a run sees our environment, and does not need it
    os.chdir(home / "empty")


class password_check:
    """Compares a password with the right one, in a time that tells nothing about it."""

    def __init__(self, right: str) -> None:
        self.right = right.encode()

    def __call__(self, name: str, password: str) -> bool:
        """Whether somebody may come in, under whatever name."""
        return hmac.compare_digest(password.encode(), self.right)


if __name__ == "__main__":
    sys.exit(main())
