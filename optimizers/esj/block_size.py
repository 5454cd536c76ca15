"""How many tuples are in a block that one worker passes to the next.

Large blocks are serialised less often, but a worker may hold one block more than its neighbour and fill up early.

Symbols:
    x       rate phi / m: tuples of the window that a worker keeps
    W       tuples that a worker can keep
    alpha   weight of imbalance against serialisation, (0, 0.8)
    b       tuples per block

    ST = x / b    IF = b / x    J(b) = (1 - alpha) ST + alpha IF        least at b = k x, k = sqrt(1 / alpha - 1)
    1 <= b <= W / 2,    b + x <= W

``literal`` is the theorem's closed form, in x instead of the rate (beta1 is x = W / (2 k), beta2 is x = W):

    floor(k x)                            0 < x <= W / (2 k)
    floor(x / ceil(x / (W - x)))          W / (2 k) < x <= W
    1                                     x > W

It keeps the theorem's gaps. Case 1 ignores b + x <= W (for alpha > 1/2, by up to half of W). Small x give b = 0. x = W
divides by zero; the limit from below is b = 0. In the last case no block fits. ST is a natural number only in case 2;
``optimum`` does not require it either, because windows do not consist of whole blocks.

``optimum``: J is convex in b, so its minimum over whole numbers is at floor(k x) or ceil(k x), each clamped to
[1, min(floor(W / 2), floor(W - x))]. If that range is empty, blocks have 1 tuple, the least possible.

Reference: [ESJ-C] Theorem 1 and its appendix, Definitions 1 to 3.
"""

from __future__ import annotations

import math

from millrace.optimizers.esj.options import EsjOptions


def choose_block(held: float, before: int, capacity: int, options: EsjOptions) -> int:
    """Return the best block size, or the current one if it fits and is nearly as good.

    If a growing load leaves no room for the current size, the new size is half of the best one; otherwise it would
    change in every evaluation. At a load of tau0 or less the size is not reduced: few messages are saved then, and more
    are sent when the load returns.

    Args:
        held: x, tuples of the window per worker, >= 0.
        before: Current block size, >= 1.
        capacity: W, >= 2.
        options: ``alpha``, ``block_size``, ``block_margin`` and tau0.
    """
    best = max(1, block_size(held, capacity, options.alpha, options.block_size))
    if not fits(before, held, capacity):
        return max(1, best // 2)
    if best < before and held <= options.tau0 * capacity:
        return before
    gain = cost(before, held, options.alpha) / cost(best, held, options.alpha) - 1
    return best if gain > options.block_margin else before


def block_size(held: float, capacity: int, alpha: float, method: str = "optimum") -> int:
    """Return b for the tuples that a worker keeps; the literal form may give 0.

    If it does not fit, the rate is too high for the workers, or the literal form has ignored a bound.

    Args:
        held: x, tuples of the window per worker, >= 0.
        capacity: W, >= 2.
        alpha: (0, 0.8).
        method: ``optimum`` or ``literal``.
    """
    return (_optimum if method == "optimum" else _literal)(held, capacity, alpha)


def fits(block: int, held: float, capacity: int) -> bool:
    """Return whether a block size meets the bounds, given x and W."""
    return 1 <= block <= capacity / 2 and block + held <= capacity


def cost(block: int, held: float, alpha: float) -> float:
    """Return J of a block size; without load, only imbalance counts.

    Args:
        block: b, >= 1.
        held: x, tuples of the window per worker, >= 0.
        alpha: (0, 0.8).
    """
    if not held:
        return float(block)
    return (1 - alpha) * held / block + alpha * block / held


def _literal(held: float, capacity: int, alpha: float) -> int:
    free = math.sqrt(1 / alpha - 1) * held
    if free <= capacity / 2:
        return math.floor(free)
    if held > capacity:
        return 1
    return math.floor(held / math.ceil(held / (capacity - held))) if held < capacity else 0


def _optimum(held: float, capacity: int, alpha: float) -> int:
    most = max(1, min(capacity // 2, math.floor(capacity - held)))
    free = math.sqrt(1 / alpha - 1) * held
    # beyond W the clamp gives the same, and an infinite rate has no floor
    near = {min(most, max(1, math.floor(free))), min(most, max(1, math.ceil(free)))}
    return min(sorted(near), key=lambda block: cost(block, held, alpha))
