from __future__ import annotations

import tomllib

import pytest

from relation_tf.config import Method, Suite, list_suites, load_suite
from relation_tf.config.families import Family, families_of
from relation_tf.config.suite import drop_other_methods, make_suite, select
from relation_tf.errors import SuiteError, UnknownNameError
from relation_tf.tasks.task import MeasuredTask


@pytest.mark.parametrize("name", list_suites())
def test_suites_of_the_package_are_right(name):
    suite = load_suite(name)
    assert suite.name == name
    assert suite.title
    assert suite.question
    assert len(suite.runs()) == len(suite.tasks) * len(suite.methods()) * len(suite.seeds)


def test_same_suite_from_toml_and_python(tmp_path, suite, monkeypatch):
    made = suite()
    path = tmp_path / "small.toml"
    path.write_text(made.to_toml(), encoding="utf-8")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "None").write_text("", encoding="utf-8")  # of no key
    assert load_suite("~/small.toml") == load_suite(path)
    assert load_suite(path) == load_suite(path, {"published": None}) == made


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
    with pytest.raises(
        SuiteError, match=r"unknown seed 9\. Must be one of 1, 2; change them with --set seeds=N"
    ):
        select(made, seeds=[9])
    with pytest.raises(SuiteError, match="unknown task 'RTE'"):
        select(made, tasks=["RTE"])


def test_a_mechanism_means_all_its_methods(suite):
    methods = [
        Method(mechanism="relation", units=[8, 16]),
        Method(mechanism="relation", name="gated", grid={"use_bias": [True, False]}),
        Method(mechanism="attention", units=8),
    ]
    made = suite(tasks=["CoLA"], method=methods)
    relations = ["relation-8", "relation-16", "gated-use_biastrue", "gated-use_biasfalse"]
    assert made.find_methods("relation") == relations
    assert made.find_methods(["attention", "gated"]) == [*relations[2:], "attention-8"]
    assert made.find_methods(["gated-use_biasfalse", "relation-8"]) == [relations[0], relations[3]]
    assert {run.method for run in select(made, methods="relation")} == {*relations}
    custom = suite(tasks=["CoLA"], method=[Method(mechanism="my_layer:Mine", units=[8, 16])])
    for name in ("Mine", "my_layer:Mine"):
        assert custom.find_methods(name) == ["Mine-8", "Mine-16"]
    fault = r"suite small: unknown method 'relatoin'\. Did you mean 'relation'\? Must be one of "
    with pytest.raises(SuiteError, match=fault):
        select(made, methods=["relatoin"])


def test_table_2_of_the_relation_paper():
    """Its programs: a start token, a fifth of the training rows, no activation, batches of 50."""
    suite = load_suite("relation-table2")
    batches = {config.task: config.batch_size for config in suite.runs()}
    assert batches == {"IMDb": 256, "Reuters": 256, "WikiText-103": 50}
    (config, *_) = suite.runs()
    assert (config.start_token, config.validation_split) == (True, 0.2)
    assert (config.hidden_activation, config.embeddings) == ("linear", "random")
    assert (config.compute, config.network, config.options) == ("all", "benchmark", {})
    assert (config.stopping, config.watched_accuracy) == ("accuracy_reached", "running")
    assert (config.target_accuracy, config.target_epochs) == (0.8, 10)


STARS = {
    "name": "stars",
    "inputs": ["text"],
    "label": "stars",
    "labels": ["1", "5"],
    "files": {"train": "train.csv", "test": "test.csv"},
}


def test_metrics_of_a_sequence_task(suite):
    made = suite(**WRITTEN, overrides={"dates": {"metrics": ["bleu"]}})
    assert [config.metrics for config in made.runs()[:1]] == [["bleu"]]
    assert made.find_task("dates").metrics == ("bleu",)
    assert made.runs()[0].entry == MeasuredTask("dates", ("bleu",))
    assert Suite(**tomllib.loads(made.to_toml())) == made
    assert suite(**WRITTEN).find_task("dates").metrics == ("exact_match",)


def test_custom_task_in_a_suite_file(suite):
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


