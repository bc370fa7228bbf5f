"""A PDF of a report by an installed LaTeX."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from relation_tf.errors import SuiteError
from relation_tf.files import write_bytes

_TEX = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "report"]
_STEPS = {
    "pdflatex": [_TEX, ["bibtex", "report"], _TEX, _TEX],
    "tectonic": [["tectonic", "--untrusted", "report.tex"]],
}
_LIMIT = 120  # seconds of a step


def write_pdf(folder: Path) -> None:
    """Write `report.pdf` next to `report.tex` of a report.

    Args:
        folder: The folder of the report, with `references.bib` and `figures/`.

    Raises:
        SuiteError: If no LaTeX is installed, or it fails; with its first error.
    """
    installed = [name for name, ((first, *_), *_) in _STEPS.items() if shutil.which(first)]
    if not installed:
        raise SuiteError("report.pdf needs pdflatex (such as of TeX Live) or tectonic")
    with tempfile.TemporaryDirectory() as place:
        for name in ("report.tex", "references.bib"):
            shutil.copy(folder / name, place)
        if (folder / "figures").is_dir():
            shutil.copytree(folder / "figures", Path(place) / "figures")
        environment = {**os.environ, "SOURCE_DATE_EPOCH": "0", "FORCE_SOURCE_DATE": "1"}
        cites = r"\bibliography{" in (folder / "report.tex").read_text("utf-8")
        for step in _STEPS[installed[0]]:
            if step[0] == "bibtex" and not cites:
                continue
            try:
                done = subprocess.run(
                    step, cwd=place, env=environment, capture_output=True, timeout=_LIMIT,
                    stdin=subprocess.DEVNULL, check=False,
                )  # fmt: skip
            except (OSError, subprocess.TimeoutExpired) as error:
                raise SuiteError(f"report.pdf: {step[0]} failed: {error}") from error
            if done.returncode:
                said = (done.stdout + done.stderr).decode(errors="replace").splitlines()
                faults = [line for line in said if line.startswith(("!", "error:"))] or said[-1:]
                raise SuiteError(f"report.pdf: {step[0]} failed: {' '.join(faults[:1]):.200}")
        write_bytes(folder / "report.pdf", (Path(place) / "report.pdf").read_bytes())
