"""ChemCoTBench: the authors' published figures from their published outputs, and each quirk of the published scorers
on both sides."""

import json
from pathlib import Path
from statistics import fmean

import pytest

from memory.errors import InputError
from memory.records import Outcome
from tests import raw_data
from tools.benchmarks.__main__ import main
from tools.benchmarks.benchmark import Benchmark, Item
from tools.benchmarks.chemcotbench import mol_edit, mol_opt, mol_und, oracles, reaction, replies, rows
from tools.benchmarks.chemcotbench.mol_edit import MOL_EDIT
from tools.benchmarks.chemcotbench.mol_opt import MOL_OPT
from tools.benchmarks.chemcotbench.mol_und import MOL_UND
from tools.benchmarks.chemcotbench.reaction import REACTION
from tools.benchmarks.measures import value_of
from tools.raw_data.store import Store

GROUPS = "CCO"
"""Ethanol: one hydroxyl."""


def outputs_in(log: Path) -> list[str]:
    """A model's published outputs; some were parsed already."""
    outputs = [row["json_results"] for row in json.loads(log.read_text())]
    return [output if isinstance(output, str) else json.dumps(output) for output in outputs]


def logged(benchmark: Benchmark, log: str) -> list[Outcome]:
    """The outcomes of a model's published outputs."""
    (file,) = raw_data.real(f"chemcotbench/{log}").iterdir()
    assert benchmark.items_in is not None
    pairs = zip(benchmark.items_in(file), outputs_in(file), strict=True)
    return [benchmark.outcome(item, text) for item, text in pairs]


def figure(benchmark: Benchmark, name: str, outcomes: list[Outcome]) -> float:
    (measure,) = [each for each in benchmark.others if each.name == name]
    value = value_of(measure, outcomes)
    assert value is not None
    return value


# --- published figures ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("log", "measure", "published"),
    [
        ("fg_samples", "MAE_official", 0.21),
        ("ring_count", "MAE_official", 1.6),
        ("murcko_scaffold", "Tanimoto_official", 0.3995904332070048),
        ("ring_system_scaffold", "accuracy_official", 0.7948717948717948),
        ("mutated", "accuracy_official", 0.7209302325581395),
        ("permutated", "accuracy_official", 0.9591836734693877),
    ],
)
def test_published_outputs_of_understanding_give_the_published_figures(
    log: str, measure: str, published: float
) -> None:
    assert figure(MOL_UND, measure, logged(MOL_UND, log)) == pytest.approx(published, abs=1e-12)


@pytest.mark.parametrize(("subtask", "published"), [("add", 0.85), ("delete", 0.8), ("sub", 50 / 60)])
def test_published_outputs_of_editing_give_the_published_figures(subtask: str, published: float) -> None:
    outcomes = logged(MOL_EDIT, subtask)
    assert figure(MOL_EDIT, "correct_rate_official", outcomes) == pytest.approx(published)


@pytest.mark.parametrize(
    ("subtask", "improvement", "success", "scaffold"),
    [
        ("logp", 0.40150640876066307, 0.81, 0.9038459342980477),
        ("qed", 0.08706450221604178, 0.73, 0.818949146508879),
        # The published 0.590 and 0.77 for solubility were made with an older formula than the authors have now.
        ("solubility", None, None, 0.8783154572632265),
    ],
)
def test_published_outputs_of_optimising_give_the_published_figures(
    subtask: str, improvement: float | None, success: float | None, scaffold: float
) -> None:
    outcomes = logged(MOL_OPT, subtask)
    assert figure(MOL_OPT, "scaffold similarity", outcomes) == pytest.approx(scaffold)
    if improvement is not None:
        assert figure(MOL_OPT, "improvement_official", outcomes) == pytest.approx(improvement)
        assert figure(MOL_OPT, "success_rate_official", outcomes) == pytest.approx(success)


