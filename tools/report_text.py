"""The report of a run for people: `report.md`, written from the record and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from memory.records import Comparison, Score, Trial
from tools.causes.text import Section, blame_lines, reading_lines, sections
from tools.plan_text import changed, recipe
from tools.report import RunReport


def markdown(report: RunReport) -> str:
    """The report for people."""
    parts = [
        f"# {report.task.benchmark} with {report.baseline.model.name}: {report.decision.outcome}",
        report.decision.says,
        f"Run `{report.run_id}`, {minutes(report.budget.spent_seconds)} of {minutes(report.budget.budget_seconds)}, "
        f"{report.budget.trials} trials{strategy(report)}. Stopped: {report.decision.stopped_because}",
        *([f"Data: {report.data}."] if report.data else []),
        "## Sealed test\n\n" + test_table(report),
        *choice(report),
        *further(report),
        "## Validation\n\n" + scoreboard(report),
        *guards(report),
        *oddities(report),
        *map(section_text, sections(report)),
        "## Trials\n\n" + "\n\n".join(trial_text(trial) for trial in report.trials),
        *dropped(report),
        "## Lessons\n\n" + bullets(lesson.says for lesson in report.lessons),
        "## Where the time went\n\n" + time_table(report),
        *models(report),
        *looked_up(report),
        "## Lineage\n\n" + lineage_table(report),
        f"## Serve it\n\n```\n{report.serve}\n```",
    ]
    return "\n\n".join(parts) + "\n"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; pipes in cells are escaped."""
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in (head, *rows)]
    return "\n".join([lines[0], "| " + " | ".join("---" for _ in head) + " |", *lines[1:]])


def bullets(lines: Iterable[str]) -> str:
    """A Markdown list, or a line that says there is nothing."""
    return "\n".join(f"- {line}" for line in lines) or "None."


def section_text(section: Section) -> str:
    """A section with its tables and lines."""
    tables = [table(head, rows) for head, rows in section.tables if rows]
    return "\n\n".join(
        [f"## {section.title}", section.says, *tables, *([bullets(section.lines)] if section.lines else [])]
    )


def figure(score: Score) -> list[str]:
    """Value with its error bar, n, and how many outputs held an answer."""
    interval = f"[{score.ci_low:.3f}, {score.ci_high:.3f}]"
    return [f"{score.value:.3f} ± {score.stderr:.3f}", interval, str(score.n), str(score.parsed)]


def p_of(comparison: Comparison | None) -> str:
    """Difference and p-value of a comparison."""
    return f"{comparison.difference:+.3f}, p={comparison.p_value:.2g}" if comparison else ""


def test_table(report: RunReport) -> str:
    """Base zero-shot, base few-shot, the best constant answer, and the tuned model."""
    test = report.test
    rows = [
        ["base, zero-shot", *figure(test.zero_shot), p_of(test.against_zero)],
        [f"base, {test.few_shot.shots}-shot", *figure(test.few_shot), p_of(test.against_few)],
    ]
    if test.constant is not None:
        answer, value = test.constant.answer, test.constant.value
        rows.append([f"always “{answer}”", f"{value:.3f}", "", str(test.constant.n), "", ""])
    if test.tuned is not None:
        rows.append([f"**tuned** (trial {test.winner})", *figure(test.tuned), ""])
    head = ["", report.task.metric, "95 % interval", "n", "parsed", "tuned against it"]
    return table(head, rows)


def choice(report: RunReport) -> list[str]:
    """Why a trial was handed over that did not replace the incumbent; no part where the winner did."""
    winner = report.winner
    if winner is None or winner.decision == "accepted" or winner.comparison is None:
        return []
    rise = winner.comparison
    return [
        f"Trial {winner.number} is handed over: of the trials that rose it is the best on validation. That it is "
        f"better than {rise.against} is not shown ({p_of(rise)})."
    ]


def further(report: RunReport) -> list[str]:
    """Further measures of the same outputs; no part where the benchmark has none."""
    text = measures(report)
    return [f"## Other measures\n\n{text}"] if text else []


def measures(report: RunReport) -> str:
    """The further measures on the sealed test, the published scorer's among them; empty where there are none."""
    test = report.test
    models = {"base, zero-shot": test.zero_shot, f"base, {test.few_shot.shots}-shot": test.few_shot}
    if test.tuned is not None:
        models["**tuned**"] = test.tuned
    names = list(dict.fromkeys(name for score in models.values() for name in (*score.others, *score.unmeasured)))
    if not names:
        return ""
    rows = [[arrowed(name, models.values()), *(beside(score, name) for score in models.values())] for name in names]
    missing = dict(pair for score in models.values() for pair in score.unmeasured.items())
    parts = ["Of the same outputs; none of them decided anything.", table(["", *models], rows)]
    parts += [bullets(f"{name} was not measured everywhere: {why}" for name, why in missing.items())] if missing else []
    return "\n\n".join(parts)


