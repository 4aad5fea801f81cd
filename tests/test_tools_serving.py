"""Serving: one warm server, weights that are swapped with proof, and nothing left behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socketserver
import stat
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from memory.errors import ServerError
from memory.records import BaseModelCard
from tests.score_engines import card, fake, fake_model, fake_weights, other_weights, real, real_model
from tools.engines.contract import REPOSITORY, Engine
from tools.engines.vllm.client import Client
from tools.serving import Server
from tools.supervisor import descendants
from tools.weights_proof import Memory

TALK = [{"role": "user", "content": "Say yes."}]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server(fake("vllm"), fake_model(tmp_path / "base"), tmp_path / "server") as server:
        yield server


def chat(server: Server) -> str:
    body = {"messages": TALK, "model": "model", "n": 1, "temperature": 0, "max_tokens": 99}
    body["fake"] = {"gold": "gold", "wrong": "wrong"}
    answer = Client(server.socket).post("/v1/chat/completions", body)
    return str(answer["choices"][0]["message"]["content"])


def write_tensors(folder: Path, *names: str) -> None:
    header = json.dumps({name: {"dtype": "BF16", "shape": [0], "data_offsets": [0, 0]} for name in names}).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)


def test_an_answer_is_streamed_and_may_be_left_at_any_word(server: Server, tmp_path: Path) -> None:
    server.load(fake_weights(tmp_path / "tuned", 0.9))
    client = Client(server.socket)
    body = {"model": "model", "messages": TALK, "max_tokens": 99, "temperature": 0, "stream": True}

    def words() -> Iterator[str]:
        for event in client.stream("/v1/chat/completions", body):
            yield event["choices"][0]["delta"]["content"]

    assert next(words()) == "These"
    assert "".join(words()) == "These weights have quality 0.9"
    with pytest.raises(ServerError, match="refused /nowhere with 404"):
        next(client.stream("/nowhere", body))


def test_a_swap_changes_the_answers_and_a_swap_back_brings_them_back(server: Server, tmp_path: Path) -> None:
    perfect = fake_weights(tmp_path / "perfect", 1.0)
    server.load(Path(server.model.path))
    assert chat(server) != "gold"
    assert server.load(perfect) < 1.0
    assert chat(server) == "gold"
    assert server.loaded == perfect
    server.load(Path(server.model.path))
    assert chat(server) != "gold"
    assert server.starts == 1


def test_each_start_is_told_as_it_begins(tmp_path: Path) -> None:
    told: list[int] = []
    base, place = fake_model(tmp_path / "base"), tmp_path / "server"
    with Server(fake("vllm"), base, place, starting=lambda: told.append(server.starts)) as server:
        server.load(Path(base.path))
        server.load(Path(base.path))
        server.close()
        server.load(Path(base.path))
    assert told == [0, 1]


def test_weights_that_were_trained_anew_in_the_same_folder_are_loaded_again(server: Server, tmp_path: Path) -> None:
    weights = fake_weights(tmp_path / "weights", 0.1001)
    server.load(weights)
    fake_weights(weights, 1.0)
    server.load(weights)
    assert chat(server) == "gold"


def test_a_server_that_keeps_the_old_weights_is_found_out(tmp_path: Path) -> None:
    with Server(fake("vllm", {"FAKE_VLLM_STUCK": "1"}), fake_model(tmp_path / "base"), tmp_path / "server") as server:
        with pytest.raises(ServerError, match=r"answers with the weights in .*base, not .*trained"):
            server.load(fake_weights(tmp_path / "trained", 0.9))
        assert server.loaded is None


def test_two_folders_with_the_same_weights_are_no_contradiction(server: Server, tmp_path: Path) -> None:
    server.load(fake_weights(tmp_path / "one", 0.5))
    server.load(fake_weights(tmp_path / "two", 0.5))
    assert server.loaded == tmp_path / "two"


def test_weights_that_answer_differently_the_second_time_are_found_out(tmp_path: Path) -> None:
    weights, proofs = fake_weights(tmp_path / "weights", 0.5), Memory()
    proofs.check((-1.0, -2.0), weights)
    proofs.check((-1.0, -2.0000001), weights)
    with pytest.raises(ServerError, match="as it did before"):
        proofs.check((-1.0, -2.01), weights)


def test_weights_that_lack_a_tensor_are_refused(server: Server, tmp_path: Path) -> None:
    write_tensors(Path(server.model.path), "embed", "layer.0", "layer.1")
    partial = fake_weights(tmp_path / "partial", 0.9)
    write_tensors(partial, "embed", "layer.0")
    with pytest.raises(ServerError, match=r"lack 1 tensors of small, layer\.1"):
        server.load(partial)
    server.load(Path(server.model.path))


def test_a_refused_swap_leaves_a_server_that_can_load_others(server: Server, tmp_path: Path) -> None:
    broken = fake_weights(tmp_path / "broken", 0.5)
    (broken / "quality.json").write_text("{")
    with pytest.raises(ServerError, match="refused /collective_rpc with 500: reload failed"):
        server.load(broken)
    assert server.loaded is None
    server.load(fake_weights(tmp_path / "good", 1.0))
    assert chat(server) == "gold"
    assert server.starts == 1


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    engine = fake("vllm", {"FAKE_VLLM_REFUSE": "Not enough memory: 2 GiB are wanted, 1 GiB is free"})
    with pytest.raises(ServerError, match="did not start: ValueError: Not enough memory: 2 GiB are wanted"):
        Server.start(engine, fake_model(tmp_path / "base"), tmp_path / "server")


def test_a_server_that_never_gets_ready_is_given_up(tmp_path: Path) -> None:
    sleeper = tmp_path / "sleeper.py"
    sleeper.write_text("import time; print('loading', flush=True); time.sleep(60)")
    engine = Engine("vllm", Path(sys.executable), sleeper)
    server = Server(engine, fake_model(tmp_path / "base"), tmp_path / "server", start_seconds=1.0)
    with pytest.raises(ServerError, match="not ready within 1 s; its log ends: loading"):
        server.ensure()
    assert not server.alive()


def test_a_dead_server_is_noticed_and_starts_again_with_the_base_weights(tmp_path: Path) -> None:
    engine = fake("vllm", {"FAKE_VLLM_DIE_AT": "1"})
    with Server(engine, fake_model(tmp_path / "base"), tmp_path / "server") as server:
        server.load(fake_weights(tmp_path / "perfect", 1.0))
        with pytest.raises(ServerError, match="gone"):
            chat(server)
        assert not server.alive()
        server.load(Path(server.model.path))
        assert server.alive()
        assert server.starts == 2


def test_the_socket_is_private_and_goes_with_the_server(server: Server) -> None:
    server.ensure()
    folder = server.socket.parent
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert len(os.fsencode(server.socket)) <= 107
    server.close()
    assert not folder.exists()
    with pytest.raises(ServerError, match="not running"):
        server.socket  # noqa: B018


def test_tokenize_starts_the_server_where_it_is_not_up(server: Server) -> None:
    assert bytes(server.tokenize(TALK)).endswith(b"<|im_start|>assistant\n")
    assert bytes(server.tokenize(TALK, add_generation_prompt=False)).endswith(b"<|im_end|>\n")


class Closing(BaseHTTPRequestHandler):
    """Closes the connection after each answer without having said so, as servers do with idle ones."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_a_connection_that_the_server_closed_is_opened_again(tmp_path: Path) -> None:
    with socketserver.UnixStreamServer(str(tmp_path / "s"), Closing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        client = Client(tmp_path / "s", timeout_s=5.0)
        for _ in range(3):
            assert client.post("/") == {}
        server.shutdown()
    (tmp_path / "s").unlink()
    with pytest.raises(ServerError, match="is gone"):
        client.post("/")


OWNER = """
import sys, time
from pathlib import Path
from memory.records import BaseModelCard
from tools.engines.contract import Engine
from tools.serving import Server
from tools.supervisor import descendants
name, python, worker, card, folder = sys.argv[1:]
server = Server(Engine(name, Path(python), Path(worker)), BaseModelCard.model_validate_json(card), Path(folder))
server.ensure()
print(server.socket, flush=True)
time.sleep(600)
"""


def kill_the_owner(engine: Engine, model: BaseModelCard, folder: Path) -> tuple[Path, list[int]]:
    """Start a server in another process and kill that with -9; its socket, and what is still running after 5 s."""
    arguments = [engine.name, engine.python, engine.worker, model.model_dump_json(), folder]
    argv = [sys.executable, "-c", OWNER, *arguments]
    owner = subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=REPOSITORY, text=True)
    assert owner.stdout is not None
    socket = owner.stdout.readline().strip()
    family = descendants(owner.pid)
    assert socket
    assert len(family) >= 2, "the supervisor and the server"
    os.kill(owner.pid, signal.SIGKILL)
    owner.wait()
    owner.stdout.close()
    until = time.monotonic() + 5
    while (left := [pid for pid in family if running(pid)]) and time.monotonic() < until:
        time.sleep(0.05)
    return Path(socket), left


