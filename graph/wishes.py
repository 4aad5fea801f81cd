"""What a person may say to a run, and what is understood of it: sentences become closed, typed wishes, or are refused.

A text is taken apart at commas and at "and"; every part has to be understood. Nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from graph.edits import EDITS
from graph.values import duration
from memory.errors import InputError
from memory.records import (
    Adjust,
    Adjustable,
    Approval,
    Asking,
    Budgeted,
    DropLong,
    GoBack,
    GoOn,
    Halt,
    Reply,
    Understood,
)

CAN_BE_SAID = (
    "yes / no, also with a wish: no, use fewer epochs and drop the long samples",
    "a lower (higher) learning rate; fewer (more) epochs; less (more) data; learning rate 0.001; 3 epochs; 500 rows",
    "a smaller (larger) batch, rank, alpha, dropout, warmup, weight decay, sequence length; another seed",
    "lora / qlora / train all weights; a cosine (linear, constant) schedule; balance the answers; shuffle the rows",
    "drop the long samples; drop samples over 400 characters",
    "go back to trial 2; go back to trial 2 and use more data",
    "add 10 minutes; budget 1h",
    "ask me before plan (data, train); stop asking",
    "stop after this trial; go on; stop; stop now",
)
"""The grammar by example, for a person who was not understood."""

FACTORS: dict[Adjustable, str] = {
    "learning_rate": r"learning[ -]?rate|lr|rate",
    "epochs": r"epochs?|passes",
    "batch_size": r"batch(?:[ -]?size)?|batches",
    "rows": r"(?:training )?(?:data|rows|samples|examples)",
    "lora_rank": r"(?:lora )?rank",
    "lora_alpha": r"(?:lora )?alpha",
    "lora_dropout": r"(?:lora )?dropout",
    "warmup_ratio": r"warm-?up(?: ratio)?",
    "weight_decay": r"weight decay",
    "sequence_len": r"sequence len(?:gth)?|sequences|context(?: length)?",
    "seed": r"seed",
}
"""Numbers that can be asked for, and how people call them; a field's own name is understood as well."""
LOWER = r"lower|smaller|fewer|less|reduce|decrease|shorter|halve|half|slower"
HIGHER = r"higher|larger|bigger|more|increase|raise|longer|double|twice"
NUMBER = r"\d+(?:\.\d+)?(?:e-?\d+)?|\.\d+"
ROWS = r"samples|rows|examples|ones|texts|data"
TIME = rf"(?:{NUMBER}) ?(?:h|hours?|hrs?|m|min|mins|minutes?|s|sec|secs|seconds?)"
TIMES = rf"{TIME}(?: ?{TIME})*|half an hour|an hour|a minute"

FILLERS = re.compile(
    r"^(?:please|let'?s|try(?: with)?|use|with|take|make it|maybe|perhaps|can you|could you|i want(?: to)?"
    r"|i'd like(?: to)?|also|then|set|rather|it|a|an|the|by)\s+"
    r"|\s+(?:please|instead|this time|next time|(?:for|in) the next trial)$"
    r"|\b(?:slightly|a bit|a little|much|far|even)\s+"
)
"""Words that change nothing."""
APART = re.compile(r",|;|\.(?!\d)|!|\band\b|\bbut\b|\bthen\b")
YES = r"yes|y|yep|ok|okay|approved?|go ahead|do it|looks good|lgtm|sure|fine"
NO = r"no|n|nope|declined?|reject(?:ed)?|don'?t do (?:it|that)"


def understand(text: str) -> tuple[Understood, ...]:
    """Everything that is asked for, in the order in which it was said. Raises InputError for what is not understood,
    with what can be said, and for a value that no setting can have."""
    plain = re.sub(r"(?<=\d),(?=\d{3}\b)", "", " ".join(text.lower().split()))
    found: list[Understood] = []
    for part in (piece.strip() for piece in APART.split(plain)):
        if part:
            found += _part(part, text)
    if not found:
        raise InputError("nothing was said", _way_out())
    return tuple(found)


def _part(part: str, text: str) -> list[Understood]:
    """One part of a sentence; a yes or no may stand before it without a comma."""
    bare = _bare(part)
    for pattern, meaning in RULES:
        for words in dict.fromkeys((part, bare)):
            if match := re.fullmatch(pattern, words):
                return [meaning(match)]
    if found := _setting(bare):
        return [found]
    if match := re.fullmatch(rf"({YES}|{NO}) (.+)", part):
        return [Reply(approve=re.fullmatch(YES, match[1]) is not None), *_part(match[2], text)]
    what = f"'{part}'" if part == text.lower().strip() else f"'{part}' in '{text}'"
    raise InputError(f"{what} is not understood", _way_out())


def _bare(part: str) -> str:
    """A part without the words that change nothing."""
    while (shorter := FILLERS.sub("", part).strip()) != part:
        part = shorter
    return part


