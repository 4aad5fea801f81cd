"""The proposer that a task asks for, with all that a language model needs to plan: its server, its brief, a meter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from graph.planning import Access, check_access, says, url_of
from memory.events import Events
from memory.layout import RunFolder
from memory.ledger import Ledger
from memory.records import LOCAL, BaseModelCard, ModelCall, Planning, Task
from nodes.deps import Propose, ReadOutputs
from tools.benchmarks.benchmark import Benchmark, Item
from tools.benchmarks.splits import read_items, split_path
from tools.earlier_runs import lessons_of_earlier_runs
from tools.engines.environments import Hardware
from tools.llm.broker import Broker
from tools.llm.endpoint import Endpoint
from tools.llm.meter import Meter
from tools.llm.prices import FREE, price_of
from tools.machine import total_memory
from tools.operators.writers import PURPOSES, Writers
from tools.proposers.llm import LanguagePlanner
from tools.proposers.llm_brief import Facts
from tools.proposers.llm_errors import ErrorReader
from tools.proposers.llm_form import ProposedPlan, StructuredPlan
from tools.proposers.llm_research import Researcher
from tools.proposers.llm_sources import Sources
from tools.research.library import Library
from tools.serving import SERVED_NAME, WINDOW, Server

LOCAL_ANSWER_TOKENS = 400
"""Room for a filled form: what the window of our own server leaves goes to the brief."""
LOCAL_TIMEOUT_SECONDS = 240.0
"""A model of 135M weights was seen to write three tokens a second where other work held both cores."""
LOOKED_THROUGH, EXAMPLES = 50, 5
"""Training rows that are looked through for two with different answers, and how many are shown at most."""


@dataclass(frozen=True)
class Desk:
    """What a run has at hand when its planner is seated."""

    folder: RunFolder
    benchmark: Benchmark
    model: BaseModelCard
    server: Server
    device: Hardware
    events: Events
    ledger: Ledger

    def note(self, line: str) -> None:
        """Tell the person."""
        self.events.emit("note", line)


def broker_of(task: Task, desk: Desk) -> Broker:
    """Who asks the run's models, whoever wants to know: all calls count against one budget."""
    meter = Meter(desk.folder.llm, task.planning.budget_usd)
    return Broker(desk.folder.llm, meter, heard_by(desk, meter))


def writers_of(task: Task, access: Access, desk: Desk, broker: Broker) -> Writers | None:
    """The language models that write and judge rows; None where search plans."""
    planning = task.planning
    if planning.planner == "search":
        return None
    strong = endpoint_of(planning.strong_model or planning.model, planning, access, desk)
    weak = endpoint_of(planning.weak_model or planning.model, planning, access, desk)
    return Writers(broker, {"strong": strong, "weak": weak}, {name: template(name) for name in PURPOSES})


def proposer_of(task: Task, access: Access, net: Propose, desk: Desk, broker: Broker) -> Propose:
    """`net`, or a language model with it as the safety net. Says who plans. Raises InputError where a key is
    missing."""
    planning = task.planning
    if planning.planner == "search":
        return net
    check_access(planning, access)
    desk.note(says(planning.model_copy(update={"base_url": url_of(planning, access)})))
    first = endpoint_of(planning.model, planning, access, desk)
    second = endpoint_of(planning.strong_model or planning.model, planning, access, desk)
    return LanguagePlanner(
        broker=broker,
        endpoints=(first, second),
        template=template("planner"),
        facts=facts_of(task, desk),
        net=net,
        note=desk.note,
        researcher=researcher_of(broker, first, access, desk) if planning.research else None,
        form=StructuredPlan if planning.planner == "hybrid" else ProposedPlan,
    )


def researcher_of(broker: Broker, endpoint: Endpoint, access: Access, desk: Desk) -> Researcher:
    """Who looks things up. The catalogues are tried once, briefly, before the first plan; what cannot be reached is
    said, and the run goes on without."""
    library = Library(access.hub_url, access.papers_url)
    if not desk.folder.research.exists():
        library, problems = library.probed()
        told = f"looking up {', '.join(f'{shelf}s' for shelf in library.shelves)}" if library.shelves else "off"
        desk.note(f"--research: {'; '.join([told, *problems])}")
    return Researcher(broker, endpoint, template("research"), library, desk.folder, desk.note)


def reader_of(task: Task, access: Access, desk: Desk, broker: Broker) -> ReadOutputs | None:
    """The model that reads wrong outputs for the analyst; None where the person named none."""
    planning = task.planning
    if not planning.weak_model:
        return None
    asked = f"{desk.benchmark.name}, {desk.benchmark.title}"
    weak = endpoint_of(planning.weak_model, planning, access, desk)
    return ErrorReader(broker, weak, template("errors"), asked, desk.note)


def endpoint_of(name: str, planning: Planning, access: Access, desk: Desk) -> Endpoint:
    """A model by the name that the person gave it."""
    if name != LOCAL:
        return Endpoint(name, url_of(planning, access), access.key, price_of(name, planning))

    def socket() -> Path:
        desk.server.load(Path(desk.model.path))
        return desk.server.socket

    return Endpoint(
        LOCAL,
        "http://localhost/v1",
        price=FREE,
        answer_tokens=LOCAL_ANSWER_TOKENS,
        prompt_tokens=WINDOW - LOCAL_ANSWER_TOKENS,
        timeout_s=LOCAL_TIMEOUT_SECONDS,
        temperature=0.0,
        socket=socket,
        served_as=SERVED_NAME,
        weights=desk.model.sha256,
    )


def facts_of(task: Task, desk: Desk) -> Facts:
    """What a language model reads beside the brief."""
    items = read_items(split_path("train", desk.folder.data, None))[:LOOKED_THROUGH]
    other = next((item for item in items if item.answer != items[0].answer), None)
    first: tuple[Item, ...] = (*items[:1], *((other,) if other else ()))
    shown = (*first, *(item for item in items if item not in first))[:EXAMPLES]
    return Facts(
        benchmark=desk.benchmark,
        items=shown,
        folder=desk.folder,
        memory_bytes=total_memory(desk.device),
        earlier=lessons_of_earlier_runs(desk.folder, task),
        sources=Sources(task.raw_data, desk.folder, desk.server),
    )


def heard_by(desk: Desk, meter: Meter) -> Callable[[ModelCall], None]:
    """Writes a call into the ledger, and says what it took, unless it is one of the many that write rows."""

    def heard(call: ModelCall) -> None:
        desk.ledger.record_call(call)
        if call.purpose in PURPOSES:
            return
        took = f"{call.model} {call.state} in {call.seconds:.1f} s"
        if call.state == "answered":
            took += f": {call.prompt_tokens} + {call.answer_tokens} tokens"
        cap = f" of ${meter.budget_usd:g}" if meter.budget_usd else ""
        money = "price unknown" if call.dollars is None else f"${call.dollars:.4f}, ${meter.spent_usd:.4f}{cap} so far"
        desk.note(f"{took} ({money})")

    return heard


def template(name: str) -> str:
    """A prompt's template, as it lies in nodes/prompts."""
    return (resources.files("nodes") / "prompts" / f"{name}.md").read_text(encoding="utf-8")
