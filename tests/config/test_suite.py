from __future__ import annotations

import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relation_tf.config import Method, Suite, list_suites, load_suite
from relation_tf.config.loading import make_suite, select
from relation_tf.config.run import higher_is_better
from relation_tf.errors import SuiteError, UnknownNameError
from relation_tf.tasks import find_task


@pytest.mark.parametrize("name", list_suites())
def test_suites_of_the_package_are_right(name):
    suite = load_suite(name)
    assert suite.name == name
    assert suite.title
    assert suite.question
    assert len(suite.runs()) == len(suite.tasks) * len(suite.methods()) * len(suite.seeds)


def test_table_1_of_the_relation_paper():
    suite = load_suite("glue")
    assert [method.name for method in suite.methods()][:4] == [
        "attention-64", "attention-128", "attention-256", "linear-attention-64",
    ]  # fmt: skip
    assert len(suite.runs()) == 9 * 12 * 5


def test_same_suite_from_toml_and_python(tmp_path, suite):
    made = suite()
    path = tmp_path / "small.toml"
    path.write_text(made.to_toml(), encoding="utf-8")
    assert load_suite(path) == made


def test_a_class_is_a_method():
    from relation_tf.layers import Relation

    assert Method(mechanism=Relation).mechanism == "relation_tf.layers.relation:Relation"
    assert Method(mechanism=Relation).expand()[0].name == "Relation-64"


def test_named_method_keeps_its_name():
    assert [m.name for m in Method(mechanism="relation", name="mine").expand()] == ["mine"]
    assert [m.name for m in Method(mechanism="relation", name="mine", units=[8, 16]).expand()] == [
        "mine-8", "mine-16",
    ]  # fmt: skip


def names(**method):
    return [m.name for m in Method(**method).expand()]


def test_a_grid_makes_a_method_of_each_combination():
    grid = {"num_steps": [1, 5], "initial_context": ["ones", "uniform"]}
    method = Method(mechanism="contextualizer", options={"rank": 8}, grid=grid)
    assert [m.name for m in method.expand()] == [
        "contextualizer-k1-ones", "contextualizer-k1-uniform",
        "contextualizer-k5-ones", "contextualizer-k5-uniform",
    ]  # fmt: skip
    assert method.expand()[1].options == {"rank": 8, "num_steps": 1, "initial_context": "uniform"}
    assert names(mechanism="transformer", grid={"num_heads": [2], "num_layers": [1, 4]}) == [
        "transformer-heads2-layers1", "transformer-heads2-layers4",
    ]  # fmt: skip
    assert names(mechanism="cnn", units=[8, 9], grid={"widths": [[3], [3, 5]]}) == [
        "cnn-8-widths3", "cnn-8-widths3x5", "cnn-9-widths3", "cnn-9-widths3x5",
    ]  # fmt: skip


def test_sizes_make_methods():
    method = Method(mechanism="contextualizer", size=["0.5M", "1.5M", 60_000], sized_by="rank")
    assert [m.size for m in method.expand()] == [500_000, 1_500_000, 60_000]
    assert [m.name for m in method.expand()] == [
        "contextualizer-0.5M", "contextualizer-1.5M", "contextualizer-60K",
    ]  # fmt: skip
    assert names(mechanism="relation", size=500_000, name="mine") == ["mine"]


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ({"options": {"rank": 2}, "grid": {"rank": [3]}}, "option 'rank' is in 'options' and in"),
        ({"sized_by": "rank"}, "'sized_by' is for a 'size'; found sized_by = 'rank' and none"),
        ({"size": "1M", "sized_by": "rank", "options": {"rank": 2}},
         "option 'rank' is set and left free for the size as well"),
        ({"size": "many"}, "key 'method.1.size"),
        ({"size": 0}, "key 'method.1.size"),
        ({"grid": {"rank": []}}, "key 'method.1.grid.rank'"),
    ],
)  # fmt: skip
def test_grids_and_sizes_that_cannot_be(method, message):
    values = {"name": "x", "tasks": ["MR"], "method": [{"mechanism": "contextualizer", **method}]}
    with pytest.raises(SuiteError, match=message):
        make_suite("here", values)


def test_text_is_for_saved_models_alone():
    values = {"name": "x", "tasks": ["MR"]}
    with pytest.raises(SuiteError, match="expected 'word' or 'wordpiece' for method relation-64"):
        make_suite("here", values | {"tokens": "text", "method": [{"mechanism": "relation"}]})
    saved = {"mechanism": "saved-model:use", "name": "use"}
    with pytest.raises(SuiteError, match=r"expected 'text' for method use\. Received: 'word'"):
        make_suite("here", values | {"method": [saved]})
    text = values | {"tokens": "text", "method": [saved]}
    assert make_suite("here", text).tokens == "text"
    with pytest.raises(SuiteError, match=r"key 'xla' has no meaning .* Received: True"):
        make_suite("here", text | {"xla": True})


