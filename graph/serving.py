"""The tuned model at work: an OpenAI-compatible endpoint on this machine, and answers of both models side by side."""

from __future__ import annotations

import http.client
import json
import socket
import sys
import time
from pathlib import Path
from typing import Any

from graph.finished import Finished, check_base, finished, teller
from graph.live import tell
from graph.settings import Settings
from graph.workshop import Equip, Workshop
from memory.errors import InputError, ServerError
from memory.records import Record
from tools import process
from tools.engines.contract import REPOSITORY, Engine, worker_env
from tools.engines.vllm.client import Client
from tools.handover.folder import HOST, SERVED_AS, serve_arguments, serve_environment
from tools.serving import SERVED_NAME, Server, reason

FINISHED = 0
START_SECONDS = 900.0
"""A limit for a start that hangs; a small model is up in a minute."""
ANSWER_TOKENS = 512
"""Room for an answer of --ask."""


# --- an endpoint ------------------------------------------------------------------------------------------------------


def serve(settings: Settings, equip: Equip) -> int:
    """Serve the tuned model on loopback until Ctrl-C. Raises InputError for a port that is taken, before anything is
    started; ServerError where the server does not start, or dies."""
    run, say = finished(settings), teller(settings)
    refuse_taken(settings.port)
    workshop = equip(run.report.task, settings.cache, say)
    refuse_taken(settings.port)
    log = run.folder.root / "endpoint" / "run.log"
    log.unlink(missing_ok=True)
    engine = workshop.engines.vllm
    argv = serve_arguments(engine.python, run.folder.model, workshop.device, settings.port, run.report.window)
    env = worker_env(engine) | serve_environment(workshop.device)
    say(f"starting the server, which takes up to a minute; its log is {log}")
    with process.start(argv, log=log, cwd=REPOSITORY, env=env) as server:
        wait_until_up(server, settings.port)
        if settings.json_output:
            address = {"base_url": f"http://{HOST}:{settings.port}/v1", "model": SERVED_AS}
            tell(sys.stdout, json.dumps(address))
        for line in directions(settings.port, run):
            say(line)
        code = server.wait()
    raise ServerError(f"the server ended: {reason(log, code or 0)}", f"Its log is {log}.")


def refuse_taken(port: int) -> None:
    """Raises InputError where something listens on the port, or it is not ours to take."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # A server that has just ended leaves connections behind, which do not keep the port from its successor.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except (OSError, OverflowError) as error:
            why = error.strerror if isinstance(error, OSError) else "ports go up to 65535"
            raise InputError(f"port {port} cannot be used: {why}", "Give another one: --port N.") from error


def wait_until_up(server: process.Process, port: int) -> None:
    """Return when the server says that it is well. Raises ServerError where it dies, or takes too long."""
    until = time.monotonic() + START_SECONDS
    while (code := server.wait(0.2)) is None:
        if well(port):
            return
        if time.monotonic() > until:
            raise ServerError(f"the server was not up within {START_SECONDS:.0f} s", f"Its log is {server.log}.")
    raise ServerError(f"the server did not start: {reason(server.log, code)}", f"Its log is {server.log}.")


def well(port: int) -> bool:
    """Whether the endpoint answers /health."""
    connection = http.client.HTTPConnection(HOST, port, timeout=5.0)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def directions(port: int, run: Finished) -> list[str]:
    """How to use the endpoint."""
    url = f"http://{HOST}:{port}/v1"
    body = json.dumps({"model": SERVED_AS, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 64})
    return [
        f"trial {run.winner.number} of run {run.folder.id} is served at {url} as the model {SERVED_AS!r}, "
        f"{run.report.window} tokens of context. Try it:",
        f"curl {url}/chat/completions -H 'Content-Type: application/json' -d '{body}'",
        "Ctrl-C ends it.",
    ]


# --- side by side -----------------------------------------------------------------------------------------------------


class Said(Record):
    """One model's answer."""

    model: str
    """`base` or `tuned`."""
    answer: str
    finish: str
    """`stop`, or `length` where the token limit cut it."""
    tokens: int
    seconds: float
    """Of the answer alone; server start and weight swap left out."""


class SideBySide(Record):
    """A question and what both models say to it; greedy."""

    run: str
    trial: int
    question: str
    answers: tuple[Said, Said]


def ask(settings: Settings, equip: Equip) -> int:
    """Print what base and tuned model answer. Raises InputError for an empty question, ServerError."""
    if not settings.question.strip():
        raise InputError("the question is empty", "Write --ask RUN 'QUESTION'.")
    run, say = finished(settings), teller(settings)
    workshop = equip(run.report.task, settings.cache, say)
    check_base(run, workshop.model)
    say("starting the server, which takes up to a minute ...")
    both = side_by_side(run, workshop, settings.question)
    if settings.json_output:
        tell(sys.stdout, both.model_dump_json(indent=2))
        return FINISHED
    for said in both.answers:
        cut = ", cut at the token limit" if said.finish == "length" else ""
        say(f"\n{said.model} ({said.seconds:.1f} s, {said.tokens} tokens{cut}):\n{said.answer}")
    return FINISHED


def side_by_side(run: Finished, workshop: Workshop, question: str) -> SideBySide:
    """Ask the base model, swap the tuned weights in, ask again. Raises ServerError."""
    engine: Engine = workshop.engines.vllm
    folder = run.folder.root / "asked"
    window = run.report.window
    with Server(engine, workshop.model, folder, device=workshop.device, max_model_len=window) as server:
        server.load(Path(workshop.model.path))
        warm_up(server)
        base = answer(server, "base", question)
        server.load(run.folder.model)
        tuned = answer(server, "tuned", question)
    return SideBySide(run=run.folder.id, trial=run.winner.number, question=question, answers=(base, tuned))


def warm_up(server: Server) -> None:
    """The first request pays for what later ones find ready, and would make one model look slow."""
    request(server, "Hello", 1)


def answer(server: Server, name: str, question: str) -> Said:
    """One greedy answer of the weights that are loaded. Raises ServerError."""
    began = time.monotonic()
    said = request(server, question, ANSWER_TOKENS)
    seconds = time.monotonic() - began
    try:
        choice, usage = said["choices"][0], said["usage"]
        return Said(
            model=name, answer=choice["message"]["content"], finish=choice["finish_reason"],
            tokens=usage["completion_tokens"], seconds=seconds,
        )  # fmt: skip
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise ServerError(f"the vLLM server did not answer the question: {str(said)[:200]}") from error


def request(server: Server, question: str, tokens: int) -> dict[str, Any]:
    """A chat of one question. Raises ServerError."""
    client = Client(server.socket)
    try:
        messages = [{"role": "user", "content": question}]
        body = {"model": SERVED_NAME, "messages": messages, "max_tokens": tokens, "temperature": 0}
        return client.post("/v1/chat/completions", body)
    finally:
        client.close()
