"""What a reply to ChemCoTBench answers: read as the prompts ask for it, and read as the published scorers do.

Every prompt asks for one JSON object with one key of its own. The two published readers differ from that, and from
each other:

- FT-Dojo's (a fork of OpenCompass) removes `<think>` pairs, parses the first code fence, and where that fails searches
  with patterns, then takes any number, any yes or no, or the longest run of letters for the answer;
- the authors' (github.com/IDEA-XL/ChemCoTBench, `tranform_str_to_json`) parses the whole reply or its first ```json
  fence, and leaves what it cannot parse out of the score.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from pydantic import JsonValue

Object = dict[str, JsonValue]

_OBJECT = re.compile(r"\{[^{}]*\}")
_TRAILING_COMMA = re.compile(r",(\s*[}\]])")
_THOUGHT = re.compile(r"<think>.*?</think>", re.DOTALL)
_FENCES = (re.compile(r"```json\s*(.*?)\s*```", re.DOTALL), re.compile(r"```\s*(.*?)\s*```", re.DOTALL))
_LETTERS_LIKE_SMILES = re.compile(r"[A-Za-z][A-Za-z0-9@\[\]()=#\-+.\\/]{4,}")


def answer(output: str, keys: Sequence[str]) -> str | None:
    """The answer: the value under the first of `keys` that the last JSON object with one of them has; None for none.

    A comma before the closing brace is passed over, since the prompts' own templates show one. A list of texts is a
    mixture (`A.B`). Reasoning that was begun and not ended holds no answer.
    """
    text = output.rpartition("</think>")[2]
    if "<think>" in text:
        return None
    for found in reversed(_OBJECT.findall(text)):
        value = _object(_TRAILING_COMMA.sub(r"\1", found))
        key = next((key for key in keys if key in value), None) if value else None
        if value is not None and key is not None:
            return _text(value[key])
    return None


def bare(output: str) -> str:
    """The whole reply, for those that consist of the answer and nothing else."""
    return output.rpartition("</think>")[2].strip().strip("`\"'").strip()


def fork_object(output: str) -> Object | None:
    """FT-Dojo's reader: the JSON object that the first code fence, or else the whole reply, consists of."""
    return _object(fenced(output).replace("\n    ", "").replace("\n", ""))


def fork_quoted(output: str, keys: Sequence[str]) -> str | None:
    """FT-Dojo's second try: what stands in quotes behind one of the keys, in broken JSON too."""
    text = fenced(output)
    for key in keys:
        if match := re.search(rf'"{re.escape(key)}"\s*:\s*"([^"]*)"', text, re.IGNORECASE):
            return match[1].strip()
    return None


def fork_smiles(output: str, keys: Sequence[str]) -> str | None:
    """FT-Dojo's reader of edited and optimised molecules. Its last resort is the longest run of letters and signs,
    which may be a word of the explanation."""
    if not output:
        return None
    value = fork_object(output) or {}
    said = next((value[key] for key in keys if value.get(key)), None)
    if said is not None:
        return str(said).strip()
    quoted = fork_quoted(output, keys)
    if quoted is not None:
        return quoted
    runs = _LETTERS_LIKE_SMILES.findall(fenced(output))
    return max(runs, key=len) if runs else fenced(output).strip()


def fenced(output: str) -> str:
    """FT-Dojo's first step: without thoughts that were ended, and of the rest the first code fence if there is one."""
    text = _THOUGHT.sub("", output.strip())
    pattern = _FENCES[0] if "```json" in text else _FENCES[1]
    match = pattern.search(text)
    return match[1] if match else text


def authors(output: str) -> Object | None:
    """The authors' reader: the JSON object that the whole reply, or its first ```json fence, consists of; else None."""
    text = output.rpartition("</think>\n\n")[2]
    if "```json\n" in text:
        text = text.split("```json\n")[1].replace("\n```", "")
    return _object(text.replace("\n    ", "").replace("\n", ""))


def _object(text: str) -> Object | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _text(value: JsonValue) -> str | None:
    if isinstance(value, list):
        texts = [each.strip() for each in value if isinstance(each, str)]
        return ".".join(texts) if texts and len(texts) == len(value) else None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    return str(value).strip() or None
