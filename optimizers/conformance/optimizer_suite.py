"""Suite for any optimizer."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millrace.model.codec import from_json, to_json
from millrace.model.signals import Signals
from millrace.optimizers.api import Memory, MillraceError, Optimizer, Proposal
from millrace.optimizers.conformance.situations import Situation, apps, spoil, spoil_figure
from millrace.optimizers.registry import Role, create

# every subclass runs the same property, which is the purpose of the suite; no examples are replayed from a database
SHARED = settings(
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.differing_executors, HealthCheck.too_slow, HealthCheck.data_too_large],
)
SIZES = frozenset({"slots", "parallelism"})
"""Fields of a Deployment to which bounds apply."""
JUNK = st.none() | st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=3)


class OptimizerConformance:
    """Suite for any optimizer.

    Attributes:
        name: Its name in the registry.
        role: Its role in the registry.
        section: Its options, or the section of its role.
        fields: Fields of a Deployment that it may propose to change.
        option_names: Options that must each refuse a value of a wrong type; by default those of its class.
        situations: Situations to ask it in.
    """

    name: ClassVar[str]
    role: ClassVar[Role] = Role.TUNER
    section: ClassVar[Mapping[str, Any]] = {}
    fields: ClassVar[frozenset[str]] = frozenset({"slots"})
    option_names: ClassVar[Sequence[str]] = ()
    situations: ClassVar[st.SearchStrategy[Situation]] = apps()

    def make(self, **options: Any) -> Optimizer:
        """Return a new optimizer, with further options."""
        if self.role in (Role.TUNER, Role.PLACEMENT, Role.PARTITIONING, Role.MEMORY, Role.BATCHES):
            section = {**self.section, **options}
        else:
            section = {**self.section, "options": {**self.section.get("options", {}), **options}}
        return create(self.name, section, self.role)

    def propose(self, situation: Situation, memory: Memory | None = None) -> tuple[Proposal, Memory]:
        return self.make().propose(*situation, memory or {})

    def check(self, proposal: Proposal, seen: Signals) -> None:
        """Assert what holds for any proposal: its optimizer, a reason code, a readable sentence, allowed sizes."""
        assert proposal.optimizer == self.name
        assert proposal.reason_code and proposal.reason_code == proposal.reason_code.lower()
        assert "{" not in proposal.sentence and "nan" not in proposal.sentence.split()
        assert proposal.sentence or not proposal.changes, "a change is explained"
        assert all(c.value in seen.bounds for c in proposal.changes if c.field in SIZES)
        assert all(math.isfinite(v) for v in proposal.predicted.values())
        for columns in (proposal.curve, proposal.training):
            assert len({len(c) for c in columns.values()}) <= 1
            assert all(math.isfinite(v) for c in columns.values() for v in c)

    @given(data=st.data())
    @settings(SHARED, max_examples=15)
    def test_proposal_changes_own_fields_only_and_says_why(self, data: st.DataObject) -> None:
        """Changes are of its fields, from the set value to another one, and the proposal can be read and stored."""
        seen, current = data.draw(self.situations)
        proposal, memory = self.propose((seen, current))
        self.check(proposal, seen)
        for change in proposal.changes:
            assert change.field in self.fields
            assert change.app in current.apps and change.before == current.value(change) != change.value
        assert current.with_changes(proposal.changes).content != current.content or not proposal.changes
        json.dumps(memory, allow_nan=False)

    @given(data=st.data())
    @settings(SHARED, max_examples=6)
    def test_proposal_is_the_same_when_asked_again(self, data: st.DataObject) -> None:
        """The optimizer is pure: the object remembers nothing, and randomness has a seed."""
        situation, optimizer = data.draw(self.situations), self.make()
        first = optimizer.propose(*situation, {})
        assert to_json(optimizer.propose(*situation, {})) == to_json(first)
        assert to_json(self.propose(situation)) == to_json(first)

    @given(data=st.data())
    @settings(SHARED, max_examples=6)
    def test_memory_survives_json_between_evaluations(self, data: st.DataObject) -> None:
        kept: Memory = {}
        stored: Any = {}
        for seen, current in data.draw(st.lists(self.situations, min_size=2, max_size=3)):
            proposal, kept = self.propose((seen, current), kept)
            again, memory = self.propose((from_json(Signals, to_json(seen)), current), stored)
            assert to_json(again) == to_json(proposal)
            stored = json.loads(json.dumps(memory, allow_nan=False))

    @given(data=st.data())
    @settings(SHARED, max_examples=8)
    def test_memory_that_holds_anything_is_survived(self, data: st.DataObject) -> None:
        """A damaged memory, or one of another version, never prevents an answer."""
        situation = data.draw(self.situations)
        memory: Any = json.loads(json.dumps(self.propose(situation)[1]))
        for _ in range(data.draw(st.integers(1, 3))):
            memory = spoil(data.draw, memory, data.draw(JUNK))
        situation = data.draw(self.situations)
        proposal, memory = self.propose(situation, memory if isinstance(memory, dict) else {})
        self.check(proposal, situation[0])
        json.dumps(memory, allow_nan=False)

    @given(data=st.data())
    @settings(SHARED, max_examples=15)
    def test_figures_that_are_missing_or_impossible_are_survived(self, data: st.DataObject) -> None:
        """Bad telemetry leads to a proposal with a reason, never to an exception."""
        seen, current = data.draw(self.situations)
        for _ in range(data.draw(st.integers(1, 3))):
            seen = spoil_figure(data.draw, seen)
        proposal, memory = self.propose((seen, current))
        self.check(proposal, seen)
        json.dumps(memory, allow_nan=False)

    def test_unknown_option_is_refused_with_those_that_exist(self) -> None:
        with pytest.raises(MillraceError) as caught:
            self.make(no_such_option=1)
        assert caught.value.key.endswith("options.no_such_option")
        assert all(name in caught.value.allowed for name in self._option_names()) and caught.value.remedy

    def test_option_of_a_wrong_type_is_refused_with_its_range(self) -> None:
        for name in self._option_names():
            wrong = frozenset({"neither a number, a word, a list nor a switch"})
            with pytest.raises(MillraceError) as caught:
                self.make(**{name: wrong})
            assert caught.value.key.endswith(f"options.{name}")
            assert caught.value.value == wrong and caught.value.allowed and caught.value.remedy

    def _option_names(self) -> Sequence[str]:
        options = getattr(type(self.make()), "Options", None)
        return self.option_names or tuple(options.model_fields if options else ())