def test_the_command_line_scores_published_outputs_without_a_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (log,) = raw_data.real("chemcotbench/delete").iterdir()
    lines = [json.dumps({"id": f"delete-delete-{n}", "output": text}) for n, text in enumerate(outputs_in(log))]
    (tmp_path / "predictions.jsonl").write_text("\n".join(lines) + "\n")
    asked = ["score", "chemcotbench_mol_edit", str(tmp_path / "predictions.jsonl"), "--rows", str(log)]
    assert main(asked) == 0
    said = capsys.readouterr().out
    assert "correct_rate_official        0.8000" in said
    assert "parsed: " in said


def test_every_reference_edit_is_right_and_two_of_them_fail_the_published_check() -> None:
    items = [
        mol_edit.item_of(question)
        for view in mol_edit.VIEWS
        for question in rows.questions(raw_data.real(f"chemcotbench/{view.subtask}"), mol_edit.from_log)
    ]
    graded = [MOL_EDIT.grade(item.answer, item) for item in items if item]
    assert fmean(each.score for each in graded) == 1
    assert sum(each.values["correct_ftdojo"] == 0 for each in graded) == 2


def test_a_perfect_answer_to_retrosynthesis_scores_nothing_on_most_published_golds() -> None:
    folder = raw_data.real("chemcotbench/retro")
    items = [reaction.item_of(each) for each in rows.questions(folder, reaction.from_log)]
    graded = [REACTION.grade(item.answer, item) for item in items if item]
    assert len(graded) == 100
    assert fmean(each.score for each in graded) == 1
    assert fmean(each.values["exact_retro"] for each in graded) == 1
    assert fmean(each.values["exact_retro_ftdojo"] for each in graded) == 0.19
    assert fmean(each.values["similarity_ftdojo"] for each in graded) == pytest.approx(0.385, abs=1e-3)


# --- understanding ----------------------------------------------------------------------------------------------------


def und(subtask: mol_und.Subtask, gold: str) -> mol_und.Question:
    return mol_und.Question(subtask=subtask, gold=gold)


def test_a_number_in_an_explanation_is_a_count_to_the_fork_alone() -> None:
    output = "The molecule has 6 carbons, so I cannot say."
    assert mol_und.fork(output, und("fg_count", "6")) == 0
    assert mol_und.read(output, "fg_count") is None
    assert mol_und.authors(output, und("fg_count", "6")) is None, "the authors leave it out"


def test_no_count_at_all_is_as_far_off_as_0() -> None:
    assert mol_und.fork("none", und("fg_count", "3")) == 3
    assert mol_und.error(None, und("fg_count", "3")) == 3
    assert mol_und.error(None, und("ring_count", "0")) == 1, "where 0 is right, saying nothing is still wrong"
    assert mol_und.fork("", und("ring_count", "0")) == 0


def test_a_count_may_stand_in_a_fence_behind_reasoning_or_alone() -> None:
    for output in ('{"count": 2}', 'So ...\n```json\n{"count": "2",}\n```', "<think>3?</think>2", "2"):
        assert mol_und.read(output, "fg_count") == "2"
    assert mol_und.read("<think>it may be\n2", "fg_count") is None
    assert mol_und.read('{"count": 12345678901234567890}', "fg_count") is None


def test_yes_before_no_wins_for_the_fork_and_is_no_answer_for_us() -> None:
    output = "They do not look alike, yes? No."
    assert mol_und.fork(output, und("equivalence", "Yes")) == 1
    assert mol_und.read(output, "equivalence") is None
    assert mol_und.read('{"output": "no"}', "equivalence") == "No"


def test_the_authors_count_yes_whatever_the_gold_of_a_ring_system_is() -> None:
    question = und("ring_system_scaffold", "No")
    assert mol_und.authors('{"output": "Yes"}', question) == 1
    assert mol_und.fork('{"output": "Yes"}', question) == 0
    assert mol_und.score("Yes", question) == 0


