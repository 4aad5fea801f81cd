"""The vocabulary: frozen records that every floor speaks. Paths in records are relative to the run's folder."""

from memory.records.dataset import DatasetCard, Dropped, RowGroup
from memory.records.operators import Deduplicate, Filter, MapTemplate, Mix, Operator, Select
from memory.records.plan import Change, DataRecipe, Plan, TrainingRecipe
from memory.records.record import Decision, FailureKind, NodeName, Record
from memory.records.score import Comparison, ConstantAnswer, ErrorClass, Outcome, Score, Subset
from memory.records.task import BaseModelCard, Budget, Task
from memory.records.training import LossPoint, TrainingRun
from memory.records.trial import Baseline, Lesson, SealedTest, Trial
from memory.records.verdict import Check, Failure, Verdict

__all__ = [
    "BaseModelCard",
    "Baseline",
    "Budget",
    "Change",
    "Check",
    "Comparison",
    "ConstantAnswer",
    "DataRecipe",
    "DatasetCard",
    "Decision",
    "Deduplicate",
    "Dropped",
    "ErrorClass",
    "Failure",
    "FailureKind",
    "Filter",
    "Lesson",
    "LossPoint",
    "MapTemplate",
    "Mix",
    "NodeName",
    "Operator",
    "Outcome",
    "Plan",
    "Record",
    "RowGroup",
    "Score",
    "SealedTest",
    "Select",
    "Subset",
    "Task",
    "TrainingRecipe",
    "TrainingRun",
    "Trial",
    "Verdict",
]
