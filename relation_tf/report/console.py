"""The comparison in a terminal."""

from __future__ import annotations

import textwrap

from relation_tf.bench.results import Results
from relation_tf.report.answer import short_answer
from relation_tf.report.tables import all_runs, columns, compare, method_names


def summarize(results: Results) -> str:
    """The scores and the short answer as plain text.

    Args:
        results: The finished runs.

    Returns:
        A row for each scored set and the average, a column for each method, with mean and standard
        deviation over seeds in points; then the sentences of the report's short answer.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from relation_tf.bench import RunFolder, load_suite, read_results
        >>> folder = RunFolder(Path(tempfile.mkdtemp()))
        >>> folder.open(load_suite("demo"))
        >>> print(summarize(read_results(folder.path)))
        - Preliminary: 0 of 180 runs are done, 180 not done.
        - There is nothing to say yet.
    """
    sentences = short_answer(results, all_runs(results), compare(results))
    bullets = [
        textwrap.fill(sentence, 100, initial_indent="- ", subsequent_indent="  ")
        for sentence in sentences
    ]
    return "\n".join([*_scores(results), *bullets])


def _scores(results: Results) -> list[str]:
    if not results.runs:
        return []
    methods = method_names(results)
    scores = 100 * results.scores.set_index(["task", "method"])["score"]
    rows = [["", *methods]]
    for task in columns(results):
        row = [task]
        for method in methods:
            seeds = scores[scores.index == (task, method)]
            spread = f" ± {seeds.std():.1f}" if len(seeds) > 1 else ""
            row.append(f"{seeds.mean():.1f}{spread}" if len(seeds) else "-")
        rows.append(row)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows
    ] + [""]
