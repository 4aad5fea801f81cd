"""Answers to questions about a run, from its records and nothing else: a question and a reading become text.

There is no language model here: a question that no line of the table knows gets None, never a guess.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from graph.live import progress_words
from graph.page.reading import Reading
from graph.page.safe_text import plain
from graph.values import in_words
from memory.records import Plan, Score, Trial
from memory.state import trials_left, winner
from tools import report
from tools.causes.text import blame_lines
from tools.lessons import distilled
from tools.plan_text import changed, recipe

Match = re.Match[str]
Answer = Callable[[Reading, Match], str]


def answer(question: str, reading: Reading) -> str | None:
    """The answer as Markdown; None where the question is not understood."""
    words = " ".join(question.lower().split())
    for pattern, find in QUESTIONS:
        if found := re.search(pattern, words):
            return find(reading, found)
    return None


def why(reading: Reading, found: Match) -> str:
    """Why a trial was decided as it was."""
    trial = _trial(reading, int(found["number"]))
    if isinstance(trial, str):
        return trial
    lines = [f"**Trial {trial.number} was {_decided(trial)}.** {sentence(trial.arithmetic)}"]
    if trial.failure is not None:
        lines[0] = f"**Trial {trial.number} failed in {trial.failure.node}.** {sentence(str(trial.failure.message))}"
        lines.append(sentence(trial.failure.way_out))
    if trial.comparison is not None and trial.score is not None:
        compared = trial.comparison
        lines.append(
            f"On {compared.n} validation items against {plain(compared.against)}: {compared.wins} won, "
            f"{compared.losses} lost, difference {compared.difference:+.3f} [{compared.ci_low:+.3f}, "
            f"{compared.ci_high:+.3f}], p = {compared.p_value:.2g}. The plan expected {trial.plan.expected_gain:+.3f}."
        )
    if trial.errors:
        lines.append("Its errors: " + ", ".join(f"{each.count} {plain(each.name)}" for each in trial.errors) + ".")
    if trial.blame is not None:
        lines += map(plain, blame_lines(trial.blame))
    lessons = [lesson for lesson in reading.state.get("lessons", []) if lesson.trials[-1:] == (trial.number,)]
    lines += [f"Learned: {plain(lesson.text)} ({plain(lesson.evidence)})." for lesson in lessons]
    return "\n\n".join(line for line in lines if line)


def best(reading: Reading, found: Match) -> str:
    """The best model so far, beside the untouched one."""
    baseline, risen = reading.state.get("baseline"), winner(reading.state)
    if baseline is None:
        return "Nothing is measured yet: the untouched model comes first."
    base = f"the untouched model: {_score(baseline.zero_shot)}, {_score(baseline.few_shot)}"
    if risen is None or risen.score is None:
        ended = len(reading.state.get("trials", []))
        return f"No trial was accepted yet ({_count(ended, 'trial')} ended). The best is {base}."
    line = f"**Trial {risen.number}**: {_score(risen.score)} on validation, against {base}."
    test = reading.state.get("test")
    return line + (f"\n\n{plain(report.judge(test, '').says)}" if test else " The sealed test is still closed.")


def how_long(reading: Reading, found: Match) -> str:
    """What is left of the budget, and of the work at hand."""
    budget = reading.state["task"].budget
    if reading.status == "finished":
        return f"The run has ended. It took {in_words(reading.spent_seconds)} of {in_words(budget.seconds)}."
    left = in_words(reading.seconds_left)
    lines = [f"{in_words(reading.spent_seconds)} of {in_words(budget.seconds)} are spent: at most **{left}** to go."]
    if reading.progress is not None:
        lines.append(f"Right now: {plain(progress_words(reading.progress, [loss for _, loss in reading.losses]))}.")
    count = trials_left(reading.state)
    if count is not None:
        lines.append(f"At most {_count(count, 'further trial')}.")
    scored = [trial.seconds for trial in reading.state.get("trials", []) if trial.score]
    if scored:
        mean = sum(scored) / len(scored)
        fit = int(reading.seconds_left // mean)
        lines.append(f"A trial took {in_words(mean)} on average, so about {_count(fit, 'more')} would fit.")
    if reading.status == "stopped":
        lines.append("No process is at work: resume it to go on.")
    return " ".join(lines)


def what_changed(reading: Reading, found: Match) -> str:
    """What a trial changed against the one that it grew from, and why."""
    number = int(found["number"])
    plan = _plan(reading, number)
    if plan is None:
        return str(_trial(reading, number))
    grown = f"trial {plan.parent}" if plan.parent else "the base model"
    what = f"It changes {plain(changed(plan))}." if plan.change else "It is a first recipe."
    return "\n\n".join(
        [
            f"**Trial {number}** grows from {grown}. {what}",
            f"Diagnosis: {plain(plan.diagnosis)}",
            f"Hypothesis: {plain(plan.hypothesis)} Expected gain {plan.expected_gain:+.3f}.",
            f"Recipe: {plain(recipe(plan))}.",
        ]
    )


def now(reading: Reading, found: Match) -> str:
    """What the run does at the moment."""
    words = {
        "finished": "The run has ended.",
        "stopped": "No process is at work on it; it can be resumed.",
        "starting": "The process is starting; what is missing is set up first.",
        "waits for you": "It waits for your answer: approve or decline.",
        "at work": f"{reading.node or 'The run'} is at work"
        + (f" on trial {reading.trial}." if reading.trial else "."),
    }[reading.status]
    if reading.progress is not None:
        words += f" {plain(progress_words(reading.progress, [loss for _, loss in reading.losses]))}."
    if reading.status in ("starting", "stopped") and reading.said:
        words += f" It said last: {plain(reading.said)}"
    plan = reading.state.get("plan")
    if plan is not None:
        words += f"\n\nThe plan: {plain(plan.hypothesis)} ({plain(changed(plan))})"
    return words


def trials(reading: Reading, found: Match) -> str:
    """All trials, a line each."""
    ended = reading.state.get("trials", [])
    if not ended:
        return "No trial has ended yet."
    return "\n".join(
        f"- trial {trial.number}: {plain(changed(trial.plan))}, "
        + (f"{trial.score.value:.3f} ± {trial.score.stderr:.3f}, " if trial.score else "")
        + f"**{trial.decision}**"
        for trial in ended
    )


def lessons(reading: Reading, found: Match) -> str:
    """What was learned."""
    learned = distilled(reading.state.get("lessons", []))
    return "\n".join(f"- {plain(one.says)}" for one in learned) or "Nothing was learned yet."


def ending(reading: Reading, found: Match) -> str:
    """Why the run stopped planning."""
    stop = reading.state.get("stop")
    return f"The planner stopped: {plain(stop)}" if stop else now(reading, found)


NUMBERED = r"trial (?:number )?(?P<number>\d+)"
QUESTIONS: tuple[tuple[str, Answer], ...] = (
    (rf"\bwhy\b.*\b{NUMBERED}", why),
    (
        rf"\b(?:what|how|which)\b.*\b(?:chang|differ|did|was|is|plan|try|tried|hypothesis)\w*\b.*\b{NUMBERED}",
        what_changed,
    ),
    (rf"^(?:show |tell me about )?{NUMBERED}\??$", what_changed),
    (r"\bhow (?:much )?(?:long|time)\b|\btime left\b|\bwhen\b.*\b(?:done|ready|end|finish)|\bremain", how_long),
    (r"\bbest\b|\bhow good\b|\bbaseline\b|\bscore\b|\bresult\b", best),
    (r"\bwhy\b.*\b(?:stop|end)", ending),
    (r"\b(?:learn|lesson)", lessons),
    (r"\b(?:what|which|list|show)\b.*\btrials\b", trials),
    (r"\bwhat\b.*\b(?:doing|happen|work|now|plan|going on)\b|^status\??$|\bwhere are (?:you|we)\b", now),
)
"""What a question has in it, in order, and who answers it."""


def _trial(reading: Reading, number: int) -> Trial | str:
    """The ended trial of this number, or a sentence that says why there is none."""
    ended = reading.state.get("trials", [])
    for trial in ended:
        if trial.number == number:
            return trial
    plan = reading.state.get("plan")
    if plan is not None and plan.number == number:
        return f"Trial {number} is still at work; it is judged when it has been scored."
    last = max((trial.number for trial in ended), default=0)
    return f"There is no trial {number}: " + (
        f"the last one that ended is trial {last}." if last else "none has ended."
    )


def _plan(reading: Reading, number: int) -> Plan | None:
    """The plan of an ended trial or of the one at work."""
    plans = [trial.plan for trial in reading.state.get("trials", [])]
    at_work = reading.state.get("plan")
    return next((plan for plan in [*plans, *([at_work] if at_work else [])] if plan.number == number), None)


def _decided(trial: Trial) -> str:
    """The decision as it stands in a sentence."""
    return "judged inconclusive" if trial.decision == "inconclusive" else trial.decision


def _score(score: Score) -> str:
    """A score with its error bar."""
    shots = f"{score.shots}-shot" if score.shots else "zero-shot"
    interval = f"[{score.ci_low:.3f}, {score.ci_high:.3f}]"
    return f"{score.metric} {score.value:.3f} ± {score.stderr:.3f} {interval} (n={score.n}, {shots})"


def _count(number: int, what: str) -> str:
    """A number with its noun."""
    return f"{number} {what}" if number == 1 or what == "more" else f"{number} {what}s"


def sentence(text: str) -> str:
    """Others' text as a sentence."""
    return plain(text[:1].upper() + text[1:]).rstrip(".") + "." if text else ""