def test_an_unknown_task_is_named():
    with pytest.raises(SuiteError, match=r"unknown task 'MRR'.* Did you mean 'MR'"):
        make_suite("here", {"name": "x", "tasks": ["MRR"], "method": [{"mechanism": "relation"}]})


def test_figures_that_are_not_there():
    values = {"name": "x", "tasks": ["MR"], "method": [{"mechanism": "relation"}]}
    with pytest.raises(SuiteError, match="published figures 'nowhere': no such name or file"):
        make_suite("here", values | {"published": "nowhere"})


@given(
    seeds=st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=4, unique=True),
    units=st.lists(st.integers(1, 999), min_size=1, max_size=4, unique=True),
    tasks=st.lists(st.sampled_from(["CoLA", "RTE", "MNLI"]), min_size=1, unique=True),
)
@settings(max_examples=40, deadline=None)
def test_runs_are_the_grid_each_once(seeds, units, tasks):
    method = Method(mechanism="relation", units=units)
    suite = Suite(name="grid", tasks=tasks, seeds=seeds, method=[method])
    keys = [run.key for run in suite.runs()]
    assert len(set(keys)) == len(keys) == len(seeds) * len(units) * len(tasks)
    assert Suite.model_validate(tomllib.loads(suite.to_toml())) == suite


def test_seeds_may_be_a_number():
    assert Suite(name="x", tasks=["RTE"], seeds=3, method=[{"mechanism": "relation"}]).seeds == [
        1, 2, 3,
    ]  # fmt: skip


METHOD = '[[method]]\nmechanism = "relation"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name = [", "not TOML"),
        ('name = "x"\ntasks = ["RTE"]\n', "key 'method' is missing"),
        (f'name = "x"\ntasks = ["RTE"]\nstoping = "best"\n{METHOD}',
         "unknown key 'stoping'. Did you mean 'stopping'?"),
        (f'name = "x"\ntasks = ["RTE"]\nstopping = "worst"\n{METHOD}',
         "key 'stopping': expected 'smoothed_early_stopping', 'early_stopping' or"),
        (f'name = "x"\ntasks = ["RTE"]\nepochs = "10"\n{METHOD}', "key 'epochs': expected"),
        (f'name = "x"\ntasks = ["RTE"]\nepochs = 0\n{METHOD}', "Received: 0"),
        (f'name = "x"\ntasks = ["RTE", "RTE"]\n{METHOD}', "found 'RTE' more than once"),
        (f'name = "x"\ntasks = ["RTE"]\nseeds = [1, 1]\n{METHOD}', "found 1 more than once"),
        (f'name = "x"\ntasks = []\n{METHOD}', "key 'tasks'"),
        (f'name = "../x"\ntasks = ["RTE"]\n{METHOD}', "key 'name'"),
        (f'name = "x"\ntasks = ["RTE"]\nmonitor = "loss"\n{METHOD}', "key 'monitor'"),
        (f'name = "x"\ntasks = ["RTE"]\n{METHOD}{METHOD}', "two methods are called 'relation-64'"),
        ('name = "x"\ntasks = ["RTE"]\n[[method]]\nmechanism = "relatoin"\n',
         "Did you mean 'relation'?"),
        ('name = "x"\ntasks = ["RTE"]\n[[method]]\nmechanism = "relation"\nunit = 8\n',
         "unknown key 'method.1.unit'. Did you mean 'units'?"),
    ],
)  # fmt: skip
def test_an_error_names_the_key_the_value_and_what_is_allowed(tmp_path, text, message):
    path = tmp_path / "suite.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SuiteError) as error:
        load_suite(path)
    assert message in str(error.value)
    assert str(error.value).startswith(str(path))


@pytest.mark.parametrize(
    ("monitor", "task", "higher"),
    [("val_loss", "CoLA", False), ("val_matthews", "CoLA", True), ("val_accuracy", "MNLI", True)],
)
def test_monitor(monitor, task, higher):
    assert higher_is_better(monitor, task, find_task(task).metrics) is higher


