"""Layout of a paper's table. Does not import Keras."""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field

from relation_tf.config.method import Method, size_name


class TableLayout(BaseModel):
    """Rows and columns of a paper's table.

    Attributes:
        rows: Keys that differ from row to row: `"method"`, `"task"`, `"mechanism"`, `"units"`,
            `"size"` or options of the methods; several keys are nested.
        columns: Keys that differ from column to column, from the same list.
        measures: Contents of a cell: `"score"`, `"milliseconds per batch"`, `"seconds per epoch"`,
            or `"seconds"` (time to target; needs a stopping rule such as `"accuracy_reached"`).
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    rows: Annotated[list[str], Field(min_length=1)] = ["method"]
    columns: Annotated[list[str], Field(min_length=1)] = ["task"]
    measures: Annotated[
        list[Literal["score", "seconds", "seconds per epoch", "milliseconds per batch"]],
        Field(min_length=1),
    ] = ["score"]

    def place(self, method: Method, task: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the row and the column of an expanded method on a task."""
        known = {"task": task, **values_of(method)}
        texts = {key: str(value) for key, value in known.items() if value is not None}
        row, column = ([texts.get(key, "–") for key in keys] for keys in (self.rows, self.columns))
        return tuple(row), tuple(column)


def values_of(method: Method) -> dict[str, Any]:
    """Return what distinguishes an expanded method: its name, mechanism, size and options."""
    return {
        "method": method.name,
        "mechanism": method.mechanism,
        "units": method.units,
        "size": None if method.size is None else size_name(cast(int, method.size)),
        **method.options,
    }
