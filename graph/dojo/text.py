"""The dojo for people: `dojo.md`, written from the figures and nothing else. A loss is named like a win."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from graph.dojo.cells import Failed
from graph.dojo.grid import METHODS, TASKS, USUAL, Cell
from graph.dojo.table import (
    BASES,
    COLUMNS,
    OURS,
    Block,
    against,
    best,
    better_base,
    columns_of,
    pooled,
    turned,
    won,
)
from graph.values import in_words
from memory.records import Comparison
from tools.report_text import bullets, table

RIVALS = ("base, better row", "default_sft", "random_search")
"""Whom ours is compared with, item by item."""

UNEVEN = 1.25
"""Ratio of training speeds on one task from which on it is said."""

RULES = """\
- Every cell is one whole run: baseline, trials, sealed test, report. Engines, splits, base model, budget and the rule \
that accepts a trial (better than the incumbent on the same validation items, p < 0.05) are the same; only who plans \
differs. Once a trial is accepted, the one that rose highest on validation is handed over.
- `base0` and `base_few`: the untouched model, zero-shot and five-shot.
- `default_sft`: one fine-tune on all data with the settings that guides start from (LoRA rank 16, alpha 32, learning \
rate 2e-4, cosine, batch 8, 3 epochs), cut to the time by epochs first, then rows.
- `random_search`: two or three independent draws from the search proposer's own space, with equal shares of the time; \
more where they leave some over.
- `search`: Tunewright's proposer without a language model, growing from the best trial (`--search greedy`).
- A value is the metric on the sealed test, ± its standard error over items. The test was opened once in each cell.
- A method without an accepted trial hands over the untouched model, with the prompt that did better on validation, so \
its value is that row's.
- p-values are two-sided and paired over the same test items (exact McNemar for right-or-wrong items, else bootstrap); \
none is corrected for the number of comparisons."""
STRATEGIES_RULE = """
- `best_first` and `mcts` are the same proposer, which grows from the trial with the highest score plus error, or \
searches the tree of trials by upper confidence bounds."""
SEEDS_RULE = """
- Several seeds: each draws its own splits. The pooled value is the mean over seeds; its standard error over items and \
seeds is sqrt(max(v, w) / k), with v the variance of the k values and w the mean of their squared standard errors over \
items. Pooled p-values pair all items of all seeds."""


class Aim(NamedTuple):
    """What was hoped for before anything was measured, and for how many tasks it came true."""

    says: str
    tasks: tuple[str, ...]
    """Where it came true."""
    of: int
    """Tasks on which it can be told."""
    goal: int | None
    """How many of six were aimed at."""


Group = Sequence[Block]
"""One row of a table: a task with one seed, or with all its seeds."""


def markdown(blocks: Sequence[Block], failed: Sequence[Failed], missing: Sequence[Cell]) -> str:
    """The whole document. `missing` are wanted cells that have not ended."""
    tasks = by_task(blocks)
    several = any(len(group) > 1 for group in tasks)
    rows: list[Group] = []
    for group in tasks:
        rows += [[block] for block in group]
        rows += [group] if len(group) > 1 else []
    parts = [
        "# The dojo: methods at one wall-clock budget",
        headline(blocks),
        f"```sh\n{command(blocks)}\n```",
        "## Rules\n\n" + RULES + (STRATEGIES_RULE if strategies(blocks) else "") + (SEEDS_RULE if several else ""),
        "## Sealed test\n\n" + values_table(rows),
        "## Ours against the others\n\n" + p_table(rows),
        "## Aims\n\n" + bullets(aim_line(aim) for aim in aims(blocks)),
        "## Losses and ties\n\n" + bullets(losses(blocks)),
        "## What each cell did\n\n" + cells_table(blocks),
        "## What to know about these figures\n\n" + bullets(notes(blocks)),
    ]
    if failed or missing:
        parts.append("## What is missing\n\n" + bullets(absent(failed, missing)))
    return "\n\n".join(parts) + "\n"


def by_task(blocks: Sequence[Block]) -> list[list[Block]]:
    """The blocks of each task, all seeds together."""
    return [list(group) for _, group in groupby(blocks, key=lambda block: block.task)]


def headline(blocks: Sequence[Block]) -> str:
    """What was compared, on what."""
    cells = [cell for block in blocks for cell in block.cells]
    tasks, seeds = len(by_task(blocks)), sorted({block.seed for block in blocks})
    machines = " or ".join(sorted({cell.processors for cell in cells}))
    return (
        f"{len(cells)} finished cell{_s(len(cells))}: {tasks} task{_s(tasks)}, seed {' and '.join(map(str, seeds))}, "
        f"{in_words(cells[0].budget.seconds)} of wall clock a cell, {machines}, base model "
        f"{cells[0].base_model}. The command runs what is not finished yet; with `--table` it only writes this file "
        "again."
    )


def strategies(blocks: Iterable[Block]) -> tuple[str, ...]:
    """The measured methods beyond the usual ones: other strategies of the search proposer."""
    return tuple(column for column in columns_of(blocks) if column not in (*BASES, *USUAL))


def _s(count: int) -> str:
    return "" if count == 1 else "s"


def command(blocks: Sequence[Block]) -> str:
    """The command that measures all this."""
    tasks, seeds = [group[0].task for group in by_task(blocks)], sorted({block.seed for block in blocks})
    budget = blocks[0].cells[0].budget
    argv = ["python", "-m", "graph.dojo", "--budget", in_words(budget.seconds), "--seeds", *map(str, seeds)]
    argv += ["--max-trials", str(budget.max_trials)] if budget.max_trials else []
    argv += ["--methods", *USUAL, *strategies(blocks)] if strategies(blocks) else []
    return shlex.join(argv if set(tasks) == set(TASKS) else [*argv, "--tasks", *tasks])


# --- tables -----------------------------------------------------------------------------------------------------------


def label(group: Group) -> str:
    """The name of a row."""
    return f"{group[0].task}, {f'{len(group)} seeds' if len(group) > 1 else f'seed {group[0].seed}'}"


def values_table(groups: Sequence[Group]) -> str:
    """Values with their error bars; the best of each row in bold."""
    rows, columns = [], columns_of(block for group in groups for block in group)
    for group in groups:
        winners, cells = best(group), []
        for column in columns:
            found = pooled(group, column)
            text = "missing" if found is None else f"{found.value:.3f} ± {found.stderr:.3f}"
            cells.append(f"**{text}**" if column in winners else text)
        first = pooled(group, BASES[0])
        rows.append([label(group), *cells, str(first.n if first else 0)])
    return table(["task", *columns, "n"], rows)


def p_table(groups: Sequence[Group]) -> str:
    """Differences of ours, with intervals and p-values; gains that are told from noise in bold."""
    others = strategies(block for group in groups for block in group)
    rows = []
    for group in groups:
        found = [*comparisons(group), *(against(group, OURS, other) for other in others)]
        rows.append([label(group), *(compared(one) for one in found)])
    return table(["search minus", *RIVALS, *others], rows)


def comparisons(group: Group) -> list[Comparison | None]:
    """Ours against each of RIVALS."""
    return [against(group, OURS, rival) for rival in (better_base(group), *RIVALS[1:])]


def compared(comparison: Comparison | None) -> str:
    """One comparison in a table."""
    if comparison is None:
        return "missing"
    text = (
        f"{comparison.difference:+.3f} [{comparison.ci_low:+.3f}, {comparison.ci_high:+.3f}], p = "
        f"{comparison.p_value:.2g}"
    )
    return f"**{text}**" if won(comparison) else text


def cells_table(blocks: Sequence[Block]) -> str:
    """Seconds, training speed, trials and the end of every finished cell."""
    rows = [
        [
            cell.cell.name,
            f"{cell.seconds:.0f}",
            "" if cell.tokens_per_second is None else f"{cell.tokens_per_second:.0f}",
            f"{cell.trials} ({cell.scored_trials} scored)",
            cell.what,
            cell.stopped_because,
        ]
        for block in blocks
        for cell in block.cells
    ]
    return table(["cell", "seconds", "tokens a second", "trials", "handed over", "stopped because"], rows)


# --- aims and losses --------------------------------------------------------------------------------------------------


def aims(blocks: Sequence[Block]) -> list[Aim]:
    """The aims that were set before anything was measured, and one comparison more; seeds are pooled."""
    groups = by_task(blocks)

    def significant(which: int) -> Callable[[Group], bool | None]:
        def tell(group: Group) -> bool | None:
            comparison = comparisons(group)[which]
            return None if comparison is None else won(comparison)

        return tell

    def highest(group: Group) -> bool | None:
        values = {column: turned(group, column) for column in (*BASES, *USUAL)}
        known = [value for value in values.values() if value is not None]
        return None if len(known) < len(values) else known.count(max(known)) == 1 and values[OURS] == max(known)

    told: list[tuple[str, Callable[[Group], bool | None], int | None]] = [
        ("ours is above both base rows and both references", highest, 5),
        ("ours is significantly (p < 0.05) above the better base row", significant(0), 6),
        ("ours is significantly above one default fine-tune", significant(1), 4),
        ("ours is significantly above random search", significant(2), None),
    ]
    found = []
    for says, tell, goal in told:
        answers = {group[0].task: tell(group) for group in groups}
        true = tuple(task for task, answer in answers.items() if answer)
        found.append(Aim(says, true, sum(answer is not None for answer in answers.values()), goal))
    return found


def aim_line(aim: Aim) -> str:
    """An aim with its count."""
    goal = "" if aim.goal is None else f" (aim: {aim.goal} of 6)"
    names = f": {', '.join(aim.tasks)}" if aim.tasks else ""
    return f"{aim.says[0].upper()}{aim.says[1:]} on {len(aim.tasks)} of {aim.of} task{_s(aim.of)}{goal}{names}."


def losses(blocks: Sequence[Block]) -> list[str]:
    """Every column that is not below ours, and every missing significance over the better base row; seeds pooled."""
    lines = []
    for group in by_task(blocks):
        ours = turned(group, OURS)
        if ours is None:
            lines.append(f"{group[0].task}: ours is missing.")
            continue
        for column in COLUMNS:
            theirs = turned(group, column)
            comparison = against(group, OURS, column)
            if column == OURS or theirs is None or comparison is None or theirs < ours:
                continue
            word = "loses to" if theirs > ours else "ties with"
            values = f"{abs(ours):.3f} and {abs(theirs):.3f}"
            lines.append(f"{group[0].task}: ours {word} {column}, {values} ({compared(comparison)}).")
        base = comparisons(group)[0]
        if base is not None and base.difference > 0 and not won(base):
            lines.append(f"{group[0].task}: ours is not shown to be above {better_base(group)} ({compared(base)}).")
    return lines


def notes(blocks: Sequence[Block]) -> list[str]:
    """Base rows that differ, budgets that were overrun, cells that ran on different processors, at different speeds or
    with two versions of a proposer."""
    lines = [note for block in blocks for note in block.notes]
    for block in blocks:
        machines = sorted({cell.processors for cell in block.cells})
        if len(machines) > 1:
            lines.append(f"{label([block])}: the methods ran on different processors ({', '.join(machines)}).")
        speeds = [cell.tokens_per_second for cell in block.cells if cell.tokens_per_second]
        if speeds and max(speeds) > UNEVEN * min(speeds):
            lines.append(
                f"{label([block])}: trained at {min(speeds):.0f} to {max(speeds):.0f} tokens a second. Batches and row "
                "lengths differ, or the machine had other work in some cells; then they are to be measured again."
            )
    if not any("differs between" in line for line in lines) and any(len(block.cells) > 1 for block in blocks):
        lines.append("All cells of a task and seed agree on the base rows, item by item.")
    for method in METHODS:
        cells = [cell for block in blocks for cell in block.cells if cell.cell.method == method]
        versions = sorted({cell.proposers_sha256[:8] for cell in cells})
        if len(versions) > 1:
            lines.append(f"The cells of {method} were measured with {len(versions)} versions of the proposers.")
    return lines


def absent(failed: Iterable[Failed], missing: Iterable[Cell]) -> list[str]:
    """Cells without a result, and why."""
    return [
        *(f"{one.cell.name} failed: {one.reason} (`--again` resumes it)" for one in failed),
        *(f"{cell.name} has not been run to its end." for cell in missing),
    ]
