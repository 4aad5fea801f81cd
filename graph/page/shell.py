"""The page around the tabs: which run is looked at, and the clock that tells them when it has news.

A tab is a file of this folder with `layout(shell)`, which builds its components and wires them, and a line in the table
of `tabs.py`. What it shows is made by pure functions, which can be tested without a browser. In `layout`:

- `shell.run` is the chosen run's id, an input like any other; `shell.place.folder(run)` is its folder, or raises.
- `shell.news` changes as soon as something new was written about the chosen run, or another one is chosen: listen to
  `shell.news.change` in place of a timer, and answer `gr.skip()` for what has not changed. `shell.beat`
  changes every other second while the run is at work, for what changes by itself.
- `listen([button.click], work, inputs, outputs)` wires an event: an expected error becomes one line for the person, and
  the endpoint stays out of the API. Handlers check what they are given as if anybody had sent it, because anybody can.
- A file is served only through `shell.place.hand_out(folder, path)`, whose result goes into a gr.File.

A handler never carries a run: it ends when its browser tab is closed.
"""

from __future__ import annotations

import functools
import html
import inspect
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, ParamSpec, TypeVar, cast

import gradio as gr
from gradio.events import Dependency

from graph.page.place import News, Place
from memory.errors import TunewrightError

TICK_SECONDS = 2.0
"""Each tick costs browser and server some tens of milliseconds, and the cores belong to training."""
SIDE_BY_SIDE = 8
"""Handlers of one kind at a time: several people may watch."""
QUEUE = 64
"""Waiting events of one kind; more are refused."""
KEEP_IN_ADDRESS = """(run) => {
    const address = new URL(window.location);
    if (run) { address.searchParams.set("run", run); } else { address.searchParams.delete("run"); }
    window.history.replaceState(null, "", address);
}"""
"""The chosen run stands in the address, so that a reload and a copied link show it again."""
CSS = """
.gradio-container { max-width: 1280px !important; }
.js-plotly-plot .plotly text { fill: var(--body-text-color) !important; }
.now { display: flex; flex-wrap: wrap; gap: 4px 16px; align-items: center; }
.nodes { display: flex; flex-wrap: wrap; gap: 8px; list-style: none; padding: 0; margin: 0; }
.nodes .node { border: 1px solid var(--border-color-primary); border-radius: 6px; padding: 4px 10px; margin: 0; }
.nodes .node + .node::before { content: "→ "; color: var(--body-text-color-subdued); }
.nodes .busy { border: 2px solid var(--color-accent); font-weight: 600; }
@media (max-width: 480px) {
  .gradio-container { padding: 8px !important; }
  .prose table { display: block; overflow-x: auto; }
  .prose th, .prose td { word-break: normal; overflow-wrap: normal; }
}
"""
"""Charts take the page's colour of text, light or dark."""

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Shell:
    """What every tab is built on."""

    place: Place
    run: gr.Dropdown
    """The id of the chosen run; None while there is none."""
    news: gr.State
    """News of the chosen run, see `Place.news`; None while there is none."""
    beat: gr.State
    """Unix time of the last look at a run that is at work."""
    current: gr.State
    """Name of the tab that is looked at: what takes long waits until somebody does, and listens to its change."""


@dataclass(frozen=True)
class Tab:
    """A tab: its name, and what builds it."""

    name: str
    layout: Callable[[Shell], None]


def page(place: Place, tabs: Sequence[Tab]) -> gr.Blocks:
    """The whole page, not yet served."""
    blocks = gr.Blocks(title="Tunewright", analytics_enabled=False, delete_cache=(3600, 3600))
    with blocks:
        with gr.Row():
            with gr.Column(min_width=280):
                gr.Markdown("# Tunewright\n\nFine-tunes a model trial by trial, and shows what each of them was worth.")
            with gr.Column(min_width=280):
                run = gr.Dropdown(choices=[], label="Run, newest first", allow_custom_value=True, elem_id="run")
        shell = Shell(place, run, gr.State(None), gr.State(0.0), gr.State(tabs[0].name))
        with gr.Tabs() as bar:
            for tab in tabs:
                with gr.Tab(tab.name, id=tab.name):
                    tab.layout(shell)
        known, tick = gr.State(()), gr.Timer(TICK_SECONDS)

        def first(request: gr.Request) -> tuple[Any, ...]:
            return opened(place, request.query_params.get("run"))

        listen([blocks.load], first, [], [run, known, shell.news])
        listen([tick.tick], functools.partial(looked, place), [run, known, shell.news],
               [run, known, shell.news, shell.beat])  # fmt: skip
        listen([run.change], functools.partial(chosen, place), [run], [shell.news])
        listen([bar.select], turned, [], [shell.current])
        run.change(None, [run], None, js=KEEP_IN_ADDRESS, api_visibility="private")
    blocks.queue(max_size=QUEUE, default_concurrency_limit=SIDE_BY_SIDE)
    return blocks


