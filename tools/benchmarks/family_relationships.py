"""Family relationships: a family is told in a few sentences; how are two of its members related? Sixteen answers at
most.

Names, family trees and pairs are drawn freely: 6,000 draws did not repeat a question.
"""

from tools.benchmarks.reasoning_gym_items import Puzzle, closed, make

ANSWERS = (
    *("mother", "father", "sister", "brother", "daughter", "son", "wife", "husband"),
    *("grandmother", "grandfather", "aunt", "uncle", "niece", "nephew", "mother-in-law", "father-in-law"),
)

FAMILY_RELATIONSHIPS = make(
    "family_relationships",
    "How are two members of a described family related? (one word)",
    Puzzle("family_relationships", subset="relationship", columns=("relationship", "family_size")),
    closed(ANSWERS),
    max_new_tokens=12,
    answers=ANSWERS,
)
