"""Tables in the layouts and file formats that people have."""

from __future__ import annotations

import json
import math
import re
import shlex
import sys
import zipfile

import pandas as pd
import pytest

from relation_tf.errors import DataError
from relation_tf.report import compare
from relation_tf.report.table_files import read_table_file
from relation_tf.report.table_layouts import Layout, parsed, understand

LONG = "task,method,seed,score\nA,x,1,.5\nA,x,2,.6\nA,y,1,.7\nA,y,2,.8\n"


def read(tmp_path, text, columns=None, metric=None, name="t.csv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return understand(read_table_file(path), name, columns or {}, metric)


def scores(long):
    """Return the scores by task, method and seed."""
    rows = zip(long.rows["task"], long.rows["method"], long.rows["seed"], long.rows["score"],
               strict=True)  # fmt: skip
    return {(task, method, str(seed)): str(score) for task, method, seed, score in rows}


def expected_layout(tasks, number, columns, wide="", *without, replicate="seed"):
    names = tuple(filter(None, columns.split(", ")))
    return Layout(tasks, 2, number, replicate, names, wide, without)


@pytest.mark.parametrize(("text", "layout"), [
    (LONG, ["task, method, seed, score", ""]),
    ("dataset,model,run,accuracy\nA,x,1,.5\nA,x,2,.6\nA,y,1,.7\nA,y,2,.8\n",
     ["dataset, model, run, accuracy", ""]),
    ("Env\tAlgorithm\tTrial\tReturn\nA\tx\t1\t.5\nA\tx\t2\t.6\nA\ty\t1\t.7\nA\ty\t2\t.8\n",
     ["Env, Algorithm, Trial, Return", ""]),
    ("Data Set;System;Value\nA;x;0,5\nA;x;0,6\nA;y;0,7\nA;y;0,8\n",
     ["Data Set, System, Value", ""]),
    ("dataset,model,seed1,seed2\nA,x,.5,.6\nA,y,.7,.8\n",
     ["dataset, model", "seeds"]),
    ("game,agent,1,2\nA,x,.5,.6\nA,y,.7,.8\n",
     ["game, agent", "seeds"]),
    ("task,seed,x,y\nA,1,.5,.7\nA,2,.6,.8\n",
     ["task, seed", "methods"]),
    ("problem,x,y\nA,.5,.7\nA,.6,.8\n",
     ["problem", "methods"]),
    ("env_id,algo,seed1,seed2,mean,std\nA,x,.5,.6,.55,.05\nA,y,.7,.8,.75,.05\n",
     ["env_id, algo", "seeds", "mean", "std"]),
    ("dataset,model_name,batch_size,num_epochs,train_time,eval_score\n"
     "A,x,32,3,9.5,.5\nA,x,32,3,9.6,.6\nA,y,64,3,9.7,.7\nA,y,64,3,9.8,.8\n",
     ["dataset, model_name, eval_score", ""]),
    ('dataset, model, random_state, acc\nA, "x", 1, .5\nA, "x", 2, .6\nA, "y", 1, .7\n'
     'A, "y", 2, .8\n', ["dataset, model, random_state, acc", ""]),
    ("model,x,x,y,y\nrun,1,2,1,2\ntask,,,,\nA,.5,.6,.7,.8\n",  # columns of DataFrame.pivot
     ["task, model, run, value", ""]),
    ("| task | x | y |\n|:--|--:|--:|\n| A | .5 | **.7** |\n| A | .6 | **.8**† |\n",
     ["task", "methods"]),
])  # fmt: skip
def test_seeds_of_methods(tmp_path, text, layout):
    long = read(tmp_path, text)
    assert long.layout[:7] == expected_layout(1, (2, 2), *layout)[:7]
    found = {key: parsed(x) for key, x in scores(long).items()}
    assert found == {("A", "x", "1"): 0.5, ("A", "x", "2"): 0.6,
                     ("A", "y", "1"): 0.7, ("A", "y", "2"): 0.8}  # fmt: skip


@pytest.mark.parametrize(("text", "how"), [
    ("dataset,svm,knn\niris,.9,.7\nwine,.8,.6\n", ["dataset", "methods"]),
    (",dataset,svm,knn\n0,iris,.9,.7\n1,wine,.8,.6\n", ["dataset", "methods"]),
    ("classifier,iris,wine\nsvm,.9,.8\nknn,.7,.6\n", ["classifier", "tasks"]),
    ("model,dataset,acc\nsvm,iris,.9\nsvm,wine,.8\nknn,iris,.7\nknn,wine,.6\n",
     ["dataset, model, acc", ""]),
    ("dataset,svm,knn\niris,.9,.7\nwine,.8,.6\nAverage,.85,.65\n",
     ["dataset", "methods", "Average"]),
    ("classifier,iris,wine,Avg.\nsvm,.9,.8,.85\nknn,.7,.6,.65\n",
     ["classifier", "tasks", "Avg."]),
])  # fmt: skip
def test_one_score_for_each_dataset(tmp_path, text, how):
    long = read(tmp_path, text)
    assert long.layout[:7] == expected_layout(2, (1, 1), *how)[:7]
    assert scores(long) == {("iris", "svm", "1"): ".9", ("wine", "svm", "1"): ".8",
                            ("iris", "knn", "1"): ".7", ("wine", "knn", "1"): ".6"}  # fmt: skip


def test_names_of_known_tasks_say_what_rows_are(tmp_path):
    assert read(tmp_path, "Name,CoLA,SST-2\nmlp,1,8\nrel,2,9\n").layout.wide == "tasks"
    assert read(tmp_path, "Name,mlp,rel\nCoLA,1,2\nSST-2,8,9\n").layout.wide == "methods"


def test_exports_of_trackers(tmp_path):
    """Settings, times and the state of a run are no scores; a failed run has none."""
    wandb = (
        "Name,State,Runtime,Created,model,dataset,seed,lr,accuracy,_step\n"
        "r1,finished,10,2024,mlp,A,1,0.1,.5,3\nr2,finished,10,2024,mlp,A,2,0.1,.6,3\n"
        "r3,crashed,10,2024,rel,A,1,0.1,.1,3\nr4,finished,10,2024,rel,A,2,0.1,.8,3\n"
    )
    found = scores(read(tmp_path, wandb))
    assert found == {("A", "mlp", "1"): ".5", ("A", "mlp", "2"): ".6",
                     ("A", "rel", "1"): "nan", ("A", "rel", "2"): ".8"}  # fmt: skip
    mlflow = (
        "run_id,status,params.model,params.dataset,params.seed,params.lr,metrics.acc,metrics.loss\n"
        "a,FINISHED,mlp,A,1,.1,.5,.2\nb,FINISHED,rel,A,1,.1,.7,.2\n"
    )
    assert scores(read(tmp_path, mlflow, metric="acc")) == {
        ("A", "mlp", "1"): ".5", ("A", "rel", "1"): ".7",
    }  # fmt: skip
    with pytest.raises(DataError, match="choose one: --metric acc or --metric loss"):
        read(tmp_path, mlflow)
    # The only setting that differs between runs is the method.
    optimizers = mlflow.replace("params.model", "params.optimizer").replace(".loss", ".train_time")
    optimizers += "c,FINISHED,rel,A,2,.1,.8,.2\n"
    assert scores(read(tmp_path, optimizers))["A", "rel", "2"] == ".8"
    with pytest.raises(DataError, match=r"method=params\.lr or method=params\.depth"):
        read(tmp_path, "params.lr,params.depth,metrics.acc\n1,1,.5\n1,2,.6\n2,1,.7\n2,2,.8\n")


def test_export_of_the_api_of_wandb(tmp_path):
    runs = [(name, {"acc": acc, "_step": 9, "lost": math.nan}, {"model": name[0], "lr": 0.1})
            for name, acc in (("x1", 0.5), ("x2", 0.6), ("y1", 0.7), ("y2", 0.8))]  # fmt: skip
    text = pd.DataFrame(runs, columns=["name", "summary", "config"]).to_csv()
    long = read(tmp_path, text)
    assert long.layout[:7] == expected_layout(1, (2, 2), "config.model, summary.acc")[:7]
    assert scores(long)["acc", "y", "2"] == "0.8"


def test_results_of_a_search_of_scikit_learn(tmp_path):
    found = {"mean_fit_time": [0.1, 0.1], "param_C": [1, 9], "params": [{"C": 1}, {"C": 9}],
             "split0_test_f1": [0.5, 0.6], "split1_test_f1": [0.7, 0.8], "mean_test_f1": [0.6, 0.7],
             "split0_test_acc": [0.1, 0.2], "split1_test_acc": [0.3, 0.4],
             "rank_test_f1": [2, 1]}  # fmt: skip
    long = read(tmp_path, pd.DataFrame(found).to_csv(), metric="f1")
    columns = "params, fold, score, metric"
    assert long.layout[:7] == expected_layout(1, (2, 2), columns, replicate="fold")[:7]
    assert [*long.rows["score"]] == ["0.5", "0.6", "0.7", "0.8"]
    assert [*long.rows["seed"]] == ["0", "0", "1", "1"]


def test_ids_of_datasets(tmp_path):
    text = "dataset,model,fold,score\n3,x,1,.5\n3,y,1,.6\n11,x,1,.7\n11,y,1,.8\n"
    assert scores(read(tmp_path, text))["11", "y", "1"] == ".8"


@pytest.mark.parametrize("text", [
    "item,x,y\nq1,1,1\nq2,1,0\nq3,0,0\n",
    "id,question,model,correct\n1,why?,x,1\n2,why?,x,1\n3,why?,x,0\n1,why?,y,1\n2,why?,y,0\n3,why?,y,0\n",
    "id,model,correct\nq1,x,True\nq2,x,True\nq3,x,False\nq1,y,True\nq2,y,False\nq3,y,False\n",
])  # fmt: skip
def test_items(tmp_path, text):
    long = read(tmp_path, text)
    assert long.replicate == "item"
    assert long.layout[:4] == (1, 2, (3, 3), "item")


@pytest.mark.parametrize(
    "cell", ["", "-", "–", "N/A", "nan", "failed", "OOM", "timeout", "inf", "diverged"]
)
def test_failed_runs(tmp_path, cell):
    long = read(tmp_path, f"dataset,svm,knn\niris,.9,{cell}\nwine,80 %,.6\n")
    numbers = [parsed(x) for x in long.rows["score"]]
    assert [*map(math.isnan, numbers)] == [False, False, True, False]
    assert numbers[1] == 80
    assert long.layout[:3] == (2, 2, (1, 1))


def test_a_metric_of_several(tmp_path):
    text = "task,method,metric,value\nA,x,acc,.5\nA,x,f1,.4\nA,y,acc,.5\nA,y,f1,.6\n"
    assert [*read(tmp_path, text).rows["metric"]] == ["acc", "f1", "acc", "f1"]
    assert [*read(tmp_path, text, metric="f1").rows["score"]] == [".4", ".6"]
    with pytest.raises(DataError, match=r"must be acc or f1\. Received: 'f2'"):
        read(tmp_path, text, metric="f2")


def test_folds_are_known(tmp_path):
    text = LONG.replace("seed", "fold")
    assert read(tmp_path, text).replicate == "fold"
    assert read(tmp_path, text, {"seed": "fold"}).replicate == "seed"
    assert read(tmp_path, LONG).replicate == "seed"
    wide = read(tmp_path, "model,Fold 1,Fold 2\nx,.5,.6\ny,.7,.8\n")
    assert wide.replicate == "fold"


@pytest.mark.parametrize(("text", "options"), [
    ("a,b,c\n.5,.6,.7\n.4,.5,.6\n", [{"task": "#"}, {"seed": "#"}]),
    ("Name,a,b\nx,.5,.6\ny,.4,.5\n", [{"task": "Name"}, {"method": "Name"}]),
    ("foo,bar,acc\nA,x,.5\nA,y,.6\nB,x,.5\nB,y,.6\n",
     [{"method": "foo", "task": "bar"}, {"method": "bar", "task": "foo"}]),
    ("task,note,acc\nA,x,.5\nB,y,.6\n", [{"method": "note"}]),  # no task has two methods
    ("task,method,epoch,acc\nA,x,1,.5\nA,x,2,.6\nA,y,1,.5\nA,y,2,.6\n",
     [{"seed": "#"}]),
    ("task,method,lr,acc\nA,x,.01,.5\nA,x,.02,.6\nA,y,.03,.5\nA,y,.04,.6\n", [{"seed": "#"}]),
    ("method,size,acc\nx,1,.5\nx,2,.6\ny,1,.5\ny,2,.6\n", [{"seed": "#"}]),
    ("task,phase,x,y\nA,start,.5,.6\nA,end,.6,.7\n", [{"seed": "#"}]),
    ("method,phase,A,B\nx,start,.5,.6\nx,end,.6,.7\n", [{"seed": "#"}]),
    ("task,method,,acc\nA,x,a,.5\nA,x,b,.6\nA,y,a,.5\nA,y,b,.6\n", [{"seed": "#"}]),
    ("task,method,step,acc\nA,x,1,.5\nA,x,2,.6\nA,y,1,.5\nA,y,2,.6\n", [{"seed": "#"}]),
])  # fmt: skip
def test_an_ambiguous_table_names_an_option_for_each_reading(tmp_path, text, options):
    with pytest.raises(DataError) as error:
        read(tmp_path, text)
    for columns in options:
        assert ",".join(f"{key}={name}" for key, name in columns.items()) in str(error.value)
        assert read(tmp_path, text, columns).rows["score"].notna().all()


@pytest.mark.parametrize("columns", ["time,loss", "name,note", "id,created"])
def test_costs_metrics_and_remarks_can_differ_between_seeds(tmp_path, columns):
    rows = f"task,method,acc,{columns}\nA,x,.5,1,2\nA,x,.6,2,2\nA,y,.7,3,3\nA,y,.8,4,2\n"
    long = read(tmp_path, rows, metric="acc")
    assert long.layout[:3] == (1, 2, (2, 2))


@pytest.mark.parametrize(("text", "layout"), [
    ("method,task,mean,std\nx,A,.5,.1\nx,B,.6,.1\ny,A,.7,.1\ny,B,.8,.1\n",
     ["task, method, mean", "", "std"]),
    ("method,task,count,mean,std,min,25%,50%,75%,max\nx,A,5,.5,.1,1,1,1,1,1\nx,B,5,.6,.1,1,1,1,1,1\n"
     "y,A,5,.7,.1,1,1,1,1,1\ny,B,5,.8,.1,1,1,1,1,1\n",
     ["task, method, mean", "", "count", "std", "min", "25%", "50%", "75%", "max"]),
    ("method,task,acc_mean,acc_std\nx,A,.5,.1\nx,B,.6,.1\ny,A,.7,.1\ny,B,.8,.1\n",
     ["task, method, acc_mean", "", "acc_std"]),
    ("method,A,B,rank\nx,.5,.6,2\ny,.7,.8,1\n", ["method", "tasks", "rank"]),
    ("method,A,B,avg. rank\nx,.5,.6,2\ny,.7,.8,1\n",
     ["method", "tasks", "avg. rank"]),
    ("model,A,GLUE score,B,n_params\nx,.5,.55,.6,9\ny,.7,.75,.8,9\n",
     ["model", "tasks", "GLUE score", "n_params"]),
    ("model,lr,A,B\nx,.1,.5,.6\ny,.1,.7,.8\n", ["model", "tasks", "lr"]),
    ("task,x,y,mean,std\nA,.5,.7,.6,.1\nB,.6,.8,.7,.1\n",
     ["task", "methods", "mean", "std"]),
    ("task,n_samples,x,y,best\nA,90,.5,.7,.7\nB,80,.6,.8,.8\n",
     ["task", "methods", "n_samples", "best"]),
    ("method,task,acc_mean,acc_count\nx,A,.5,3\nx,B,.6,3\ny,A,.7,3\ny,B,.8,3\n",
     ["task, method, acc_mean", "", "acc_count"]),
    ("task,#classes,x,y\nA,2,.5,.7\nB,3,.6,.8\nrank,2,2,1\nsum,5,1.1,1.5\n",
     ["task", "methods", "rank", "sum", "#classes"]),
    ("model,task,acc,fit_time\nx,A,.5,1\nx,B,.6,1\ny,A,.7,1\ny,B,.8,1\n",
     ["task, model, acc", ""]),
])  # fmt: skip
def test_summaries_and_counts_are_left_out(tmp_path, text, layout):
    long = read(tmp_path, text)
    assert long.layout[:7] == expected_layout(2, (1, 1), *layout)[:7]
    assert scores(long) == {("A", "x", "1"): ".5", ("B", "x", "1"): ".6",
                            ("A", "y", "1"): ".7", ("B", "y", "1"): ".8"}  # fmt: skip


@pytest.mark.parametrize("name", ["loss", "f1", "test accuracy", "score", "value"])
def test_a_metric_next_to_tasks_is_refused(tmp_path, name):
    text = f"method,CoLA,RTE,{name}\nx,.5,.6,.2\ny,.7,.8,.1\n"
    with pytest.raises(DataError, match=f"is '{name}' the score or a task"):
        read(tmp_path, text.replace("method", "Name"))
    with pytest.raises(DataError) as error:
        read(tmp_path, text)
    option = f"'{name}'" if " " in name else name
    assert f"--metric {option} " in str(error.value)
    assert [*read(tmp_path, text, metric=name).rows["score"]] == [".2", ".1"]
    tasks = read(tmp_path, text.replace(name, f"MRPC ({name})"))
    assert tasks.layout[:2] == (3, 2)


def test_methods_with_numbers_as_names(tmp_path):
    for name, column in (("model", "accuracy"), ("system", "score"), ("model", "foo")):
        text = f"{name},task,{column}\n0,A,.5\n0,B,.6\n1,A,.7\n1,B,.8\n"
        assert [*read(tmp_path, text).rows["method"]] == ["0", "0", "1", "1"]
    sizes = "model,dataset,accuracy\n0.5,A,.5\n0.5,B,.6\n1.5,A,.7\n1.5,B,.8\n"
    assert scores(read(tmp_path, sizes))["B", "1.5", "1"] == ".8"
    wide = read(tmp_path, "dataset,model,human\nA,.5,.6\nB,.7,.8\n")
    assert [*wide.rows["method"].unique()] == ["model", "human"]
    items = read(tmp_path, "item,model,human\n1,0,1\n2,1,1\n3,0,0\n")
    assert [*items.rows["method"].unique()] == ["model", "human"]


@pytest.mark.parametrize("cell", ["-" * 90_000, "-" * 120_000, "{'a': " * 8000, "[" * 8000])
def test_a_cell_of_a_config_without_a_dict_is_text(tmp_path, cell):
    text = f'config,summary\n"{cell}",1\n"{cell}",2\n'
    assert [*read(tmp_path, text).rows["method"]] == [cell.strip()] * 2


def test_only_bare_values_are_no_numbers(tmp_path):
    config = {"model": "nan-robust", "note": "it's inf, nan", "x": math.nan, "y": [-math.inf]}
    runs = [(str(config), str({"acc": x})) for x in (0.5, 0.6)]
    path = tmp_path / "t.csv"
    pd.DataFrame(runs, columns=["config", "summary"]).to_csv(path)
    assert {*understand(read_table_file(path), "t", {}).rows["method"]} == {"nan-robust"}


@pytest.mark.parametrize(("text", "columns", "message"), [
    ("task,method,seed\nA,x,a\n", {}, "there is no column of scores"),
    ("model,seed,time\nx,1,2.98 s\ny,1,3.1 s\n", {},
     "t.csv: cells of column 'time' must be numbers, found '2.98 s'"),
    ("task,task,method,score\nA,A,x,1\n", {}, "has column 'task' 2 times"),
    (LONG, {"task": "Tsk"}, "--columns task=Tsk: there is no column 'Tsk'. Did you mean 'task'?"),
])  # fmt: skip
def test_what_cannot_be_read(tmp_path, text, columns, message):
    with pytest.raises(DataError) as error:
        read(tmp_path, text, columns)
    assert message in str(error.value)


def test_formats_of_files(tmp_path):
    rows = [dict(zip(LONG.split("\n")[0].split(","), line.split(","), strict=True))
            for line in LONG.split("\n")[1:5]]  # fmt: skip
    expected = scores(read(tmp_path, LONG))
    for name, content in {
        "utf16.csv": LONG.encode("utf-16"),
        "bom.csv": b"\xef\xbb\xbf" + LONG.encode(),
        "blank.csv": LONG.replace("\nA,y,1", "\n,,,\n\nA,y,1"),
        "tabs.tsv": LONG.replace(",", "\t"),
        "lines.jsonl": "\n".join(map(json.dumps, rows)),
        "list.json": json.dumps(rows),
        "spaces.txt": LONG.replace(",", "   ").replace("\n", "  \n"),
        "R.txt": "".join(
            f"{i or ''} {line}\n".lstrip().replace(",", " ")
            for i, line in enumerate(LONG.split("\n")[:5])
        ),
    }.items():
        assert scores(read(tmp_path, content, name=name)) == expected, name
    pd.DataFrame(rows).to_parquet(tmp_path / "t.parquet")
    table = read_table_file(tmp_path / "t.parquet")
    assert scores(understand(table, "t", {})) == expected


FAILED_TASK = [["A", 0.9, 0.8], ["B", None, None], ["C", 0.7, 0.6], ["D", 0.5, 0.4]]


@pytest.mark.parametrize("name", ["dataset", None])
def test_a_failed_second_task_is_no_header_of_excel(tmp_path, name):
    write_sheets(tmp_path / "t.xlsx", acc=[[name, "x", "y"], *FAILED_TASK])
    rows = understand(read_table_file(tmp_path / "t.xlsx"), "t", {"task": name or "index"}).rows
    assert [[*rows[key].unique()] for key in ("task", "method")] == [[*"ABCD"], [*"xy"]]


@pytest.mark.parametrize("first", ["A,.9,.8", "A,failed,OOM"])
def test_a_failed_second_task_is_no_header(tmp_path, first):
    rows = read(tmp_path, f",x,y\n{first}\nB,,\nC,.7,.6\nD,.5,.4\n").rows
    assert [[*rows[key].unique()] for key in ("task", "method")] == [[*"ABCD"], [*"xy"]]


def test_excel(tmp_path):
    """Notes, titles and empty columns are left out."""
    pytest.importorskip("openpyxl")
    cells = [["task", "x", "y"], ["A", 1, 2], ["B", 3, 4]]
    rows = [[None, "Accuracies of 2024", None, None], [None] * 4, *([None, *x] for x in cells)]
    with pd.ExcelWriter(tmp_path / "t.xlsx") as book:
        for name, table in {"notes": [["by Ann"]], "scores": rows}.items():
            pd.DataFrame(table).to_excel(book, sheet_name=name, header=False, index=False)
    table = read_table_file(tmp_path / "t.xlsx")
    assert [x.rpartition(":")[2] for x in table.index] == ["4", "5"]
    assert scores(understand(table, "t", {}))["B", "y", "1"] == "4"
    runs = pd.DataFrame([("A", name, seed, 0.5) for name in "xy" for seed in (1, 2)])
    wide = runs.set_axis(["task", "model", "run", "score"], axis=1)
    wide.pivot(index="task", columns=["model", "run"], values="score").to_excel(tmp_path / "p.xlsx")
    long = understand(read_table_file(tmp_path / "p.xlsx"), "p", {})
    assert long.layout[:7] == expected_layout(1, (2, 2), "task, model, run, value")[:7]


@pytest.mark.parametrize("text", [
    "# dataset,x,y\nA,.5,.6\nB,.7,.8\n",
    "# made by eval.py, on Monday\n# of 2024\ndataset,x,y\nA,.5,.6\nB,.7,.8\n",
    "sep=;\ndataset;x;y\nA;0,5;0,6\nB;0,7;0,8\n",
    "Results of our study,,\n\ndataset,x,y\nA,.5,.6\nB,.7,.8\n",
    ",,acc,acc\n,,mean,std\ndataset,model,,\nA,x,.5,.1\nA,y,.6,.1\nB,x,.7,.1\nB,y,.8,.1\n",
])  # fmt: skip
def test_lines_above_the_scores(tmp_path, text):
    found = {key: parsed(x) for key, x in scores(read(tmp_path, text)).items()}
    assert found == {("A", "x", "1"): 0.5, ("A", "y", "1"): 0.6,
                     ("B", "x", "1"): 0.7, ("B", "y", "1"): 0.8}  # fmt: skip


def write_sheets(path, **sheets):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    book.save(path)
    return book


def test_sheets_that_are_not_read_are_named(tmp_path):
    rows = [["task", "x", "y"], ["A", 1, 2], ["B", 3, 4]]
    write_sheets(tmp_path / "t.xlsx", notes=[["by Ann"]], acc=rows, f1=rows, loss=rows)
    report = compare(tmp_path / "t.xlsx")
    (warning,) = report.warnings
    assert re.findall(r"'(\w+)'", warning) == ["acc", "f1", "loss"]
    write_sheets(tmp_path / "t.xlsx", notes=[["by Ann"]], acc=rows)
    assert compare(tmp_path / "t.xlsx").warnings == []


def test_a_formula_without_a_value_is_refused(tmp_path):
    rows = [["task", "x", "y"], ["A", 1, "=B2+1"], ["B", 3, 4]]
    write_sheets(tmp_path / "t.xlsx", acc=rows)
    with pytest.raises(DataError, match=r"t\.xlsx:2: a formula has no value; save the file"):
        read_table_file(tmp_path / "t.xlsx")
    rows[1][2] = "#N/A"  # an error is a failed run
    write_sheets(tmp_path / "t.xlsx", acc=rows)
    assert math.isnan(parsed(read_table_file(tmp_path / "t.xlsx")["y"].iloc[0]))


def test_the_size_of_a_sheet_has_a_limit(tmp_path):
    book = write_sheets(tmp_path / "t.xlsx", acc=[["task", "x", "y"], ["A", 1, 2]])
    book["acc"].cell(200_000, 16_384, 1)
    book.save(tmp_path / "t.xlsx")
    with pytest.raises(
        DataError, match="has 200,000 x 16,384 cells; it must have at most 5,000,000"
    ):
        read_table_file(tmp_path / "t.xlsx")


@pytest.mark.parametrize(("text", "expected"), [
    ('task,x,y\nA,"1,234.5","2,000"\n', [1234.5, 2000]),
    ("task;x;y\nA;1.234,5;2000,0\n", [1234.5, 2000]),
    ("task;x;y\nA;1,234;2,000\n", [1.234, 2]),
    ("task\tx\ty\nA\t1,234\t0,500\n", [1.234, 0.5]),
    ("task;x;y\nA;85,3 %;0,5 %\n", [85.3, 0.5]),
    ("task;lr;method;acc\nA;0.1;x;85,3\nA;0.1;y;85,312\n", [85.3, 85.312]),
    ("task\tx\ty\nA\t1,234.5\t2,500\n", [1234.5, 2500]),
    ("task;x;y\nA;−0,5;−1.5e-3\n".replace("1.5", "1,5"), [-0.5, -0.0015]),
    ("task,x,y\nA,−0.5,0.5\n", [-0.5, 0.5]),
    ('task,x,y\nA,"0,765","0,8"\n', [0.765, 0.8]),
    ('note,task,x,y\n"0,5",A,0.765,0.8\n', [0.765, 0.8]),
    ("task,x,y\nA,\\textbf{0.5},$\\mathbf{0.6}$\n", [0.5, 0.6]),
    ("task,x,y\nA,85.1\\%,\\underline{\\textbf{86\\%}}\n", [85.1, 86]),
])  # fmt: skip
def test_commas_in_numbers(tmp_path, text, expected):
    assert [*map(parsed, read(tmp_path, text).rows["score"])] == expected


@pytest.mark.parametrize("text", [
    "task\tx\ty\nA\t1,234\t2,500\n",
    "task;lr;method;acc\nA;0.1;x;85,312\nA;0.1;y;85,412\n",
    "task;x;y\nA;1.234;85,3\n",
])  # fmt: skip
def test_commas_that_can_be_decimal_or_of_thousands(tmp_path, text):
    with pytest.raises(DataError, match=r"t\.csv:2: numbers must have a decimal point or no comma"):
        read(tmp_path, text)


def test_lines_of_json_can_have_separators_in_text(tmp_path):
    text = "".join(json.dumps({"task": "A\u2028B", "method": name, "score": 1}, ensure_ascii=False)
                   + "\r\n" for name in "xy")  # fmt: skip
    assert len(read(tmp_path, text, name="t.jsonl").rows) == 2


@pytest.mark.parametrize(("name", "content", "message"), [
    ("a.csv", "a,b\n1,2\n1\n", "a.csv:3: must have 2 fields, as the header. Received: 1"),
    ("a.csv", "", "a.csv: the file is empty"),
    ("a.csv", b"a,b\n\xff1,2\n", "a.csv:2: must be text in UTF-8 or UTF-16. Received: byte 0xff"),
    ("a.jsonl", '{"a": 1}\n[1]\n', "a.jsonl:2: must be an object"),
    ("a.jsonl", '{"a": 1}\n{\n', "a.jsonl:2: must be a list of objects, or one object per line"),
    ("a.json", '{\n"a": 1\n}\n', "a.json:1: must be a list of objects, or one object per line"),
    ("a.json", '[{"a": 1}, 2]', "a.json: must be an object for each row"),
    ("a.json", '[{"a": 1}', "a.json: must be JSON"),
    ("a.json", '{"x": {"A": 1}}', "a.json: must be a list of objects, or one object per line"),
    ("a.json", "", "a.json: the file is empty"),
    ("a.csv", f"a,b\n1,{'2' * 200_000}\n", "a.csv: is not a .csv file, or damaged"),
])  # fmt: skip
def test_faults_of_files(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError) as error:
        read_table_file(path)
    assert message in str(error.value)


@pytest.mark.parametrize(("text", "line"), [
    ("A,80.1,80.5,79.9\nB,81.1,81.5,80.9\n", 1),
    ("title\n\nA;80,1;80,1\nB;81,1;81,5\n", 3),  # the same score twice
    ("A,x,1,80.1\nA,y,1,80.5\n", 1),
])  # fmt: skip
@pytest.mark.parametrize("columns", [{}, {"method": "A"}])
def test_a_table_without_a_header_is_refused(tmp_path, text, line, columns):
    with pytest.raises(DataError, match=rf"t\.csv:{line}: holds numbers, .* has no header"):
        read(tmp_path, text, columns)


def test_an_excel_table_without_a_header_is_refused(tmp_path):
    write_sheets(tmp_path / "t.xlsx", scores=[["A", 0.5, 0.6], ["B", 0.7, 0.8]])
    with pytest.raises(DataError, match=r"t\.xlsx:1: holds numbers"):
        read_table_file(tmp_path / "t.xlsx")


@pytest.mark.parametrize("names", ["1,2", "2021,2022", "relation-64,0.5", "2.5%,97.5%"])
def test_numbers_can_be_names_in_a_header(tmp_path, names):
    (tmp_path / "t.csv").write_text(f"dataset,{names}\nA,.5,.6\nB,.7,.8\n")
    assert [*read_table_file(tmp_path / "t.csv")] == ["dataset", *names.split(",")]


@pytest.mark.parametrize(("name", "package"), [("a.xlsx", "openpyxl"), ("a.parquet", "pyarrow")])
def test_a_file_that_needs_the_extra(tmp_path, monkeypatch, name, package):
    monkeypatch.setitem(sys.modules, package, None)
    with zipfile.ZipFile(tmp_path / name, "w") as file:
        file.writestr("xl/workbook.xml", "")
    with pytest.raises(DataError, match=r"needs the extra 'tables': pip install"):
        read_table_file(tmp_path / name)


@pytest.mark.parametrize(("name", "package"), [("a.xlsx", "openpyxl"), ("a.parquet", "pyarrow")])
@pytest.mark.parametrize("content", [b"", b"PK\3\4", b"task,method\n"])
def test_a_file_of_another_format(tmp_path, name, package, content):
    pytest.importorskip(package)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=f"{name}: is not a .* file, or damaged"):
        read_table_file(tmp_path / name)


