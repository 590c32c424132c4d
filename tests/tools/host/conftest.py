"""Machines for the tests of the host's tools."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.tools.host.ovs_rig import BRIDGE, Machine, running_machine


@pytest.fixture(scope="module")
def running_ovs() -> Iterator[Machine]:
    """Yields a machine with Open vSwitch for all tests of a module."""
    with running_machine() as machine:
        yield machine


@pytest.fixture
def ovs(running_ovs: Machine) -> Iterator[Machine]:
    """Yields a machine with Open vSwitch that has no bridges."""
    yield running_ovs
    running_ovs.clear()


@pytest.fixture
def switching(ovs: Machine) -> Machine:
    """Returns a machine with Open vSwitch whose bridge `BRIDGE` has two ports and no flows."""
    ovs.vsctl("add-br", BRIDGE, "--", "add-port", BRIDGE, "p1", "--", "add-port", BRIDGE, "p2")
    ovs.ofctl("del-flows", BRIDGE)
    return ovs