def test_new_methods_keep_the_overrides_of_tasks(suite):
    """A valid suite may need them: learned positions need a length of each task."""
    overrides = {"CoLA": {"max_length": 20}, "RTE": {"max_length": 30, "margin": 2.0}}
    judged = {"reference": "relation-8", "margin": 1.0, "overrides": overrides, "title": "Old"}
    made = suite(tasks=["CoLA", "RTE"], positions="learned", **judged)
    methods = [{"mechanism": "attention"}]
    asked = load_suite(made, {"method": methods, "reference": "attention-64"})
    assert asked.reference == "attention-64"
    asked = load_suite(made, {"method": methods})
    assert (asked.reference, asked.margin, asked.title) == (None, None, "")
    assert {c.task: c.max_length for c in asked.runs()} == {"CoLA": 20, "RTE": 30}
    assert asked.overrides["RTE"].margin is None
    broken = {**made.model_dump(), "overrides": {"CoLA": 3}}
    drop_other_methods("test", broken, ())
    with pytest.raises(SuiteError, match=r"key 'overrides\.CoLA': "):
        make_suite("test", broken)


def test_a_setting_replaces_the_overrides_of_tasks(suite):
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


GROUP = {"name": "two", "tasks": ["CoLA", "RTE"]}


def test_a_group_is_a_task(tmp_path, suite):
    made = suite(tasks=["two", "STS-B"], group=[GROUP])
    assert len(made.runs()) == 2 * 2 * 2
    assert [task.name for task in made.learned()] == ["CoLA", "RTE", "STS-B"]
    assert {config.task for config in made.runs() if config.group} == {"two"}
    (tmp_path / "suite.toml").write_text(made.to_toml(), encoding="utf-8")
    assert load_suite(tmp_path / "suite.toml") == made


@pytest.mark.parametrize("where", ["options", "grid"])
def test_units_are_no_option_of_a_layer(where):
    """The name of the method would have another width than the layer."""
    value = 3 if where == "options" else [3, 4]
    with pytest.raises(ValueError, match="option 'units' must be left out; set the key 'units'"):
        Method(mechanism="relation", units=64, **{where: {"units": value}})


VALUES = {"name": "x", "tasks": ["CoLA"], "method": [{"mechanism": "relation"}]}
SIZES = {"method": [{"mechanism": name, "units": [8, 9]} for name in ("relation", "fcsr")]}
TWO = {"tasks": ["two"], "group": [GROUP]}
THREE = {"tasks": ["three"], "group": [{"name": "three", "tasks": ["MR", "CR", "SUBJ"]}]}
TIMED = {"tasks": ["decode-128"]}
WRITTEN = {"tasks": ["dates"], "method": [{"mechanism": "gru-encoder-decoder"}],
           "embedding_dim": 100}  # fmt: skip
TUNED = {"tokens": "wordpiece", "pretrained": "DIR", "method": [{"mechanism": "encoder"}]}
OWN = {"tasks": ["stars"]}
INNER = type("Inner", (), {"__qualname__": "f.<locals>.Inner"})


