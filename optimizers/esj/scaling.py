"""How many workers a join is to have, once a threshold has lasted.

Both ways lead to about tau1: Equation 2 of the initial deployment, for the load instead of the expected one. Adding
goes by the load as it is; taking away by the most that came while utilisation stayed at or below tau0, so that a pause
between two bursts is not taken for their end. Each change of the number of workers starts both times anew.

Reference: [ESJ-A] "Scaling up", "Scaling down". Deviation: the paper adds and removes workers "until tau decreases to
tau1 around"; here the number is set at once, as each step in between would be a change of its own. And with the trigger
``offered``, a load that stays between tau2 and tau3 adds workers too, after a longer time: the paper sheds for ever
there, though "load shedding is mainly useful for handling transient workload increase".
"""

from __future__ import annotations

from optimizers.esj.deployment import workers_for
from optimizers.esj.lasting import Lasting
from optimizers.esj.options import OFFERED, Options, Setting


def overloaded(lasting: Lasting, options: Options) -> bool:
    """Say whether the load has been too high for long enough to add workers."""
    return lasting.over(options.lasts_s) or (options.trigger == OFFERED and lasting.full(options.sheds_s))


def wanted(lasting: Lasting, tuples: float, capacity: int, setting: Setting) -> int:
    """Return the workers that a join is to have: m, within the policy's bounds.

    Args:
        lasting: What has lasted.
        tuples: Load of the whole window.
        capacity: W, >= 2.
        setting: The policy.
    """
    options, workers = setting.options, lasting.workers
    if overloaded(lasting, options):
        workers = max(workers, workers_for(tuples, capacity, options.thresholds.tau1))
    elif lasting.under(options.cool_s):
        workers = min(workers, workers_for(lasting.most, capacity, options.thresholds.tau1))
    return min(setting.most, max(setting.start, workers))
