"""Pairs for DPO, tokenised as the rows of a supervised training are: question and end of an answer look the same."""

from axolotl.core.trainers.dpo.trainer import AxolotlDPOTrainer
from datasets import Dataset

IGNORED = -100


class PairTrainer(AxolotlDPOTrainer):
    """DPO on pairs that are tokens already. Its own way from text to tokens does not know which token ends a turn in
    this chat template, nor what Axolotl leaves without a loss."""

    def _prepare_dataset(self, dataset, *args, **kwargs):
        return dataset


def paired(preferred, rejected):
    """One training set of two, row by row: what DPO reads, and beside it tokens and labels of the longer answer."""
    rows = []
    for right, wrong in zip(preferred, rejected, strict=True):
        prompt, chosen = split(right)
        longer = max(right, wrong, key=lambda row: len(row["input_ids"]))
        rows.append(
            {
                "prompt_ids": prompt,
                "chosen_ids": chosen,
                "rejected_ids": split(wrong)[1],
                "input_ids": longer["input_ids"],
                "labels": longer["labels"],
            }
        )
    return Dataset.from_list(rows)


def split(row):
    """Question and answer of a tokenised row: the answer is what carries a loss."""
    labels = row["labels"]
    begins = next((at for at, label in enumerate(labels) if label != IGNORED), len(labels))
    return row["input_ids"][:begins], [label for label in labels[begins:] if label != IGNORED]


def sides(row):
    """Both halves of a pair as tokenised rows, the preferred one first."""
    return [
        {"input_ids": row["prompt_ids"] + row[name], "labels": [IGNORED] * len(row["prompt_ids"]) + row[name]}
        for name in ("chosen_ids", "rejected_ids")
    ]
