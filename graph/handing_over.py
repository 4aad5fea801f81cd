"""What is made of a finished run: an export of its model, and its winning trial once more."""

from __future__ import annotations

import sys

from graph.finished import check_base, finished, teller
from graph.live import tell
from graph.settings import Settings
from graph.workshop import Equip
from tools import benchmarks
from tools.handover import exports, reproduction
from tools.handover.exports import Source
from tools.handover.reproduction import Remake

FINISHED, DIFFERENT = 0, 3


def export(settings: Settings, equip: Equip) -> int:
    """Write the tuned model to a folder of its own, loaded and checked. Raises what `exports.export` raises."""
    run, say = finished(settings), teller(settings)
    destination = settings.destination or run.folder.root / "export" / settings.export_format
    exports.refuse_existing(destination)
    workshop = equip(run.report.task, settings.cache, say)
    source = Source(run.folder, run.report, run.winner, workshop.model, workshop.engines.axolotl)
    say(f"trial {run.winner.number} of run {run.folder.id} as {settings.export_format} ...")
    done = exports.export(source, settings.export_format, destination)
    if settings.json_output:
        tell(sys.stdout, done.model_dump_json(indent=2))
    say(f"loaded and asked again: {done.equal} of {len(done.answers)} recorded answers are equal")
    say(f"export: {destination} ({done.seconds:.0f} s)")
    return FINISHED


def reproduce(settings: Settings, equip: Equip) -> int:
    """Train the winning trial again and compare the weights; 0 where they are equal or near, 3 where they are not."""
    run, say = finished(settings), teller(settings)
    workshop = equip(run.report.task, settings.cache, say)
    check_base(run, workshop.model)
    remake = Remake(
        folder=run.folder,
        report=run.report,
        winner=run.winner,
        engine=workshop.engines.axolotl,
        model=workshop.model,
        benchmark=benchmarks.of(run.report.task, workshop.store),
        device=workshop.device,
        locks=workshop.locks,
    )
    with reproduction.only_one(run.folder):
        done = reproduction.reproduce(remake, say)
    if settings.json_output:
        tell(sys.stdout, done.model_dump_json(indent=2))
    for line in reproduction.in_words(done):
        say(line)
    say(f"details: {reproduction.record_path(run.folder)}")
    return DIFFERENT if done.outcome == "different" else FINISHED
