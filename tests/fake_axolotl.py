"""A stand-in for the Axolotl worker under the same contract: a real process, quick, no model.

It "trains" by writing loss points, and weights whose quality (0 to 1, for the stand-in server) grows with the learning
rate up to 2e-3, with rows times epochs, and a little with the rank. A training that goes on from other weights begins
with their quality. It refuses what the real one refuses (QLoRA on a CPU), and its loss is NaN from the third step on
where the learning rate is 1 or more, and explodes from 0.1 on. Of a pair it returns both halves; for GRPO it answers
rightly as often as its weights are good, has that scored, and its loss is zero.

Faults are asked for in the environment: FAKE_AXOLOTL_STEP_S (seconds a step), FAKE_AXOLOTL_ROWS (rows that fit into
memory at once), FAKE_AXOLOTL_STALL_AT (step after which nothing comes), FAKE_AXOLOTL_DIE_AT (step at which it dies;
only once, where FAKE_AXOLOTL_ONCE names a file), FAKE_AXOLOTL_PEAK_AT (step from which on the weights get worse).
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import sys
import time
from pathlib import Path
from typing import Any

import yaml

from tools.engines import worker_io
from tools.engines.axolotl import checkpoints, rewards, snapshots
from tools.engines.lighteval import inbox

BYTES_A_TOKEN = 4
UNTOUCHED = 0.1
"""Quality of the base model."""


class Job:
    """What the rendered YAML asks for, and what that would come to."""

    def __init__(self, config: str) -> None:
        self.yaml: dict[str, Any] = yaml.safe_load(Path(config).read_text())
        data = Path(self.yaml["datasets"][0]["path"])
        self.lines = [json.loads(line) for line in data.read_text().splitlines()]
        self.rows = [line["messages"] for line in self.lines]
        self.objective = self.yaml.get("rl", "sft")
        self.answers = self.yaml["trl"]["num_generations"] if self.objective == "grpo" else 1
        self.micro = self.yaml["micro_batch_size"]
        self.batch = self.micro * self.yaml["gradient_accumulation_steps"] // self.answers
        self.epochs = self.yaml["num_epochs"]
        self.rate = self.yaml["learning_rate"]
        self.best_rate = 2e-3 if self.objective == "sft" else 2e-4
        self.steps = math.ceil(len(self.rows) * self.epochs / self.batch)

    @property
    def lengths(self) -> list[int]:
        """Tokens of each row, as a real tokenizer would about count them."""
        return [len(whole(messages)) // BYTES_A_TOKEN for messages in self.rows]

    @property
    def before(self) -> float:
        """How much better than the untouched model the weights are that it goes on from."""
        path = Path(self.yaml.get("lora_model_dir") or self.yaml["base_model"]) / "quality.json"
        return float(json.loads(path.read_text())["quality"]) - UNTOUCHED if path.exists() else 0.0

    def quality(self, step: int | None = None) -> float:
        """How good the weights are after a step; at the end where none is given."""
        rate = math.exp(-(math.log10(self.rate / self.best_rate) ** 2))
        step, peak = self.steps if step is None else step, int(os.environ.get("FAKE_AXOLOTL_PEAK_AT", "0"))
        share = (max(0, 2 * peak - step) if 0 < peak < step else step) / self.steps
        amount = 1 - math.exp(-len(self.rows) * self.epochs * share / 400)
        rank = min(1.0, 0.9 + self.yaml.get("lora_r", 64) / 640)
        learned = UNTOUCHED + 0.8 * rate * amount * rank
        return learned + (0.9 - learned) * self.before

    def loss(self, step: int) -> float:
        """The training curve."""
        if self.objective == "grpo":
            return 0.0
        if self.rate >= 0.1 and step > 2:
            return math.nan if self.rate >= 1 else 3.0 + step
        begun = 2.5 - 2.4 * self.before
        return begun - (begun - 2.5 + 2.4 * self.quality()) * step / self.steps


def whole(messages: list[dict[str, str]]) -> list[int]:
    """A row's token ids: the bytes of its ChatML rendering, as the stand-in server tokenizes."""
    return list("".join(f"<|im_start|>{each['role']}\n{each['content']}<|im_end|>\n" for each in messages).encode())