def arrowed(name: str, scores: Iterable[Score]) -> str:
    """A measure's name; a lower value being better is said."""
    figures = [score.others[name] for score in scores if name in score.others]
    return name if all(figure.higher_is_better for figure in figures) else f"{name} (less is better)"


def beside(score: Score, name: str) -> str:
    """One further measure as a cell: value, interval, n."""
    each = score.others.get(name)
    return f"{each.value:.3f} [{each.ci_low:.3f}, {each.ci_high:.3f}], n={each.n}" if each else "not measured"


def strategy(report: RunReport) -> str:
    """How search chose the trials to grow from; empty where it planned none."""
    searched = any(trial.plan.proposer == "search" for trial in report.trials)
    return f", {report.task.planning.search} search" if searched else ""


def scoreboard(report: RunReport) -> str:
    """Baseline rows and one row a trial."""
    base = report.baseline
    rows = [
        ["base, zero-shot", "", *figure(base.zero_shot)[:3], "", "", ""],
        [f"base, {base.few_shot.shots}-shot", "", *figure(base.few_shot)[:3], "", "", ""],
    ]
    for trial in report.trials:
        cells = figure(trial.score)[:3] if trial.score else ["", "", ""]
        compared = f"{p_of(trial.comparison)} ({trial.comparison.against})" if trial.comparison else ""
        rows.append(
            [f"trial {trial.number}", changed(trial.plan), *cells, compared, minutes(trial.seconds), trial.decision]
        )
    return table(["", "change", report.task.metric, "95 % interval", "n", "against", "time", "decision"], rows)


def guards(report: RunReport) -> list[str]:
    """Other benchmarks before and after; no part where none was named."""
    winner = report.winner
    if not report.baseline.guards:
        return []
    after = {guard.benchmark: guard for guard in winner.guards} if winner else {}
    rows = []
    for before in report.baseline.guards:
        name, now = before.benchmark, after.get(before.benchmark)
        value, interval, n, _ = figure(before.score)
        rows.append([f"{name}, {before.score.shots}-shot", f"{value} {interval}", n])
        rows[-1] += [figure(now.score)[0], p_of(now.comparison)] if now else ["", ""]
    head = ["", "before", "n", "after" + (f" (trial {winner.number})" if winner else ""), "difference"]
    margin = f"A trial that loses more than {report.task.guard_margin:g} on one of them is not accepted."
    return [f"## Guards\n\n{margin}\n\n{table(head, rows)}"]


def oddities(report: RunReport) -> list[str]:
    """What was found in a person's own data before anything was trained; no part where nothing was odd."""
    if report.findings is None or not report.findings.found:
        return []
    usable = f"{report.findings.usable} of {report.findings.rows} rows are in the splits."
    return [f"## What was odd about the data\n\n{usable}\n\n{bullets(one.says for one in report.findings.found)}"]


def dropped(report: RunReport) -> list[str]:
    """Rows that did not make it into the winner's training file, and why; no part where all did."""
    winner = report.winner
    if winner is None or winner.dataset is None or not winner.dataset.dropped:
        return []
    rows = [[each.step, each.reason, str(each.rows), "; ".join(each.examples[:2])] for each in winner.dataset.dropped]
    told = (*winner.dataset.notes, *(one.says for one in winner.dataset.rehearsals))
    notes = "".join(f"\n\n{note}" for note in told)
    head = ["step", "reason", "rows", "for example"]
    return [f"## Rows left out of trial {winner.number}\n\n{table(head, rows)}{notes}"]


