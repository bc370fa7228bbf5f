"""report.pdf, made by an installed LaTeX."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from relation_tf.errors import SuiteError
from relation_tf.report import compare
from relation_tf.report.typesetting import write_pdf

LEVELS = {"a_b": 70.0, "50 % & more": 75.0, "c": 80.0}


@pytest.fixture(scope="module")
def folder(table_of, tmp_path_factory):
    samples = {name: [level + seed / 10 for seed in range(5)] for name, level in LEVELS.items()}
    folder = tmp_path_factory.mktemp("typeset")
    compare(table_of({f"T{i}": samples for i in range(12)})).write(folder)
    return folder


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex")
@pytest.mark.parametrize("seeds", [1, 5])
def test_report_tex_compiles_alone(table_of, tmp_path, seeds):
    samples = {name: [level + seed / 10 for seed in range(seeds)] for name, level in LEVELS.items()}
    report = compare(table_of({f"T{i}": samples for i in range(12)}))
    page = report.write(tmp_path / "out", pdf=True)
    pdf = page.with_name("report.pdf")
    assert pdf.read_bytes().startswith(b"%PDF")
    assert not {file.suffix for file in page.parent.iterdir()} & {".aux", ".log", ".bbl"}
    report.write(page.parent)
    assert not pdf.exists()  # it would be that of an earlier report


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex")
def test_a_report_without_citations_or_figures_compiles(table_of, tmp_path):
    page = compare(table_of({"A": {"x": [0.5], "y": [0.6]}})).write(tmp_path, pdf=True)
    tex, pdf = page.with_name("report.tex"), page.with_name("report.pdf")
    assert r"\bibliography" not in tex.read_text("utf-8")
    assert pdf.read_bytes().startswith(b"%PDF")
    pdf.unlink()
    shutil.rmtree(tmp_path / "figures")
    lines = tex.read_text("utf-8").splitlines()
    tex.write_text("\n".join(x for x in lines if r"\includegraphics" not in x), "utf-8")
    write_pdf(tmp_path)
    assert pdf.read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize("engine", ["pdflatex", "lualatex"])
def test_unknown_letters_are_shown_as_code_points(table_of, tmp_path, engine):
    if shutil.which(engine) is None:
        pytest.skip(f"needs {engine}")
    names = ["λ-net", "模型", "café 😀"]
    samples = {name: [0.5 + i + seed / 10 for seed in range(5)] for i, name in enumerate(names)}
    compare(table_of({"A": samples})).write(tmp_path)
    file = tmp_path / "report.tex"
    tex = file.read_text("utf-8")
    assert r"$\lambda$-net" in tex
    assert "模型" in tex.partition(r"\begin{document}")[2]
    # The log has each letter of the pages.
    file.write_text(rf"\tracingoutput=1 \showboxbreadth=9999 \showboxdepth=9999 {tex}", "utf-8")
    command = [engine, "-interaction=nonstopmode", "-halt-on-error", "report"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode == 0
    log = (tmp_path / "report.log").read_text("utf-8", "replace")
    assert "Missing character" not in log
    shown = "".join(re.findall(r"\\(?:T1|OT1|TU)/\S+ (\S)$", log, re.MULTILINE))
    assert {"[U+6A21]", "[U+578B]", "[U+1F600]"} <= {*re.findall(r"\[U\+\w+\]", shown)}


def test_without_latex_one_line_says_what_to_install(folder, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(SuiteError, match="pdflatex"):
        write_pdf(folder)


@pytest.mark.parametrize("command", ["report", "compare"])
def test_commands_make_the_pdf_last(suite_of, fabricate, call, monkeypatch, tmp_path, command):
    suite = suite_of(tasks=["CoLA"], seeds=[1, 2])
    folder = fabricate(suite, lambda config, task, metric: 0.5 + config.seed / 10)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.chdir(tmp_path)
    code, _, err = call(command, str(folder), "--pdf")
    assert (code, "pdflatex" in err) == (2, True)
    assert len([*tmp_path.rglob("report.html")]) == 1


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex")
def test_an_error_of_latex_is_one_line(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "copy")
    tex = copy / "report.tex"
    tex.write_text(tex.read_text("utf-8").replace(r"\section*", r"\nosuchcommand*"), "utf-8")
    with pytest.raises(SuiteError, match="Undefined control sequence") as caught:
        write_pdf(copy)
    assert "\n" not in str(caught.value)


def test_many_tasks_are_rows_of_the_table_in_latex(folder):
    tex = (folder / "report.tex").read_text("utf-8")
    scores = tex.partition(r"\label{tab:scores}")[2].partition(r"\end{table}")[0]
    assert [line.split(" & ")[0] for line in scores.splitlines() if line.startswith("T")] == [
        "Task", *(f"T{i}" for i in range(12)),
    ]  # fmt: skip
