"""Checks before runs: packages, options, data, word vectors, encoders. Does not import Keras."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from relation_tf.bench.options import RunOptions
from relation_tf.config import RunConfig, Suite
from relation_tf.errors import OptionError, SuiteError, join_names
from relation_tf.registry import SOURCES
from relation_tf.tasks.catalogue import find_task
from relation_tf.tasks.encoding import EncodedTask
from relation_tf.tasks.glove import check_glove
from relation_tf.tasks.metrics import check_installed
from relation_tf.tasks.sources import digest_of_file
from relation_tf.training.pretrained import pretrained_digest


def check_requirements(suite: Suite, chosen: Sequence[RunConfig], options: RunOptions) -> None:
    """Check that the installed packages and the options allow the requested runs.

    Args:
        suite: The suite.
        chosen: The requested runs.
        options: Options of the call.

    Raises:
        MissingPackageError: If a metric needs a package that is not installed.
        OptionError, SuiteError: If an option excludes a key of the suite.
    """
    check_installed({metric for config in chosen for metric in find_task(config.entry).metrics})
    if options.executor != "local" and suite.pretrained is not None:
        raise OptionError(
            "executor",
            "must be local for a suite with a pre-trained encoder: its folder is not "
            f"sent to other machines. Received: {options.executor}, with pretrained = "
            f"{suite.pretrained!r}",
        )
    if options.strategy is None:
        return
    timed = next((run.task for run in chosen if find_task(run.entry).timed), None)
    if timed is not None:
        raise OptionError(
            "strategy",
            f"cannot be used for {timed}, which is timed on one device. "
            f"Received: {options.strategy}",
        )
    for config in chosen:
        if config.sharing == "adversarial" or config.transfers:
            raise SuiteError(
                f"key 'sharing': must not be {config.sharing!r} with --strategy "
                f"{options.strategy}: its penalties are those of a whole batch, and each device "
                "has a part of it"
            )
    if any(config.xla for config in chosen):
        raise SuiteError(
            f"key 'xla': must be false with --strategy {options.strategy}: XLA compiles the step "
            "of one device. Received: true"
        )


def check_folders(
    suite: Suite,
    data: str | Path | None,
    tfds_folder: str | Path | None,
    skip_bad_lines: bool = False,
) -> None:
    """Check that the data source of a suite reads the given folders, and files to skip lines of.

    Raises:
        SuiteError: If it does not read one of them, or all tasks are generated.
    """
    has, reads = f"source = {suite.source!r}, which reads", SOURCES[suite.source].reads
    if all(task.generated for task in suite.learned()):
        has, reads = "only generated tasks, which read", ()
    for name, folder, what in (
        ("data", data, "folder of files"),
        ("tfds", tfds_folder, "TFDS datasets"),
    ):
        if folder is not None and name not in reads:
            raise SuiteError(f"suite {suite.name} has {has} no {what}. Received: --{name} {folder}")
    if skip_bad_lines and "data" not in reads:
        raise SuiteError(f"suite {suite.name} has {has} no files. Received: --skip-bad-lines")


def vectors_digest(suite: Suite, chosen: Iterable[RunConfig], glove: Path | None) -> str | None:
    """Return the SHA-256 of the word vectors, or None if there are none.

    Args:
        suite: The suite.
        chosen: The requested runs.
        glove: File of the vectors.

    Raises:
        SuiteError: If no method of the suite uses the file, or requested runs lack it.
        DataError: If the file has no vectors of a width of the requested runs.
    """
    used = {suite.settings_of(each, task)["embeddings"]
            for task in suite.tasks for each in suite.methods()}  # fmt: skip
    if used == {"random"}:
        swept = suite.sweep is not None and "embeddings" in suite.sweep.values
        if glove is not None and not swept:  # a sweep can choose random embeddings
            raise SuiteError(
                f"suite {suite.name} has random embeddings; add --set embeddings=glove to start "
                f"from word vectors. Received: --glove {glove}"
            )
        return None
    widths = {run.embedding_dim for run in chosen if run.embeddings == "glove"}
    if glove is None and widths:
        raise SuiteError("embeddings = 'glove' needs --glove FILE")
    if glove is None:
        return None
    if not glove.is_file():
        raise SuiteError(f"--glove {glove}: no such file")
    for width in sorted(widths):
        check_glove(glove, width)
    return digest_of_file(glove).hex()


def encoder_digest(config: RunConfig) -> str | None:
    """Return the digest of a run's pre-trained encoder, or only of its vocabulary.

    Returns:
        None for a run without one.

    Raises:
        SuiteError: If there is no such encoder.
    """
    if config.pretrained is None:
        return None
    vocabulary = pretrained_digest(config.pretrained)
    if config.encoder_weights == "random":
        return vocabulary
    try:
        return pretrained_digest(config.pretrained, config.block_mechanism, config.seed_of("init"))
    except SuiteError as error:
        raise SuiteError(
            f"{error}; {config.method} needs it unless encoder_weights = 'random'"
        ) from error


def check_task(config: RunConfig, task: EncodedTask) -> None:
    """Check that a task was read from the files of its digests. Test sets may be added later.

    Raises:
        SuiteError: If they have changed.
    """
    expected = config.data_digests or {}
    changed = [key for key, own in expected.items() if task.digests.get(key, own) != own]
    if changed:
        raise _changed(f"{task.task.name} ({join_names(changed)})")


def check_vectors(config: RunConfig, glove: Path) -> None:
    """Check that the file of word vectors has its digest.

    Raises:
        SuiteError: If it has changed.
    """
    if config.glove_digest not in (None, digest_of_file(glove).hex()):
        raise _changed(f"--glove {glove}")


def check_encoder(config: RunConfig) -> None:
    """Check that the pre-trained encoder of a run has its digest.

    Raises:
        SuiteError: If it has changed.
    """
    if config.pretrained_digest not in (None, encoder_digest(config)):
        raise _changed(str(config.pretrained))


def _changed(place: str) -> SuiteError:
    return SuiteError(f"{place}: its files changed after the command started. Run it again")