def test_how_a_file_was_read_is_stated_but_not_for_scores_of_a_report(tmp_path):
    rows = [("MR", method, seed, seed / 10) for method in "ab" for seed in range(3)]
    table = pd.DataFrame(rows, columns=["dataset", "model", "run", "accuracy"])
    table.to_csv(tmp_path / "own.csv", index=False)
    report = compare(tmp_path / "own.csv")
    (stated,) = report.data.origin["read as"]
    assert stated in " ".join(str(report).split())
    report.write(tmp_path / "report")
    assert "read as" not in compare(tmp_path / "report").data.origin


def long_items(name, rows, columns=""):
    """Return a long table in text: two methods, x and y, with the same items."""
    head = f"{name},model,{columns}f1"
    lines = [f"{row},{model},{score}" for model in "xy" for row, score in rows.items()]
    return "\n".join([head, *lines])


@pytest.mark.parametrize("name", ["item", "instance", "id", "example"])
def test_items_with_other_scores_than_0_and_1_are_tasks(tmp_path, name):
    wide = f"{name},x,y\n7,.5,.7\n8,.6,.8\n9,.4,.5\n"
    for text in (wide, long_items(name, {"7": 0.5, "8": 0.6, "9": 0.4})):
        long = read(tmp_path, text)
        assert long.layout[:3] == (3, 2, (1, 1))
        assert str(long.layout).startswith("3 items with other")
        assert long.replicate == "seed"
        assert [*long.rows["task"].unique()] == ["7", "8", "9"]
    with pytest.raises(DataError, match=f"task={name} .* seed={name}"):
        read(tmp_path, "\n".join(f"{row},{x}" for row, x in zip(
            wide.split("\n"), ["dataset", *"ABB"], strict=False)))  # fmt: skip
    independent = long_items(name, {}) + "\n1,x,.5\n2,x,.6\n3,y,.7\n4,y,.8\n"
    assert read(tmp_path, independent).layout[:3] == (1, 2, (2, 2))


