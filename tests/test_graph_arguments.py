"""The command line: what it accepts, and one clear line with a way out for what it does not."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from graph.arguments import parse
from graph.run import main
from graph.settings import Settings
from graph.values import duration, in_words
from memory.errors import InputError

HOME = {"HOME": "/home/somebody"}


def parsed(line: str) -> Settings:
    return parse(line.split(), HOME)


def test_a_new_run_with_everything(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"prompt": "a", "answer": "b"}\n\n{}\n')
    settings = parsed(
        f"--benchmark syllogism --base-model some/model --budget 1h30m --max-trials 4 --sample-cap 200 --seed 7 "
        f"--run-dir {tmp_path} --dataset {rows} {rows} --plain --json"
    )
    task = settings.task()
    assert (settings.action, settings.runs, settings.plain, settings.json_output) == ("start", tmp_path, True, True)
    assert (task.base_model, task.budget.seconds, task.budget.max_trials) == ("some/model", 5400, 4)
    assert (task.sample_cap, task.seed, task.raw_data) == (200, 7, (str(rows), str(rows)))
    assert task.metric


def test_raw_data_lies_where_the_option_says_or_else_the_environment(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    named = parse(["--benchmark", "aiw", "--data-dir", str(tmp_path / "mine")], HOME | {"TUNEWRIGHT_DATA": "/"})
    assert named.task().data_dir == str(tmp_path / "mine")
    assert parse(["--benchmark", "aiw"], HOME | {"TUNEWRIGHT_DATA": str(tmp_path)}).task().data_dir == str(tmp_path)
    assert parse(["--benchmark", "aiw"], HOME).task().data_dir is None
    with pytest.raises(InputError, match="is no folder"):
        parse(["--benchmark", "aiw", "--data-dir", str(tmp_path / "none")], HOME)


def test_the_names_that_users_of_ft_agent_know(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text("{}\n")
    common = f"--dataset {rows} --benchmark-description Alice"
    theirs = parsed(f"--benchmark aiw --loop-n 3 --timeout 12h --upper-data-size-limit 500 {common}")
    assert theirs == parsed(f"--benchmark aiw --max-trials 3 --budget 12h --sample-cap 500 {common}")
    assert theirs.description == "Alice"


def test_the_defaults() -> None:
    settings = parsed("--benchmark syllogism")
    assert (settings.base_model, settings.budget.seconds, settings.budget.max_trials) == ("smollm2", 1800, None)
    assert settings.runs == Path("runs").absolute()


def test_runs_that_exist() -> None:
    assert (parsed("--resume abc").action, parsed("--resume abc").run) == ("resume", "abc")
    assert (parsed("--history abc").action, parsed("--list").action) == ("history", "list")
    fork = parsed("--fork abc@1f1e --set plan.learning_rate=3e-4 --set budget=2h")
    assert (fork.action, fork.run, fork.checkpoint) == ("fork", "abc", "1f1e")
    assert [(edit.key, edit.value) for edit in fork.edits] == [("plan.learning_rate", "3e-4"), ("budget", "2h")]


def test_a_run_that_asks_and_what_is_said_to_it() -> None:
    asking = parsed("--benchmark aiw --approve train --wait 10m")
    assert (asking.task().approve, asking.wait) == ("train", 600)
    assert parsed("--benchmark aiw").task().approve == "never"
    said = parse(["--answer", "abc", "no, use fewer epochs", "--wait", "1h"], HOME)
    assert (said.action, said.run, said.says, said.wait) == ("answer", "abc", "no, use fewer epochs", 3600)
    assert parse(["--answer", "/somewhere/runs/abc", "yes"], HOME).runs == Path("/somewhere/runs")
    assert parsed("--fork abc@1f --set approve=never").edits[0].value == "never"
    assert parsed("--fork abc@1f --set search=mcts").edits[0].value == "mcts"


def test_a_run_may_be_named_by_its_folder() -> None:
    settings = parsed("--resume /somewhere/runs/abc/")
    assert (settings.runs, settings.run) == (Path("/somewhere/runs"), "abc")
    assert parsed("--fork /somewhere/runs/abc@1f").runs == Path("/somewhere/runs")


def test_what_works_on_a_finished_run() -> None:
    asked = parsed("--export abc --format gguf --to out")
    assert (asked.action, asked.run, asked.export_format) == ("export", "abc", "gguf")
    assert asked.destination == Path("out").absolute()
    assert parse(["--ask", "abc", "Why not?"], {"HOME": "/"}).question == "Why not?"
    assert parsed("--serve abc --port 9000").port == 9000
    assert parsed("--reproduce abc").run == "abc"


def test_guards_and_their_margin() -> None:
    task = parsed("--benchmark aiw --guard syllogism,spell_backward --guard-margin 0.1").task()
    assert task.guards == ("syllogism", "spell_backward")
    assert task.guard_margin == 0.1


def test_a_folder_with_a_model_becomes_absolute(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text("{}")
    with contextlib.chdir(tmp_path):
        assert parsed("--benchmark aiw --base-model mine").base_model == str(tmp_path / "mine")


def test_the_environment_is_handed_in() -> None:
    line = ["--benchmark", "aiw"]
    assert parse(line, {"TUNEWRIGHT_CACHE": "/c"}).cache == Path("/c")
    assert parse(line, {"XDG_CACHE_HOME": "/x"}).cache == Path("/x/tunewright")
    assert parse(line, {"CI": "1", "HOME": "/"}).plain
    assert not parse(line, {"NO_COLOR": "1", "HOME": "/"}).colour


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("30m", 1800), ("2h", 7200), ("1h30m", 5400), ("1.5h", 5400), ("1H2M3S", 3723)]
)
def test_durations(text: str, seconds: float) -> None:
    assert duration(text) == seconds


def test_durations_in_words_are_read_back() -> None:
    for seconds in (0.2, 45, 60, 90, 3599, 3600, 5400, 86_400):
        words = in_words(seconds)
        assert seconds < 1 or abs(duration(words) - seconds) < 60, words
    assert [in_words(s) for s in (45, 60, 750, 3599.7, 3900)] == ["45s", "1m", "12m30s", "1h00m", "1h05m"]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("", "no benchmark is named. Give --task FILE.toml, or --benchmark NAME, one of: syllogism"),
        ("--benchmark sylogism", "Did you mean syllogism"),
        ("--benchmark", "--benchmark: expected one argument"),
        ("--benchmark aiw --bugdet 3m", "unknown option --bugdet. Did you mean --budget?"),
        ("--benchmark aiw --bugdet=3m", "Did you mean --budget?"),
        ("--benchmark aiw --budge 3m", "unknown option --budge"),
        ("--benchmark aiw extra", "unknown word extra"),
        ("--benchmark aiw --budget 30", "'30' is no duration. Write 90s, 30m, 2h or 1h30m."),
        ("--benchmark aiw --budget 30m1h", "'30m1h' is no duration"),
        ("--benchmark aiw --budget -5m", "expected one argument"),
        ("--benchmark aiw --budget 0s", "leaves no time"),
        ("--benchmark aiw --budget 90s", "a budget of 1m30s is too small for one trial. Baseline, trial and"),
        ("--benchmark aiw --max-trials 0", "'0' is too small"),
        ("--benchmark aiw --max-trials 2.5", "'2.5' is no whole number"),
        ("--benchmark aiw --seed x", "'x' is no whole number"),
        ("--serve x --port 99999", "'99999' is no port. Write a number from 1 to 65535"),
        ("--benchmark aiw --max-trials 3 --loop-n 4", "--max-trials / --loop-n is given twice and differs"),
        ("--benchmark aiw --base-model smolm2", "Did you mean smollm2?"),
        ("--benchmark aiw --base-model ./nowhere", "there is no model ./nowhere"),
        ("--benchmark aiw --base-model .", "it has no config.json"),
        ("--benchmark aiw --dataset /nowhere.jsonl", "cannot read dataset /nowhere.jsonl: No such file"),
        ("--benchmark aiw --dataset /", "cannot read dataset /: Is a directory"),
        ("--resume abc --benchmark aiw", "--benchmark and --resume exclude each other"),
        ("--resume abc --list", "exclude each other. Give one of them"),
        ("--resume abc --budget 2h", "to change it, write --fork RUN@CHECKPOINT --set"),
        ("--benchmark aiw --set budget=2h", "--set has a meaning only with --fork"),
        ("--fork abc", "names no checkpoint. Write RUN@CHECKPOINT"),
        ("--fork abc@", "names no checkpoint"),
        ("--fork a@b --set budget", "has no value. Write --set key=value"),
        ("--fork a@b --set budget=soon", "'soon' is no duration"),
        ("--fork a@b --set bugdet=2h", "--set knows no key bugdet. Did you mean budget?"),
        ("--fork a@b --set learning_rate=1", "Did you mean plan.learning_rate?"),
        ("--fork a@b --set zzz=1", "It knows budget, max_trials"),
        ("--fork a@b --set plan.epochs=-1", "'-1' is no value for plan.epochs. It should be greater than 0."),
        ("--fork a@b --set plan.learning_rate=inf", "It should be a finite number"),
        ("--fork a@b --set plan.learning_rate=nan", "'nan' is no value"),
        ("--fork a@b --set plan.method=dora", "It should be 'lora', 'qlora' or 'full'"),
        ("--fork a@b --set plan.balance=x", "It should be 'none', 'answer', 'length' or 'difficulty'"),
        ("--benchmark aiw --task mine.toml", "--benchmark and --task exclude each other"),
        ("--benchmark aiw --guard sylogism", "there is no benchmark 'sylogism'. Did you mean syllogism"),
        ("--benchmark aiw --guard aiw", "aiw cannot guard itself"),
        ("--benchmark aiw --guard syllogism,", "'syllogism,' holds an empty name"),
        ("--benchmark aiw --guard syllogism --guard-margin 5", "'5' is no share"),
        ("--benchmark aiw --format gguf", "--format has a meaning only with --export"),
        ("--serve a --to b", "--to has a meaning only with --export"),
        ("--export a --format onnx", "invalid choice: 'onnx'"),
        ("--export a --ask b c", "--export and --ask exclude each other"),
        ("--new-task a.csv --benchmark aiw", "--benchmark and --new-task exclude each other. Give one of them."),
        ("--ask abc", "--ask: expected 2 arguments"),
        ("--answer abc", "--answer: expected 2 arguments"),
        ("--benchmark aiw --approve sometimes", "invalid choice: 'sometimes'"),
        ("--fork a@b --set search=deep", "'deep' is no value for search. It should be greedy, best-first, mcts."),
        ("--fork a@b --set approve=sometimes", "'sometimes' is no value for approve. It should be never, plan"),
        ("--answer nobody yes --run-dir /nowhere", "there is no run nobody"),
        ("--resume nobody --run-dir /nowhere", "there is no run nobody: /nowhere holds none"),
        ("--history nobody --run-dir /nowhere", "there is no run nobody"),
        ("--fork nobody@1 --run-dir /nowhere", "there is no run nobody"),
    ],
)
def test_bad_input_gets_one_clear_line_and_exit_code_2(
    line: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert says in err
    assert err.startswith("tunewright: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b'{"a": 1}\nnope\n', "line 2 is no JSON"),
        (b"[1]\n", "line 1 is no JSON object"),
        (b"", "is empty"),
        (b"\xff\xfe\n", "is no UTF-8 text"),
    ],
)
def test_a_dataset_that_cannot_be_read_is_named_with_its_line(tmp_path: Path, content: bytes, says: str) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_bytes(content)
    with pytest.raises(InputError, match=says):
        parse(["--benchmark", "aiw", "--dataset", str(rows)], HOME)


def test_help_says_what_set_can_change(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    out = capsys.readouterr().out
    for words in ("plan.learning_rate=0.003", "lora_rank", "--loop-n", "130 stopped", "90s, 30m, 2h, 1h30m"):
        assert words in out
