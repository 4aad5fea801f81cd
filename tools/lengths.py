"""How long texts are in tokens, before a tokenizer saw them, and what fits into the server's window."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from tools.benchmarks.benchmark import Item
from tools.proposers.brief import CHARS_PER_TOKEN, TEMPLATE_TOKENS
from tools.serving import WINDOW

LONGEST_ANSWER = 1024
"""Tokens of an answer: half of the window."""
BYTES_PER_TOKEN = 2.0
"""Of an answer, on the low side: names and foreign words are cut into small pieces. Digits are tokens of their own."""
SPARE_TOKENS = 8
"""Beside the longest gold: its end, and a little more."""

TOKENS_PER_UNSPACED = 2.0
"""Of a letter or sign of a script without spaces: the embedded model's tokenizer takes 1.7 for the Chinese of
FinanceIQ on average, others less. With this, 1 % of its 7,123 prompts are longer than 1.2 times the estimate."""

_UNSPACED = re.compile("[\u3000-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uff00-\uffef]")


def tokens_of(text: str) -> float:
    """Tokens of a text, about; scripts without spaces are counted by the letter."""
    unspaced = len(_UNSPACED.findall(text))
    return TOKENS_PER_UNSPACED * unspaced + (len(text) - unspaced) / CHARS_PER_TOKEN


def row_tokens(prompt: str, answer: str) -> float:
    """Tokens of a training row under a chat template, about."""
    return tokens_of(prompt) + tokens_of(answer) + TEMPLATE_TOKENS


def room_for(gold: str) -> int:
    """Tokens that an answer like this takes at most."""
    digits = sum(letter.isdigit() for letter in gold)
    return math.ceil(digits + (len(gold.encode()) - digits) / BYTES_PER_TOKEN) + SPARE_TOKENS


def fits(prompt: str, answer: str, max_new_tokens: int) -> bool:
    """Whether the server can be asked this and answer it, and the row can be trained on as a whole."""
    answered = max(float(max_new_tokens), tokens_of(answer))
    return room_for(answer) <= LONGEST_ANSWER and tokens_of(prompt) + TEMPLATE_TOKENS + answered <= WINDOW


def shots_that_fit(
    wanted: int, items: Sequence[Item], examples: Sequence[Item], max_new_tokens: int, window: int = WINDOW
) -> int:
    """How many of the first examples, `wanted` at most, can be shown above every item in a window of so many tokens."""
    left = window - max_new_tokens - TEMPLATE_TOKENS - max((tokens_of(item.prompt) for item in items), default=0.0)
    shown = 0
    for example in examples[:wanted]:
        left -= tokens_of(example.prompt) + tokens_of(example.answer) + TEMPLATE_TOKENS
        if left < 0:
            break
        shown += 1
    return shown
