"""The run view: the node at work, how far it is, what was planned and what came of it, and the charts.

Each part is made from a reading by a pure function, and only drawn again where what it shows has changed: its key says.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple, get_args

import gradio as gr

from graph.live import progress_words
from graph.page.reading import Reading, Status
from graph.page.safe_text import element, plain, table
from graph.page.shell import Shell, listen
from graph.values import in_words
from memory.records import NodeName, SealedTest, Trial
from tools import charts
from tools.plan_text import changed
from tools.report import judge
from tools.report_text import figure

NAME = "Run"
"""Of the tab."""
LINES = 60
"""Of the log."""
MARKS: dict[Status, str] = {
    "starting": "…",
    "at work": "▶",
    "waits for you": "?",
    "finished": "✓",
    "stopped": "■",
}
HEAD = ["trial", "change", "score", "95 % interval", "decision", "expected", "came true", "time", "hypothesis"]


class Part(NamedTuple):
    """A component of the view and how it follows a reading."""

    key: Callable[[Reading], Hashable]
    """Differs whenever `show` would."""
    show: Callable[[Reading], Any]
    nothing: Any = None
    """Stands there where no run is chosen."""


def layout(shell: Shell) -> None:
    """Build the tab. It is drawn while somebody looks: charts take the longest of all that a page has to do."""
    now = gr.HTML(NOTHING, elem_id="now")
    nodes = gr.HTML(elem_id="nodes")
    with gr.Row():
        plan = gr.Markdown(label="Plan", min_width=320, elem_id="plan")
        budget = gr.Plot(label="Budget", show_label=False, min_width=320)
    with gr.Row():
        loss = gr.Plot(label="Training loss", show_label=False, min_width=320)
        validation = gr.Plot(label="Validation", show_label=False, min_width=320)
    tree = gr.Plot(label="Tree of trials", show_label=False)
    trials = gr.Dataframe(
        headers=HEAD, label="Trials", interactive=False, wrap=True, max_height=420, elem_id="trials",
        column_widths=[60, 180, 120, 130, 120, 90, 80, 80, 320],
    )  # fmt: skip
    log = gr.Textbox(label="What happened, newest first", lines=12, max_lines=12, interactive=False, autoscroll=False)
    ticking, lasting = [now, budget], [nodes, plan, loss, validation, tree, trials, log]

    def follow(parts: Sequence[Part], run: str | None, tab: str, before: tuple[Hashable, ...]) -> list[Any]:
        if tab != NAME:
            return [gr.skip()] * (len(parts) + 1)
        return redrawn(parts, shell.place.chosen(run), before)

    for triggers, parts, outputs in (
        ([shell.news.change, shell.current.change, shell.beat.change], TICKING, ticking),
        ([shell.news.change, shell.current.change], LASTING, lasting),
    ):
        drawn = gr.State(())
        listen(triggers, partial(follow, parts), [shell.run, shell.current, drawn], [*outputs, drawn])


def redrawn(parts: Sequence[Part], reading: Reading | None, before: Sequence[Hashable]) -> list[Any]:
    """A value for each part, or a skip where it would be the same; and the keys, for the next time."""
    if reading is None:
        return [*(part.nothing for part in parts), ()]
    keys = tuple((reading.folder.id, part.key(reading)) for part in parts)
    old = tuple(before) or (None,) * len(keys)
    shown = [part.show(reading) if key != was else gr.skip() for part, key, was in zip(parts, keys, old, strict=True)]
    return [*shown, keys if keys != old else gr.skip()]


# --- the node at work -------------------------------------------------------------------------------------------------

NOTHING = "<p>No run yet. Ask for one in the chat.</p>"


def now_html(reading: Reading) -> str:
    """Status, work at hand and budget in one line."""
    spent, budget = in_words(reading.spent_seconds), in_words(reading.state["task"].budget.seconds)
    words = f"{MARKS[reading.status]} {reading.status}"
    if reading.status == "at work" and reading.node:
        words += f": {reading.node}" + (f", trial {reading.trial}" if reading.trial else "")
    line = [element("strong", words)]
    if reading.progress is not None:
        done, total = reading.progress.done or 0, reading.progress.total or 1
        said = progress_words(reading.progress, [loss for _, loss in reading.losses])
        line.append(element("progress", "", value=f"{done:g}", max=f"{total:g}", aria_label=said))
        line.append(element("span", said))
    elif reading.status in ("starting", "stopped") and reading.said:
        line.append(element("span", reading.said))
    elif reading.node and reading.events and reading.events[-1].kind in ("note", "check"):
        line.append(element("span", reading.events[-1].says))
    left = "" if reading.status == "finished" else f", {in_words(reading.seconds_left)} left"
    line.append(element("span", f"{spent} of {budget} spent{left}"))
    return f'<div class="now" role="status">{" ".join(line)}</div>'


def nodes_html(reading: Reading) -> str:
    """The five nodes, and which of them is at work."""
    busy = reading.node or (reading.following if reading.status == "waits for you" else None)
    boxes = []
    for name in ("analyst", *(node for node in get_args(NodeName) if node != "analyst")):
        mark = MARKS[reading.status] if name == busy else ""
        words = f"{mark} {name}" + (f", {reading.status}" if name == busy else "")
        kind = "node busy" if name == busy else "node"
        boxes.append(element("li", words, class_=kind, **({"aria_current": "step"} if name == busy else {})))
    order = "The graph: analyst, planner, data engineer, validator, trainer, and back to the analyst"
    return f'<ol class="nodes" aria-label="{order}">{"".join(boxes)}</ol>'


# --- what was planned, and what came of it ----------------------------------------------------------------------------


def plan_text(reading: Reading) -> str:
    """The plan at work, or what the last one came to; at the end, what the run came to."""
    test, plan = reading.state.get("test"), reading.state.get("plan")
    if test is not None:
        return verdict_text(test, reading.state.get("stop") or "")
    if plan is not None:
        grown = f"trial {plan.parent}" if plan.parent else "the base model"
        return (
            f"### Trial {plan.number}, planned\n\n{plain(plan.hypothesis)}\n\nIt grows from {grown}; "
            f"{plain(changed(plan))}. Why: {plain(plan.diagnosis)}\n\nExpected gain {plan.expected_gain:+.3f}, "
            f"{in_words(plan.predicted_seconds)}."
        )
    ended = reading.state.get("trials", [])
    if ended:
        trial = ended[-1]
        return (
            f"### Trial {trial.number}, {trial.decision}\n\n{plain(trial.plan.hypothesis)}\n\n**{came_true(trial)}** "
            f"{plain(trial.arithmetic)}"
        )
    return f"### {plain(reading.task.benchmark)}\n\nThe untouched model is measured first; then trials are planned."


def verdict_text(test: SealedTest, stop: str) -> str:
    """What the sealed test says of the run, with its figures."""
    verdict = judge(test, stop)
    models = {"base, zero-shot": test.zero_shot, f"base, {test.few_shot.shots}-shot": test.few_shot}
    models |= {f"trial {test.winner}": test.tuned} if test.tuned else {}
    rows = [[name, *figure(score)[:3]] for name, score in models.items()]
    return (
        f"### The run has ended: {verdict.outcome}\n\n{plain(verdict.says)}\n\n"
        f"{table(['sealed test', test.zero_shot.metric, '95 % interval', 'n'], rows)}\n\nStopped: {plain(stop)}"
    )


def came_true(trial: Trial) -> str:
    """Whether a trial's expectation came true, in words."""
    words = {True: "It came true.", False: "It did not come true.", None: "It was not measured."}
    return words[trial.expectation_met]


