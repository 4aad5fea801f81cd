"""Files of the Hugging Face hub: fetched once into the shared cache, compared with the hub's own checksum.

A file counts once its marker is there, which is written last; whatever lies there without one is a part of a download,
and the next call goes on with it.
"""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path

from memory.errors import InputError, StorageError
from memory.layout import made, read_record, sha256_of, write_record
from memory.records import Record
from tools.raw_data.source import RawFile, Source


class Whole(Record):
    """The marker of a fetched file: it is whole, and this is its content."""

    bytes: int
    sha256: str


def folder_of(source: Source, cache: Path) -> Path:
    """The folder of a source; another revision is another folder."""
    return cache / "data" / f"{source.name}-{source.revision[:12]}"


def fetched(file: RawFile, cache: Path) -> Path | None:
    """The file in the cache, if it was fetched to its end. Raises StorageError where its size has changed since."""
    path = folder_of(file.source, cache) / file.name
    marker = _marker(path)
    if not marker.exists() or not path.exists():
        return None
    whole = read_record(marker, Whole)
    if path.stat().st_size != whole.bytes:
        raise StorageError(f"{path} was altered after it was fetched", "Remove it; it is fetched again.")
    return path


def fetch(file: RawFile, cache: Path, looked_at: str = "", endpoint: str | None = None) -> Path:
    """The file, fetched; a broken download is gone on with. `looked_at` names another place in which it is not;
    `endpoint` is the hub's address where it is not the usual one.

    Raises InputError where the hub refuses or cannot be reached, with the way out; StorageError where what came is not
    what the hub states.
    """
    from httpx2 import HTTPError
    from huggingface_hub import HfApi, RepoFile, hf_hub_download
    from huggingface_hub.utils.tqdm import disable_progress_bars

    source, folder = file.source, made(folder_of(file.source, cache))
    disable_progress_bars()
    # It warns of each try; what failed in the end is said here, in one line.
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
    try:
        path = Path(
            hf_hub_download(
                source.repository,
                file.name,
                repo_type="dataset",
                revision=source.revision,
                local_dir=folder,
                endpoint=endpoint,
            )
        )
        hub = HfApi(endpoint=endpoint)
        (stated,) = hub.get_paths_info(source.repository, [file.name], repo_type="dataset", revision=source.revision)
    except (HTTPError, OSError) as error:
        raise refusal(file, looked_at, error) from error
    assert isinstance(stated, RepoFile), "a path that was fetched is a file"
    if (sha256_of(path) != stated.lfs.sha256) if stated.lfs else (git_blob(path) != stated.blob_id):
        path.unlink()
        what = f"{file.name} of {source.repository} is not what the hub states: its checksum differs"
        raise StorageError(what, "The file was removed; fetch it again.")
    write_record(_marker(path), Whole(bytes=path.stat().st_size, sha256=sha256_of(path)))
    return path


def git_blob(path: Path) -> str:
    """Git's hash of a file's content, by which the hub names small files."""
    content = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def refusal(file: RawFile, looked_at: str, error: Exception) -> InputError:
    """One clear line for what the hub, or the way to it, did not give."""
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError

    source = file.source
    missing = f"{file.name} of {source.title} is not on this machine"
    if looked_at:
        missing += f", nor in {looked_at}"
    own = "name a folder that holds it with --data-dir or TUNEWRIGHT_DATA"
    if isinstance(error, GatedRepoError):
        return InputError(
            f"{missing}, and the hub hands out {source.repository} only to people who accepted its terms",
            f"Accept them on its page on the hub, and set HF_TOKEN to your token; or {own}.",
        )
    if isinstance(error, HfHubHTTPError) and error.response is not None:
        why = f"the hub answered {error.response.status_code} for {source.pinned}"
    else:
        why = f"the hub, which has it as {source.pinned}, cannot be reached"
    return InputError(f"{missing}, and {why}", f"Go online and try again; or {own}.")


def _marker(path: Path) -> Path:
    return path.with_name(f".{path.name}.whole.json")
