"""Syllogisms: does a conclusion follow from two premises? Two answers; always "Yes" is right on about 70 %.

A question draws three of 36 nouns, three quantifiers and one of two forms (a syllogism, or the inversion of one
premise): some millions of distinct questions; 6,000 draws repeat 17. The gold is the library's own: its checker
overlooks a middle term that neither premise distributes, so that about one gold in eight says "Yes" where nothing
follows (375 of 3,000, checked against every world of three terms, none of them empty; every "No" is sound). Learning
this benchmark is learning that checker.
"""

from tools.benchmarks.reasoning_gym_items import Puzzle, closed, make

ANSWERS = ("Yes", "No")

SYLLOGISM = make(
    "syllogism",
    "Does the conclusion follow from the two premises? (Yes or No)",
    Puzzle("syllogism", subset="type", columns=("type",)),
    closed(ANSWERS),
    max_new_tokens=8,
    answers=ANSWERS,
)