def trial_rows(reading: Reading) -> list[list[str]]:
    """A row for each ended trial, the newest first."""
    rows = []
    for trial in reversed(reading.state.get("trials", [])):
        score = trial.score
        rows.append(
            [
                str(trial.number),
                changed(trial.plan),
                f"{score.value:.3f} ± {score.stderr:.3f}" if score else "",
                f"[{score.ci_low:.3f}, {score.ci_high:.3f}]" if score else "",
                f"{charts.LOOKS[trial.decision].mark} {trial.decision}",
                f"{trial.plan.expected_gain:+.3f}",
                {True: "yes", False: "no", None: ""}[trial.expectation_met],
                in_words(trial.seconds),
                trial.plan.hypothesis,
            ]
        )
    return rows


def log_text(reading: Reading) -> str:
    """The last events, a line each, the newest first."""
    return "\n".join(
        f"{datetime.fromtimestamp(event.at):%H:%M:%S}  {f'{event.node}: ' if event.node else ''}{event.says}"
        for event in reversed(reading.events[-LINES:])
    )


# --- charts -----------------------------------------------------------------------------------------------------------


def loss_chart(reading: Reading) -> Any:
    """The loss of the last training, at work or not, beside that of the trial before it."""
    ended = [(trial.number, trial.training.losses) for trial in _trials(reading) if trial.training]
    curves = [
        charts.Curve(f"trial {number}", [point.step for point in losses], [point.loss for point in losses])
        for number, losses in [each for each in ended if each[0] != reading.losses_of][-1:]
    ]
    if reading.losses:
        steps, losses = zip(*reading.losses, strict=True)
        curves.append(charts.Curve(f"trial {reading.losses_of}" if reading.losses_of else "last", steps, losses))
    return charts.loss(curves)


def budget_chart(reading: Reading) -> Any:
    """Where the budget went so far."""
    trials, budget = reading.state.get("trials", []), reading.state["task"].budget.seconds
    spent, tried = reading.spent_seconds, sum(trial.seconds for trial in trials)
    at_work = max(0.0, spent - reading.state.get("trial_started", 0.0)) if reading.state.get("plan") else 0.0
    parts = [
        charts.Part("base model and the rest", max(0.0, spent - tried - at_work), charts.GREY),
        charts.Part(f"{len(trials)} ended trials", tried, charts.BLUE),
        charts.Part("the trial at work", at_work, charts.LOOKS["inconclusive"].colour),
        charts.Part("left", max(0.0, budget - spent), "rgba(128,128,128,0.2)"),
    ]
    return charts.budget([part for part in parts if part.seconds > 0], budget)


def _ended(reading: Reading) -> Hashable:
    """What the charts of ended trials depend on."""
    return len(reading.state.get("trials", [])), reading.state.get("baseline") is not None


def _trials(reading: Reading) -> list[Trial]:
    return reading.state.get("trials", [])


TICKING = (
    Part(now_html, now_html, NOTHING),
    Part(lambda reading: (_ended(reading), round(reading.spent_seconds / 5)), budget_chart),
)
"""What changes by itself."""
LASTING = (
    Part(lambda reading: (reading.status, reading.node, reading.following), nodes_html),
    Part(lambda reading: (_ended(reading), reading.status, reading.state.get("plan") is not None), plan_text),
    Part(lambda reading: (len(reading.losses), reading.losses[-1:], _ended(reading)), loss_chart),
    Part(
        _ended,
        lambda reading: charts.validation(reading.state.get("baseline"), _trials(reading), reading.task.metric),
    ),
    Part(_ended, lambda reading: charts.tree(_trials(reading))),
    Part(_ended, trial_rows),
    Part(lambda reading: reading.events[-1:], log_text),
)
"""In the order of the outputs."""
