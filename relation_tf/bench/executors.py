"""Executors: functions that execute groups of runs, chosen by `--executor NAME`.

A custom executor is a function of the groups, a callback for events and the options of the run. It
must call `run_group` for each group, in any process that can access the folder of the groups:

    from relation_tf.bench.groups import run_group
    from relation_tf.registry import register_executor

    @register_executor("backwards")
    def backwards(groups, notify, options):
        for group in reversed(groups):
            run_group(group, notify)

Use `processes.run_in_workers` for workers that may die.
"""

from __future__ import annotations

from collections.abc import Sequence

from relation_tf.bench.groups import EventCallback, RunGroup, check_methods, run_group
from relation_tf.bench.options import RunOptions
from relation_tf.bench.processes import run_in_processes
from relation_tf.registry import register_executor


@register_executor("local")
def run_locally(groups: Sequence[RunGroup], notify: EventCallback, options: RunOptions) -> None:
    """Execute groups in this process, or in processes of this machine.

    Args:
        groups: The groups, in the order in which they start.
        notify: Called with each event, see `run_group`.
        options: Options of the run.

    Raises:
        SuiteError: If a method cannot be built or a folder cannot be written.
    """
    if options.in_processes:
        run_in_processes(groups, notify, options)
        return
    runs = [run for group in groups for run in group.runs]
    check_methods(runs, groups[0].folder, options.distribution)
    for group in groups:
        run_group(group, notify)
