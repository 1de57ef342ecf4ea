"""Compares the operator's command line with its rivals, on one real broker: python -m tests.bench.admin [SECTION ...]

The broker runs with the flags of Kafka's own script. It has 1,000 groups without members, each with offsets of 20
partitions, and one group that is live. Each command is a new process, measured with its start-up as its users wait for
it, its output into a file. The tools take turns, round by round, after one round that does not count, unless it was a
matter of minutes; shown are medians. Python's bytecode is cached, as that of an installed program is.

    start        the time to start: kcoord --help, and a describe up to its first connection, which is refused, compared
                 with a Python that does nothing. The describe is in the rounds of every other section too: kcoord may
                 be slower than kadm by this time, which depends on what else the machine does meanwhile
    names        the names of all groups
    list         all groups with their states; kcoord and kadm also print members, topics and total lag
    describe     the live group
    thousand     all groups with all their partitions

kafka-consumer-groups is the JVM as bin/kafka-run-class.sh starts it, without the time of the shell script. kadm is a
small program with franz-go's library of that name (kadm/), compiled beforehand, with the same columns but for times.
"""

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from confluent_kafka import Consumer, Producer

from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from kcoord.errors import ErrorCode
from kcoord.testing.jars import kafka_jvm
from kcoord.testing.node import HOST
from tests.bench.support import client
from tests.bench.support.machine import machine, table
from tests.bench.support.servers import SCRIPT_FLAGS, Kafka, Running
from tests.clients.programs import build_go

ROUNDS, SLOW_ROUNDS = 15, 5
TOPIC, PARTITIONS, RECORDS = "bench-admin-topic", 20, 1000  # records of each partition
GROUPS = [f"bench-group-{number:04}" for number in range(1000)]
LIVE = "bench-group-live"
IN_FLIGHT = 50
TIMEOUT = 900.0
SLOW = 60.0  # a command that takes longer is run once
SETTINGS = {"offsets.topic.num.partitions": "50", "group.initial.rebalance.delay.ms": "0"}
KCOORD_COMMAND = str(Path(sys.executable).parent / "kcoord")
KADM_SOURCE = Path(__file__).parent / "kadm"
JAVA_TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
# The defaults of bin/kafka-run-class.sh. G1 and the other flags are those of the broker.
TOOL_FLAGS = (
    "-Xmx256M",
    *(flag for flag in SCRIPT_FLAGS if not flag.startswith(("-Xmx", "-Xms"))),
    "-Dcom.sun.management.jmxremote=true",
    "-Dcom.sun.management.jmxremote.authenticate=false",
    "-Dcom.sun.management.jmxremote.ssl=false",
)
KCOORD, JAVA, KADM = "kcoord", "kafka-consumer-groups", "kadm"

# The goals: times faster than Java's tool, and seconds until the help is printed.
FASTER_DESCRIBE, FASTER_THOUSAND, HELP_SECONDS = 5.0, 20.0, 0.25

NOBODY = "127.0.0.1:1"  # a port that refuses connections
START_UP = f"{KCOORD} groups describe, nobody there"
WITHOUT_TIMES = f"{KCOORD}, --no-time"  # prints what kadm's program prints, and no more
SECTIONS = ("start", "names", "list", "describe", "thousand")

Command = Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """The command lines of the three tools, up to their verbs."""

    kcoord: Callable[..., Command]
    java: Callable[..., Command]
    kadm: Callable[..., Command]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """Commands that take turns: ours, Java's, kadm's, then variants of ours. In the section `start` there are no
    rivals.

    The output of each command that reaches a broker must contain `word` at least `count` times, or it is incomplete.
    """

    commands: Mapping[str, Command]
    rounds: int = ROUNDS
    word: str = ""
    count: int = 0


@dataclass(frozen=True, slots=True)
class Run:
    seconds: float
    cpu: float


Runs = Mapping[str, Sequence[Run]]


def main(sections: Sequence[str] = SECTIONS) -> None:
    unknown = set(sections) - set(SECTIONS)
    assert not unknown, f"{', '.join(unknown)}: say any of {', '.join(SECTIONS)}"
    with _folder() as folder, Running(Kafka(SCRIPT_FLAGS, uses_archive=False, settings=SETTINGS)) as broker:
        contests = _contests(_tools(broker.bootstrap, folder))
        print(f"the command line, medians of {ROUNDS} rounds, of {SLOW_ROUNDS} for the thousand\n{machine()}")
        print(f"{JAVA}: java {' '.join(TOOL_FLAGS)}\n")
        _seed(broker)
        with _live_group(broker.bootstrap):
            seen = {name: _measured(name, contests[name], folder) for name in sections}
    _judge(seen)


