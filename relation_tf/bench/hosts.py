"""Connect the hosts that run a suite together, and agree on the pending runs."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, Field, ValidationError, model_validator

from relation_tf import __version__
from relation_tf.bench.provenance import version_of
from relation_tf.config.run import RunConfig
from relation_tf.errors import SuiteError
from relation_tf.faults import first_fault
from relation_tf.interrupts import ended_by_interrupts
from relation_tf.quiet import stderr_to
from relation_tf.training.distribution import Distribution
from relation_tf.training.session import raise_if_lost, start_tensorflow

if TYPE_CHECKING:
    from relation_tf.training.replicas import Replicas

_EXAMPLE = (
    '{"cluster": {"worker": ["host1:2222", "host2:2222"]}, "task": {"type": "worker", "index": 0}}'
)


@dataclass(frozen=True)
class Hosts:
    """The hosts of a suite; by default only this one.

    Attributes:
        addresses: Addresses of all hosts, the chief first; empty for only this one.
        is_chief: If True, this host writes the results.
        scratch: A temporary folder for a host that is not the chief.
        replicas: The devices of all hosts, if there are several.
    """

    addresses: tuple[str, ...] = ()
    is_chief: bool = True
    scratch: Path = Path(os.devnull)
    replicas: Replicas | None = None

    def log_to(self, path: Path) -> AbstractContextManager[None]:
        """Write TensorFlow's messages about lost hosts to a file."""
        return contextlib.nullcontext() if self.replicas is None else stderr_to(path)

    def agree_on_pending(
        self, chosen: Sequence[RunConfig], pending: list[RunConfig], *options: bool
    ) -> list[RunConfig]:
        """Return the chief's pending runs, sent through the devices: no disk is shared.

        Args:
            chosen: The requested runs.
            pending: Unfinished runs in the folder of this host.
            *options: Other values that must be the same on all hosts.

        Raises:
            SuiteError: If the hosts have different requests or data.
        """
        if self.replicas is None:
            return pending
        versions = [__version__, *map(version_of, ("tensorflow", "keras"))]
        configs = [config.model_dump(mode="json") for config in chosen]
        asked = json.dumps([versions, options, configs])
        digests = self.replicas.gather_from_hosts([*hashlib.sha256(asked.encode()).digest()])
        if (digests != digests[0]).any():
            raise SuiteError(
                "the hosts differ: all hosts must have the same versions, suite, options, data and "
                "word vectors"
            )
        left = {config.key for config in pending}
        flags = self.replicas.broadcast_from_chief(*(config.key in left for config in chosen))
        return [config for config, flag in zip(chosen, flags, strict=True) if flag]


@contextlib.contextmanager
def connect_hosts(distribution: Distribution | None, threads: int, quiet: bool) -> Iterator[Hosts]:
    """Connect all hosts that share a run, and report a host that is lost.

    Args:
        distribution: Devices that share each run.
        threads: Threads per operation.
        quiet: If True, print nothing.

    Raises:
        SuiteError: If `TF_CONFIG` is wrong, or a host cannot be reached or is lost.
    """
    if distribution is None or not distribution.of_several_hosts:
        yield Hosts()
        return
    hosts = this_host()
    if not quiet:
        chief = "this host" if hosts.is_chief else hosts.addresses[0]
        line = f"waiting for {', '.join(hosts.addresses)}; {chief} writes the results"
        print(line, flush=True)
    with ended_by_interrupts():
        replicas = start_tensorflow(Path(os.devnull), threads, distribution)
    with tempfile.TemporaryDirectory() as scratch:
        try:
            yield replace(hosts, scratch=Path(scratch), replicas=replicas)
        except Exception as error:
            raise_if_lost(error)
            raise


def this_host(environment: Mapping[str, str] = os.environ) -> Hosts:
    """Parse `TF_CONFIG`, see TensorFlow's documentation.

    Raises:
        SuiteError: If the variable is not set or is invalid.

    Example:
        >>> hosts = this_host({"TF_CONFIG": '''{
        ...     "cluster": {"worker": ["10.0.0.1:2222", "10.0.0.2:2222"]},
        ...     "task": {"type": "worker", "index": 1}
        ... }'''})
        >>> hosts.addresses, hosts.is_chief
        (('10.0.0.1:2222', '10.0.0.2:2222'), False)
    """
    text = environment.get("TF_CONFIG")
    if not text:
        raise SuiteError(
            "TF_CONFIG: --strategy multi-worker needs this environment variable on each host, "
            f"such as {_EXAMPLE}. Received: {'nothing' if text is None else repr(text)}"
        )
    try:
        found = _TFConfig.model_validate_json(text)
    except ValidationError as error:
        fault = first_fault(error)
        if not text.lstrip().startswith("{") or fault.startswith("Invalid JSON"):
            fault = f"must be JSON such as {_EXAMPLE}. Received: {text!r:.80}"
        raise SuiteError(f"TF_CONFIG: {fault}") from error
    chief, workers = found.cluster.get("chief", []), found.cluster.get("worker", [])
    leads = found.task.type == "chief" or (not chief and found.task.index == 0)
    return Hosts((*chief, *workers), leads)


def _address(text: str) -> str:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port[:6]) < 2**16:
        raise ValueError("an address host:port")
    return text


_Job = Literal["chief", "worker"]
_Addresses = Annotated[list[Annotated[str, AfterValidator(_address)]], Field(min_length=1)]


class _Task(BaseModel):
    type: _Job
    index: Annotated[int, Field(ge=0, strict=True)]


class _TFConfig(BaseModel):
    cluster: dict[_Job, _Addresses]
    task: _Task

    @model_validator(mode="after")
    def _fits(self) -> Self:
        own = self.cluster.get(self.task.type, [])
        if self.task.index >= len(own):
            raise ValueError(
                f"key 'task.index': must be less than {len(own)}, the number of {self.task.type} "
                f"addresses in 'cluster'. Received: {self.task.index}"
            )
        chiefs = self.cluster.get("chief", [])
        if len(chiefs) > 1:
            raise ValueError(f"key 'cluster.chief': must be one address. Received: {chiefs!r:.80}")
        every = [address for addresses in self.cluster.values() for address in addresses]
        if len(set(every)) < len(every):
            raise ValueError(f"key 'cluster': must not repeat an address. Received: {every!r:.80}")
        return self