def test_a_failed_item_is_an_item(tmp_path):
    assert read(tmp_path, "item,x,y\nq1,1,\nq2,1,0\nq3,0,0\n").replicate == "item"


@pytest.mark.parametrize(("text", "kinds"), [
    ("x,y\n1,1\n1,0\n0,0\n", ["item", "seed"]),
    ("x,y\n.1,.2\n.2,.3\n.4,.3\n", ["fold", "seed"]),
    ("model,correct\nx,1\nx,0\nx,0\ny,1\ny,1\ny,0\n", ["item", "seed"]),
])  # fmt: skip
def test_numbers_of_rows_can_be_those_of_pairs(tmp_path, text, kinds):
    with pytest.raises(DataError) as error:
        read(tmp_path, text)
    for kind in kinds:
        assert f"{kind}=#" in str(error.value)
        long = read(tmp_path, text, {kind: "#"})
        assert long.replicate == kind
        assert [*map(str, long.rows["seed"])] == ["1", "2", "3"] * 2


@pytest.mark.parametrize(("column", "scores", "offered"), [
    ("query", "101110", ["item=query", "seed=#"]),
    ("part", "123456", ["fold=part", "seed=#"]),
    ("lr", "123456", ["seed=#"]),
])  # fmt: skip
def test_a_refused_column_is_offered_as_what_it_can_be(tmp_path, column, scores, offered):
    rows = zip("xxxyyy", "abcabc", scores, strict=True)
    text = "\n".join([f"model,{column},acc", *map(",".join, rows)])
    with pytest.raises(DataError) as error:
        read(tmp_path, text)
    assert re.findall(r"\w+=[\w#]+", str(error.value)) == offered
    for option in offered:
        kind, _, name = option.partition("=")
        assert read(tmp_path, text, {kind: name}).replicate == kind