def test_the_authors_take_a_whole_molecule_for_its_scaffold() -> None:
    question, whole = und("Murcko_scaffold", "c1ccccc1"), '{"Output Scaffold": "CCc1ccccc1"}'
    assert mol_und.authors(whole, question) == 1
    assert mol_und.score(mol_und.read(whole, "Murcko_scaffold"), question) < 0.6
    assert mol_und.fork(whole, question) == mol_und.score("CCc1ccccc1", question)
    assert mol_und.score(mol_und.read('{"Output Scaffold": "C1=CC=CC=C1"}', "Murcko_scaffold"), question) == 1


def test_the_figure_of_a_subtask_counts_no_other_subtask() -> None:
    items = [mol_und.item_of(rows.Question(id="a", subtask="fg_count", query="?", gt=2)), yes_no("b"), yes_no("c")]
    outcomes = [MOL_UND.outcome(item, "2") for item in items if item]
    assert figure(MOL_UND, "MAE", outcomes) == 0
    assert figure(MOL_UND, "accuracy", outcomes) == 0
    assert value_of(MOL_UND.measure, outcomes) == 0.5


def yes_no(name: str) -> Item:
    item = mol_und.item_of(rows.Question(id=name, subtask="equivalence", query="?", gt="Yes"))
    assert item is not None
    return item


# --- editing ----------------------------------------------------------------------------------------------------------


def edit(**fields: str) -> mol_edit.Question:
    return mol_edit.Question.model_validate({"reference": GROUPS, **fields})


def test_an_edit_that_throws_the_molecule_away_passes_the_published_check_alone() -> None:
    question = edit(subtask="add", source="O=S(=O)(Cc1nc(-c2cccs2)no1)c1ccc2ccccc2n1", added="aldehyde")
    output = '{"output": "CC=O"}'
    assert mol_edit.fork(output, question) == 1
    assert mol_edit.authors(output, question) == 1
    assert mol_edit.score(mol_edit.read(output), question) == 0
    kept = '{"output": "O=S(=O)(C(C=O)c1nc(-c2cccs2)no1)c1ccc2ccccc2n1"}'
    assert mol_edit.score(mol_edit.read(kept), question) == 1


def test_a_hydroxyl_can_be_exchanged_for_a_carboxyl() -> None:
    question = edit(subtask="sub", source="OCCc1ccccc1", removed="hydroxyl", added="carboxyl")
    output = '{"output": "OC(=O)CCc1ccccc1"}'
    assert mol_edit.fork(output, question) == 0, "the carboxyl's own hydroxyl counts there"
    assert mol_edit.score(mol_edit.read(output), question) == 1


def test_what_is_no_molecule_is_no_edit() -> None:
    question = edit(subtask="delete", source="CCO", removed="hydroxyl")
    for output in ("", "{}", '{"output": "C(C"}', "I cannot do that."):
        assert mol_edit.read(output) is None
        assert mol_edit.fork(output, question) == mol_edit.authors(output, question) == 0


# --- optimising -------------------------------------------------------------------------------------------------------


def test_without_its_oracle_an_item_is_refused_and_never_scores_0() -> None:
    question = mol_opt.Question(subtask="drd", source="CCO")
    for scorer in (mol_opt.fork, mol_opt.authors):
        with pytest.raises(InputError, match="classifier of DRD2 binding"):
            scorer('{"Final Target Molecule": "CCC"}', question)
    with pytest.raises(InputError, match="classifier of DRD2 binding"):
        mol_opt.score("CCC", question)
    with pytest.raises(InputError, match="drd items need a classifier"):
        mol_opt.item_of(rows.Question(id="a", subtask="drd", query="Source Molecule: CCO"))
    assert {view.subtask for view in mol_opt.VIEWS} == {"logp", "qed", "solubility"}


def test_nonsense_improves_a_source_of_negative_value_for_the_authors_alone() -> None:
    question, output = (
        mol_opt.Question(subtask="solubility", source="c1ccc2ccccc2c1"),
        '{"Final Target Molecule": "C(C"}',
    )
    assert mol_opt.authors(output, question) > 0
    assert mol_opt.fork(output, question) == 0
    assert mol_opt.score(mol_opt.read(output), question) == 0


