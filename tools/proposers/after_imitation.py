"""What follows when a supervised training has taught all it can: DPO, then GRPO, from the best trial's weights.

Both learn from the model's own answers, so both need a model that is sometimes right and sometimes wrong, and both cost
far more for a row than imitation does. So they come after every other remedy.
"""

from __future__ import annotations

from typing import Literal

from memory.records import DataRecipe, Deduplicate, Select, Trial
from tools.proposers.brief import Brief
from tools.proposers.factors import Recipe, Value, changed
from tools.proposers.history import recipe_of, rows_seen
from tools.proposers.look import Diagnosis
from tools.proposers.starting_recipe import FEWEST_VISITS, rounded, rows_at_once, size_of
from tools.training.objective import rows_for

Objective = Literal["dpo", "grpo"]
ORDER: tuple[Objective, ...] = ("dpo", "grpo")
"""DPO first: its pairs are sampled once, by the server; GRPO samples anew in every step."""
RATE_SHARE: dict[Objective, float] = {"dpo": 0.1, "grpo": 0.05}
"""Learning rate against that of imitation (LoRA 2e-4 for SFT, 1e-5 to 2e-5 for DPO and GRPO: TRL, open-r1). A tenth for
DPO, as trainings here are short and its supervised part holds it."""
BETA: dict[Objective, float] = {"dpo": 0.1, "grpo": 0.04}
BATCH = 4
"""Rows of an optimiser step: pairs, or questions with all their answers."""
SOMETIMES_RIGHT = (0.1, 0.9)
"""Scores between which a model is right often enough to learn from, and wrong often enough to need it."""
GAIN, CONFIDENCE = 0.1, 0.3
"""Share of the headroom where it helps, and how often it does. Pairs of own right and wrong answers closed more of it
for a 70B model on GSM8K (iterative RPO, arXiv 2404.19733); small models gain less (R1, arXiv 2501.12948)."""


def further(brief: Brief) -> tuple[Trial, Diagnosis] | None:
    """The best model so far, and the next objective from its weights that was not tried yet; None where none can pay or
    fits the time."""
    best, (low, high) = brief.incumbent, SOMETIMES_RIGHT
    if best is None or best.training is None or brief.ceiling != 1.0 or not low <= brief.value(best) <= high:
        return None
    tried = {trial.plan.training.objective for trial in brief.trials}
    for objective in ORDER:
        recipe = None if objective in tried else towards(brief, best, objective)
        if recipe is not None:
            return best, Diagnosis(
                cause="imitation has taught what it can",
                figure=f"{brief.value(best):.3f} on validation, and no other remedy is left",
                remedy=f"{objective} from trial {best.number}, on its own answers to {recipe.rows} questions,",
                factor="objective",
                recipe=recipe,
                gain=GAIN,
                confidence=CONFIDENCE,
                source="own right answers against own wrong ones (iterative RPO, 2404.19733; GRPO, 2402.03300)",
            )
    return None


def towards(brief: Brief, begin: Trial, objective: Objective) -> Recipe | None:
    """The recipe that goes on from a trial's weights towards another objective, with as many questions as there is time
    for, those that the weights have not seen where there are enough; None where there is no time for a few."""
    before = recipe_of(brief, begin)
    size = size_of(brief.model.parameters)
    rate = size.full if before.training.method == "full" else size.lora
    settings: dict[str, Value] = {
        "objective": objective, "beta": BETA[objective], "continue_from": begin.number, "epochs": 1.0, "snapshots": 0,
        "order": "shuffled", "learning_rate": rounded(RATE_SHARE[objective] * rate), **rows_at_once(BATCH),
    }  # fmt: skip
    seen = rows_seen(brief, before)
    skip = seen if brief.rows_available - seen >= FEWEST_VISITS else 0
    training = changed(before, **settings).training
    seed = next((one.seed for one in begin.plan.data.operators if isinstance(one, Select)), brief.task.seed)

    def asking(rows: int) -> Recipe:
        chosen = DataRecipe(operators=(Deduplicate(), Select(rows=rows, skip=skip, seed=seed)))
        return Recipe(data=rows_for(chosen, training, rows), training=training)

    one = asking(FEWEST_VISITS)
    needed = brief.training_seconds(one.data, training) + brief.sampling_seconds(one.data)
    rows = min(brief.rows_available - skip, int(FEWEST_VISITS * brief.training_room / needed))
    return asking(rows) if rows >= FEWEST_VISITS else None
