"""The table of libraries: what each plans when it leads, and which strategies it refuses to list together."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from kcoord.assignors.libraries import franz_go, franz_go_sticky, kafka_python, librdkafka, reading, sarama
from kcoord.assignors.libraries.reading import Read
from kcoord.assignors.plan import Plan, Subscriber, Topics
from kcoord.assignors.strategies import STRATEGIES, RebalanceStyle
from kcoord.protocol.consumer_protocol import decode_subscription

Assign: TypeAlias = Callable[[Collection[Subscriber], Topics], Plan]


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryStrategy:
    """A strategy as one library has it.

    `difference` is a sentence that says how it differs from Java's. If `is_exact`, `assign` returns the library's plan.
    Otherwise the library makes one of several plans by chance; `assign` returns one of them, or one that is as good,
    and `guarantee` says what all of them have in common. If the library can consider racks where `assign` does not,
    `unplanned_racks` is a sentence that says so, for groups in which racks make a difference.
    """

    name: str
    assign: Assign
    read: Read
    difference: str
    is_exact: bool = True
    guarantee: str = "the plan"
    unplanned_racks: str | None = None

    def subscriber(self, member_id: str, subscription: bytes, *, instance_id: str | None = None) -> Subscriber:
        """Decodes what a member has sent to a JoinGroup, as this library's leader reads it. Raises CorruptMessage if it
        is not a consumer's subscription, and AssignorFailed if it is one with which this library makes no plan."""
        return self.read(member_id, decode_subscription(subscription), instance_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """A client library, with the version that its plans were measured with. `mixes` is a sentence about lists of eager
    and cooperative strategies in one client."""

    name: str
    version: str
    strategies: Mapping[str, LibraryStrategy]
    mixes: str
    refuse: Callable[[Sequence[str]], str | None]


def refusal(library: str, strategies: Sequence[str]) -> str | None:
    """Returns the error with which a client of the library refuses a list of strategies, or None if it takes it."""
    return LIBRARIES[library].refuse(strategies)


def _accept(_: Sequence[str]) -> None:
    """Refuses nothing."""


def _refuse_as_librdkafka(strategies: Sequence[str]) -> str | None:
    known = {"range", "roundrobin", "cooperative-sticky"}
    if unknown := next((each for each in strategies if each not in known), None):
        return f"Failed to create consumer: Unsupported partition.assignment.strategy: {unknown}"
    if not _mixes(strategies):
        return None
    return (
        f"Failed to create consumer: All partition.assignment.strategy ({','.join(strategies)}) assignors must have the"
        " same protocol type, online migration between assignors with different protocol types is not supported"
    )


def _refuse_as_kafka_python(strategies: Sequence[str]) -> str | None:
    if not _mixes(strategies):
        return None
    return (
        f"KafkaConfigurationError: Specified partition_assignment_strategy assignors {list(strategies)} do not support"
        " a common RebalanceProtocol. Mixing EAGER and COOPERATIVE assignors in a single consumer is not supported."
    )


def _mixes(strategies: Sequence[str]) -> bool:
    return len({STRATEGIES[each].style for each in strategies}) > 1


def _by_name(*strategies: LibraryStrategy) -> dict[str, LibraryStrategy]:
    return {each.name: each for each in strategies}


_JAVA: Final = Library(
    name="java",
    version="4.3.1",
    strategies=_by_name(
        *(
            LibraryStrategy(
                name=each.name,
                assign=each.assign,
                read=reading.as_java(each.owned_from),
                difference="This is what the others are compared with.",
            )
            for each in STRATEGIES.values()
            if each.owned_from is not None and each.style is not RebalanceStyle.INCREMENTAL
        )
    ),
    mixes="An eager and a cooperative strategy may be listed together; the member is eager then.",
    refuse=_accept,
)

_LIBRDKAFKA: Final = Library(
    name="librdkafka",
    version="2.16.0",
    strategies=_by_name(
        LibraryStrategy(
            name="range",
            assign=librdkafka.assign_range,
            read=reading.from_fields,
            difference=(
                "Static members are not first: a static and another member are compared by their member ids. Of topics"
                " that are assigned together, members without a rack get what is left."
            ),
        ),
        LibraryStrategy(
            name="roundrobin",
            assign=librdkafka.assign_round_robin,
            read=reading.from_fields,
            difference="Static members are not first: a static and another member are compared by their member ids.",
        ),
        LibraryStrategy(
            name="cooperative-sticky",
            assign=librdkafka.assign_cooperative,
            read=reading.from_fields,
            difference=(
                "It is KIP-54's original algorithm: other partitions move, and a partition that is claimed but assigned"
                " to nobody stays with its claimant. Members of librdkafka without a rack count as in a rack without"
                " replicas."
            ),
        ),
    ),
    mixes="A list with eager and cooperative strategies is refused, and so is sticky, which it does not have.",
    refuse=_refuse_as_librdkafka,
)

_FRANZ_GO_STICKY: Final = (
    "It has an algorithm of its own: as even as possible, then as few moves as possible. Java's may stop before that."
)
_BEST: Final = (
    "the sizes of the shares, and how many partitions stay where they are, unless two members claim the same partition"
)

_BALANCE_RACKS: Final = (
    "Racks are not considered here; with BalanceRacks, franz-go considers the rack of each partition's leader."
)

_FRANZ_GO: Final = Library(
    name="franz-go",
    version="1.22.2",
    strategies=_by_name(
        LibraryStrategy(
            name="range",
            assign=franz_go.assign_range,
            read=reading.as_java(STRATEGIES["range"].owned_from),
            difference="It plans as Java does without racks.",
            unplanned_racks=_BALANCE_RACKS,
        ),
        LibraryStrategy(
            name="roundrobin",
            assign=franz_go.assign_round_robin,
            read=reading.as_java(STRATEGIES["roundrobin"].owned_from),
            difference="It plans as Java does.",
        ),
        LibraryStrategy(
            name="sticky",
            assign=franz_go_sticky.assign_sticky,
            read=reading.from_sticky_user_data,
            difference=_FRANZ_GO_STICKY,
            is_exact=False,
            guarantee=_BEST,
            unplanned_racks=_BALANCE_RACKS,
        ),
        LibraryStrategy(
            name="cooperative-sticky",
            assign=franz_go_sticky.assign_cooperative,
            read=reading.from_fields,
            difference=_FRANZ_GO_STICKY,
            is_exact=False,
            guarantee=_BEST,
            unplanned_racks=_BALANCE_RACKS,
        ),
    ),
    mixes="Eager and cooperative strategies may be listed together.",
    refuse=_accept,
)

_SARAMA_STICKY: Final = (
    "It is KIP-54's original algorithm without racks, in the random order of Go maps; moves that do not help are not"
    " undone."
)
_SARAMA_GUARANTEE: Final = (
    "the sizes of the shares, if all members have the same topics and no partition is claimed twice"
)

_SARAMA: Final = Library(
    name="sarama",
    version="1.61.1",
    strategies=_by_name(
        LibraryStrategy(
            name="range",
            assign=sarama.assign_range,
            read=reading.as_java(STRATEGIES["range"].owned_from),
            difference="Instance ids and racks are not considered: members are sorted by their member ids.",
        ),
        LibraryStrategy(
            name="roundrobin",
            assign=sarama.assign_round_robin,
            read=reading.as_java(STRATEGIES["roundrobin"].owned_from),
            difference="Instance ids are not considered, and partitions are sorted as text: t-10 before t-2.",
        ),
        LibraryStrategy(
            name="sticky",
            assign=sarama.assign_sticky,
            read=reading.as_sarama_sticky,
            difference=_SARAMA_STICKY,
            is_exact=False,
            guarantee=_SARAMA_GUARANTEE,
        ),
        LibraryStrategy(
            name="cooperative-sticky",
            assign=sarama.assign_cooperative,
            read=reading.as_java(STRATEGIES["cooperative-sticky"].owned_from),
            difference=_SARAMA_STICKY,
            is_exact=False,
            guarantee=_SARAMA_GUARANTEE,
        ),
    ),
    mixes="Eager and cooperative strategies may be listed together; the member is eager then.",
    refuse=_accept,
)

_KAFKA_PYTHON_ORDER: Final = (
    "Only the last run of static members and the last run of others, in the order of the JoinGroup response, get"
    " partitions"
)
_KAFKA_PYTHON_STICKY: Final = (
    "It is KIP-54's original algorithm, without racks. Of two equal claims the first one counts."
)

_KAFKA_PYTHON_USER_DATA: Final = (
    "Its user data begin with their version, so that it and other libraries do not know what each other's members own."
)
_KAFKA_PYTHON_GUARANTEE: Final = (
    "the plan, but for a few groups with different topics or contested claims, where Python's hashes have a part in it"
)

_KAFKA_PYTHON: Final = Library(
    name="kafka-python",
    version="3.0.12",
    strategies=_by_name(
        LibraryStrategy(
            name="range",
            assign=kafka_python.assign_range,
            read=reading.as_java(STRATEGIES["range"].owned_from),
            difference=f"{_KAFKA_PYTHON_ORDER}, and racks are not considered.",
        ),
        LibraryStrategy(
            name="roundrobin",
            assign=kafka_python.assign_round_robin,
            read=reading.as_java(STRATEGIES["roundrobin"].owned_from),
            difference=f"{_KAFKA_PYTHON_ORDER}; it fails if a member is not subscribed to the next partition's topic.",
        ),
        LibraryStrategy(
            name="sticky",
            assign=kafka_python.assign_sticky,
            read=reading.as_kafka_python_sticky,
            difference=f"{_KAFKA_PYTHON_STICKY} {_KAFKA_PYTHON_USER_DATA}",
            is_exact=False,
            guarantee=_KAFKA_PYTHON_GUARANTEE,
        ),
        LibraryStrategy(
            name="cooperative-sticky",
            assign=kafka_python.assign_cooperative,
            read=reading.from_fields,
            difference=_KAFKA_PYTHON_STICKY,
            is_exact=False,
            guarantee=_KAFKA_PYTHON_GUARANTEE,
        ),
    ),
    mixes="A list with eager and cooperative strategies is refused.",
    refuse=_refuse_as_kafka_python,
)

LIBRARIES: Final[Mapping[str, Library]] = {
    each.name: each for each in (_JAVA, _LIBRDKAFKA, _FRANZ_GO, _SARAMA, _KAFKA_PYTHON)
}
"""All libraries, by their names."""
