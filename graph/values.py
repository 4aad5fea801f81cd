"""How the words of a command line become values: durations, numbers, models, datasets; a bad one gets a clear line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

from memory.errors import InputError
from tools.base_models import HUB_ID

EMBEDDED_MODEL = "smollm2"
LINES_CHECKED = 1000
"""Lines of a dataset that are looked at before the run starts; the data engineer reads them all."""
JSONL = "A dataset is JSONL: one JSON object a line."


def near(word: str, names: Iterable[str], otherwise: str) -> str:
    """A way out of a misspelt name: the nearest known one, or `otherwise`."""
    close = get_close_matches(word, list(names), n=1, cutoff=0.6)
    return f"Did you mean {close[0]}?" if close else otherwise


def duration(text: str) -> float:
    """Seconds of `90s`, `30m`, `2h`, `1h30m`. Raises InputError."""
    number = r"(\d+(?:\.\d+)?)"
    match = re.fullmatch(rf"(?:{number}h)?(?:{number}m)?(?:{number}s)?", text.lower())
    if match is None or not text:
        raise InputError(f"'{text}' is no duration", "Write 90s, 30m, 2h or 1h30m.")
    hours, minutes, rest = (float(part or 0) for part in match.groups())
    seconds = hours * 3600 + minutes * 60 + rest
    if seconds <= 0:
        raise InputError(f"a budget of {text} leaves no time", "Write 90s, 30m, 2h or 1h30m.")
    return seconds


def in_words(seconds: float) -> str:
    """A duration as people and `duration` write it: `45s`, `12m30s`, `1h05m`."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60}h{minutes % 60:02}m"
    if minutes:
        return f"{minutes}m{rest:02}s" if rest else f"{minutes}m"
    return f"{rest}s"


def positive(text: str) -> int:
    """A whole number from 1. Raises InputError."""
    if whole(text) < 1:
        raise InputError(f"'{text}' is too small", "Write a whole number from 1.")
    return int(text)


def whole(text: str) -> int:
    """A whole number from 0. Raises InputError."""
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise InputError(f"'{text}' is no whole number", "Write a number such as 3.")
    return int(text)


def port(text: str) -> int:
    """The number of a TCP port. Raises InputError."""
    if not 1 <= whole(text) <= 65535:
        raise InputError(f"'{text}' is no port", "Write a number from 1 to 65535, such as 8000.")
    return int(text)


def cluster(text: str) -> str:
    """`auto`, or the address of a Ray cluster. Raises InputError."""
    if text != "auto" and not re.fullmatch(r"ray://[^/\s:]+:\d{1,5}", text):
        raise InputError(f"'{text}' is no cluster", "Write auto for the one of this machine, or ray://HOST:10001.")
    return text


def share(text: str) -> float:
    """A share between 0 and 1, such as 0.05. Raises InputError."""
    if not re.fullmatch(r"0?\.\d{1,6}|0|1", text):
        raise InputError(f"'{text}' is no share", "Write a number between 0 and 1, such as 0.05.")
    return float(text)


def dollars(text: str) -> float:
    """An amount above 0, such as 2.50. Raises InputError."""
    if not re.fullmatch(r"\$?\d{1,6}(\.\d{1,6})?", text) or float(text.lstrip("$")) == 0:
        raise InputError(f"'{text}' is no amount of money", "Write dollars such as 2.50.")
    return float(text.lstrip("$"))


def names(text: str) -> tuple[str, ...]:
    """Names between commas, each once. Raises InputError for an empty one."""
    found = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    if not all(found):
        raise InputError(f"'{text}' holds an empty name", "Write NAME or NAME,NAME.")
    return found


def base_model(name: str) -> str:
    """The embedded model, an existing folder (made absolute), or what looks like a hub id. Raises InputError."""
    folder = Path(name).expanduser()
    if name == EMBEDDED_MODEL:
        return name
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise InputError(f"{name} holds no model: it has no config.json", "Name the folder that holds the weights.")
        return str(folder.absolute())
    if folder.is_absolute() or name.startswith((".", "~")) or not HUB_ID.fullmatch(name):
        known = f"Name {EMBEDDED_MODEL}, a folder with config.json, or a hub id OWNER/NAME."
        raise InputError(f"there is no model {name}", near(name, [EMBEDDED_MODEL], known))
    return name


def dataset(name: str) -> str:
    """The absolute path of a JSONL file whose first lines are JSON objects. Raises InputError."""
    path = Path(name).expanduser().absolute()
    number = 0
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in zip(range(1, LINES_CHECKED + 1), file, strict=False):
                if line.strip() and not isinstance(json.loads(line), dict):
                    raise InputError(f"{name} line {number} is no JSON object", JSONL)
    except OSError as error:
        raise InputError(f"cannot read dataset {name}: {error.strerror}", "Name a readable JSONL file.") from error
    except UnicodeDecodeError:
        raise InputError(f"dataset {name} is no UTF-8 text", JSONL) from None
    except json.JSONDecodeError as error:
        raise InputError(f"{name} line {number} is no JSON: {error.msg}", JSONL) from None
    if number == 0:
        raise InputError(f"dataset {name} is empty", JSONL)
    return str(path)
