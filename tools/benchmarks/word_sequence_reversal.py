"""Write two to four words in reverse order, with commas between. Open answers.

Some 2,350 words from the library's book text: 6,000 draws repeat 100 questions, which are drawn anew.
"""

from tools.benchmarks.reasoning_gym_items import Puzzle, make, text

WORD_SEQUENCE_REVERSAL = make(
    "word_sequence_reversal",
    "Write 2 to 4 words in reverse order (a list)",
    Puzzle("word_sequence_reversal", {"min_words": 2, "max_words": 4}, subset="num_words", columns=("num_words",)),
    text,
    max_new_tokens=32,
)
