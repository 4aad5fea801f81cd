"""Starts the vLLM server of a run: reads `request.json` in the given folder and becomes the server by exec.

Standard library only; the server then belongs to the supervisor that started this script, and dies with it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from tools.engines import worker_io

MAX_SEQUENCES = 64
"""Requests generated at once; the lighteval worker sends as many."""
STEP_TOKENS = 2048
"""Tokens computed at once on a CPU, unless the longest prompt is longer."""


def arguments(request: dict[str, Any]) -> list[str]:
    """The server's command line. Bound to a socket file: development mode lets whoever reaches it change weights."""
    argv = [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
    argv += ["--model", request["model"], "--served-model-name", request["served_name"], "--uds", request["socket"]]
    argv += ["--dtype", "bfloat16", "--max-model-len", str(request["max_model_len"]), "--seed", str(request["seed"])]
    argv += ["--max-num-seqs", str(MAX_SEQUENCES), "--disable-log-stats", "--disable-uvicorn-access-log"]
    if request["chat_template"] is not None:
        argv += ["--chat-template", request["chat_template"]]
    if request["device"] == "cuda":
        argv += ["--enable-sleep-mode", "--gpu-memory-utilization", str(request["gpu_share"])]
    else:
        # A prompt is taken whole: the seeds of sampled requests fail on a CPU where a prompt is cut into chunks.
        tokens = max(request["max_model_len"], STEP_TOKENS)
        argv += ["--no-enable-chunked-prefill", "--max-num-batched-tokens", str(tokens)]
        # Compiling saves nothing for a small model on a CPU. `uni` keeps model and scheduler in one process.
        argv += ["--enforce-eager", "--distributed-executor-backend", "uni"]
    return argv


def environment(request: dict[str, Any]) -> dict[str, str]:
    """What vLLM reads from its environment. Development mode has the routes that swap weights and sleep."""
    env = {"VLLM_SERVER_DEV_MODE": "1"}
    if request["device"] != "cuda":
        env["VLLM_CPU_KVCACHE_SPACE"] = str(request["kv_cache_gib"])
        # vLLM refuses one process on a CPU unless this says so; the threads are then ours to set.
        env["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
        env["OMP_NUM_THREADS"] = str(request["threads"])
        # Threads that wait by spinning make a server several times slower as soon as anything else wants a core.
        env["OMP_WAIT_POLICY"] = "PASSIVE"
    return env


def main(folder: Path) -> None:
    """Become the server; returns only by an exception."""
    request = worker_io.read_request(folder)
    argv = arguments(request)
    os.execve(argv[0], argv, {**os.environ, **environment(request)})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
