"""How a worker ends with its head and leaves it: the scripts of the chart."""

import os
import shutil
import subprocess
import sys

import pytest

from hack.chart.helm import CHART

SCRIPTS = CHART / "files" / "worker"
# Listens, takes connections and never answers; drops each after so many seconds, but for the first
# ones: of who looks whether it listens, and so many more.
LISTEN = """
import socket, sys, threading
taken = []
with socket.create_server((sys.argv[1], 6379), backlog=100) as server:
    while True:
        connection, _ = server.accept()
        taken.append(connection)
        if len(sys.argv) > 2 and len(taken) > 1 + int(sys.argv[3]):
            threading.Timer(float(sys.argv[2]), connection.close).start()
"""
# No new connection is taken; those there are stay.
REFUSE = (
    "nft add table t; nft add chain t c '{type filter hook input priority 0;}';"
    "nft add rule t c tcp flags syn / syn,ack reject with tcp reset;"
)
STAGE = """
ip link set lo up && ip address add 10.9.0.1/32 dev lo && mount -t tmpfs tmpfs /tmp || exit 99
export FQ_RAY_IP=127.0.0.1 HEAD_PORT=6379 DRAIN_SECONDS=3 PATH="/tmp:$PATH"
# A process is known by the name of its program.
cp "$(command -v sleep)" /tmp/raylet
printf '#!/bin/bash\\necho "ray $*"\\n' >/tmp/ray && chmod +x /tmp/ray

head_at() { "$PYTHON" -c "$LISTEN" "$@" & until is_open "$1"; do sleep 0.05; done; head=$!; }
is_open() { (exec 3<>"/dev/tcp/$1/6379") 2>/dev/null; }
watch_head() {
  bash -c "$WATCH" &
  watch=$!
  until [[ -e /tmp/trainshed-head ]]; do sleep 0.05; done
}
# Has the raylet be one that is connected to a head, by a socket that is this shell's, too.
connect() { end "$raylet"; exec 3<>"/dev/tcp/$1/6379"; /tmp/raylet 600 & raylet=$!; }
end() { kill -KILL "$1"; wait "$1" 2>/dev/null; }
# Whether the raylet is there still, after so many seconds at most.
see() {
  for ((i = 0; i < 10 * $1; i++)); do [[ -d /proc/$raylet ]] || break; sleep 0.1; done
  [[ -d /proc/$raylet ]] && echo lives || echo ended
}
/tmp/raylet 600 &
raylet=$!
"""

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("unshare"), reason="needs root for namespaces"
)


def read_script(name: str) -> str:
    """Return it with the function that both have, as the chart puts them together."""
    return "\n".join((SCRIPTS / file).read_text() for file in ("raylets.sh", name))