@pytest.mark.parametrize(("names", "rows", "columns", "offered"), [
    ("Modell,Lauf,A,B", "xy", {}, ["method=Modell,seed=Lauf", "task=Modell,seed=Lauf"]),
    ("Modell,Lauf,A,B", "xy", {"method": "Modell"}, ["method=Modell,seed=Lauf"]),
    ("Modell,Daten,Lauf,acc", ["x,1a", "y,1a"], {},
     ["method=Modell,task=Daten,seed=Lauf", "task=Modell,method=Daten,seed=Lauf"]),
    ("model,Lauf,acc", "xy", {}, ["method=model,seed=Lauf"]),
    ("dataset,Lauf,a,b", "xy", {}, ["task=dataset,seed=Lauf"]),
    ("Lauf,a,b", [""], {}, [" seed=Lauf"]),
])  # fmt: skip
@pytest.mark.parametrize("first", [0, 1])
def test_numbers_of_runs_are_no_scores(tmp_path, names, rows, columns, offered, first):
    scores = "" if names.endswith("acc") else ",.7"
    lines = [f"{row},{run},.5{scores}" for row in rows for run in range(first, first + 3)]
    text = "\n".join([names, *(line.lstrip(",") for line in lines)])
    with pytest.raises(DataError) as error:
        read(tmp_path, text, columns)
    for option in offered:
        assert option in str(error.value)
        long = read(tmp_path, text, dict(part.split("=") for part in option.strip().split(",")))
        assert long.layout.scores == (3, 3)
        assert {*long.rows["score"]} <= {".5", ".7"}