def theme() -> gr.themes.Default:
    """The page's looks. Fonts are the machine's: nothing is fetched."""
    return gr.themes.Default(font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"])


def turned(event: gr.SelectData) -> str:
    """The tab that somebody turns to."""
    return str(event.value)


def opened(place: Place, asked: str | None) -> tuple[Any, ...]:
    """Chooser, known runs and news of a page that was just opened: the run that its address names, or the newest."""
    ids = place.ids()
    run = asked if asked in ids else next(iter(ids), None)
    return gr.update(choices=ids, value=run), tuple(ids), place.news(run) if run else None


def looked(place: Place, run: str | None, known: Sequence[str], news: News | None) -> tuple[Any, ...]:
    """The same a tick later, and the beat; what is as it was is skipped. A run that is not in the list, or not any
    more, is let go of, with one line for the person."""
    ids = tuple(place.ids())
    if run and run not in ids:
        gr.Warning("There is no such run. Choose one in the list.", title="Not found")
        return gr.update(choices=list(ids), value=None), ids, None, gr.skip()
    fresh = place.news(run) if run else news  # that none is chosen is told by its own event
    same = ids == tuple(known)
    return (
        gr.skip() if same else gr.update(choices=list(ids)),
        gr.skip() if same else ids,
        gr.skip() if fresh == news else fresh,
        time.time() if fresh and fresh[1] else gr.skip(),
    )


def chosen(place: Place, run: str | None) -> News | None:
    """News of a run that was just chosen; what is not in the list is let go of at the next tick."""
    return place.news(run) if run in place.ids() else None


def listen(
    triggers: Sequence[Any] | Dependency,
    work: Callable[..., Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    *,
    progress: Literal["full", "minimal", "hidden"] = "hidden",
    limit: int = SIDE_BY_SIDE,
    mode: Literal["once", "multiple", "always_last"] | None = None,
) -> Dependency:
    """Wire events to `work`, at most `limit` at a time; in place of events, what was wired before, to follow it. `mode`
    says what becomes of an event that comes while an earlier one is worked on; None is Gradio's choice. Hidden progress
    is still clocked in the browser, on each output that shows it: one is enough."""
    wire = triggers.then if isinstance(triggers, Dependency) else functools.partial(gr.on, list(triggers))
    wired: Dependency = wire(
        one_line(work), list(inputs), list(outputs), show_progress=progress, concurrency_limit=limit, trigger_mode=mode,
        api_visibility="private", show_progress_on=list(outputs[:1]) if progress == "hidden" else None,
    )  # fmt: skip
    return wired


def one_line(work: Callable[P, R]) -> Callable[P, R]:
    """`work`, whose expected errors reach the person as one line; anything else is a bug and goes to the log of the app
    alone."""

    def line(error: TunewrightError) -> gr.Error:
        return gr.Error(html.escape(str(error)), title="That did not work", print_exception=False)

    @functools.wraps(work)
    def streamed(*args: P.args, **kwargs: P.kwargs) -> Iterator[Any]:
        try:
            yield from cast("Iterator[Any]", work(*args, **kwargs))
        except TunewrightError as error:
            raise line(error) from error

    @functools.wraps(work)
    def told(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return work(*args, **kwargs)
        except TunewrightError as error:
            raise line(error) from error

    # Gradio looks at the function itself to see whether its answer comes bit by bit.
    return cast("Callable[P, R]", streamed) if inspect.isgeneratorfunction(work) else told
