"""Write the data of this study: CoLA and a sample of SST-2 with 8,000 training rows.

`python results/modern/sentences/sample.py DIR SAMPLE`: the rows are read from `DIR/glue_data` and
written to `SAMPLE/glue_data`. Dev and test sets are complete.
"""

import random
import shutil
import sys
from pathlib import Path

ROWS = 8_000
SEED = 1


def write_sample(data: Path, sample: Path) -> None:
    """Copy CoLA and SST-2 from `data` to `sample`, with `ROWS` training rows of SST-2."""
    for task in ("CoLA", "SST-2"):
        shutil.copytree(data / "glue_data" / task, sample / "glue_data" / task)
    path = sample / "glue_data" / "SST-2" / "train.tsv"
    header, *rows = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text(header + "".join(random.Random(SEED).sample(rows, ROWS)), encoding="utf-8")


if __name__ == "__main__":
    write_sample(*map(Path, sys.argv[1:]))
