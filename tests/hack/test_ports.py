import subprocess
import sys

from hack.cluster import ports
from hack.cluster.ports import pick_ports

PICK_ALL = """
from hack.cluster import ports
ports._PORTS = range({first}, {first} + 200)
print(*ports.pick_ports(190))
"""


def test_a_port_that_was_picked_is_given_to_no_other_process() -> None:
    [mine] = pick_ports(1)
    first = max(ports._PORTS.start, mine - 100)

    said = subprocess.run(
        [sys.executable, "-c", PICK_ALL.format(first=first)],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip

    assert str(mine) not in said.split()