def sample(row: int, messages: list[dict[str, str]]) -> dict[str, object]:
    """One row with its labels: the answer and its end."""
    ids = whole(messages)
    prompt = len(whole(messages[:1])) + len("<|im_start|>assistant\n")
    return {"row": row, "input_ids": ids, "labels": [-100] * prompt + ids[prompt:-1] + [-100]}


def samples(job: Job, row: int) -> list[dict[str, object]]:
    """A row token by token, both halves of a pair."""
    question, preferred = job.rows[row]
    answers = [preferred]
    if job.objective == "dpo":
        answers.append({"role": "assistant", "content": job.lines[row]["rejected"]})
    return [sample(row, [question, answer]) for answer in answers]


def scored(job: Job, folder: Path, step: int) -> dict[str, object]:
    """What a step shows beside its loss; GRPO has its answers scored."""
    if job.objective == "dpo":
        return {"accuracy": 0.5 + 0.5 * step / job.steps}
    if job.objective != "grpo":
        return {}
    at = [(step + place) % len(job.rows) for place in range(job.batch)] * job.answers
    right = round(job.quality(step) * len(at))
    said = [job.rows[row][1]["content"] if place < right else "no idea" for place, row in enumerate(at)]
    scores = rewards.ask(folder, [job.lines[row]["id"] for row in at], said)
    return {"reward": sum(scores) / len(scores), "kl": 0.01 * step}


