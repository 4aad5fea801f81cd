"""The front door of the set-up: `python -m tools.engines.setup` installs what is missing and prints a line for each."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time

from memory.errors import TunewrightError
from tools import base_models
from tools.engines import environments, leftovers


def main(argv: list[str] | None = None) -> int:
    """Install both environments and, unless --no-model, fetch and convert the embedded model; or, with --prune, remove
    environments of other lock files and install nothing. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.engines.setup", description=__doc__)
    parser.add_argument("--hardware", choices=["auto", "cpu", "cuda"], default="auto", help="which pins to install")
    parser.add_argument("--cache", help="where environments and models lie (default: TUNEWRIGHT_CACHE or ~/.cache)")
    parser.add_argument("--verify", action="store_true", help="import again what each environment needs")
    parser.add_argument("--no-model", action="store_true", help="do not prepare the embedded base model")
    parser.add_argument("--prune", action="store_true", help="only remove environments of other lock files")
    options = parser.parse_args(argv)
    settings = {**os.environ, **({"TUNEWRIGHT_CACHE": options.cache} if options.cache else {})}
    cache = environments.cache_folder(settings)
    hardware = environments.detect_hardware() if options.hardware == "auto" else options.hardware
    began = time.monotonic()

    def say(line: str) -> None:
        print(line, flush=True)

    try:
        if options.prune:
            leftovers.prune(cache, environments.names(cache), say)
            return 0
        ready = environments.ensure_all(cache, hardware, say, verify=options.verify)
        if not options.no_model:
            base_models.resolve("smollm2", cache=cache, train_python=ready["train"].python, say=say)
    except TunewrightError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("stopped; the same command goes on", file=sys.stderr)
        return 130
    say(f"set-up: {hardware} engines and base model are in {cache} ({time.monotonic() - began:.1f} s)")
    command = leftovers.COMMAND + (f" --cache {shlex.quote(options.cache)}" if options.cache else "")
    if advice := leftovers.advice(cache, environments.names(cache), command):
        say(advice)
    return 0


if __name__ == "__main__":
    sys.exit(main())