def test_a_monitor_that_a_task_does_not_have_is_refused_before_the_first_run():
    with pytest.raises(SuiteError, match=r"'val_accuracy' for RTE\. Received: 'val_f1'"):
        load_suite("demo", {"tasks": ["MRPC", "RTE"], "monitor": "val_f1"})


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ({"mechanism": "my_module:_Layer"}, "method '_Layer-64' makes no folder name"),
        ({"mechanism": "relation", "options": {"seed": None}}, "values that TOML can hold"),
        ({"mechanism": type("Inner", (), {"__qualname__": "f.<locals>.Inner"})}, "be imported"),
    ],
)
def test_methods_that_cannot_be(method, message):
    with pytest.raises(SuiteError, match=message):
        load_suite("demo", {"method": [method]})


def test_unknown_suite_names_the_nearest():
    with pytest.raises(UnknownNameError, match=r"unknown suite 'dmeo'.*Did you mean 'demo'"):
        load_suite("dmeo")
    with pytest.raises(SuiteError, match="cannot be read"):
        load_suite("nowhere.toml")


def test_select(suite):
    made = suite()
    assert len(select(made)) == 12
    assert {run.key for run in select(made, ["MNLI"], ["relation-8"], [2])} == {
        ("MNLI", "relation-8", 2)
    }
    assert select(made, "MNLI", "relation-8", 2) == select(made, ["MNLI"], ["relation-8"], [2])
    with pytest.raises(SuiteError, match="unknown seed 9: expected one of 1, 2; --set seeds=N"):
        select(made, seeds=[9])
    with pytest.raises(SuiteError, match="unknown task 'RTE'"):
        select(made, tasks=["RTE"])


SAVED = [{"name": "saved", "mechanism": "saved-model:x"}]


def test_table_2_of_the_relation_paper():
    """Its programs: a start token, a fifth of the training rows, no activation, batches of 50."""
    suite = load_suite("relation-table2")
    batches = {config.task: config.batch_size for config in suite.runs()}
    assert batches == {"IMDb": 256, "Reuters": 256, "WikiText-103": 50}
    (config, *_) = suite.runs()
    assert (config.start_token, config.validation_split) == (True, 0.2)
    assert (config.hidden_activation, config.embeddings) == ("linear", "random")
    assert (config.stopping, config.watched_accuracy) == ("accuracy_reached", "validation")
    assert (config.target_accuracy, config.target_epochs) == (0.8, 10)


def test_some_tasks_are_trained_otherwise(suite):
    made = suite(tasks=["CoLA", "RTE"], overrides={"RTE": {"epochs": 7, "max_length": 20}})
    assert {c.task: (c.epochs, c.max_length) for c in made.runs()} == {
        "CoLA": (made.epochs, None),
        "RTE": (7, 20),
    }
    assert tomllib.loads(made.to_toml())["overrides"] == {"RTE": {"epochs": 7, "max_length": 20}}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"overrides": {"RTE": {"epochs": 7}}}, "expected a task of the suite, CoLA. Received: 'R"),
        ({"overrides": {"CoLA": {"epoch": 7}}}, "'overrides.CoLA.epoch'. Did you mean 'epochs'?"),
        (
            {"tokens": "text", "overrides": {"CoLA": {"vocabulary_size": 7}}, "method": SAVED},
            "'vocabulary_size' has no meaning",
        ),
        ({"stopping": "accuracy_reached"}, "for tasks with an accuracy. Received: 'CoLA'"),
        ({"source": "web"}, "'source'"),
        ({"time_limit": 0.0}, "'time_limit'"),
    ],
)
def test_training_that_cannot_be(suite, changes, message):
    with pytest.raises(SuiteError) as error:
        make_suite("test", {**suite(tasks=["CoLA"]).model_dump(), **changes})
    assert message in str(error.value)


STARS = {
    "name": "stars",
    "inputs": ["text"],
    "label": "stars",
    "labels": ["1", "5"],
    "files": {"train": "train.csv", "test": "test.csv"},
}


def test_a_task_of_ones_own(suite):
    made = make_suite("test", {**suite().model_dump(), "task": [STARS], "tasks": ["stars", "RTE"]})
    assert made.find_task("stars").labels == ("1", "5")
    assert made.find_task("RTE").labels == ("entailment", "not_entailment")
    assert {c.task: c.custom_task and c.custom_task.name for c in made.runs()} == {
        "stars": "stars",
        "RTE": None,
    }
    assert Suite.model_validate(tomllib.loads(made.to_toml())) == made
    with pytest.raises(SuiteError, match="unknown task 'stars'"):
        make_suite("test", {**suite().model_dump(), "tasks": ["stars"]})


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ([STARS | {"lable": "x"}], "unknown key 'task.1.lable'. Did you mean 'label'?"),
        ([STARS | {"labels": ["1"]}], "key 'task.1': labels: expected two or more, each once"),
        ([STARS, STARS], "expected names that are free, found 'stars' twice or the package's"),
        ([STARS | {"name": "MNLI-m"}], "found 'MNLI-m' twice or the package's"),
        (STARS, "key 'task': expected [[task]] tables, in double brackets"),
    ],
)
def test_tasks_of_ones_own_that_cannot_be(suite, task, message):
    with pytest.raises(SuiteError) as error:
        make_suite("test", {**suite().model_dump(), "task": task, "tasks": ["stars"]})
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert "STS-B" not in str(error.value)