@pytest.mark.parametrize("numbers", ["123124", "234234", "121212", "112112"])
def test_other_whole_numbers_are_scores(tmp_path, numbers):
    lines = [f"{model},{x},.5" for model, x in zip("xxxyyy", numbers, strict=True)]
    long = read(tmp_path, "\n".join(["model,A,B", *lines]))
    assert [*long.rows["task"].unique()] == ["A", "B"]


def test_whole_numbers_of_a_metric_or_with_numbered_rows_are_scores(tmp_path):
    text = "model,accuracy\nx,1\nx,2\nx,3\ny,1\ny,2\ny,3\n"
    assert [*read(tmp_path, text).rows["score"]] == [*"123123"]
    long = read(tmp_path, "model,A,B\nx,1,.5\nx,2,.5\nx,3,.5\n", {"seed": "#"})
    assert [*long.rows["task"].unique()] == ["A", "B"]


@pytest.mark.parametrize("name", ["", "Unnamed: 0", "index"])
def test_rows_without_a_name_are_tasks_if_scores_differ_more_between_them(tmp_path, name):
    rows = {"C4.5": [0.7, 0.9], "SVM": [0.71, 0.92], "kNN": [0.69, 0.88]}
    table = pd.DataFrame(rows, ["iris", "wine"]).rename_axis(name)
    assert [*read(tmp_path, table.to_csv()).rows["task"].unique()] == ["iris", "wine"]
    text = table.T.rename_axis(name).to_csv()
    with pytest.raises(DataError, match="tasks or methods") as error:
        read(tmp_path, text)
    column = name or "index"
    for key, option in (("task", f"task={column}"), ("method", f"method={column}")):
        assert shlex.quote(option) in str(error.value)
        assert [*read(tmp_path, text, {key: column}).rows[key].unique()] == [*rows]


