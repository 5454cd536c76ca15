"""Options of ALBIC: the paper's parameters, and each correction of the paper by name.

Two presets: :data:`LITERAL` is Algorithm 2 as written; :data:`CORRECTED` has every correction that preserves the
method. ``pairs`` belongs to neither: more than one pair per period is no longer the paper's method.

Reference:
    [ALBIC] Madsen, Zhou, Cao, "Integrative Dynamic Reconfiguration in a Parallel Stream Processing Engine", 2016,
    Section 4.3.2, Algorithm 2.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from millrace.optimizers.api import Options


class AlbicOptions(Options):
    """How ALBIC decides.

    Attributes:
        max_ld: maxLD, load distance that collocation may leave, points, > 0.
        max_pl: maxPL, load of a partition at the first attempt, points, > 0.
        step_pl: stepPL, by which maxPL is lowered after an attempt beyond max_ld, points, > 0.
        s_f: sF, score factor of heavy pairs, > 0.
        pairs: Pairs that are collocated per period, >= 1; the paper's is 1. With more, those that fit in the budget.
        solver: ``milp`` solves the program of Section 4.3.1 if it is small, ``balancer`` never does.
        zero_edges: avg(g_i) counts all downstream key groups, as in Algorithm 2 (line 5). Without, the mean over the
            edges that carry something: the other reading, under which one-to-one pairs are never collocated.
        repartition: A set is partitioned again until both limits hold, and falls apart into its groups if nothing else
            helps. Literal: once, though METIS may leave parts beyond either limit.
        fits_budget: A pair whose unit cannot be moved within the budget is skipped for the next. Literal: it is
            requested anyway, the program has no solution, and nothing moves in that period or any after it.
        ends_at_zero: At maxPL <= 0 the pure MILP is solved without requesting a pair, as the text below the algorithm
            says. Literal: lines 24-37 request a pair there too, and line 41 recurses without end, which is cut off here
            at the first maxPL <= 0.
        true_load: Loads are those under the plan: the pair's two units save the cost of what passes between them, and
            the true load distance is compared with max_ld. Literal: loads as measured, wherever groups go.
        keeps_off_removed: A pair is not collocated on a node that is marked for removal. Literal: on the emptier of the
            two, and a node that is being drained soon becomes the emptier one.
    """

    section: ClassVar[str] = "albic"

    max_ld: float = Field(10.0, gt=0)
    max_pl: float = Field(25.0, gt=0)
    step_pl: float = Field(5.0, gt=0)
    s_f: float = Field(1.5, gt=0)
    pairs: int = Field(1, ge=1)
    solver: Literal["balancer", "milp"] = "balancer"
    zero_edges: bool = True
    repartition: bool = False
    fits_budget: bool = False
    ends_at_zero: bool = False
    true_load: bool = False
    keeps_off_removed: bool = False


LITERAL = AlbicOptions()
CORRECTED = AlbicOptions(repartition=True, fits_budget=True, ends_at_zero=True, true_load=True, keeps_off_removed=True)
LIVE = CORRECTED.model_copy(update={"solver": "milp"})
"""What runs on a pipeline."""