def of(**method):
    """Give a suite one method, by default the contextualizer."""
    return {"method": [{"mechanism": "contextualizer", **method}]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        # keys and values
        ({"stoping": "x"}, "unknown key 'stoping'. Did you mean 'stopping'?"),
        ({"unit": 8}, "unknown key 'unit'. Known: source, tokens, "),
        ({"units": -1}, "unknown key 'units'. Set it in [[method]]."),
        ({"metrics": ["bleu"]}, "unknown key 'metrics'. Set it in [[task]] or [overrides.TASK]."),
        ({"tasks": "CoLA"}, "key 'tasks': must be a list, such as ['CoLA']. Received: 'CoLA'"),
        ({"source": "web"}, "key 'source': unknown data source 'web'. Must be one of auto, files"),
        ({"optimizer_options": {"weight_decay": 0.1}}, "without 'weight_decay'. Set the key"),
        ({"stopping_options": {"patience": 3}}, "without 'patience'. Set the key 'patience'"),
        ({"epochs": "10"}, "key 'epochs': must be an integer. Received: '10'"),
        ({"name": "../x"}, "key 'name'"),
        ({"tasks": ["RTE", "RTE"]}, "'RTE' occurs more than once"),
        ({"tasks": ["MNLI", "MNLI-mm"]}, "'MNLI-mm' more than once, a score of MNLI and MNLI-mm"),
        (OWN | {"task": [STARS], "tasks": ["star"]}, "unknown task 'star'. Did you mean 'stars'?"),
        ({"seeds": [1, 1]}, "1 occurs more than once"),
        ({"seeds": "two"}, "must be a number of seeds (1 or more), or a list of seeds"),
        ({"published": "/dev/zero"}, "published figures '/dev/zero'"),
        # methods
        (of(mechanism="relatoin"), "Did you mean 'relation'?"),
        (of(mechanism=INNER), "an importable class"),
        (of(unit=8), "unknown key 'method.1.unit'. Did you mean 'units'?"),
        (of(options={"rank": 2}, grid={"rank": [3]}), "option 'rank' must not be in both 'op"),
        (of(size="2500M"), "key 'method.1.size': must be a number of parameters below 2^31, such"),
        (of(sized_by="rank"), "'sized_by' needs 'size'; found sized_by = 'rank' without it"),
        (of(size="1M", sized_by="rank", options={"rank": 2}), "'rank' is set, but 'sized_by'"),
        (of(size="1M", units=[8, 16]), "'units' must be one number with 'size'"),
        ({"method": [{"mechanism": "relation"}] * 2}, "two methods are called 'relation-64'"),
        (
            {"method": [{"mechanism": "relation", "name": name} for name in ("Mine", "mine")]},
            "two methods are called 'Mine': give them names that differ in more than case",
        ),
        (
            {"network": "plain", "hidden_activation": "relu"},
            "key 'hidden_activation': must be 'leaky_relu' with network = 'plain', which has no",
        ),
        # a user's own tasks
        (OWN | {"task": [STARS | {"lable": "x"}]}, "key 'task.1.lable'. Did you mean 'label'?"),
        (OWN | {"task": [STARS, STARS]}, "'task': must be a new name. Received: 'stars'"),
        # groups
        (TWO | {"group": [{**GROUP, "tasks": ["CoLA", "RTX"]}]}, "key 'group': unknown task 'RTX'"),
        (TWO | {"group": [{**GROUP, "tasks": ["RTE"]}]}, "or more different tasks. Received: 1"),
        (TWO | {"group": [GROUP, {"name": "all", "tasks": ["two", "WNLI"]}]}, "names of tasks. Re"),
        (TWO | {"tasks": ["two", "RTE"]}, "each task must occur once, alone or in one group, and"),
        # rules between keys
        (TWO | {"xla": True}, "key 'xla': must be false for the group two. Received: True"),
        (TWO | {"group": [GROUP | {"tasks": ["RTE", "WNLI"]}], "stopping": "accuracy_reached"},
         "key 'stopping': must be a rule without required metrics for the group two. Received"),
        (TWO | {"monitor": "val_accuracy"}, "must be 'val_loss' for two"),
        (TWO | {"tasks": ["two", "WNLI"]} | of(sharing="adversarial"),
         "key 'sharing' of method contextualizer-64-adversarial: must be 'shared' for WNLI, whic"),
        (TWO | of(sharing="single-channel"),
         "must be 'shared' or 'shared-private' or 'adversarial' for the group two: a transfer ne"),
        (TWO | of(sharing="adversarial", feature_projection=True),
         "key 'feature_projection' of method contextualizer-64-adversarial-projected: must be"),
        ({"tasks": ["decode-128"]} | of(learning_rate=0.1),
         "key 'learning_rate' of method contextualizer-64: must be 0.001 for decode-128, which is"),
        ({"tokens": "text"}, "key 'tokens': must be 'word' or 'wordpiece'. Received: 'text'"),
        ({"overrides": {"RTE": {"epochs": 7}}}, "must be a task of the suite: CoLA. Received: 'R"),
        ({"overrides": {"CoLA": {"epoch": 7}}}, "'overrides.CoLA.epoch'. Did you mean 'epochs'?"),
        ({"reference": "relation-46"}, "Did you mean 'relation-64'?"),
        ({"margin": 1.0}, "'margin': must not be set in a suite without 'reference' or 'control'."),
        ({"reference": "relation-64", "overrides": {"CoLA": {"margin": 2.0}}},
         "key 'margin': must not be set in the overrides of a suite without 'margin'. Received: 2"),
        (SIZES | {"families": "unit"}, "Received: 'unit'. Did you mean 'units'?"),
        (SIZES | {"families": "mechanism", "method": [SIZES["method"][0], {"mechanism": "fcsr"}]},
         "two or more methods in each family. Received: only fcsr-64 in mechanism fcsr"),
        (SIZES | {"families": [["relation-8", "fcsr-8"], ["relation-9"]]},
         "must have each method in one list. Missing: 'fcsr-9'"),
        (SIZES | {"families": [["relation-8", "fcsr-8", "relation"], ["relation-9"]]},
         "key 'families': must be lists of methods: relation-8, relation-9, fcsr-8, fcsr-9. Rec"),
        (SIZES | {"families": "units", "reference": "fcrs"},
         "key 'reference': must be a method of each family, or the mechanism of one. Received: "
         "'fcrs', not in units 8. Did you mean 'fcsr'?"),
        ({"lower_bound": "relation-46"}, "key 'lower_bound': must be a method of the suite: rela"),
        (SIZES | {"lower_bound": "fcsr-9", "reference": "fcsr-9"},
         "key 'reference': must be a method of the suite: relation-8, relation-9, fcsr-8. Rec"),
        ({"test": "steel"}, "'control': must be a method of the suite with test = 'steel', which"),
        ({"test": "steel-dwass", "control": "relation-64"}, "'control': must not be set with test"),
        ({"test": "friedman-nemenyi"}, "key 'test': must be a test over seeds. Received: 'fried"),
        ({"tasks": ["decode-128", "CoLA"]}, "must be timed tasks of one kind only, such as deco"),
        (TIMED | {"save_models": True}, "key 'save_models': must be false for decode-128"),
        (TIMED | {"group": [{"name": "g", "tasks": ["decode-128", "decode-512"]}], "tasks": ["g"]},
         "key 'group': must not be set for decode-128"),
        ({"tasks": ["dates"]}, "of method relation-64: must be an encoder-decoder for dates. Rec"),
        (of(mechanism="gru-encoder-decoder"), "other than an encoder-decoder for CoLA. Rec"),
        (WRITTEN | {"group": [{"name": "g", "tasks": ["reversal", "dates"]}], "tasks": ["g"]},
         "key 'group': must not be set for reversal"),
        ({"positions": "learned"}, "key 'max_length': must be set for CoLA with positions = 'lear"),
        ({"vary": []}, "key 'vary': must be one or more of 'init', 'order' and 'split', without "),
        ({"vary": ["split"]}, "key 'vary': must be 'init' or 'order' for CoLA, whose validation "),
        (TUNED | {"tokens": "word"}, "key 'tokens': must be 'wordpiece' with 'pretrained'"),
        (TUNED | of(encoder_weights="pretrained"), "for a mechanism that cannot start from"),
        (of(encoder_weights="frozen"), "must be 'random' or not set in a suite without 'pretraine"),
        ({"tasks": ["STS-B"]} | of(feature_projection=True),
         "-projected: must be false for STS-B, which has no classes. Received: True"),
        (THREE | of(sharing="bi-channel") | {"sweep": {"dropout": [0.1, 0.2]}},
         "key 'sweep': must not be set with sharing = 'bi-channel', whose runs train several"),
        (TUNED | of(mechanism="encoder", size=9), "with encoder_weights = 'pretrained', because"),
        ({"stopping": "accuracy_reached"}, "with the metric 'accuracy' for stopping = 'accuracy_r"),
        ({"source": "miniglue", "tasks": ["MR"]}, "with source = 'miniglue'. Received: 'MR'"),
        ({"optimizer_options": {"a": None}}, "key 'optimizer_options': must be values that TOML"),
        (of(mechanism="my_module:_Layer"), "method '_Layer-64' cannot be a folder name"),
        (OWN | {"task": STARS}, "key 'task': must be [[task]] tables, in double brackets"),
        (SIZES | {"families": 3}, "key 'families': must be a key, such as 'units', or lists of"),
    ],
)  # fmt: skip
def test_fault_names_key_value_and_allowed_values(changes, message):
    with pytest.raises(SuiteError) as error:
        make_suite("here", VALUES | changes)
    assert message in str(error.value)
    assert str(error.value).startswith("here: ")
    assert "\n" not in str(error.value)