def _tools(bootstrap: str, folder: Path) -> Tools:
    jvm = replace(kafka_jvm(), archive_flags=())
    kadm = str(build_go(KADM_SOURCE, folder))

    def java(*arguments: str) -> Command:
        options = ("--bootstrap-server", bootstrap, "--timeout", str(round(TIMEOUT * 1000)))
        return jvm.command(JAVA_TOOL, *options, *arguments, temp_folder=folder, flags=TOOL_FLAGS)

    return Tools(
        kcoord=lambda *arguments: (KCOORD_COMMAND, "groups", *arguments, "-b", bootstrap),
        java=java,
        kadm=lambda verb, *groups: (kadm, verb, "-bootstrap", bootstrap, *groups),
    )


def _contests(tools: Tools) -> dict[str, Contest]:
    kcoord, java, kadm = tools.kcoord, tools.java, tools.kadm
    start_up = {START_UP: (KCOORD_COMMAND, "groups", "describe", LIVE, "-b", NOBODY)}
    start = {
        f"{KCOORD} --help": (KCOORD_COMMAND, "--help"),
        **start_up,
        "python -c pass": (sys.executable, "-c", "pass"),
    }
    names = {
        f"{KCOORD} groups list --names": kcoord("list", "--names"),
        f"{JAVA} --list": java("--list"),
        f"{KADM} names": kadm("names"),
        **start_up,
    }
    list_all = {
        f"{KCOORD} groups list": kcoord("list"),
        f"{JAVA} --list --state --type": java("--list", "--state", "--type"),
        f"{KADM} list": kadm("list"),
        **start_up,
    }
    describe = {
        f"{KCOORD} groups describe": kcoord("describe", LIVE),
        f"{JAVA} --describe": java("--describe", "--group", LIVE),
        f"{KADM} describe": kadm("describe", LIVE),
        WITHOUT_TIMES: kcoord("describe", LIVE, "--no-time"),
        **start_up,
    }
    thousand = {
        f"{KCOORD} groups describe --all-groups": kcoord("describe", "--all-groups", "-o", "table"),
        f"{JAVA} --describe --all-groups": java("--describe", "--all-groups"),
        f"{KADM} describe-all": kadm("describe-all"),
        f"{KCOORD}, -o json": kcoord("describe", "--all-groups", "-o", "json"),
        f"{KCOORD}, --time": kcoord("describe", "--all-groups", "--time"),
        **start_up,
    }
    of_all, lines = len(GROUPS) + 1, (len(GROUPS) + 1) * PARTITIONS
    return {
        "start": Contest(commands=start),
        "names": Contest(commands=names, word="bench-group-", count=of_all),
        "list": Contest(commands=list_all, word="bench-group-", count=of_all),
        "describe": Contest(commands=describe, word=TOPIC, count=PARTITIONS),
        "thousand": Contest(commands=thousand, word=TOPIC, count=lines, rounds=SLOW_ROUNDS),
    }


# Test data


def _seed(broker: Running) -> None:
    client.create_topic(broker.bootstrap, TOPIC, partitions=PARTITIONS)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for number in range(RECORDS * PARTITIONS):
        producer.produce(TOPIC, b"a record of some forty bytes, for its age", partition=number % PARTITIONS)
    left = producer.flush(60)
    assert not left, f"{left} records were not delivered"
    with Client(HOST, broker.port, timeout=60) as server:
        server.ask(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["any"])  # this request creates the topic
        _commit(server)


def _commit(server: Client) -> None:
    """Commits the offsets of all groups, different ones for each group; retries while the coordinator is not ready."""
    pending = list(enumerate(GROUPS))
    deadline = time.monotonic() + 120
    while pending:
        assert time.monotonic() < deadline, f"the offsets of {len(pending)} groups were not taken"
        chunk, pending = pending[:IN_FLIGHT], pending[IN_FLIGHT:]
        for number, group in chunk:
            lines = [
                {"partition_index": each, "committed_offset": (number + each) % RECORDS, "committed_metadata": ""}
                for each in range(PARTITIONS)
            ]
            topics = [{"name": TOPIC, "partitions": lines}]
            server.send(
                ApiKey.OFFSET_COMMIT, 8, group_id=group, generation_id_or_member_epoch=-1, member_id="", topics=topics
            )
        answers = [server.receive(ApiKey.OFFSET_COMMIT, 8) for _ in chunk]
        errors = [{line.error_code for topic in answer.topics for line in topic.partitions} for answer in answers]
        refused = [each for each, codes in zip(chunk, errors, strict=True) if codes != {ErrorCode.none}]
        if refused:
            pending += refused
            time.sleep(0.1)


