"""Where the files of a task lie below the folder that a user names."""

from __future__ import annotations

from pathlib import Path

from relation_tf.tasks.tsv import DataError


def find_path(task: str, data: Path | None, *places: str) -> Path:
    """The first of some places below a folder where something is.

    Args:
        task: Whose data it is, for messages.
        data: The folder, what `--data` names; None where nothing was named.
        places: Paths below it, the first choice first.

    Raises:
        DataError: Where nothing is; it says where it looked, or what it was not given.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> (folder / "RTE").mkdir()
        >>> find_path("RTE", folder, "glue_data/RTE", "RTE").name
        'RTE'
    """
    if data is None:
        raise DataError(
            f"task {task}: expected --data DIR, a folder with {' or '.join(places)}; none was given"
        )
    paths = [data / place for place in places]
    for path in paths:
        if path.exists():
            return path
    raise DataError(
        f"task {task}: looked for {' and '.join(map(str, paths))}, found neither. --data DIR names "
        "the folder that holds one of them"
    )
