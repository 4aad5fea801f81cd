"""Needle in a haystack: several people and what they like or loathe; who is it that ...? Open answers, one name each.

Four to eight sentences of random names, verbs and things: 6,000 draws did not repeat a question.
"""

from tools.benchmarks.reasoning_gym_items import Puzzle, make, one_word

NEEDLE_HAYSTACK = make(
    "needle_haystack",
    "Find the person that a sentence is about, among 4 to 8 sentences (a name)",
    Puzzle("needle_haystack", {"min_num_statements": 4, "max_num_statements": 8}, columns=("num_statements",)),
    one_word,
    max_new_tokens=12,
)