def play(scene: str) -> list[str]:
    """Return the lines that a scene printed, in a Pod's own namespaces."""
    if "nft " in scene and not shutil.which("nft"):
        pytest.skip("needs nft")
    inside = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
    done = subprocess.run(
        [*inside, "bash", "-c", STAGE + scene],
        env={
            "PATH": os.environ["PATH"],
            "PYTHON": sys.executable,
            "LISTEN": LISTEN,
            "WATCH": read_script("watch-head.sh"),
            "LEAVE": read_script("leave.sh"),
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_worker_ends_with_its_head_though_there_is_another_one() -> None:
    said = play("head_at 127.0.0.2; head_at 127.0.0.1; watch_head; end $head; see 20")

    assert said[-1] == "ended"
    assert "The head at 127.0.0.1 is lost" in said[0]


def test_a_worker_ends_with_its_head_though_it_is_connected_to_the_next_one() -> None:
    said = play(
        "head_at 127.0.0.2; head_at 127.0.0.1; watch_head; connect 127.0.0.2; end $head; see 20"
    )

    assert said[-1] == "ended"


def test_a_worker_knows_its_head_by_a_connection_over_ipv6_too() -> None:
    over = (
        "import socket, subprocess; to = socket.socket(socket.AF_INET6); "
        "to.connect(('::ffff:127.0.0.1', 6379)); to.set_inheritable(True); "
        "subprocess.Popen(['/tmp/raylet', '600'], close_fds=False)"
    )
    connect = f'end $raylet; "$PYTHON" -c "{over}"; raylet=$(pidof raylet);'

    assert play(f"head_at 127.0.0.1 0.5 1; {connect} watch_head; {REFUSE} see 7") == ["lives"]


def test_a_worker_ends_with_its_head_though_another_one_has_its_address() -> None:
    again = "end $head; sleep 6; head_at 127.0.0.1;"

    assert play(f"head_at 127.0.0.1; watch_head; {again} see 20")[-1] == "ended"


def test_a_worker_outlives_connections_that_its_head_drops() -> None:
    assert play("head_at 127.0.0.1 0.5 0; watch_head; see 4") == ["lives"]


def test_a_worker_outlives_a_head_that_does_nothing_for_a_while() -> None:
    scene = "head_at 127.0.0.1 0.5 0; watch_head; kill -STOP $head; see 4"

    assert play(scene) == ["lives"]


def test_a_worker_outlives_names_that_nobody_knows() -> None:
    no_names = "printf '#!/bin/bash\\nexit 2\\n' >/tmp/getent; chmod +x /tmp/getent;"

    assert play(f"head_at 127.0.0.1 0.5 0; watch_head; {no_names} see 4") == ["lives"]


def test_a_closed_port_ends_no_worker_that_is_connected_to_a_head() -> None:
    scene = f"head_at 127.0.0.1 0.5 1; connect 127.0.0.1; watch_head; {REFUSE} see 7"

    assert play(scene) == ["lives"]


def test_a_connection_of_another_program_keeps_no_worker() -> None:
    other = "(exec 3<>/dev/tcp/127.0.0.1/6379; sleep 60) & sleep 0.2;"
    scene = f"head_at 127.0.0.1 0.5 1; {other} watch_head; {REFUSE} see 20"

    assert play(scene)[-1] == "ended"


def test_a_worker_whose_heads_node_goes_dark_ends_though_its_connection_stays() -> None:
    # What is sent again is so after 5 ms first, not after 0.2 s.
    fast = "ip route change local 10.9.0.1 dev lo table local rto_min 5ms;"
    joined = "FQ_RAY_IP=10.9.0.1; head_at 10.9.0.1 0.5 1; connect 10.9.0.1; watch_head;"
    drop = "nft add rule t c tcp dport 6379 drop; echo >&3;"

    assert play(f"{fast} {joined} {REFUSE} {drop} see 20")[-1] == "ended"


def test_the_raylet_of_another_container_is_left_alone() -> None:
    scene = "unshare --mount /tmp/raylet 600 & other=$!; head_at 127.0.0.1; watch_head; end $head;"
    said = play(f"{scene} see 20; raylet=$other; see 0")

    assert said[-2:] == ["ended", "lives"]


def test_a_head_at_which_nobody_answers_is_lost_after_ten_seconds() -> None:
    # All at once for who watches: a port that is seen closed would be lost at once.
    lose = "kill -STOP $watch; end $head; ip address del 10.9.0.1/32 dev lo; kill -CONT $watch;"
    scene = f"FQ_RAY_IP=10.9.0.1; head_at 10.9.0.1; watch_head; {lose} see 7; see 20"

    said = play(scene)

    assert [said[0], said[-1]] == ["lives", "ended"]


def test_a_head_at_which_nobody_answers_is_lost_at_once_where_its_name_has_moved() -> None:
    name = "printf '#!/bin/bash\\ncat /tmp/name\\n' >/tmp/getent; chmod +x /tmp/getent;"
    at = "echo '{}  STREAM head' >/tmp/name;"
    lose = "kill -STOP $watch; end $head; ip address del 10.9.0.1/32 dev lo; kill -CONT $watch;"
    scene = f"{name} {at.format('10.9.0.1')} head_at 10.9.0.1; watch_head;"
    said = play(f"{scene} {lose} {at.format('127.0.0.2')} see 7")

    assert said[-1] == "ended"


def test_a_worker_that_leaves_is_drained_by_the_head_that_knows_it() -> None:
    said = play('head_at 127.0.0.1; watch_head; bash -c "$LEAVE"; echo $SECONDS; see 1')

    assert said[0].startswith("ray drain-node --address 127.0.0.1:6379 --reason DRAIN_NODE_")
    assert said[0].endswith("--deadline-remaining-seconds 3")
    assert int(said[1]) >= 3, "it has the time that it was given"
    assert said[2] == "ended"


def test_a_worker_has_its_time_where_only_new_connections_fail() -> None:
    no_new = "nft add table t; nft add chain t c '{type filter hook input priority 0;}';"
    no_syn = "nft add rule t c tcp flags syn / syn,ack drop;"
    scene = f"head_at 127.0.0.1; connect 127.0.0.1; watch_head; {no_new} {no_syn}"
    said = play(f'{scene} SECONDS=0; DRAIN_SECONDS=9 bash -c "$LEAVE"; echo $SECONDS; see 1')

    assert said[0].startswith("ray drain-node")
    assert int(said[1]) >= 9
    assert said[2] == "ended"


def test_a_worker_whose_head_is_gone_leaves_at_once() -> None:
    watch = "head_at 127.0.0.2; head_at 127.0.0.1; watch_head; kill $watch; end $head;"
    said = play(f'{watch} SECONDS=0; DRAIN_SECONDS=60 bash -c "$LEAVE"; echo $SECONDS; see 1')

    assert int(said[0]) < 30
    assert said[1] == "ended"


def test_a_worker_that_a_slow_head_does_not_drain_has_its_time_all_the_same() -> None:
    refuse = "printf '#!/bin/bash\\nexit 1\\n' >/tmp/ray;"
    said = play(f'{refuse} head_at 127.0.0.1; watch_head; bash -c "$LEAVE"; echo $SECONDS; see 1')

    assert int(said[0]) >= 3
    assert said[1] == "ended"


def test_a_worker_without_a_watch_is_drained_by_the_head_there_is() -> None:
    said = play('head_at 127.0.0.1; bash -c "$LEAVE"; see 1')

    assert said[0].startswith("ray drain-node --address 127.0.0.1:6379")
    assert said[1] == "ended"


def test_a_worker_without_a_raylet_any_more_waits_for_nothing() -> None:
    leave = 'SECONDS=0; DRAIN_SECONDS=60 bash -c "$LEAVE"; echo $SECONDS'
    said = play(f"head_at 127.0.0.1; end $raylet; {leave}")

    assert int(said[1]) < 30