def test_one_good_molecule_for_every_source_succeeds_in_the_published_scorers_alone() -> None:
    question, output = (
        mol_opt.Question(subtask="solubility", source="c1ccc2ccccc2c1"),
        '{"Final Target Molecule": "OCCO"}',
    )
    assert mol_opt.fork(output, question) == 1
    assert mol_opt.score(mol_opt.read(output), question) == 0
    assert mol_opt.score(mol_opt.read('{"Final Target Molecule": "Oc1ccc2ccccc2c1"}'), question) == 1


def test_the_fork_may_take_a_word_for_a_molecule() -> None:
    output = "Its solubility (aqueous) rises with CCO"
    assert replies.fork_smiles(output, mol_opt.KEYS) == "solubility"
    assert mol_opt.read(output) is None


def test_the_template_of_the_prompt_has_a_comma_too_many() -> None:
    output = '{"Final Target Molecule": "CCO",}'
    assert replies.authors(output) is None
    assert mol_opt.read(output) == "CCO"
    assert replies.fork_smiles(output, mol_opt.KEYS) == "CCO", "its pattern finds it"


def test_esol_is_near_the_measured_solubility() -> None:
    # Delaney 2004, supplementary table: benzene -1.64, naphthalene -3.60 (log mol/l).
    for smiles, measured in (("c1ccccc1", -1.64), ("c1ccc2ccccc2c1", -3.60)):
        assert oracles.value("solubility", smiles) == pytest.approx(measured, abs=1.0)


# --- reactions --------------------------------------------------------------------------------------------------------


def react(subtask: reaction.Subtask, gold: str) -> reaction.Question:
    return reaction.Question(subtask=subtask, gold=gold, published_gold=gold)


def test_the_key_that_the_prompt_asks_for_scores_nothing_with_the_fork() -> None:
    for subtask, key in (("nepp", "pred_smi"), ("rcr", "SMILES")):
        question = react(subtask, "CCO")  # type: ignore[arg-type]
        output = json.dumps({key: "CCO"})
        assert reaction.fork_exact(output, question) == 0
        assert reaction.exact(reaction.read(output, question.subtask), question) == 1
        assert reaction.fork_exact("CCO", question) == 1, "the bare molecule scores there"


def test_conditions_are_molecules_and_not_texts() -> None:
    question = react("rcr", "CCO.ClCCl")
    output = json.dumps({"answer": "C(Cl)Cl.OCC"})
    assert reaction.fork_exact(output, question) == 0
    assert reaction.exact(reaction.read(output, "rcr"), question) == 1
    assert reaction.exact(reaction.read(json.dumps({"SMILES": ["OCC", "ClCCl"]}), "rcr"), question) == 1
    assert reaction.exact(reaction.read(json.dumps({"SMILES": "OCC"}), "rcr"), question) == 0


def test_i_think_is_no_choice() -> None:
    question = react("mechsel", "I")
    assert reaction.fork_exact("I think it is B", question) == 1
    assert reaction.read("I think it is B", "mechsel") is None
    assert reaction.exact(reaction.read('{"choice": "i"}', "mechsel"), question) == 1


def test_no_molecule_has_the_best_edit_distance_in_the_fork_and_the_worst_here() -> None:
    question = react("fs", "CCO")
    assert reaction.fork_distance("no idea at all", question) == 0
    assert reaction.distance(None, question) == 3
    assert reaction.distance("CCN", question) == 1


def test_golds_of_retrosynthesis_without_the_authors_list_are_left_out(tmp_path: Path) -> None:
    question = rows.Question(id="x", subtask="retro", query="?", gt="CCOCC")
    assert reaction.item_of(question) is None
    item = reaction.item_of(question, {"x": "CCO.CC"})
    assert item is not None
    assert item.answer == '{"Reactants": "CCO.CC"}'


# --- raw data ---------------------------------------------------------------------------------------------------------


