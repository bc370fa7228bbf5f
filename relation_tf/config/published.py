"""Published figures, which reports show next to the scores. Does not import Keras."""

from __future__ import annotations

import tomllib
from importlib import resources
from pathlib import Path
from typing import Annotated

from pydantic import Field, NonNegativeFloat, ValidationError

from relation_tf.faults import Settings, first_fault
from relation_tf.files import refuse_device


class PublishedFigure(Settings, strict=False):
    """One published figure.

    Attributes:
        method: Name of a method or mechanism, or the paper's name of another method.
        units: Width of the method, if the paper has several.
        task: Name of the scored task, or of an average.
        metric: The metric, `"score"` for an average, `"seconds"` (to the target of a stopping
            rule), `"seconds per epoch"` or `"milliseconds per batch"`.
        value: As published: points for scores.
        sd: Published standard deviation, if any.
    """

    method: str
    units: Annotated[int, Field(ge=1)] | None = None
    task: str
    metric: str = "accuracy"
    value: float
    sd: NonNegativeFloat | None = None

    @property
    def name(self) -> str:
        """The method with its width."""
        return self.method if self.units is None else f"{self.method}-{self.units}"


class PublishedClaims(Settings, strict=False):
    """Pairs of methods that a paper calls significantly different: all combinations of the lists.

    Attributes:
        better: The methods that are called better.
        than: The methods that they are compared with.
        tasks: The tasks of the claims.
        metrics: The metrics of the claims; by default the only one of each task.
        units: The widths of the claims; empty if figures have no widths.
    """

    better: Annotated[list[str], Field(min_length=1)]
    than: Annotated[list[str], Field(min_length=1)]
    tasks: Annotated[list[str], Field(min_length=1)]
    metrics: list[str] = Field(default_factory=list)
    units: list[int] = Field(default_factory=list)


class Published(Settings, strict=False):
    """The figures of one table or figure of a paper.

    Attributes:
        source: The paper, and the table or figure.
        split: The split on which the figures were measured.
        vectors: Width of the paper's word vectors; None for random embeddings.
        seeds: Number of seeds of each mean, if there are standard deviations.
        missing: Omitted figures of the paper, and the reason.
        figure: The figures.
        claim: The paper's claims of significance.
    """

    source: str
    split: str = "test"
    vectors: Annotated[int, Field(ge=1)] | None = None
    seeds: Annotated[int, Field(ge=2)] | None = None
    missing: str = ""
    figure: list[PublishedFigure] = Field(default_factory=list)
    claim: list[PublishedClaims] = Field(default_factory=list)


def load_published(name: str) -> Published:
    """Read published figures by name, or from a file.

    Raises:
        ValueError: If there is no such name or file, or it has faults.

    Example:
        >>> load_published("relation-table1").figure[0].value
        43.6
    """
    inside = resources.files("relation_tf.suites") / "published" / f"{name}.toml"
    try:
        file = inside if inside.is_file() else Path(name)
        if isinstance(file, Path):
            refuse_device(file)
        return Published.model_validate(tomllib.loads(file.read_text(encoding="utf-8")))
    except OSError as error:
        reason = "no such name or file" if isinstance(error, FileNotFoundError) else error.strerror
        raise ValueError(f"published figures {name!r}: {reason or error}") from error
    except ValidationError as error:
        raise ValueError(f"published figures {name!r}: {first_fault(error, Published)}") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"published figures {name!r}: invalid TOML: {error}") from error