@pytest.mark.parametrize("name", [None, "classifier"])
def test_a_transposed_table_has_its_tasks_in_columns(name):
    table = pd.DataFrame({"C4.5": [0.7, 0.9], "SVM": [0.71, 0.92]}, ["iris", "wine"])
    read_as = compare(table.rename_axis("dataset").T.rename_axis(name)).data.scores
    assert (read_as.tasks, read_as.methods) == (["iris", "wine"], ["C4.5", "SVM"])


@pytest.mark.parametrize("truth", [("True", "False"), ("TRUE", "FALSE"), ("yes", "no")])
@pytest.mark.parametrize("index", [True, False])
def test_truth_values_are_scores_of_items(tmp_path, truth, index):
    right = [[1, 0, 1], [0, 0, 1], [1, 1, 0], [0, 1, 1]]
    table = pd.DataFrame(right, columns=["BERT", "RoBERTa", "GPT"]).rename_axis("item")
    text = table.map(lambda x: truth[1 - x]).to_csv(index=index)
    long = read(tmp_path, text, {} if index else {"item": "#"})
    assert long.replicate == "item"
    found = long.rows["score"].map(parsed).groupby(long.rows["method"], sort=False).sum()
    assert found.to_dict() == table.sum().to_dict()
    assert compare(table.astype(bool)).data.scores.replicate == "item"


def test_remarks_and_names_of_single_runs_are_no_methods(tmp_path):
    rows = "".join(f"r{i},finished,2025-01-{i // 2:02},{i},.{i}\n" for i in range(10, 16))
    with pytest.raises(DataError, match="method=Name") as error:
        read(tmp_path, "Name,State,Created,Runtime,val/accuracy\n" + rows)
    assert "method=Created" not in str(error.value)


