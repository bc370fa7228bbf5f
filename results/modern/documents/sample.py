"""Write the data of this study: samples of IMDb and of Reuters.

`python results/modern/documents/sample.py DIR SAMPLE`: reads `DIR/imdb/train.tsv`, `test.tsv` and
`DIR/reuters21578/reut2-*.sgm`, and writes files of the same names to `SAMPLE`.
"""

import random
import re
import sys
from pathlib import Path

REVIEWS = 2_000  # of the training and of the test set of IMDb
NEWSWIRES = 6_000  # of the 21,578 of Reuters; about half of them have a topic
SEED = 1

_NEWSWIRE = re.compile(r"<REUTERS .*?</REUTERS>\n", re.DOTALL)


def sample_reviews(source: Path, target: Path) -> None:
    """Write the header and `REVIEWS` random rows of `source` to `target`."""
    header, *rows = source.read_bytes().splitlines(keepends=True)
    target.write_bytes(header + b"".join(random.Random(SEED).sample(rows, REVIEWS)))


def sample_newswires(source: Path, target: Path) -> None:
    """Write `NEWSWIRES` random newswires of the files in `source` to `target`, in their order."""
    paths = sorted(source.glob("reut2-*.sgm"))
    newswires = [
        (path.name, newswire)
        for path in paths
        for newswire in _NEWSWIRE.findall(path.read_text(encoding="latin-1"))
    ]
    kept = sorted(random.Random(SEED).sample(range(len(newswires)), NEWSWIRES))
    for path in paths:
        texts = (newswires[place][1] for place in kept if newswires[place][0] == path.name)
        (target / path.name).write_text("".join(texts), encoding="latin-1")


def write_sample(data: Path, sample: Path) -> None:
    """Write samples of both tasks of `data` to `sample`."""
    for folder in ("imdb", "reuters21578"):
        (sample / folder).mkdir(parents=True)
    for split in ("train", "test"):
        sample_reviews(data / f"imdb/{split}.tsv", sample / f"imdb/{split}.tsv")
    sample_newswires(data / "reuters21578", sample / "reuters21578")


if __name__ == "__main__":
    write_sample(*map(Path, sys.argv[1:]))
