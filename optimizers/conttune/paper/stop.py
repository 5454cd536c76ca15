"""The stop rule of strong ContTune: what keeps a job that is not under-provisioned from yet another step.

Not in the paper's text, but its published count of reconfigurations is below what Algorithms 1 and 2 can reach by
themselves: they go on shaving levels as long as the job counts as over-provisioned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from optimizers.conttune.choice import Choice, utilisation
from optimizers.conttune.job import Operator
from optimizers.conttune.paper.look import Look
from optimizers.conttune.paper.state import State
from optimizers.conttune.reasons import Reason
from optimizers.conttune.rest import Step


def rest(look: Look) -> Reason | None:
    """Return why a job is left alone; None if it need not be, or the option is off."""
    if not look.options.stop_rule or look.state is State.UNDER:
        return None
    step = look.notes.step
    if step is not None and step.still(look.p_now, _rates(look), look.options.slack):
        return Reason.STEP_SUFFICED
    return None if any(_slack(look, operator) for operator in look.job.sizable) else Reason.SLACK_TOO_SMALL


def idle(look: Look, choices: Sequence[Choice]) -> bool:
    """Say whether choices are too little for a reconfiguration: nothing goes up, and nothing down that frees enough.

    Args:
        look: The job; an under-provisioned one takes no step that goes down only.
        choices: What the Small phase chose for its operators.
    """
    lower = [c.operator for c in choices if c.target < c.now]
    if not look.options.stop_rule or not lower or any(c.target > c.now for c in choices):
        return False
    return look.state is State.UNDER or not any(_slack(look, operator) for operator in lower)


def taken(look: Look, levels: Mapping[str, int]) -> Step:
    """Return the step to remember: the levels it sets, and the load it was made for."""
    return Step(dict(levels), _rates(look))


def _rates(look: Look) -> Mapping[str, float]:
    return {o.name: rate for o in look.job.sizable if (rate := look.required(o)) is not None}


def _slack(look: Look, operator: Operator) -> bool:
    """Say whether enough of an operator's ability is unused for a step down; an unknown one is asked later."""
    used = utilisation(look.required(operator), look.ability(operator))
    return used is None or 1 - used >= look.options.slack
