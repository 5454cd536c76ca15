"""ALBIC as written, and with corrections that preserve the method.

Corrections, each followed by the literal algorithm:
    - A set is partitioned again until both limits hold, and falls apart into its groups if nothing else helps.
      Literal: once, though METIS may leave parts beyond either limit.
    - A pair whose unit cannot be moved within the budget is skipped for the next. Literal: it is requested anyway, the
      program has no solution, and nothing moves in that period or any after it.
    - At maxPL <= 0 the pure MILP is solved without requesting a pair, as the text below the algorithm says. Literal:
      lines 24-37 request a pair there too, and line 41 recurses without end, which is cut off here at the first
      maxPL <= 0.
    - Loads are those under the plan: the pair's two units save the cost of what passes between them, and the true load
      distance is compared with maxLD. Literal: loads as measured, wherever groups go.
    - A pair is not collocated on a node that is marked for removal. Literal: on the emptier of the two, and a node that
      is being drained soon becomes the emptier one.

Reference:
    [ALBIC] Madsen, Zhou, Cao, "Integrative Dynamic Reconfiguration in a Parallel Stream Processing Engine", 2016,
    Section 4.3.2, Algorithm 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class AlbicOptions:
    """How ALBIC decides.

    Attributes:
        corrected: With the corrections above, otherwise Algorithm 2 as written.
        solver: ``milp`` solves the program of Section 4.3.1 if it is small, ``balancer`` never does.
    """

    corrected: bool = False
    solver: Literal["balancer", "milp"] = "balancer"


LITERAL = AlbicOptions()
LIVE = AlbicOptions(corrected=True, solver="milp")
"""What runs on a pipeline."""