@contextmanager
def _live_group(bootstrap: str) -> Iterator[None]:
    """Runs one member that owns and has committed all partitions."""
    member = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": LIVE,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "max.poll.interval.ms": 86_400_000,  # nobody polls it while the tools run
            "log_level": 0,
        }
    )
    try:
        member.subscribe([TOPIC])
        deadline = time.monotonic() + 60
        while not member.assignment():
            assert time.monotonic() < deadline, "the member has got no partitions"
            member.poll(0.1)
        owned = member.assignment()
        assert len(owned) == PARTITIONS, owned
        member.pause(owned)
        for each in owned:
            each.offset = RECORDS // 2
        member.commit(offsets=owned, asynchronous=False)
        yield
    finally:
        member.close()


# Measuring


def _measured(section: str, contest: Contest, folder: Path) -> Runs:
    seen = _measure(contest, folder)
    print(f"{section}\n{table(_rows(seen))}\n", flush=True)
    return seen


def _measure(contest: Contest, folder: Path) -> Runs:
    results: dict[str, list[Run]] = {name: [] for name in contest.commands}
    slow: set[str] = set()
    for number in range(contest.rounds + 1):
        for name in [name for name in contest.commands if name not in slow]:
            run = _run(contest.commands[name], folder)
            word_count = _output(folder).read_text().count(contest.word) if contest.word else 0
            assert word_count >= contest.count or name == START_UP, (
                f"{name} said {contest.word} {word_count} times, not {contest.count}"
            )
            if run.seconds > SLOW:
                slow.add(name)
            if number or name in slow:  # the first round is for caches and the broker's compilers
                results[name].append(run)
    return results


def _run(command: Command, folder: Path) -> Run:
    """Runs the command and measures its time and CPU time. No other child may end meanwhile, since the CPU time is
    that of all children that have ended."""
    # A user's environment: without this shell's settings of Python (such as to write no bytecode) and of kcoord.
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "KCOORD_"))}
    cpu_before, started = _children_cpu(), time.perf_counter()
    with _output(folder).open("wb") as stdout:
        ran = subprocess.run(
            command,
            env={**ours, "PYTHONPYCACHEPREFIX": str(folder / "bytecode")},
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            timeout=TIMEOUT,
        )
    seconds = time.perf_counter() - started
    expected = 1 if NOBODY in command else 0
    assert ran.returncode == expected, f"{' '.join(command)}\n{ran.stderr[-3000:]}"
    return Run(seconds, _children_cpu() - cpu_before)


def _output(folder: Path) -> Path:
    return folder / "output"


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# Showing


def _rows(seen: Runs) -> list[list[str]]:
    rows = [["command", "runs", "seconds", "from", "to", "CPU s", "over kcoord", "CPU"]]
    ours = next(iter(seen.values()))
    for name, runs in seen.items():
        times = [run.seconds for run in runs]
        row = [name, str(len(runs)), *(f"{each:.3f}" for each in (_seconds(runs), min(times), max(times), _cpu(runs)))]
        rows.append([*row, f"{_seconds(runs) / _seconds(ours):.2f}x", f"{_cpu(runs) / _cpu(ours):.2f}x"])
    return rows


def _judge(seen: Mapping[str, Runs]) -> None:
    """Prints the goals of the sections that were run, and whether they are met."""
    rows = [["aim", "seen", "target", "met"]]
    medians = {section: [_seconds(runs) for runs in of_all.values()] for section, of_all in seen.items()}

    def judge(goal: str, value: str, target: str, is_met: bool) -> None:
        rows.append([goal, value, target, "yes" if is_met else "NO"])

    for section, target in (("describe", FASTER_DESCRIBE), ("thousand", FASTER_THOUSAND)):
        if section in medians:
            faster = medians[section][1] / medians[section][0]
            judge(f"{section}: times faster than {JAVA}", f"{faster:.1f}x", f"{target:.0f}x", faster >= target)
    if "start" in medians:
        help_seconds = medians["start"][0]
        judge("seconds until the help is there", f"{help_seconds:.3f}", f"{HELP_SECONDS}", help_seconds < HELP_SECONDS)
    for section in [each for each in medians if each != "start"]:
        start_up = _seconds(seen[section][START_UP])
        for name in [each for each in seen[section] if each in (next(iter(seen[section])), WITHOUT_TIMES)]:
            behind = _seconds(seen[section][name]) - medians[section][2]
            judge(f"{name}: seconds behind {KADM}", f"{behind:.3f}", f"{start_up:.3f}", behind <= start_up)
    print(
        f"{table(rows)}\n{KADM}: kcoord is to be behind it by no more than its own start-up, "
        "a describe up to its first connection, as it was in the same rounds. A describe reads the times of "
        "records too, which kadm's program does not, unless it is told --no-time."
    )


def _seconds(runs: Sequence[Run]) -> float:
    return median(run.seconds for run in runs)


def _cpu(runs: Sequence[Run]) -> float:
    return median(run.cpu for run in runs)


@contextmanager
def _folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="kcoord-bench-admin-") as folder:
        yield Path(folder)


if __name__ == "__main__":
    main(sys.argv[1:] or SECTIONS)