@pytest.mark.parametrize("name", ["", "Unnamed: 0", "index", "level_0"])
def test_the_index_of_a_part_of_a_table_is_no_method(tmp_path, name):
    text = f"{name},dataset,x,y\n3,A,.5,.6\n9,B,.6,.7\n7,C,.7,.8\n3,D,.7,.8\n"
    long = read(tmp_path, text)
    assert [*long.rows["method"].unique()] == ["x", "y"]
    long = read(tmp_path, f"{name},task,method,score\n3,A,x,.5\n9,A,y,.6\n")
    assert [*long.rows["method"]] == ["x", "y"]


@pytest.mark.parametrize(("names", "metric"), [
    ("SVM error,kNN error,RF error", "error"),
    ("SVM_RMSE,kNN_RMSE,RF_RMSE", "RMSE"),
    ("SVM (loss),kNN (loss),RF (loss)", "loss"),
    ("Accuracy SVM,Accuracy kNN,Accuracy RF", "Accuracy"),
    ("SVM error,kNN,RF", None),
    ("SVM loss,kNN,RF", None),
    ("big SVM,big kNN,big RF", None),
])  # fmt: skip
def test_the_metric_in_the_names_of_all_methods(tmp_path, names, metric):
    long = read(tmp_path, f"dataset,{names}\nA,.1,.2,.3\nB,.2,.3,.4\n")
    assert [*long.rows.get("metric", pd.Series([None])).unique()] == [metric]


def test_losses_can_be_methods_or_scores(tmp_path):
    with pytest.raises(DataError, match=r"'A \(loss\)' if it does, or 'A' if it does not"):
        read(tmp_path, "dataset,focal loss,dice loss\nA,.1,.2\nB,.2,.3\n")


@pytest.mark.parametrize("names", [
    "ARIMA,VAR,LSTM,Mean", "mean,max,sum", "mean,max,sum,attention", "min,best,std,SVM",
])  # fmt: skip
def test_methods_with_names_of_summaries(tmp_path, names):
    size = names.count(",") + 1
    scores = [",".join(f".{n}{m * m}" for m in range(size)) for n in range(3)]
    rows = map(",".join, zip("ABC", scores, strict=True))
    long = read(tmp_path, "\n".join([f"dataset,{names}", *rows]))
    assert [*long.rows["method"].unique()] == names.split(",")
    assert long.layout.others == (*names.split(","),)


@pytest.mark.parametrize("across", [False, True], ids=["rows", "columns"])
@pytest.mark.parametrize(("counts", "tasks"), [((0.6, 1), ["count", "A", "B"]),
                                               ((2, 2), ["A", "B"])])  # fmt: skip
def test_the_task_count_has_scores_that_are_fractions(counts, tasks, across):
    rows = [("count", *counts), ("A", 0.52, 0.7), ("B", 0.33, 0.9), ("max", 0.5, 0.9),
            ("sum", 0.85, 0.9), ("rank", 2, 1), ("std", 0.2, 0.3)]  # fmt: skip
    table = pd.DataFrame(rows, columns=["task", "x", "y"], dtype=object)
    table["y"] = table["y"].mask(table["task"] == "A", "failed")
    if across:
        table = table.set_index("task").T.rename_axis("method").reset_index()
    long = understand(table, "t", {})
    assert [*long.rows["task"].unique()] == tasks
    assert {*long.layout.without} == {name for name, *_ in rows} - {*tasks}
    assert long.layout.others == ((*tasks,) if across else ("x", "y"))


@pytest.mark.parametrize("counts", [(1, 1), (3, 5)])
def test_counts_of_runs_are_left_out(tmp_path, counts):
    for head in ("task", "method"):
        rows = f"A,.5,.7,{counts[0]}\nB,.6,.8,{counts[1]}\n"
        assert read(tmp_path, f"{head},x,y,count\n{rows}").layout.without == ("count",)


def test_a_method_with_the_name_count(tmp_path):
    long = read(tmp_path, "task,x,y,count\nA,.5,.7,.9\nB,.6,.8,.7\n")
    assert [*long.rows["method"].unique()] == ["x", "y", "count"]


def test_summaries_of_methods_in_columns(tmp_path):
    head = "dataset,x,y,z,Mean,median,std,max,avg. rank,x_std"
    long = read(tmp_path, f"{head}\nA,.1,.2,.4,.23,.2,.15,.4,2,9\nB,.3,.2,.5,.33,.3,.15,.5,2,9\n")
    assert [*long.rows["method"].unique()] == ["x", "y", "z"]


@pytest.mark.parametrize("pair", ["repeat,fold", "seed,fold", "fold,run"])
def test_folds_of_a_repeated_cross_validation(tmp_path, pair):
    rows = [f"{name},{a},{b},.{a}{b}" for name in "xy" for a in range(2) for b in range(2)]
    long = read(tmp_path, "\n".join([f"model,{pair},acc", *rows]))
    assert long.replicate == "fold"
    assert long.layout[:4] == (1, 2, (4, 4), "fold")
    assert long.test_share == 0.5
    assert long.rows.groupby("method")["seed"].nunique().tolist() == [4, 4]


def test_one_seed_for_each_fold(tmp_path):
    rows = [f"{name},{n},{9 - n},.{n}" for name in "xy" for n in range(4)]
    long = read(tmp_path, "\n".join(["model,fold,seed,acc", *rows]))
    assert (long.replicate, long.test_share) == ("fold", None)


def test_items_of_several_seeds_are_refused(tmp_path):
    rows = [f"{name},{a},{b},1" for name in "xy" for a in range(2) for b in range(3)]
    text = "\n".join(["model,seed,item,correct", *rows])
    with pytest.raises(DataError, match="'seed' and 'item'"):
        read(tmp_path, text)


def test_numbered_splits_are_folds(tmp_path):
    rows = [f"{name},{n},.{n}" for name in "xy" for n in range(4)]
    long = read(tmp_path, "\n".join(["model,split,acc", *rows]))
    assert (long.replicate, "split" in long.rows) == ("fold", False)
    named = LONG.replace("seed", "split").replace(",1", ",dev").replace(",2", ",test")
    assert "split" in read(tmp_path, named).rows


def test_numbers_of_parameters_are_no_methods(tmp_path):
    text = "dataset,network,seed,acc,params\nA,x,1,.5,10\nA,x,2,.6,10\nA,y,1,.7,20\nA,y,2,.8,20\n"
    assert [*read(tmp_path, text).rows["method"].unique()] == ["x", "y"]


@pytest.mark.parametrize("numbers", ["1,5,10,50", "2019,2020,2021,2022", "0,42,1,7"])
def test_numbers_of_columns_that_need_not_be_seeds(tmp_path, numbers):
    text = f"model,{numbers}\nx,.5,.6,.7,.8\ny,.5,.6,.7,.8\n"
    with pytest.raises(DataError, match=r"seeds or tasks\? Rename"):
        read(tmp_path, text)
    methods = read(tmp_path, text.replace("model", "dataset"))
    assert [*methods.rows["method"].unique()] == numbers.split(",")


