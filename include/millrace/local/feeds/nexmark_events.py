"""Events of an online auction house, as in the Nexmark benchmark: new persons, new auctions and bids.

Of 50 events in a row, the first is a new person, three are new auctions and 46 are bids. A few auctions get most
bids, a few persons sell and bid most, and every id in an event already exists. Proportions, skew and ranges follow
Apache Beam's Nexmark suite, except that events carry no padding and no ids of the future.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Numbers = npt.NDArray[np.int64]
Draws = npt.NDArray[np.uint64]

TIME = pa.timestamp("us", "UTC")
PERSON = pa.struct(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("email", pa.string()),
        ("credit_card", pa.string()),
        ("city", pa.string()),
        ("state", pa.string()),
    ]
)
AUCTION = pa.struct(
    [
        ("id", pa.int64()),
        ("item", pa.string()),
        ("initial_bid", pa.int64()),
        ("reserve", pa.int64()),
        ("expires", TIME),
        ("seller", pa.int64()),
        ("category", pa.int64()),
    ]
)
BID = pa.struct([("auction", pa.int64()), ("bidder", pa.int64()), ("price", pa.int64())])
SCHEMA = pa.schema(
    [
        ("row_id", pa.int64()),
        ("event_time", TIME),
        ("kind", pa.string()),
        ("person", PERSON),
        ("auction", AUCTION),
        ("bid", BID),
    ]
)
"""``kind`` names the one of the last three columns that is not null. Prices are cents of a dollar."""

ROUND, AUCTIONS = 50, 3
"""Events of a round, and the auctions among them."""
FIRST_ID = 1000
CATEGORIES = range(10, 15)
HOT_EVERY = 100
"""One of so many auctions, sellers and bidders is hot, until the next one is."""
OPEN_AUCTIONS, ACTIVE_PERSONS = 100, 1000
"""How far back the ids of bids and auctions go that are not for a hot one."""
COLD_BID, COLD_PERSON = 2, 4
"""One of so many bids is for any open auction; one of so many sellers and bidders is any active person."""
DRAWS = 12
"""Random numbers per event, a multiple of the four that Philox makes per counter."""

FIRST_NAMES = (
    "Ada",
    "Alan",
    "Barbara",
    "Donald",
    "Edsger",
    "Frances",
    "Grace",
    "John",
    "Leslie",
    "Margaret",
    "Niklaus",
)
LAST_NAMES = ("Baker", "Carter", "Fisher", "Hunter", "Mason", "Miller", "Porter", "Taylor", "Turner")
CITIES = (
    ("Phoenix", "AZ"), ("Tucson", "AZ"), ("Fresno", "CA"), ("Oakland", "CA"), ("San Diego", "CA"), ("Boise", "ID"),
    ("Nampa", "ID"), ("Eugene", "OR"), ("Salem", "OR"), ("Spokane", "WA"), ("Tacoma", "WA"), ("Casper", "WY"),
)  # fmt: skip
QUALITIES = ("antique", "blue", "brass", "large", "new", "rare", "signed", "small", "used", "wooden")
ITEMS = ("bicycle", "book", "camera", "chair", "clock", "guitar", "lamp", "map", "painting", "radio", "stamp", "vase")


@dataclass(frozen=True)
class NexmarkEvents:
    """An endless row of events.

    Attributes:
        seed: The content of an event depends only on this and on its number, >= 0.
    """

    seed: int

    def take(self, first: int, times_us: Numbers) -> pa.Table:
        """Return consecutive events in :data:`SCHEMA`; an event's ``row_id`` is its number, from 0.

        Args:
            first: Number of the first event, >= 0.
            times_us: Event time of each, microseconds since 1970.
        """
        numbers = np.arange(first, first + len(times_us), dtype=np.int64)
        draws, place = self._draws(first, len(numbers)), numbers % ROUND
        kinds = np.select([place == 0, place <= AUCTIONS], ["person", "auction"], "bid")
        columns = [pa.array(numbers), pa.array(times_us, TIME), pa.array(kinds, pa.string())]
        for kind, make in (("person", _persons), ("auction", _auctions), ("bid", _bids)):
            chosen = np.flatnonzero(kinds == kind)
            made = make(numbers[chosen], times_us[chosen], draws[chosen])
            at = np.zeros(len(numbers), np.int64)
            at[chosen] = np.arange(len(chosen))
            columns.append(made.take(pa.array(at, mask=kinds != kind)))
        return pa.Table.from_arrays(columns, schema=SCHEMA)

    def _draws(self, first: int, count: int) -> Draws:
        """Return the random numbers of each event, shape (count, DRAWS): Philox can start at any event's."""
        source = np.random.Philox(key=self.seed, counter=first * DRAWS // 4)
        return source.random_raw(count * DRAWS).reshape(count, DRAWS)


def last_person(numbers: Numbers) -> Numbers:
    """Return the newest person, counted from 0, once each of these events has happened."""
    return numbers // ROUND


def last_auction(numbers: Numbers) -> Numbers:
    """Return the newest auction, counted from 0, once each of these events has happened; -1 if there is none yet."""
    return numbers // ROUND * AUCTIONS + np.minimum(numbers % ROUND, AUCTIONS) - 1


def _persons(numbers: Numbers, _: Numbers, draws: Draws) -> pa.StructArray:
    first, last = _pick(FIRST_NAMES, draws[:, 0]), _pick(LAST_NAMES, draws[:, 1])
    ids = FIRST_ID + last_person(numbers)
    user = pc.utf8_lower(pc.binary_join_element_wise(first, last, pa.array(ids).cast(pa.string()), "."))
    cities, states = zip(*CITIES, strict=True)
    columns = [
        pa.array(ids),
        pc.binary_join_element_wise(first, last, " "),
        pc.binary_join_element_wise(user, "example.com", "@"),
        pc.utf8_lpad(pa.array(_below(10**16, draws[:, 2])).cast(pa.string()), 16, "0"),
        _pick(cities, draws[:, 3]),
        _pick(states, draws[:, 3]),
    ]
    return pa.StructArray.from_arrays(columns, fields=list(PERSON))


def _auctions(numbers: Numbers, times_us: Numbers, draws: Draws) -> pa.StructArray:
    newest, initial = last_person(numbers), _price(draws[:, 5], draws[:, 6])
    hot = newest // HOT_EVERY * HOT_EVERY
    any_active = _recent(newest, ACTIVE_PERSONS, draws[:, 1])
    columns = [
        pa.array(FIRST_ID + last_auction(numbers)),
        pc.binary_join_element_wise(_pick(QUALITIES, draws[:, 2]), _pick(ITEMS, draws[:, 3]), " "),
        pa.array(initial),
        pa.array(initial + _price(draws[:, 7], draws[:, 8])),
        pa.array(times_us + (1 + _below(1200, draws[:, 9])) * 1_000_000, TIME),
        pa.array(FIRST_ID + np.where(_below(COLD_PERSON, draws[:, 0]) > 0, hot, any_active)),
        pa.array(CATEGORIES.start + _below(len(CATEGORIES), draws[:, 4])),
    ]
    return pa.StructArray.from_arrays(columns, fields=list(AUCTION))


def _bids(numbers: Numbers, _: Numbers, draws: Draws) -> pa.StructArray:
    auction, person = last_auction(numbers), last_person(numbers)
    hot_auction = auction // HOT_EVERY * HOT_EVERY
    # not the person that is the hot seller
    hot_bidder = np.minimum(person // HOT_EVERY * HOT_EVERY + 1, person)
    any_open = _recent(auction, OPEN_AUCTIONS, draws[:, 1])
    any_active = _recent(person, ACTIVE_PERSONS, draws[:, 3])
    columns = [
        pa.array(FIRST_ID + np.where(_below(COLD_BID, draws[:, 0]) > 0, hot_auction, any_open)),
        pa.array(FIRST_ID + np.where(_below(COLD_PERSON, draws[:, 2]) > 0, hot_bidder, any_active)),
        pa.array(_price(draws[:, 4], draws[:, 5])),
    ]
    return pa.StructArray.from_arrays(columns, fields=list(BID))


def _below(limit: int, draws: Draws) -> Numbers:
    """Return whole numbers in [0, limit)."""
    return (draws % np.uint64(limit)).astype(np.int64)


def _recent(newest: Numbers, most: int, draws: Draws) -> Numbers:
    """Return one of the ``most`` newest things each, counted from 0."""
    among = np.minimum(newest + 1, most)
    return newest - (draws % among.astype(np.uint64)).astype(np.int64)


def _price(digits: Draws, size: Draws) -> Numbers:
    """Return prices of 1 to 1,000,000 dollars in cents; all sizes are equally frequent."""
    return (100 + _below(900, digits)) * 10 ** _below(6, size)


def _pick(texts: tuple[str, ...], draws: Draws) -> pa.Array:
    return pa.array(texts, pa.string()).take(pa.array(_below(len(texts), draws)))
