"""What is to blame for what is still wrong in a scored trial: data, training, format or evaluation.

What accounts for most comes first. Where no rule fires, the blame is on nothing: what is left is the model's capacity
or noise.
"""

from __future__ import annotations

from memory.records import Blame
from tools.causes.rules import RULES
from tools.causes.signs import Case

MOST_RATES = 12


def blame(case: Case) -> Blame:
    """What is to blame, what accounts for most first; of equals, in the order of RULES."""
    causes = sorted((cause for rule in RULES for cause in rule(case)), key=lambda cause: -cause.share)
    first = causes[0] if causes else None
    return Blame(
        to=first.blamed if first else "none",
        says=first.says if first else nothing(case),
        causes=tuple(causes),
        rates=case.rates[:MOST_RATES],
    )


def nothing(case: Case) -> str:
    """The line where no rule fires."""
    if not case.wrong:
        return "Every validation output gets the full mark."
    train = case.trial.train_score
    left = f"{len(case.wrong)} of {len(case.outcomes)} outputs fall short of the full mark"
    if case.underfit and case.curve is not None and train is not None:
        return f"{left}, and so do rows it was trained on ({train.value:.3f}) whose loss has settled: capacity."
    return f"{left}, and no figure speaks against data, training, format or evaluation: capacity or noise."
