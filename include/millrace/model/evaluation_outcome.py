"""What an evaluation came to, as plain data that travels between processes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from millrace.model.decision import Action


class State(StrEnum):
    """How an evaluation ended."""

    DECIDED = "decided"
    NOT_DUE = "not due"
    PROBLEM = "problem"
    ERROR = "error"


@dataclass(frozen=True)
class EvaluationOutcome:
    """The end of an evaluation.

    Attributes:
        state: Whether there is a Decision; if not, whether there was nothing to evaluate, a person has to correct
            something, or an error may pass.
        sentence: The Decision's sentence, or the reason why there is none.
        pipeline: Name of the pipeline.
        decision_id: Id of the Decision; empty without one.
        action: The Decision's action; empty without one.
        reason: The Decision's reason code; empty without one.
        due: Id of the Decision that has to be carried out, which may be an earlier one of the driver's agent; None if
            nothing is.
        ended: When it ended (UTC).
    """

    state: State
    sentence: str
    pipeline: str
    decision_id: str = ""
    action: str = ""
    reason: str = ""
    due: str | None = None
    ended: datetime | None = None

    @property
    def is_quiet(self) -> bool:
        """Whether there is nothing to carry out, to ask or to report."""
        if self.state is State.NOT_DUE:
            return True
        return self.state is State.DECIDED and self.due is None and self.action in (Action.HOLD, Action.VETO)
