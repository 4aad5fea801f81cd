"""Alice in Wonderland: how many sisters, friends or colleagues has somebody in a short story? Answers 2 to 7.

Four story templates, 22 names and numbers up to 6: about 165,000 distinct questions, but one sibling template has
only 396 and is used up by a large training split; 6,000 draws repeat 1,168, which are drawn anew. Questions of
different splits share a template and may differ in a name or a number only; none is the same. Idea: Nezhurina et al.,
"Alice in Wonderland", arXiv 2406.02061.
"""

from tools.benchmarks.reasoning_gym_items import Puzzle, make

ANSWERS = ("2", "3", "4", "5", "6", "7")


def whole_number(output: str) -> str | None:
    """The stripped output, if it is digits only; an answer outside 2 to 7 is an answer, and wrong."""
    answer = output.strip()
    return answer if answer.isascii() and answer.isdigit() else None


AIW = make(
    "aiw",
    "How many sisters, friends or colleagues? (a number)",
    Puzzle("aiw", form="Answer with the number only.", subset="task_type", columns=("task_type",)),
    whole_number,
    max_new_tokens=6,
    answers=ANSWERS,
)