def test_a_method_has_its_own_learning_rate(suite, tmp_path):
    own = {"learning_rate": 0.01, "learning_rate_schedule": "fcsr", "weight_decay": 1e-4}
    made = suite(method=[{"mechanism": "cnn"}, {"mechanism": "fcsr", **own}], learning_rate=0.5)
    found = {config.method: {key: getattr(config, key) for key in own} for config in made.runs()}
    assert found["fcsr-64"] == own
    assert found["cnn-64"] == {
        "learning_rate": 0.5, "learning_rate_schedule": "constant", "weight_decay": None,
    }  # fmt: skip
    (tmp_path / "suite.toml").write_text(made.to_toml(), encoding="utf-8")
    assert load_suite(tmp_path / "suite.toml") == made


OWN_TOKENS = [
    {"mechanism": "relation"},
    {"mechanism": "dan", "tokens": "word"},
    {"mechanism": "dan", "name": "few", "tokens": "word", "vocabulary_size": 9},
]
PIECES = {"tokens": "wordpiece", "vocabulary_size": 90, "max_length": 7, "embeddings": "glove",
          "start_token": True, "overrides": {"CoLA": {"vocabulary_size": 80}}}  # fmt: skip


def test_a_method_has_its_own_tokens():
    made = make_suite("here", VALUES | PIECES | {"seeds": 1, "method": OWN_TOKENS})
    keys = ("tokens", "vocabulary_size", "max_length", "embeddings", "start_token")
    assert {run.method: tuple(getattr(run, key) for key in keys) for run in made.runs()} == {
        "relation-64": ("wordpiece", 80, 7, "glove", True),
        "dan-64-word": ("word", None, 7, "glove", True),
        "few": ("word", 9, 7, "glove", True),
    }
    assert Suite.model_validate(tomllib.loads(made.to_toml())) == made
    alone = make_suite("here", VALUES | PIECES | {"seeds": 1})
    assert alone.runs() == made.runs()[:1]
    random = {"mechanism": "dan", "embeddings": "random"}
    assert (
        make_suite("here", VALUES | {"embeddings": "glove", "method": [random]}).runs()[0].method
        == "dan-64-random"
    )