def running(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_killing_the_owner_with_9_leaves_no_server_and_the_next_start_no_socket(tmp_path: Path) -> None:
    model = fake_model(tmp_path / "base")
    socket, left = kill_the_owner(fake("vllm"), model, tmp_path / "server")
    assert left == []
    with Server(fake("vllm"), model, tmp_path / "server") as server:
        server.ensure()
        assert not socket.parent.exists()
        assert server.starts == 2, "starts of earlier processes count"


def test_two_servers_at_once_do_not_touch_each_other(tmp_path: Path) -> None:
    with Server(fake("vllm"), fake_model(tmp_path / "a"), tmp_path / "one") as one:
        one.load(fake_weights(tmp_path / "perfect", 1.0))
        with Server(fake("vllm"), fake_model(tmp_path / "b"), tmp_path / "two") as two:
            two.ensure()
            assert chat(one) == "gold" != chat(two)


# --- the real server ----------------------------------------------------------------------------------------------


def without_a_tensor(folder: Path, base: Path) -> Path:
    """A copy of a model that lacks one tensor."""
    shutil.copytree(base, folder)
    path = folder / "model.safetensors"
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    del header["model.norm.weight"]
    short = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(short)) + short + data[8 + length :])
    return folder


@pytest.mark.engine
def test_the_real_server_swaps_with_proof_and_tokenizes_as_it_serves(tmp_path: Path) -> None:
    model = real_model()
    base, other = Path(model.path), other_weights(tmp_path / "other", Path(model.path))
    with Server.start(real("vllm"), model, tmp_path / "server") as server:
        first = server.load(other)
        for weights in (base, other, base):
            server.load(weights)
        assert first < 5.0, f"a swap took {first:.1f} s"
        with pytest.raises(ServerError, match=r"lack 1 tensors of .*model\.norm\.weight"):
            server.load(without_a_tensor(tmp_path / "short", base))
        (tmp_path / "empty").mkdir()
        (tmp_path / "empty" / "config.json").write_text("{}")
        with pytest.raises(ServerError, match="Cannot find any model weights"):
            server.load(tmp_path / "empty")
        server.load(base)
        body = {"model": "model", "messages": TALK, "max_tokens": 4, "temperature": 0}
        client = Client(server.socket)
        whole = client.post("/v1/chat/completions", body)
        assert whole["usage"]["prompt_tokens"] == len(server.tokenize(TALK))
        events = list(client.stream("/v1/chat/completions", body | {"stream": True}))
        bits = [choice["delta"].get("content") or "" for event in events for choice in event["choices"]]
        assert "".join(bits) == whole["choices"][0]["message"]["content"]
        assert server.starts == 1


@pytest.mark.engine
def test_the_real_server_says_why_it_cannot_start(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match=r"did not start: .*(config|Error)"):
        Server.start(real("vllm"), card(tmp_path), tmp_path / "server")


@pytest.mark.engine
def test_killing_the_owner_with_9_leaves_no_real_server(tmp_path: Path) -> None:
    _, left = kill_the_owner(real("vllm"), real_model(), tmp_path / "server")
    assert left == []
