"""TensorBoard. Writes its event files without TensorFlow."""

from __future__ import annotations

import os
import shutil
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2
from tensorboard.plugins.hparams.summary_v2 import hparams_pb
from tensorboard.plugins.text.summary_v2 import text_pb
from tensorboard.summary.writer.record_writer import RecordWriter

from relation_tf.bench.trackers.tool import Status, Tool, parameters

_STATUS = {"finished": api_pb2.STATUS_SUCCESS, "failed": api_pb2.STATUS_FAILURE}


class EventFile:
    """A file of events.

    Args:
        folder: Its folder, which TensorBoard shows as one run.
        ending: End of its name.
    """

    def __init__(self, folder: Path, ending: str = "") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        name = f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}.{os.getpid()}{ending}"
        self._writer = RecordWriter((folder / name).open("wb"))
        self.write(Event(file_version="brain.Event:2"))

    def write(self, event: Event) -> None:
        """Write an event with the current time."""
        event.wall_time = time.time()
        self._writer.write(event.SerializeToString())
        self._writer.flush()

    def close(self) -> None:
        """Close the file."""
        self._writer.close()


class TensorBoard(Tool):
    """A folder of event files per run; a run that continues gets another file."""

    def open_run(
        self, name: str, config: Mapping[str, Any], known: str | None
    ) -> tuple[EventFile, str]:
        """Start a file."""
        folder = self.folder / name
        if known is None:  # TensorBoard would join the curves of another configuration
            shutil.rmtree(folder, ignore_errors=True)
        # TensorBoard shows only the first status, and errors of earlier failures.
        for ended in (*folder.glob("*.status"), *folder.glob("*.error")):
            ended.unlink()
        file = EventFile(folder)
        if known is None and config:
            file.write(Event(summary=hparams_pb(parameters(config), trial_id=name)))
        return file, name

    def log(self, run: EventFile, values: Mapping[str, float], epoch: int) -> None:
        """Write scalars."""
        scalars = [Summary.Value(tag=key, simple_value=value) for key, value in values.items()]
        run.write(Event(step=epoch, summary=Summary(value=scalars)))

    def end_run(
        self, run: EventFile, status: Status, values: Mapping[str, float], reason: str
    ) -> None:
        """Write the final values and the status, unless the run was interrupted."""
        self.log(run, values, int(values.get("epochs", 0)))
        run.close()
        if reason:
            _write(run.folder, ".error", text_pb("error", reason))
        if status == "interrupted":
            return
        ended = plugin_data_pb2.SessionEndInfo(status=_STATUS[status], end_time_secs=time.time())
        data = plugin_data_pb2.HParamsPluginData(session_end_info=ended)
        value = Summary.Value(
            tag=metadata.SESSION_END_INFO_TAG,
            metadata=metadata.create_summary_metadata(data),
            tensor=metadata.NULL_TENSOR,
        )
        _write(run.folder, ".status", Summary(value=[value]))

    def log_report(self, run: EventFile, report: Path) -> None:
        """Write the report in Markdown as text: TensorBoard has no artifacts."""
        text = (report / "report.md").read_text("utf-8")
        run.write(Event(summary=text_pb("report", text)))


def _write(folder: Path, ending: str, summary: Summary) -> None:
    """Write a file with one event."""
    file = EventFile(folder, ending)
    file.write(Event(summary=summary))
    file.close()


make = TensorBoard
