"""Are two strings of up to six letters the same but for a renaming of letters? Two answers, evenly spread.

Random letters: 6,000 draws repeat 218, nearly all of them pairs of single letters, of which there are 676. Strings
that are not isomorphic always repeat a letter and those that are seldom do, so that spotting a repeated letter
already goes far.
"""

from tools.benchmarks.reasoning_gym_items import Puzzle, closed, make

ANSWERS = ("True", "False")

ISOMORPHIC_STRINGS = make(
    "isomorphic_strings",
    "Are two short strings equal up to renaming letters? (True or False)",
    Puzzle("isomorphic_strings", {"max_string_length": 6}, subset="string_length", columns=("string_length",)),
    closed(ANSWERS),
    max_new_tokens=6,
    answers=ANSWERS,
)