def preflight(job: Job, folder: Path, request: dict[str, Any]) -> dict[str, object]:
    """The answer to a preflight; a step is said to take what it will take."""
    scored(job, folder, 1)
    limit, lengths = job.yaml["sequence_len"], job.lengths
    pace = float(os.environ.get("FAKE_AXOLOTL_STEP_S", "0.002"))
    return {
        "rows": len(job.rows),
        "dropped": sum(length > limit for length in lengths),
        "lengths": lengths,
        "supervised": [len(messages[1]["content"]) // BYTES_A_TOKEN + 2 for messages in job.rows],
        "samples": [half for row in range(min(request["samples"], len(job.rows))) for half in samples(job, row)],
        "total_steps": job.steps,
        "padded_tokens": sum(lengths),
        "step_seconds": pace if request["steps"] else 0.0,
        "predicted_seconds": pace * job.steps if request["steps"] else 0.0,
        "peak_memory_bytes": 10**9,
        "timed": "a stand-in's guess" if request["steps"] else "nothing",
        "losses": sweep(request["rates"]) if request["steps"] else [],
        "seconds": 0.1,
    }


def sweep(rates: list[float]) -> list[float]:
    """Losses that fall until the rate reaches 1e-2, and leave their best at once from there on."""
    return [2.5 - at / len(rates) if rate < 1e-2 else 20.0 for at, rate in enumerate(rates)]


def train(job: Job, folder: Path, request: dict[str, Any]) -> dict[str, object]:
    """Steps, points, checkpoints and weights, in the order of the real worker."""
    began = time.monotonic()
    place = folder / "checkpoints"
    last = checkpoints.newest_whole(place, request["identity"])
    resumed = checkpoints.step_of(last) if last else 0
    points: list[dict[str, object]] = json.loads((last / "points.json").read_text()) if last else []
    pace = float(os.environ.get("FAKE_AXOLOTL_STEP_S", "0"))
    snapshots.keep_until(folder, resumed, request["snapshots"])
    stopped = snapshots.ask_again(folder)
    for step in range(resumed + 1, job.steps + 1) if stopped is None else ():
        time.sleep(pace)
        fault_at(step)
        point = point_at(step, job, pace or 0.002) | scored(job, folder, step)
        points.append(point)
        said = {key: value if math.isfinite(float(str(value))) else str(value) for key, value in point.items()}
        worker_io.progress(folder, total_steps=job.steps, **said)
        pausing = step in snapshots.steps(job.steps, request["snapshots"])
        if pausing:
            write_snapshot(folder, job, request, point)
        if pausing or pace or step % 20 == 0:
            checkpoint = place / f"checkpoint-{step}"
            checkpoint.mkdir()
            (checkpoint / "points.json").write_text(json.dumps(points))
            checkpoints.mark_whole(place, step)
        if pausing and not snapshots.ask(folder, snapshots.made(folder)[-1]):
            stopped = step
            break
    weights = write_weights(folder, job, request, stopped)
    checkpoints.remove(place)
    done = len(points)
    return {
        "weights": str(folder / "weights"),
        "adapter": str(folder / "adapter") if "adapter" in job.yaml else None,
        "weights_sha256": weights,
        "losses": points,
        "steps": done,
        "planned_steps": job.steps,
        "step_seconds": pace or 0.002,
        "tokens": round(sum(job.lengths) * job.epochs * done / job.steps),
        "train_seconds": done * (pace or 0.002),
        "seconds": time.monotonic() - began,
        "peak_memory_bytes": 10**9,
        "resumed_from_step": resumed,
        "snapshots": snapshots.made(folder),
        "stopped_at_step": stopped,
    }


def write_snapshot(folder: Path, job: Job, request: dict[str, Any], point: dict[str, object]) -> None:
    """The weights after a step, as they would be at the end of a training that long."""
    step = int(str(point["step"]))
    place = snapshots.place(folder, step)
    place.mkdir(parents=True, exist_ok=True)
    digest = write_weights(place, job, request, step)
    adapter = "adapter" in job.yaml
    fields = {"epoch": point["epoch"], "weights_sha256": digest, "has_adapter": adapter, "seconds": 0.01}
    snapshots.record(folder, step, fields)


def point_at(step: int, job: Job, pace: float) -> dict[str, object]:
    """One loss point."""
    return {
        "step": step,
        "epoch": step * job.batch / len(job.rows),
        "loss": job.loss(step),
        "learning_rate": job.rate,
        "grad_norm": 1.0,
        "seconds": step * pace,
    }


def fault_at(step: int) -> None:
    """Stall or die, where the environment says so."""
    if step == int(os.environ.get("FAKE_AXOLOTL_STALL_AT", "0")):
        time.sleep(3600)
    if step == int(os.environ.get("FAKE_AXOLOTL_DIE_AT", "0")):
        once = os.environ.get("FAKE_AXOLOTL_ONCE")
        if once is None or not Path(once).exists():
            if once is not None:
                Path(once).touch()
            os._exit(9)


def write_weights(folder: Path, job: Job, request: dict[str, Any], step: int | None) -> str:
    """Weights for the stand-in server, and an adapter, after a step; the hash of the weights."""
    text = json.dumps({"quality": job.quality(step), "seed": job.yaml["seed"]})
    for name in ("weights", "adapter"):
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "quality.json").write_text(text)
    config = Path(request["model"]) / "config.json"
    (folder / "weights" / "config.json").write_text(config.read_text() if config.exists() else "{}")
    (folder / "adapter" / "adapter_config.json").write_text(json.dumps({"r": job.yaml.get("lora_r")}))
    return hashlib.sha256(text.encode()).hexdigest()


def answer(folder: Path) -> None:
    """One request."""
    with worker_io.reporting(folder):
        request = worker_io.read_request(folder)
        if request["method"] == "qlora" and request["device"] == "cpu":
            raise worker_io.WorkerFailure("CONFIG", "QLoRA needs a CUDA device", "Use lora.")
        job = Job(request["config"])
        if job.micro > int(os.environ.get("FAKE_AXOLOTL_ROWS", "1000000")):
            raise MemoryError(f"{job.micro} rows do not fit")
        if request["action"] == "preflight":
            worker_io.finish(folder, preflight(job, folder, request))
        else:
            worker_io.finish(folder, train(job, folder, request))


if __name__ == "__main__":
    for each in inbox.folders(sys.argv[1:]):
        answer(each)