def trial_text(trial: Trial) -> str:
    """Diagnosis, hypothesis, expectation, and what came of it."""
    plan, dataset = trial.plan, trial.dataset
    grown = f"grows from trial {plan.parent}" if plan.parent else "grows from the base model"
    grown += ", goes on with its weights" if plan.training.continue_from else ""
    grown += f", repeats trial {plan.repeats}" if plan.repeats else ""
    grown += ", planned by a language model" if plan.proposer == "llm" else ""
    grown += f", {' and '.join(plan.tuned)} tuned by Optuna" if plan.tuned else ""
    lines = [
        f"**Trial {trial.number}** ({grown}; {trial.decision}).",
        f"- Diagnosis: {plan.diagnosis}",
        f"- Hypothesis: {plan.hypothesis} Expected gain {plan.expected_gain:+.3f}; "
        f"{ {True: 'it came true', False: 'it did not come true', None: 'not measured'}[trial.expectation_met] }.",
        f"- Recipe: {recipe(plan, dataset.rows if dataset else None)}.",
    ]
    lines += [f"- Rests on: {'; '.join(plan.cites)}."] if plan.cites else []
    if dataset:
        left_out = "".join(f"; left out {each.rows}: {each.reason}" for each in dataset.dropped)
        lines.append(f"- Data: {dataset.rows} rows{left_out}.")
    if trial.training:
        run = trial.training
        ladder = "".join(f" Memory: {step}." for step in run.ladder)
        lines.append(
            f"- Training: {run.steps} steps of {run.step_seconds:.2f} s, {run.course}. "
            f"The trial took {minutes(trial.seconds)}, the plan said {minutes(plan.predicted_seconds)}.{ladder}"
        )
    if trial.score and trial.train_score:
        lines.append(
            f"- On rows it was trained on {trial.train_score.value:.3f}, on validation {trial.score.value:.3f}."
        )
    if trial.errors:
        lines.append("- Errors: " + ", ".join(f"{each.count} {each.name}" for each in trial.errors) + ".")
    if trial.blame:
        lines += [f"- {line}" for line in (*blame_lines(trial.blame), *reading_lines(trial.blame))]
    if trial.failure:
        lines.append(f"- Failure in {trial.failure.node}: {trial.failure.message}. {trial.failure.way_out}")
    lines.append(f"- Arithmetic: {trial.arithmetic}")
    return "\n".join(lines)


def time_table(report: RunReport) -> str:
    """Seconds by phase."""
    spent = report.budget
    other = spent.spent_seconds - spent.training_seconds - spent.generating_seconds
    share = 100 / max(spent.spent_seconds, 1e-9)
    rows = [
        ["training (optimiser steps)", f"{spent.training_seconds:.0f}", f"{spent.training_seconds * share:.0f} %"],
        ["generating (server)", f"{spent.generating_seconds:.0f}", f"{spent.generating_seconds * share:.0f} %"],
        ["everything else", f"{other:.0f}", f"{other * share:.0f} %"],
        ["server starts", str(spent.server_starts), ""],
    ]
    return table(["", "seconds", "share"], rows)


def models(report: RunReport) -> list[str]:
    """What language models were asked for, and what that cost; no part where search planned alone."""
    if not report.models:
        return []
    rows = [
        [
            use.model,
            use.purpose,
            str(use.calls),
            f"{use.prompt_tokens} + {use.answer_tokens}",
            "unknown" if use.dollars is None else f"{use.dollars:.4f}",
            f"{use.seconds:.0f}",
        ]
        for use in report.models
    ]
    return ["## Language models\n\n" + table(["", "asked as", "calls", "tokens", "dollars", "seconds"], rows)]


def looked_up(report: RunReport) -> list[str]:
    """What was found in public catalogues before the first plan; no part where nothing was looked up."""
    if report.research is None or not report.research.queries:
        return []
    asked = [
        f"{query.shelf}s: {inert(query.words)}" + (f" (no answer: {query.problem})" if query.problem else "")
        for query in report.research.queries
    ]
    rows = []
    for number, one in enumerate(report.research.found, 1):
        cited = [str(trial.number) for trial in report.trials if trial.plan.cites_number(number)]
        downloads = "" if one.downloads is None else f"{one.downloads:,}"
        cells = (f"R{number}", one.says, one.title, downloads, one.url, one.revision)
        rows.append([*map(inert, cells), ", ".join(cited)])
    head = ["", "what, licence, size", "title", "downloads", "where", "revision", "cited by trial"]
    ends = "Nothing was downloaded. To train on a data set, fetch it at its revision and give its rows with --dataset."
    return [f"## What was looked up\n\n{bullets(asked)}\n\n" + (f"{table(head, rows)}\n\n" if rows else "") + ends]


def inert(text: str) -> str:
    """Foreign text as Markdown that is shown as it is: no link, no picture, no tag of it works."""
    return "".join(f"\\{letter}" if letter in "\\`*_[]<>!#~" else letter for letter in text)


def lineage_table(report: RunReport) -> str:
    """Hashes."""
    rows = []
    for name, value in report.lineage.model_dump().items():
        if isinstance(value, dict):
            rows += [[f"{name}.{key}", f"`{each}`"] for key, each in value.items()]
        elif name == "chain":
            rows += [["went on from", ", then ".join(f"trial {number}" for number in value)]] if value else []
        elif value is not None:
            rows.append([name, f"`{value}`"])
    return table(["", ""], rows)


def minutes(seconds: float) -> str:
    """Seconds as `3m 20s`, or `45s`."""
    whole = round(seconds)
    return f"{whole // 60}m {whole % 60:02d}s" if whole >= 60 else f"{whole}s"
