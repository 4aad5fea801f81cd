"""A proposer that follows a script: three trials that must fail, in data, configuration and training; a good one."""

from __future__ import annotations

from memory.records import DataRecipe, Filter, Plan, Select, TrainingRecipe
from tools.proposers.brief import Brief, Stop

GOOD = TrainingRecipe(learning_rate=2e-3, epochs=1, batch_size=4, micro_batch=4, sequence_len=256)
FEW = Select(rows=16)


def failing_thrice(brief: Brief) -> Plan | Stop:
    """Rows that no filter leaves; QLoRA without a GPU; a learning rate that explodes; then a sound small recipe."""
    script: list[tuple[str, DataRecipe, TrainingRecipe]] = [
        ("no row passes", DataRecipe(operators=(Filter(where="prompt_chars < 0"), FEW)), GOOD),
        ("no such kernel", DataRecipe(operators=(FEW,)), GOOD.model_copy(update={"method": "qlora"})),
        ("far too fast", DataRecipe(operators=(FEW,)), GOOD.model_copy(update={"learning_rate": 1e6, "epochs": 8})),
        ("sound", DataRecipe(operators=(FEW,)), GOOD),
    ]
    return follow(script, brief)


def sound(brief: Brief) -> Plan | Stop:
    """One trial that trains for longer than the half minute after which a checkpoint is written."""
    return follow([("sound", DataRecipe(operators=(Select(rows=64),)), GOOD.model_copy(update={"epochs": 8}))], brief)


def small(brief: Brief) -> Plan | Stop:
    """One trial that is soon over."""
    return follow([("small", DataRecipe(operators=(FEW,)), GOOD)], brief)


def one_row(brief: Brief) -> Plan | Stop:
    """One trial on a single row."""
    return follow([("one row", DataRecipe(operators=(Select(rows=1),)), GOOD)], brief)


def rising(brief: Brief) -> Plan | Stop:
    """A trial that stand-in engines make good, and one that they make better by less than can be told from noise."""
    sizes = (256, 272)
    return follow([(f"{rows} rows", DataRecipe(operators=(Select(rows=rows),)), GOOD) for rows in sizes], brief)


def objectives(brief: Brief) -> Plan | Stop:
    """Imitation, then pairs and scores from the weights of the trial before; nothing says which rows they need."""
    rows = DataRecipe(operators=(Select(rows=64),))
    on = {"learning_rate": 2e-4, "generations": 4, "epochs": 2}
    script = [
        ("imitation", rows, GOOD),
        ("pairs", rows, GOOD.model_copy(update=on | {"objective": "dpo", "continue_from": 1})),
        ("scores", rows, GOOD.model_copy(update=on | {"objective": "grpo", "continue_from": 2})),
    ]
    return follow(script, brief)


def wide(brief: Brief) -> Plan | Stop:
    """One trial that stand-in engines make good, with an adapter that search would not begin with."""
    recipe = GOOD.model_copy(update={"lora_rank": 32})
    return follow([("wide", DataRecipe(operators=(Select(rows=256),)), recipe)], brief)


def follow(script: list[tuple[str, DataRecipe, TrainingRecipe]], brief: Brief) -> Plan | Stop:
    """The next line of a script."""
    if brief.number > len(script):
        return Stop(reason="the script has ended")
    hypothesis, data, training = script[brief.number - 1]
    return Plan(
        number=brief.number,
        parent=None,
        diagnosis="none",
        hypothesis=hypothesis,
        change=None,
        expected_gain=0.0,
        data=data,
        training=training,
        proposer="search",
        predicted_seconds=0.0,
    )


SCRIPTS = {
    "failing_thrice": failing_thrice,
    "sound": sound,
    "small": small,
    "one_row": one_row,
    "rising": rising,
    "objectives": objectives,
    "wide": wide,
}
