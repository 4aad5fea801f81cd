"""What a language model reads of the person's own data files before it mixes them in; looked at once a run.

A row that repeats held-out text is never shown: whoever reads it could plan for the test.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from memory.errors import InputError
from memory.layout import RunFolder, read_record, write_record
from memory.records import Record
from tools.benchmarks.splits import read_held_out
from tools.decontamination import Fingerprints, Text, check
from tools.llm.prompt import fenced
from tools.raw_data.profile import Profile, as_json, in_words, profile
from tools.raw_data.rows import Row
from tools.serving import Server

LOOKED_AT = 100
"""Rows whose tokens are counted: a request to the server each."""
PIECE_CHARS = 1000
"""Of a text that is counted at once: the server refuses more than its window."""
README_CHARS, SOURCE_CHARS, MOST_SOURCES = 800, 3000, 5
"""Shown of a README, of a source in all, and of how many sources; the rest is named."""

RUN_LINES = 16
"""Of a README, that are compared with held-out text as one."""


class SourceProfile(Record):
    """A data file at a glance."""

    name: str
    told: Profile | None = None
    """None where it cannot be read."""
    problem: str = ""
    readme: str = ""
    """Start of the README beside it; empty where there is none."""


class SourceProfiles(Record):
    """All data files that the person gave, in their order."""

    sources: tuple[SourceProfile, ...]


@dataclass(frozen=True)
class Sources:
    """Looks at data files with the tokenizer of the model that is tuned."""

    paths: tuple[str, ...]
    folder: RunFolder
    server: Server

    def __call__(self) -> tuple[SourceProfile, ...]:
        """The profiles, from disk where they were made before. Raises ServerError where tokens cannot be counted."""
        if not self.paths:
            return ()
        kept = self.folder.data / "sources.json"
        if not kept.exists():
            held_out = read_held_out(self.folder.data)
            write_record(kept, SourceProfiles(sources=tuple(self.look(Path(path), held_out) for path in self.paths)))
        return read_record(kept, SourceProfiles).sources

    def look(self, path: Path, held_out: Sequence[Fingerprints]) -> SourceProfile:
        """One file."""
        try:
            told = profile(
                path,
                looked_at=LOOKED_AT,
                tokens_in=self.tokens_in,
                may_be_shown=lambda row: not repeats(texts_of(row), held_out),
            )
        except InputError as error:
            return SourceProfile(name=path.name, problem=str(error))
        return SourceProfile(name=path.name, told=told, readme=readme_of(path, held_out))

    def tokens_in(self, row: Row) -> float:
        """Tokens of a row under the chat template: prompt and answer, or the whole row where it has none."""
        prompt, answer = row.get("prompt"), row.get("answer")
        if not (isinstance(prompt, str) and isinstance(answer, str)):
            prompt, answer = as_json(row), ""
        frame = self._count("", "")
        parts = [*((piece, "") for piece in pieces_of(prompt)), *(("", piece) for piece in pieces_of(answer))]
        return frame + sum(self._count(*part) - frame for part in parts)

    def _count(self, prompt: str, answer: str) -> int:
        chat = [{"role": "user", "content": prompt}, {"role": "assistant", "content": answer}]
        return len(self.server.tokenize(chat, add_generation_prompt=False))


def pieces_of(text: str) -> list[str]:
    """A text in pieces that fit into the server's window."""
    return [text[start : start + PIECE_CHARS] for start in range(0, len(text), PIECE_CHARS)]


def texts_of(row: Row) -> Iterable[Text]:
    """All that a row could repeat held-out text with: its question with its answer, and each of its texts."""
    prompt, answer = row.get("prompt"), row.get("answer")
    yield Text("row", str(prompt or as_json(row)), str(answer or ""))
    yield from (Text(name, value, "") for name, value in row.items() if isinstance(value, str))


def repeats(texts: Iterable[Text], held_out: Sequence[Fingerprints]) -> bool:
    """Whether one of the texts is a copy of held-out text, exact or near."""
    return bool(check(texts, held_out).hits)


def readme_of(path: Path, held_out: Sequence[Fingerprints]) -> str:
    """The start of the README in the file's folder; empty where there is none, or where it repeats held-out text."""
    readme = path.parent / "README.md"
    if not readme.is_file():
        return ""
    whole = readme.read_text(encoding="utf-8", errors="replace")[: 4 * README_CHARS]
    lines = whole.splitlines()
    # A question may stand in it over several lines, with anything above and below.
    runs = ("\n".join(lines[a:b]) for a in range(len(lines)) for b in range(a + 1, min(len(lines), a + RUN_LINES) + 1))
    # What stands in many of the runs counts as a template there: near copies are found in the whole.
    copied = repeats((Text("run", run, "") for run in runs), held_out) or repeats([Text("all", whole, "")], held_out)
    return "" if copied else whole[:README_CHARS]


def source_texts(sources: Sequence[SourceProfile]) -> list[tuple[str, str]]:
    """Each source as a block of the brief, and a line that stands for it where space is short."""
    blocks = []
    for number, one in enumerate(sources[:MOST_SOURCES], 1):
        title = f"Further source {number}"
        if one.told is None:
            blocks.append((f"{title} cannot be used:\n{fenced(f'{one.name}: {one.problem}')}", ""))
            continue
        about = in_words(one.name, one.told) + (f"\nIts README:\n{one.readme}" if one.readme else "")
        blocks.append((f"{title}:\n{fenced(about[:SOURCE_CHARS])}", f"{title}: {one.told.rows} rows"))
    return blocks