def test_what_seeds_change_is_part_of_each_run():
    suite = make_suite("here", VALUES | {"vary": ["order", "init"], "seeds": [4]})
    assert suite.runs()[0].vary == suite.vary == ["init", "order"]
    own = make_suite("here", VALUES | {"vary": ["split", "order"], "validation_split": 0.1})
    run = own.runs()[1]
    assert [run.seed_of(source) for source in ("init", "order", "split")] == [1, 2, 2]
    assert run.reading()["split_seed"] == 2
    assert "split_seed" not in suite.runs()[0].reading()
    alone = {"overrides": {"CoLA": {"validation_split": 0.2}}, "vary": ["split"]}
    assert make_suite("here", VALUES | alone).vary == ["split"]


def test_a_margin_is_no_setting_of_a_run():
    """Changing the reference or a margin must not void trained runs."""
    judged = {"reference": "relation-64", "margin": 1.0, "overrides": {"CoLA": {"margin": 2.0}}}
    made = make_suite("here", VALUES | judged)
    assert made.runs() == make_suite("here", VALUES).runs()
    assert (made.setting("CoLA", "margin"), made.margin) == (2.0, 1.0)
    assert Suite.model_validate(tomllib.loads(made.to_toml())) == made


def test_families():
    """A family for each value of a key, with a reference in each."""
    made = make_suite("here", VALUES | SIZES | {"families": "units", "reference": "fcsr"})
    assert families_of(made) == [
        Family("units 8", ["relation-8", "fcsr-8"], reference="fcsr-8"),
        Family("units 9", ["relation-9", "fcsr-9"], reference="fcsr-9"),
    ]
    lists = [["relation-8", "fcsr-9"], ["fcsr-8", "relation-9"]]
    made = make_suite("here", VALUES | SIZES | {"families": lists, "control": "relation"})
    assert families_of(made) == [
        Family("family 1", lists[0], control="relation-8"),
        Family("family 2", lists[1], control="relation-9"),
    ]
    assert made.runs() == make_suite("here", VALUES | SIZES).runs()
    assert Suite.model_validate(tomllib.loads(made.to_toml())) == made
    assert families_of(make_suite("here", VALUES | SIZES)) == []


def test_a_lower_bound_is_in_no_family():
    bound = {"lower_bound": "fcsr-9", "reference": "relation-8"}
    made = make_suite("here", VALUES | SIZES | bound)
    assert families_of(made) == [
        Family("", ["relation-8", "relation-9", "fcsr-8"], reference="relation-8")
    ]
    assert made.runs() == make_suite("here", VALUES | SIZES).runs()
    others = load_suite(made, {"method": [{"mechanism": "relation", "units": [8, 9]}]})
    assert (others.lower_bound, others.reference) == (None, "relation-8")