def test_what_is_set_holds_for_single_tasks_too(suite):
    made = suite(tasks=["CoLA", "RTE"], overrides={"RTE": {"epochs": 7, "max_length": 20}})
    asked = load_suite(made, {"epochs": 2})
    assert {c.task: (c.epochs, c.max_length) for c in asked.runs()} == {
        "CoLA": (2, None),
        "RTE": (2, 20),
    }
    asked = load_suite("relation-table2-small", {"epochs": 2})
    assert {config.epochs for config in asked.runs()} == {2}
    asked = load_suite("relation-table2-small", {"overrides": {"Reuters": {"epochs": 9}}})
    assert {config.task: config.epochs for config in asked.runs()}["Reuters"] == 9


@pytest.mark.parametrize("seeds", ["two", 0, []])
def test_seeds_are_a_number_or_a_list(suite, seeds):
    with pytest.raises(SuiteError, match="expected a number of seeds, one or more, or a list of"):
        make_suite("test", {**suite().model_dump(), "seeds": seeds})


GROUP = {"name": "two", "tasks": ["CoLA", "RTE"]}


def test_a_group_is_a_task(tmp_path, suite):
    made = suite(tasks=["two", "STS-B"], group=[GROUP])
    assert len(made.runs()) == 2 * 2 * 2
    assert [task.name for task in made.learned()] == ["CoLA", "RTE", "STS-B"]
    assert {config.task for config in made.runs() if config.group} == {"two"}
    (tmp_path / "suite.toml").write_text(made.to_toml(), encoding="utf-8")
    assert load_suite(tmp_path / "suite.toml") == made


def test_what_is_shared_names_a_method(suite):
    relation = {"mechanism": "relation", "units": 8}
    made = suite(tasks=["two"], group=[GROUP],
                 method=[relation, {**relation, "sharing": "adversarial"}])  # fmt: skip
    assert [method.name for method in made.methods()] == ["relation-8", "relation-8-adversarial"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"group": [{**GROUP, "name": "CoLA"}]}, "key 'group': expected a name that is free"),
        ({"group": [GROUP, GROUP]}, "key 'group': expected a name that is free"),
        ({"group": [{**GROUP, "tasks": ["CoLA", "RTX"]}]}, "key 'group': unknown task 'RTX'"),
        ({"group": [GROUP, {"name": "all", "tasks": ["two", "WNLI"]}]}, "expected names of tasks"),
        ({"tasks": ["two", "RTE"]}, "alone or in one group, .* Received: 'RTE' more than once"),
        ({"xla": True}, "key 'xla': expected false for the group two. Received: True"),
        ({"group": [{**GROUP, "name": "MNLI-m"}]}, "key 'group': expected a name that is free"),
        ({"group": [{**GROUP, "tasks": ["RTE"]}]}, "two tasks or more, each once, found 1"),
        (
            {"layout": {"rows": ["method"], "columns": ["mechanism"]}},
            "key 'layout': expected a cell of its own for each method and task, found 2",
        ),
        (
            {"group": [{"name": "two", "tasks": ["RTE", "WNLI"]}], "stopping": "accuracy_reached"},
            "key 'stopping': expected 'smoothed_early_stopping' or 'early_stopping' for the group",
        ),
        ({"monitor": "val_accuracy"}, "expected 'val_loss' for two"),
        ({"method": [{"mechanism": "relation", "size": 500}]}, "key 'size' of method relation"),
        (
            {"tasks": ["two", "WNLI"],
             "method": [{"mechanism": "relation", "sharing": "adversarial"}]},
            "key 'sharing' of method relation-64-adversarial: WNLI is no group",
        ),
        ({"tasks": ["tow"]}, "unknown task 'tow'"),
    ],
)  # fmt: skip
def test_a_group_that_cannot_be(changes, message):
    values = {"name": "x", "tasks": ["two"], "group": [GROUP],
              "method": [{"mechanism": "relation"}], **changes}  # fmt: skip
    with pytest.raises(SuiteError, match=message):
        make_suite("suite", values)
