"""A look at a join in one sentence."""

from __future__ import annotations

from optimizers.esj.look import CHANGING, EXHAUSTED, OVERLOADED, OVERSIZED, STARTS, TOO_MANY, Look
from optimizers.esj.options import WINDOW


def sentence(look: Look) -> str:
    """Return a look for a person.

    For example ``Streams will soon offer 96 % of what 2 workers can keep, 5 workers are to keep it at 38 %; blocks are
    to hold 40 tuples instead of 90.``
    """
    parts = (_workers(look), _shed(look), _block(look), _slots(look))
    return "; ".join(filter(None, parts)) + "."


def _workers(look: Look) -> str:
    load, after = _load(look), look.after.workers
    some = f"{_several(after, 'worker')} {'is' if after == 1 else 'are'}"
    now = f"{some} to keep it at {_percent(look.utilisation)}"
    span = f"at most {_percent(look.setting.options.thresholds.tau0)} for {look.setting.options.cool_s:g} s"
    return {
        CHANGING: f"{load}, and the last change of workers is not in force yet",
        STARTS: f"{some} the least that this join has",
        TOO_MANY: f"{some} the most that this join may have",
        OVERLOADED: f"{load}, {now}",
        EXHAUSTED: f"{load}, and there are no more",
        OVERSIZED: f"{load}, and {span}: {now}",
    }.get(look.reason, load)


def _load(look: Look) -> str:
    workers = look.lasting.workers
    utilisation = _percent(look.load.tuples / (workers * look.capacity))
    if look.setting.options.trigger == WINDOW:
        return f"The fullest worker keeps {utilisation} of what one can keep"
    offer = "will soon offer" if look.load.grows else "offer"
    return f"Streams {offer} {utilisation} of what {_several(workers, 'worker')} can keep"


def _shed(look: Look) -> str:
    before, after = look.before.shed, look.after.shed
    if before == after:
        return f"{_percent(after)} of the new tuples stay shed" if after else ""
    return f"{_percent(after)} of the new tuples are to be shed" if after else "nothing is to be shed any more"


def _block(look: Look) -> str:
    before, after = look.before.block, look.after.block
    return f"blocks are to hold {_several(after, 'tuple')} instead of {before}" if before != after else ""


def _slots(look: Look) -> str:
    (before, after), workers = look.slots, look.after.workers
    if after != before:
        return f"they need {_several(after, 'slot')} instead of {before}"
    return f"{_several(before, 'slot')} let no more of them work at once" if workers > before else ""


def _several(count: int, thing: str) -> str:
    return f"{count} {thing}{'s' * (count != 1)}"


def _percent(ratio: float) -> str:
    return f"{100 * ratio:.0f} %"
