"""Raw data: found in a folder in its own layout, or fetched from a hub: whole, or one clear line says why not."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy
import pytest

from memory.errors import InputError, StorageError
from tests.raw_data import put
from tools.raw_data import hub
from tools.raw_data.profile import profile
from tools.raw_data.rows import first_and_last, nested, read, shuffled, some
from tools.raw_data.source import RawFile, Source
from tools.raw_data.sources import SOURCES
from tools.raw_data.store import Store, data_folder

COMMIT = "c" * 40
SOURCE = Source("small", "a small data set", "somebody/small", COMMIT, licence="MIT")
FILE = RawFile(SOURCE, "data/rows.jsonl", elsewhere=("theirs/rows.jsonl",))
CONTENT = b"".join(b'{"n": %d}\n' % number for number in range(5000))


class Hub(ThreadingHTTPServer):
    """What the hub's client asks of a hub, for one file; `fault` is gated, missing, cut or altered."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.fault = ""
        self.content = CONTENT
        self.ranges: list[str] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Answer(BaseHTTPRequestHandler):
    server: Hub

    def do_HEAD(self) -> None:
        self.file(body=False)

    def do_GET(self) -> None:
        self.file(body=True)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        entry = {"type": "file", "path": FILE.name, "size": len(self.server.content), "oid": blob(self.server.content)}
        self.answer(200, json.dumps([entry]).encode(), {"Content-Type": "application/json"})

    def file(self, body: bool) -> None:
        if self.server.fault in ("gated", "missing"):
            code = {"gated": "GatedRepo", "missing": "EntryNotFound"}[self.server.fault]
            self.answer(403 if code == "GatedRepo" else 404, b"", {"X-Error-Code": code})
            return
        content = self.server.content
        headers = {"ETag": f'"{blob(content)}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        content = content.replace(b"1", b"2") if self.server.fault == "altered" else content
        wanted = self.headers.get("Range", "")
        if body and wanted.startswith("bytes=") and wanted != "bytes=0-":
            self.server.ranges.append(wanted)
            start = int(wanted.removeprefix("bytes=").partition("-")[0])
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
            self.answer(206, content[start:], headers)
        elif body and self.server.fault == "cut":
            self.answer(200, content[: len(content) // 2], headers | {"Content-Length": str(len(content))})
            self.close_connection = True
        else:
            self.answer(200, content if body else b"", headers | {"Content-Length": str(len(content))})

    def answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing."""


def blob(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@pytest.fixture
def server() -> Iterator[Hub]:
    with Hub() as running:
        yield running
        running.shutdown()


def test_a_file_is_fetched_once_and_found_again(server: Hub, tmp_path: Path) -> None:
    store = Store(None, tmp_path)
    assert store.missing([FILE]) == [FILE]
    path = hub.fetch(FILE, tmp_path, endpoint=server.address)
    assert path.read_bytes() == CONTENT
    assert store.find(FILE) == path
    path.write_bytes(CONTENT[:-10])
    with pytest.raises(StorageError, match="was altered after it was fetched"):
        store.find(FILE)


def test_a_download_that_was_cut_is_not_taken_for_whole(server: Hub, tmp_path: Path) -> None:
    server.fault = "cut"
    with pytest.raises(InputError, match=r"rows\.jsonl of a small data set is not on this machine"):
        hub.fetch(FILE, tmp_path, endpoint=server.address)
    assert hub.fetched(FILE, tmp_path) is None
    server.fault = ""
    assert hub.fetch(FILE, tmp_path, endpoint=server.address).read_bytes() == CONTENT


def test_a_large_download_that_was_cut_is_gone_on_with(server: Hub, tmp_path: Path) -> None:
    server.fault, server.content = "cut", CONTENT * 500  # the client keeps portions of ten megabytes
    assert hub.fetch(FILE, tmp_path, endpoint=server.address).read_bytes() == server.content
    assert server.ranges == ["bytes=10485760-"]


def test_content_that_is_not_what_the_hub_states_is_refused(server: Hub, tmp_path: Path) -> None:
    server.fault = "altered"
    with pytest.raises(StorageError, match="its checksum differs"):
        hub.fetch(FILE, tmp_path, endpoint=server.address)
    assert hub.fetched(FILE, tmp_path) is None


def test_gated_data_says_what_to_accept_and_what_to_set(server: Hub, tmp_path: Path) -> None:
    server.fault = "gated"
    with pytest.raises(InputError, match="only to people who accepted its terms") as refused:
        hub.fetch(FILE, tmp_path, endpoint=server.address)
    assert "set HF_TOKEN" in refused.value.way_out
    server.fault = "missing"
    with pytest.raises(InputError, match="the hub answered 404 for somebody/small at cccccccc"):
        hub.fetch(FILE, tmp_path, endpoint=server.address)


def test_without_a_network_it_says_what_is_missing_and_from_where(tmp_path: Path) -> None:
    with pytest.raises(InputError) as refused:
        hub.fetch(FILE, tmp_path, looked_at="/some/folder", endpoint="http://127.0.0.1:1")
    says = str(refused.value)
    assert "data/rows.jsonl of a small data set is not on this machine, nor in /some/folder" in says
    assert "somebody/small" in says
    assert "--data-dir" in says
    assert says.count("\n") == 0


@pytest.mark.parametrize(
    "place", ["small/data/rows.jsonl", "somebody/small/data/rows.jsonl", "data/rows.jsonl", "theirs/rows.jsonl"]
)
def test_a_folder_of_raw_data_may_have_any_of_these_layouts(place: str, tmp_path: Path) -> None:
    store = Store(tmp_path / "given", tmp_path / "cache")
    path = tmp_path / "given" / place
    path.parent.mkdir(parents=True)
    path.write_bytes(CONTENT)
    assert store.path(FILE) == path
    assert store.missing([FILE]) == []


def test_a_folder_that_is_none_is_named(tmp_path: Path) -> None:
    assert data_folder(None) is None
    assert data_folder(str(tmp_path)) == tmp_path
    with pytest.raises(InputError, match="nowhere is no folder"):
        data_folder(str(tmp_path / "nowhere"))


def test_sources_are_pinned_by_whole_hashes() -> None:
    assert all(len(source.revision) == 40 for source in SOURCES)
    assert len({source.name for source in SOURCES}) == len(SOURCES)


# --- rows -------------------------------------------------------------------------------------------------------------


def test_every_layout_of_rows_is_read(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"n": 1, "parts": ["a"]}, {"n": 2, "parts": []}]
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    (tmp_path / "each").mkdir()
    for place, row in enumerate(rows):
        (tmp_path / "each" / f"{place}.json").write_text(json.dumps(row, indent=2))
    parquet = put(Store(tmp_path, tmp_path), RawFile(SOURCE, "rows.parquet"), rows)
    assert read(tmp_path / "rows.json") == read(tmp_path / "each") == read(parquet) == rows
    assert [row["n"] for _, row in some(parquet, 1, 0)] in ([1], [2])
    assert sorted(place for place, _ in some(parquet, 9, 0)) == [0, 1]
    assert nested('{"a": [1]}') == {"a": [1]} == nested({"a": [1]})
    with pytest.raises(InputError, match="holds no JSON"):
        nested("{'a'}")


def test_published_splits_are_the_first_and_last_hundred_after_the_libraries_shuffle() -> None:
    assert shuffled(range(6)) == numpy.random.default_rng(42).permutation(6).tolist()
    assert [len(part) for part in first_and_last(range(31))] == [15, 15]
    assert first_and_last(range(500)) == (list(range(100)), list(range(400, 500)))
    assert first_and_last(range(3)) == ([0], [2])


def test_a_profile_says_what_a_file_holds(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_bytes(CONTENT)
    told = profile(tmp_path / "rows.jsonl")
    assert (told.rows, told.columns, len(told.examples)) == (5000, ("n",), 5)
    assert told.longest_tokens >= told.median_tokens > 0
