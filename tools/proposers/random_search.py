"""The reference by chance: recipes drawn at random from the search proposer's own space, none learned from.

The policy is the usual one (Bergstra and Bengio 2012, JMLR 13:281): independent draws, each with the same share of the
time left. There are two where the fixed costs of two leave most of the time to training, and three where those of three
leave two thirds of it: on simulated tasks more and smaller draws did worse. A draw fills its share with rows; how often
they are repeated is drawn, too. What a trial leaves over goes to those that follow, and after the last planned one
further draws are made while a whole share is left. Nothing but the speed of the machine is learned from a trial; the
incumbent is kept by the decision rule that holds for every proposer.
"""

from __future__ import annotations

from random import Random

import optuna
from optuna.distributions import FloatDistribution

from memory.records import Plan
from tools.proposers.brief import SAFETY, Brief, Stop, cost_of
from tools.proposers.factors import Recipe, changed
from tools.proposers.repairs import persistent_failure
from tools.proposers.sampler import space_around
from tools.proposers.starting_recipe import FEWEST_VISITS, FIXED_AT_MOST, rounded, size_of, starting_recipe

FIXED_SHARES = {2: FIXED_AT_MOST, 3: 1 / 3}
"""For so many draws, the share of the time that their fixed costs may take at most. Mean accuracy of eleven simulated
tasks (tests/proposer_world.py, 40 seeds): 0.43 so, 0.36 with three draws at `FIXED_AT_MOST`, 0.33 with eight, and 0.30
where the size of a draw is drawn as well."""
WHOLE_SHARE = 0.9
"""Part of the smallest former training that a draw beyond the planned ones must still be able to take."""


def propose(brief: Brief) -> Plan | Stop:
    """The next draw, sized to its share of the time left, or why there is none."""
    if brief.trials_left == 0:
        return Stop(reason=f"All {len(brief.trials)} trials that were allowed are done.")
    if (why := persistent_failure(brief)) is not None:
        return Stop(reason=why)
    visits = share_of(brief)
    if brief.trials and visits < fewest(brief):
        return Stop(
            reason=f"{brief.spendable:.0f} s are left for trials: no room for another draw after {len(brief.trials)}."
        )
    start = starting_recipe(brief)
    if isinstance(start, Stop):
        return start
    recipe = draw(brief, Recipe(data=start[0], training=start[1]), visits)
    return _plan(brief, recipe)


def planned(brief: Brief) -> int:
    """How many draws the whole budget bears, the former ones included."""
    whole = brief.spendable + sum(trial.seconds for trial in brief.trials)
    bearable = max((n for n, share in FIXED_SHARES.items() if n * brief.fixed_seconds <= share * whole), default=1)
    return bearable if brief.trials_left is None else min(bearable, brief.trials_left + len(brief.trials))


def share_of(brief: Brief) -> int:
    """Row visits of the next draw: an equal share of the time left for it and the planned ones after it; for fewer of
    them where the shares would be too small to show anything."""
    visits = 0
    for left in range(max(1, planned(brief) - len(brief.trials)), 0, -1):
        visits = brief.row_visits((brief.spendable - left * brief.fixed_seconds) * SAFETY / left)
        if visits >= FEWEST_VISITS:
            break
    return visits


def fewest(brief: Brief) -> float:
    """Row visits below which no draw is made: hardly any, or beyond the planned ones less than the others had."""
    former = [Recipe(data=trial.plan.data, training=trial.plan.training).visits for trial in brief.scored]
    beyond = len(brief.trials) >= planned(brief)
    return max(FEWEST_VISITS, WHOLE_SHARE * min(former)) if beyond and former else FEWEST_VISITS


def draw(brief: Brief, start: Recipe, visits: int) -> Recipe:
    """A recipe drawn from the search proposer's space, its learning rate over the whole range for this size of model;
    rows are not drawn but fill the share. Equal briefs get equal draws."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    size = size_of(brief.model.parameters)
    rows = max(1, min(visits, brief.rows_available))
    space = space_around(brief, changed(start, rows=rows, epochs=1.0))
    space["learning_rate"] = FloatDistribution(size.low, size.high, log=True)
    seed = Random(f"{brief.task.seed} {brief.number}").getrandbits(32)
    drawn = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed)).ask(space).params
    epochs = float(drawn["epochs"])
    drawn |= {"epochs": epochs, "learning_rate": rounded(drawn["learning_rate"])}
    recipe = changed(start, **drawn)
    fitting = int(visits / cost_of(recipe.training) / epochs)
    return changed(recipe, rows=max(1, min(rows, fitting)))


def _plan(brief: Brief, recipe: Recipe) -> Plan:
    training = recipe.training
    return Plan(
        number=brief.number,
        parent=None,
        diagnosis=f"None is made: draw {brief.number} of {max(brief.number, planned(brief))}.",
        hypothesis=f"Chance brings something better: {recipe.rows} rows x {training.epochs:g} epochs at learning rate "
        f"{training.learning_rate:g}, rank {training.lora_rank}, batch {training.batch_size}.",
        change=None,
        expected_gain=0.0,
        data=recipe.data,
        training=training,
        proposer="random",
        predicted_seconds=round(brief.trial_seconds(recipe.data, training), 1),
    )
