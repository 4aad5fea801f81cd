"""What a person may say, and what is understood of it; the rest is refused with what can be said."""

from __future__ import annotations

import pytest

from graph.wishes import CAN_BE_SAID, understand
from memory.errors import InputError
from memory.records import Adjust, Asking, Budgeted, DropLong, GoBack, GoOn, Halt, Reply, Understood

FEWER_EPOCHS = Adjust(factor="epochs", way="lower")
LOWER_RATE = Adjust(factor="learning_rate", way="lower")
MORE_DATA = Adjust(factor="rows", way="higher")
YES, NO = Reply(approve=True), Reply(approve=False)


def fixed(factor: str, value: str) -> Adjust:
    return Adjust.model_validate({"factor": factor, "way": "set", "value": value})


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("approve", [YES]),
        ("Yes!", [YES]),
        ("go ahead", [YES]),
        ("no", [NO]),
        ("use fewer epochs, and drop the long samples", [FEWER_EPOCHS, DropLong()]),
        ("no, use fewer epochs", [NO, FEWER_EPOCHS]),
        ("no use fewer epochs", [NO, FEWER_EPOCHS]),
        ("try a lower learning rate", [LOWER_RATE]),
        ("use a much lower learning rate please", [LOWER_RATE]),
        ("the learning rate is too high", [LOWER_RATE]),
        ("too many epochs", [FEWER_EPOCHS]),
        ("more data.", [MORE_DATA]),
        ("double the rows", [MORE_DATA]),
        ("learning rate 0.0005", [fixed("learning_rate", "0.0005")]),
        ("lower the learning rate to 1e-4", [fixed("learning_rate", "1e-4")]),
        ("learning_rate=0.001", [fixed("learning_rate", "0.001")]),
        ("3 epochs and 1,000 rows", [fixed("epochs", "3"), fixed("rows", "1000")]),
        ("rank 32", [fixed("lora_rank", "32")]),
        ("train all weights", [fixed("method", "full")]),
        ("use qlora", [fixed("method", "qlora")]),
        ("a constant schedule", [fixed("schedule", "constant")]),
        ("balance the answers", [fixed("balance", "answer")]),
        ("another seed", [Adjust(factor="seed", way="higher")]),
        ("a smaller batch", [Adjust(factor="batch_size", way="lower")]),
        ("drop samples over 400 characters", [DropLong(chars=400)]),
        ("go back to trial 2", [GoBack(trial=2)]),
        ("go back to trial 2 and use more data", [GoBack(trial=2), MORE_DATA]),
        ("stop after this trial", [Halt(when="after_trial")]),
        ("no more trials", [Halt(when="after_trial")]),
        ("stop", [Halt(when="next_step")]),
        ("stop now", [Halt(when="now")]),
        ("keep going", [GoOn()]),
        ("add 10 minutes", [Budgeted(seconds=600, added=True)]),
        ("10 more minutes", [Budgeted(seconds=600, added=True)]),
        ("give it half an hour more", [Budgeted(seconds=1800, added=True)]),
        ("budget 30m", [Budgeted(seconds=1800, added=False)]),
        ("set the budget to 1 hour 30 minutes", [Budgeted(seconds=5400, added=False)]),
        ("ask me before training", [Asking(approve="train")]),
        ("don't ask again", [Asking(approve="never")]),
        ("yes, and stop after this trial", [YES, Halt(when="after_trial")]),
    ],
)
def test_what_people_say_is_understood(text: str, meant: list[Understood]) -> None:
    assert list(understand(text)) == meant


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("make coffee", "'make coffee' is not understood. What can be said: yes / no"),
        ("use fewer epochs and make coffee", "'make coffee' in 'use fewer epochs and make coffee' is not understood"),
        ("less", "'less' is not understood"),
        ("epochs 0", "'0' is no value for plan.epochs"),
        ("dropout 2", "'2' is no value for plan.lora_dropout"),
        ("rows 0", "'0' is too small"),
        ("budget", "'budget' is not understood"),
        ("  ", "nothing was said"),
        ("do not use fewer epochs", "is not understood"),
        ("not a lower learning rate", "is not understood"),
    ],
)
def test_what_is_not_understood_is_refused_with_what_can_be_said(text: str, says: str) -> None:
    with pytest.raises(InputError) as refused:
        understand(text)
    assert says in str(refused.value)


def test_every_example_of_the_grammar_is_understood() -> None:
    for line in CAN_BE_SAID:
        for sentence in line.split(";"):
            if "(" not in sentence and "/" not in sentence and sentence.count(",") < 2:
                assert understand(sentence)