@pytest.mark.parametrize(("names", "hinted"), [
    ("cnn_s1,cnn_s2,rnn_s1,rnn_s2", True),
    ("CNN seed 1,CNN seed 2,RNN seed 1,RNN seed 2", True),
    ("relation-64,relation-128,mlp-64,mlp-128", False),
    ("cnn_s1,rnn_s1,mlp_s1,svm_s1", False),
])  # fmt: skip
def test_columns_of_methods_and_seeds_are_hinted_at(tmp_path, names, hinted):
    long = read(tmp_path, f"dataset,{names}\nA,.5,.6,.5,.6\nB,.7,.8,.7,.8\n")
    assert ("look like methods" in str(long.layout)) == hinted


def test_names_of_corpora_are_no_metrics(tmp_path):
    for names in ("PTB,WikiText-103,enwik8", "SST-2,MNLI,WikiText-2"):
        assert read(tmp_path, f"model,{names}\nx,9,2,3\ny,8,7,4\n").layout.wide == "tasks"


def test_an_option_is_quoted(tmp_path):
    with pytest.raises(DataError, match=r"--metric 'Acc ↑' or --metric 'ppl ↓'"):
        read(tmp_path, "model,Acc ↑,ppl ↓\nx,.5,20\ny,.6,18\n")
    long = read(tmp_path, "model,#Params (M),A,B\nx,9,.5,.6\ny,8,.7,.8\n")
    assert [*long.rows["task"].unique()] == ["A", "B"]


@pytest.mark.parametrize("cells", [
    ("84.6/83.4", "70.1/69.9"), ("~80", "~82"), ("80.1 (+1.0)", "8.1 (-.4)"), ("80 [79; 81]", "~8"),
    ("<u>80.1</u>", "~82"),
])  # fmt: skip
def test_columns_with_other_cells_than_numbers_are_refused(tmp_path, cells):
    """They were left out without a word, so that another method could look better."""
    text = "Model,CoLA,MNLI,RTE\nx,.5,{},.6\ny,.7,{},.8\n".format(*cells)
    with pytest.raises(DataError, match=r"^t.csv: cells of column 'MNLI' must be numbers"):
        read(tmp_path, text)


@pytest.mark.parametrize("cells", [("2024-01-31", "2024-02-01"), ("1.2.0", "1.2.1"), ("7B", "9M")])
def test_other_columns_of_text_are_left_out(tmp_path, cells):
    text = "Model,CoLA,about,RTE\nx,.5,{},.6\ny,.7,{},.8\n".format(*cells)
    assert read(tmp_path, text).layout.others == ("CoLA", "RTE")


@pytest.mark.parametrize(
    "name", ["Overall", "Avg (%)", "Mean (5 tasks)", "All", "Score", "GLUE", "Task average"]
)
@pytest.mark.parametrize("across", [False, True])
def test_averages_are_known_by_their_values(name, across):
    table = pd.DataFrame({"method": ["x", "y"], "A": [".51", ".71"], "B": [".62", ".83"],
                          "C": [".55", ".66"], name: [".56", ".73"]})  # fmt: skip
    if across:
        table = table.set_index("method").T.rename_axis("task").reset_index()
    table.index = pd.Index(["t:2", "t:3", "t:4", "t:5"][: len(table)])
    layout = understand(table, "t", {}).layout
    assert (layout.tasks, layout.without) == (3, (name,))


def test_markup_of_markdown_is_no_part_of_names_and_scores(tmp_path):
    text = "| [Model](https://x.y) | *A* | B<sup>1</sup> | **Avg** |\n|:-:|-:|:-|---|\n"
    text += "| **x** | <b>.5</b> | __.6__ | .55 |\n| y | .7<sup>1</sup> | .8 | .75 |\n"
    long = read(tmp_path, text, name="t.md")
    assert scores(long) == {("A", "x", "1"): ".5", ("B", "x", "1"): ".6",
                            ("A", "y", "1"): ".7", ("B", "y", "1"): ".8"}  # fmt: skip
    assert long.layout.without == ("Avg",)


def test_columns_of_metrics_can_be_tasks(tmp_path):
    arrows = read(tmp_path, "model,CoLA ↑,RTE (lower is better)\nx,.5,.6\ny,.7,.8\n")
    assert arrows.layout.wide == "tasks"
    for names in ("Wiki PPL,LAMBADA acc,PIQA acc", "Wiki ppl ↓,PIQA ↑,ARC ↑"):
        text = f"model,{names}\nx,9,5,.6\ny,7,6,.8\n"
        with pytest.raises(DataError, match="--columns task=columns"):
            read(tmp_path, text)
        assert read(tmp_path, text, {"task": "columns"}).layout.others == (*names.split(","),)
    runs = read(tmp_path, "dataset,model,acc,f1\nA,x,.5,.6\nA,y,.7,.8\n", {"task": "columns"})
    assert [*runs.rows["task"].unique()] == ["acc", "f1"]


@pytest.mark.parametrize("name", ["label", "y_true", "Gold Label", "target", "ground_truth"])
def test_true_labels_are_no_method(tmp_path, name):
    """Predictions with a column of true labels were read as scores."""
    text = f"id,{name},A,B\n1,0,0,1\n2,1,1,1\n3,0,1,0\n"
    with pytest.raises(DataError, match=f"is '{name}' the true label"):
        read(tmp_path, text)
    assert read(tmp_path, text.replace(name, "C")).layout.others == ("C", "A", "B")


@pytest.mark.parametrize("task", ["", "dataset,"])
def test_settings_next_to_a_metric_are_no_methods(tmp_path, task):
    rows = [f"{task and 'A,'}{arch},{lr},{seed},.{seed}\n"
            for arch, lr in (("x", 0.1), ("y", 0.2)) for seed in (1, 2)]  # fmt: skip
    long = read(tmp_path, f"{task}arch,lr,seed,test_acc\n{''.join(rows)}")
    assert [*long.rows["method"].unique()] == ["x", "y"]
    assert long.layout.scores == (2, 2)
    wide = read(tmp_path, "dataset,domain,LR,SVM\nA,p,.5,.6\nB,q,.7,.8\n")
    assert wide.layout.others == ("LR", "SVM")


@pytest.mark.parametrize("name", ["Train size", "#train", "Avg. length", "vocab", "Documents"])
def test_counts_next_to_methods_are_left_out(tmp_path, name):
    wide = read(tmp_path, f"Dataset,{name},SVM,CNN\nA,90,.5,.7\nB,80,.6,.8\n")
    assert (wide.layout.others, wide.layout.without) == (("SVM", "CNN"), (name,))


@pytest.mark.parametrize(
    ("name", "values", "is_method"),
    [("lr", (0.1, 0.2), False), ("learning_rate", (0.001, 0.001), False), ("LR", (80, 85), True)],
)
def test_settings_next_to_methods_have_other_values(tmp_path, name, values, is_method):
    text = "Dataset,seed,SVM,CNN,{}\nA,1,81,87,{}\nA,2,82,86,{}\n".format(name, *values)
    layout = read(tmp_path, text).layout
    assert layout.others == ("SVM", "CNN", *[name] * is_method)
    assert layout.without == () if is_method else (name,)
