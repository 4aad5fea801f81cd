"""Jobs on a Ray cluster: a real one of processes on this machine, with the stand-in for Axolotl as the job."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from graph.runs import read_state
from memory.errors import EngineError, InputError, RunBusyError, SetupError
from memory.layout import RunFolder
from memory.records import BaseModelCard, Snapshot
from tests.ray_cluster import LocalNodes, local_nodes
from tests.training_engines import RECIPE, SMALL, quick, real_axolotl, smollm2, write_data
from tools.cluster.bench import Bench
from tools.cluster.connection import RAY, Cluster
from tools.cluster.placed_engine import PlacedEngine
from tools.cluster.places import Places
from tools.engines import environments
from tools.engines.contract import Engine
from tools.training.engine import placed, preflight, train
from tools.training.start import Start
from tools.weights_proof import content_sha256

ROOT = Path(__file__).parents[1]


def test_paths_are_translated_where_they_begin_with_a_folder_of_ours_and_nowhere_else() -> None:
    places = Places({"/home/me/run": "/node/work", "/home/me/run/base": "/node/models/b"})
    data = b'{"a": "/home/me/run/x.json", "b": ["/home/me/run/base/t"], "c": "/home/me/runs", "d": "in /home/me/run"}'
    there = places.there("r.json", data)
    assert b'"/node/work/x.json"' in there
    assert b'"/node/models/b/t"' in there
    assert b'"/home/me/runs"' in there
    assert b'"in /home/me/run"' in there
    assert places.there("data.jsonl", data) == data
    assert json.loads(places.here("r.json", there)) == json.loads(data)
    assert (
        places.here("report.md", b"serve it: vllm --model /node/work/model")
        == b"serve it: vllm --model /home/me/run/model"
    )
    assert places.here("axolotl.yml", b"output_dir: /node/work") == b"output_dir: /node/work"
    assert places.there("c.yml", "lange: ä\npfad: /home/me/run\n".encode()) == "lange: ä\npfad: /node/work\n".encode()


def test_a_bench_removes_what_dead_ones_left_and_writes_nowhere_else(tmp_path: Path) -> None:
    os.environ["TUNEWRIGHT_CACHE"] = str(tmp_path)
    try:
        dead = tmp_path / "cluster" / "jobs" / "dead"
        dead.mkdir(parents=True)
        (dead / "lock").touch()
        bench, other = Bench("a"), Bench("b")
        assert sorted(dead.parent.iterdir()) == sorted([bench.root, other.root])
        with pytest.raises(ValueError, match="not ours"):
            bench.write(f"{bench.root}/../../../x", 0, b"x")
        bench.close()
        other.close()
        assert not list(dead.parent.iterdir())
        run = Bench("a", "run")
        with pytest.raises(RunBusyError):
            Bench("a", "run", wait_s=0)
        run.close()
    finally:
        del os.environ["TUNEWRIGHT_CACHE"]


def test_a_worker_that_is_not_set_up_on_the_node_is_one_clear_line(tmp_path: Path) -> None:
    os.environ["TUNEWRIGHT_CACHE"] = str(tmp_path)
    try:
        bench = Bench("a")
        says = bench.begin("axolotl", "envs/train-123/bin/python", "tests/fake_axolotl.py", {})
        assert says == (
            f"node {socket.gethostname()} has no environment for axolotl of this release "
            f"({tmp_path}/envs/train-123/bin/python)"
        )
        bench.close()
    finally:
        del os.environ["TUNEWRIGHT_CACHE"]


# --- a cluster --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalNodes]:
    """A cluster without a node that takes jobs."""
    if find_spec("ray") is None:
        pytest.skip("Ray is not installed: the extra `cluster`")
    cache = tmp_path_factory.mktemp("cache")
    (cache / "envs").symlink_to(environments.cache_folder(os.environ) / "envs")
    with local_nodes(cache) as found:
        yield found


@pytest.fixture(scope="module")
def cluster(nodes: LocalNodes) -> Iterator[Cluster]:
    connection = Cluster("auto")
    yield connection
    connection.close()


@pytest.fixture(scope="module")
def first(nodes: LocalNodes, cluster: Cluster) -> object:
    """The only node at first."""
    with pytest.raises(SetupError, match="no node of the cluster has cores to give"):
        cluster.need("cpu")
    return nodes.add()


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


class Said(list[str]):
    """What a person is told."""

    def count_of(self, words: str) -> int:
        return sum(words in line for line in self)

    def has(self, words: str) -> bool:
        return any(words in line for line in self)


def engine_on(cluster: Cluster, model: BaseModelCard, said: Said, engine: Engine) -> PlacedEngine:
    one = placed(engine, cluster, model, "cpu", said.append)
    one.bring_every_s = 0.2
    return one


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_training_on_a_node_leaves_what_one_here_leaves(
    tmp_path: Path, cluster: Cluster, first: object, model: BaseModelCard, data: Path
) -> None:
    earlier = tmp_path / "earlier" / "adapter"
    earlier.mkdir(parents=True)
    (earlier / "quality.json").write_text('{"quality": 0.4}')
    start = Start(earlier, content_sha256(earlier))
    recipe = RECIPE.model_copy(update={"continue_from": 1, "snapshots": 1})
    said, seen, losses = Said(), [], []

    def judge(snapshot: Snapshot) -> bool:
        seen.append(Path(snapshot.weights, "quality.json").read_text())
        return True

    def run(engine: Engine | PlacedEngine, folder: Path) -> dict[str, object]:
        run = train(
            engine, recipe, model, data, folder, device="cpu", deadline_s=300, start=start,
            on_loss=lambda point, _: losses.append(point.step), on_snapshot=judge,
        )  # fmt: skip
        assert Path(run.weights) == folder / "weights"
        assert Path(run.weights, "quality.json").exists()
        assert run.adapter
        assert Path(run.adapter, "adapter_config.json").exists()
        return run.model_dump(include={"weights_sha256", "steps", "losses", "tokens"})

    there = run(engine_on(cluster, model, said, quick()), tmp_path / "there")
    assert losses == list(range(1, 11))
    here = run(quick(), tmp_path / "here")
    assert there == here
    assert len(seen) == 2
    assert seen[0] == seen[1]
    assert said.has("axolotl works on node")
    assert files(tmp_path / "there") == files(tmp_path / "here")
    assert str(tmp_path / "there") in (tmp_path / "there" / "result.json").read_text()
    assert train(
        engine_on(cluster, model, said, quick()), recipe, model, data, tmp_path / "there",
        device="cpu", deadline_s=300, start=start,
    ).steps == 10  # fmt: skip
    assert said.count_of("works on node") == 1


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_job_that_fails_is_not_tried_again(
    tmp_path: Path, cluster: Cluster, first: object, model: BaseModelCard, data: Path
) -> None:
    said = Said()
    engine = engine_on(cluster, model, said, quick(FAKE_AXOLOTL_DIE_AT="3"))
    with pytest.raises(EngineError, match="exited with 9"):
        train(engine, RECIPE, model, data, tmp_path / "t", device="cpu", deadline_s=300)
    qlora = RECIPE.model_copy(update={"method": "qlora"})
    with pytest.raises(EngineError, match="QLoRA needs a CUDA device") as caught:
        preflight(engine, qlora, model, data, tmp_path / "p", device="cpu", timeout_s=300)
    assert caught.value.kind == "CONFIG"
    assert said.count_of("works on node") == 2
    assert not said.has("lost")
    assert engine.free_memory() > 1e8


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_training_whose_node_dies_goes_on_elsewhere_from_its_checkpoint(
    tmp_path: Path, nodes: LocalNodes, cluster: Cluster, first: object, model: BaseModelCard, data: Path
) -> None:
    said, answers = Said(), [True]

    def power_cut(snapshot: Snapshot) -> bool:
        if answers == [True]:
            nodes.add()
            nodes.kill(first)
            while len(cluster.nodes()) > 2:  # the head and the new one
                time.sleep(0.1)
        answers.append(True)
        return True

    recipe = RECIPE.model_copy(update={"snapshots": 1})
    engine = engine_on(cluster, model, said, quick())
    run = train(
        engine, recipe, model, data, tmp_path / "t", device="cpu", deadline_s=500, on_snapshot=power_cut
    )  # fmt: skip
    assert run.resumed_from_step == 5
    assert [point.step for point in run.losses] == list(range(1, 11))
    here = train(quick(), recipe, model, data, tmp_path / "here", device="cpu", deadline_s=300)
    assert run.weights_sha256 == here.weights_sha256
    assert said.has("lost the node of the axolotl job")
    assert said.has("on from step 5")


def command(tmp_path: Path, cluster: str, *argv: str) -> subprocess.Popen[str]:
    """A front door of the tests, with a cache of its own."""
    env = {**os.environ, "TUNEWRIGHT_CACHE": str(tmp_path / "cache")}
    argv = (*argv, "--cluster", cluster, "--run-dir", str(tmp_path / "runs"))
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-m", *argv], cwd=ROOT, env=env, stdout=pipe, stderr=pipe, text=True)


def ended(process: subprocess.Popen[str], code: int) -> tuple[str, str]:
    out, err = process.communicate(timeout=500)
    assert process.returncode == code, f"{out}\n{err}"
    assert "Traceback" not in err
    return out, err


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_run_outside_of_the_cluster_places_its_trainings_and_says_so(
    tmp_path: Path, nodes: LocalNodes, first: object
) -> None:
    argv = ("tests.fake_batch", "--benchmark", "spell_backward", "--budget", "20m", "--max-trials", "1", "--plain")
    out, _ = ended(command(tmp_path, nodes.from_elsewhere, *argv), 0)
    assert "trainer: axolotl works on node" in out
    assert "validator: axolotl works on node" in out


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_batch_places_whole_runs_and_brings_them_back_also_when_it_is_stopped(
    tmp_path: Path, cluster: Cluster, first: object
) -> None:
    tasks = tmp_path / "b.json"
    tasks.write_text('{"x": {"benchmark": "spell_backward", "budget": "20m", "max_trials": 1}}')
    argv = ("tests.fake_batch", "--batch", str(tasks), "--json")
    process = command(tmp_path, "auto", *argv)
    folder = RunFolder(tmp_path / "runs" / "b-x")
    until = time.monotonic() + 400
    while not folder.process_log.exists() or "data_engineer" not in folder.process_log.read_text():
        assert time.monotonic() < until
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, said = ended(process, 130)
    assert [row["status"] for row in json.loads(out)] == ["stopped"]
    assert "b-x works on node" in said
    assert read_state(folder).get("baseline") is not None
    out, _ = ended(command(tmp_path, "auto", *argv), 0)
    (row,) = json.loads(out)
    assert (row["status"], row["n"]) == ("finished", 60)
    assert folder.events.read_text().count('"run b-x"') == 2
    assert (folder.model / "README.md").exists()
    for file in (folder.root / "report.json", folder.root / "report.md", folder.process_log):
        assert "/cluster/jobs/" not in file.read_text()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_run_of_a_batch_whose_node_dies_begins_again_elsewhere(
    tmp_path: Path, nodes: LocalNodes, cluster: Cluster, first: object
) -> None:
    tasks = tmp_path / "b.json"
    tasks.write_text('{"x": {"benchmark": "spell_backward", "budget": "20m", "max_trials": 1}}')
    process = command(tmp_path, "auto", "tests.fake_batch", "--batch", str(tasks), "--json")
    log = RunFolder(tmp_path / "runs" / "b-x").process_log
    until = time.monotonic() + 400
    while not log.exists() or "analyst at work" not in log.read_text():
        assert time.monotonic() < until
        time.sleep(0.1)
    (only,) = nodes.alive
    nodes.add()
    nodes.kill(only)
    out, said = ended(process, 0)
    assert [row["status"] for row in json.loads(out)] == ["finished"]
    assert "b-x lost its node" in said
    assert said.count("b-x works on node") == 2


@pytest.mark.engine
@pytest.mark.timeout(900)
def test_the_real_engine_trains_on_a_node(tmp_path: Path, cluster: Cluster, first: object) -> None:
    real = real_axolotl()
    base, said = smollm2(real), Said()
    rows = write_data(tmp_path / "rows.jsonl", rows=8)
    one_epoch = SMALL.model_copy(update={"epochs": 1})
    engine = engine_on(cluster, base, said, real)
    run = train(engine, one_epoch, base, rows, tmp_path / "t", device="cpu", deadline_s=800)
    assert run.steps == 2
    assert Path(run.weights, "model.safetensors").stat().st_size > 1e8
    assert (
        json.loads(Path(run.adapter or "", "adapter_config.json").read_text())["base_model_name_or_path"] == base.path
    )


NO_RAY = """
import sys
sys.modules["ray"] = None  # as if it were not installed
from tools.cluster.connection import RAY, Cluster
from memory.errors import InputError
try:
    Cluster("auto")
except InputError as error:
    print(error)
"""


def test_without_ray_one_line_says_how_to_install_it() -> None:
    told = subprocess.run([sys.executable, "-c", NO_RAY], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert told == (
        "--cluster needs Ray, which is not installed. Install it: python -m uv pip install --python .venv/bin/python "
        f'"{RAY}"\n'
    )


@pytest.mark.slow
def test_without_a_cluster_one_line_says_how_to_start_one() -> None:
    if find_spec("ray") is None:
        pytest.skip("Ray is not installed: the extra `cluster`")
    began = time.monotonic()
    with pytest.raises(InputError, match=r"no Ray cluster is at ray://127.0.0.1:1 .*ray start --head"):
        Cluster("ray://127.0.0.1:1")
    assert time.monotonic() - began < 60