def hub(folder: Path, family: str, subtask: str, count: int, row: dict[str, object]) -> None:
    file = folder / "chemcotbench" / family / f"{subtask}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    made = [
        {**row, "id": f"q{n}", "query": f"{row['query']} ({n})", "task": family, "subtask": subtask}
        for n in range(count)
    ]
    file.write_text(json.dumps(made))


def test_rows_of_the_hub_become_items_with_the_published_split(tmp_path: Path) -> None:
    meta = json.dumps({"reference": "CCCO", "added_group": "hydroxyl"})
    asked = {"query": "Input Molecule: CCC, Functional Group to add: hydroxyl.", "gt": "", "meta": meta}
    for subtask in ("add", "delete", "sub"):
        hub(tmp_path, "mol_edit", subtask, 20, asked)
    located = MOL_EDIT.located(Store(tmp_path, tmp_path / "cache"))
    validation, test = (list(located.draw(split, 0)) for split in ("validation", "test"))
    assert len(validation) == len(test) == 30
    assert not {item.id for item in validation} & {item.id for item in test}
    assert MOL_EDIT.grade(test[0].answer, test[0]).score == 1
    assert test[0].id.startswith("add-q")


def test_a_training_row_has_its_reasoning_as_a_column_and_scores_1() -> None:
    meta = {"gt": 2}
    row = rows.Question.model_validate(
        {"id": "t", "subtask": "fg_count", "query": "?", "struct_cot": "Step 1 ...", "meta": json.dumps(meta)}
    )
    item = mol_und.item_of(row)
    assert item is not None
    assert item.columns == {"reasoning": "Step 1 ..."}
    assert MOL_UND.grade(item.answer, item).score == 1


def test_training_rows_may_lack_their_reasoning_and_the_name_of_their_subtask(tmp_path: Path) -> None:
    store = Store(tmp_path, tmp_path / "cache")
    for view in reaction.VIEWS:
        for file in view.training:
            raw_data.put(
                store, file, [{"id": 7, "query": f"{view.subtask}?", "gt": "CCO", "struct_cot": None, "meta": None}]
            )
    items = list(REACTION.located(store).draw("train", 0))
    assert [(item.id, item.answer) for item in items] == [
        ("fs-7", '{"Major Product": "CCO"}'),
        ("rcr-7", '{"SMILES": "CCO"}'),
    ]


def test_a_training_row_whose_answer_is_wrong_is_left_out(tmp_path: Path) -> None:
    store = Store(tmp_path, tmp_path / "cache")
    query = "Source Molecule: c1ccc2ccccc2c1. Raise it."
    for view in mol_opt.VIEWS:
        row = {"query": query, "subtask": view.subtask, "struct_cot": "Step 1 ..."}
        answers = {"right": "Oc1ccc2ccccc2c1", "wrong": "c1ccc2ccccc2c1"} if view.subtask == "solubility" else {}
        rows_of = [{**row, "id": name, "meta": {"reference": smiles}} for name, smiles in answers.items()]
        raw_data.put(store, view.training[0], rows_of or [{**row, "id": "same", "meta": {}}])
    assert [item.id for item in MOL_OPT.located(store).draw("train", 0)] == ["solubility-right"]


def test_the_authors_fts_is_similarity_times_validity() -> None:
    asked = [rows.Question(id=name, subtask="nepp", query="?", gt="CCO") for name in "ab"]
    outputs = ('{"pred_smi": "CCO"}', '{"pred_smi": "C(C"}')
    items = [reaction.item_of(question) for question in asked]
    outcomes = [REACTION.outcome(item, output) for item, output in zip(items, outputs, strict=True) if item]
    assert figure(REACTION, "similarity", outcomes) == 0.5
    assert figure(REACTION, "FTS_official", outcomes) == 0.25


def test_a_file_of_something_else_is_named(tmp_path: Path) -> None:
    file = tmp_path / "add.json"
    file.write_text('[{"question": "?"}]')
    with pytest.raises(InputError, match=r"row 1 of .*add.json is no row of ChemCoTBench"):
        rows.questions(file, mol_edit.from_log)
