"""Share of the checks of files in the processor time of a report."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from relation_tf.bench import checksums, read_results, results
from relation_tf.report import make_report


def main() -> None:
    """Report on the folder of a suite, and print the time of the checks and of the whole."""
    spent = []

    def timed(folder: Path, **options: Any) -> str | None:
        started = time.process_time()
        fault = checksums.damage(folder, **options)
        spent.append(time.process_time() - started)
        return fault

    results.damage = timed  # type: ignore[assignment]
    started = time.process_time()
    with tempfile.TemporaryDirectory() as out:
        make_report(read_results(sys.argv[1])).write(Path(out))
    whole = time.process_time() - started
    print(f"{len(spent)} runs: {sum(spent):.2f} s of {whole:.1f} s ({sum(spent) / whole:.1%})")


if __name__ == "__main__":
    main()
