"""Spell a word of three to six letters backward. Open answers; upper and lower case count the same, as in the library.

The words come from the library's own book text, some 33,500 of them; 6,000 draws repeat 522, which are drawn anew.
"""

from tools.benchmarks.reasoning_gym_items import Puzzle, make, one_word

SPELL_BACKWARD = make(
    "spell_backward",
    "Spell a word of 3 to 6 letters backward",
    Puzzle(
        "spell_backward",
        {"min_word_len": 3, "max_word_len": 6},
        form="Answer with the reversed word only.",
        subset="word_len",
        columns=("word", "word_len"),
    ),
    one_word,
    max_new_tokens=12,
)