def _setting(words: str) -> Adjust | None:
    """Another value of a number: a direction, or the value itself; None where the words speak of none."""
    for factor, pattern in FACTORS.items():
        name = rf"(?:the |a )?(?:{pattern}|{factor})"
        to_value = rf"(?:(?:{LOWER}|{HIGHER}) )?{name}(?: ?(?:to|=|:|of|at|is) ?| )({NUMBER})|({NUMBER}) {name}"
        if match := re.fullmatch(to_value, words):
            return _set(factor, match[1] or match[2])
        too_high = rf"{name}(?: is| are)? too (?:high|large|long|big)|too (?:many|much) {name}"
        too_low = rf"{name}(?: is| are)? too (?:low|small|short)|too (?:few|little) {name}"
        if re.fullmatch(rf"(?:{LOWER}) {name}|{name} (?:lower|down)|{too_high}", words):
            return Adjust(factor=factor, way="lower")
        if re.fullmatch(rf"(?:{HIGHER}) {name}|{name} (?:higher|up)|{too_low}", words):
            return Adjust(factor=factor, way="higher")
    return None


def _set(factor: Adjustable, value: str) -> Adjust:
    """A value that the setting can have. Raises InputError where it cannot."""
    EDITS[f"plan.{factor}"](value)
    return Adjust(factor=factor, way="set", value=value)


def _seconds(words: str) -> float:
    """Seconds of `10 minutes`, `1 hour 30 min`, `half an hour`. Raises InputError."""
    named = {"half an hour": "30m", "an hour": "1h", "a minute": "1m"}.get(words, words)
    return duration("".join(number + unit for number, unit in re.findall(rf"({NUMBER}) ?([hms])", named)))


PLACES: dict[str, Approval] = {"plan": "plan", "trial": "plan", "data": "data", "train": "train"}
"""Where to ask, by what people call it."""
Meaning = Callable[[re.Match[str]], Understood]

OUT = r"(?:drop|remove|leave out|skip|filter out|without|no)(?: all)?(?: the)?"
AGAIN = r"(?: again| any ?more)?"

RULES: tuple[tuple[str, Meaning], ...] = (
    (YES, lambda _: Reply(approve=True)),
    (NO, lambda _: Reply(approve=False)),
    (
        r"(?:stop|finish|end)(?: the run)? after (?:this|the current)(?: trial| one)|(?:this is )?the last trial"
        r"|no more trials|finish|wrap up",
        lambda _: Halt(when="after_trial"),
    ),
    (r"(?:stop|halt)(?: right)? (?:now|at once|immediately)|abort|cancel", lambda _: Halt(when="now")),
    (r"(?:stop|halt|pause)(?: the run| it)?", lambda _: Halt(when="next_step")),
    (r"go on|carry on|continue|keep going|don'?t stop", lambda _: GoOn()),
    (
        r"(?:go back|back|return|revert|go on|continue|grow|start) (?:to|from) (?:trial )?#?(\d+)",
        lambda match: GoBack(trial=int(match[1])),
    ),
    (rf"{OUT} (?:very )?long(?:est)? (?:{ROWS})", lambda _: DropLong()),
    (
        rf"{OUT}(?: long)? (?:{ROWS}) (?:over|above|longer than|with more than) (\d+)(?: char(?:acter)?s?)?",
        lambda match: DropLong(chars=int(match[1])),
    ),
    (
        rf"(?:add|give (?:it|me|yourself)|extend (?:it |the budget )?by) (?:another )?({TIMES})(?: more)?"
        r"(?: to the budget)?",
        lambda match: Budgeted(seconds=_seconds(match[1]), added=True),
    ),
    (rf"({TIMES}) more", lambda match: Budgeted(seconds=_seconds(match[1]), added=True)),
    (
        rf"({NUMBER}) more (hours?|minutes?|min|seconds?)",
        lambda match: Budgeted(seconds=_seconds(match[1] + match[2]), added=True),
    ),
    (
        rf"(?:set )?(?:the )?budget(?: to| of|=| is|:)? ?({TIMES})",
        lambda match: Budgeted(seconds=_seconds(match[1]), added=False),
    ),
    (
        rf"(?:stop|no) asking|(?:don'?t|never) ask(?: me)?{AGAIN}|no more questions",
        lambda _: Asking(approve="never"),
    ),
    (
        r"ask(?: me)? before (?:the |every |each |you )?(plan|trial|data|train)(?:s|ning|ing)?",
        lambda match: Asking(approve=PLACES[match[1]]),
    ),
    (r"(?:another|other|different|new) seed", lambda _: Adjust(factor="seed", way="higher")),
    (r"train all (?:the )?weights|full(?: fine-?tuning| training)?|method full", lambda _: _fixed("method", "full")),
    (r"(?:method )?(q?lora)", lambda match: _fixed("method", match[1])),
    (r"(cosine|linear|constant)(?: learning rate)? schedule", lambda match: _fixed("schedule", match[1])),
    (r"schedule (?:to )?(cosine|linear|constant)", lambda match: _fixed("schedule", match[1])),
    (r"balanced?(?: the)? (?:answers|labels|classes)", lambda _: _fixed("balance", "answer")),
    (r"shuffle(?: the (?:rows|data))?", lambda _: _fixed("order", "shuffled")),
    (r"keep the order(?: of the file)?|(?:do not|don'?t) shuffle", lambda _: _fixed("order", "file")),
)
"""What else can be said: the first pattern that fits the whole part, and what it means."""


def _fixed(factor: Adjustable, value: str) -> Adjust:
    return Adjust(factor=factor, way="set", value=value)


def _way_out() -> str:
    return f"What can be said: {'; '.join(CAN_BE_SAID)}."
