"""Problems to test with."""

import numpy as np
from hypothesis import strategies as st

from millrace.optimizers.drfm.problem import Problem


def problem(rates, node, *, capacity=10.0, nodes=None, variance=0.0, latency_s=None, last=None, running=()):
    """A problem of expected rates, shape (H, S) or (S,); the last rates are the first ones without more."""
    mean = np.atleast_2d(np.array(rates, dtype=float))
    node = np.array(node, dtype=np.intp)
    last = mean[0] if last is None else np.array(last, dtype=float)
    nodes = int(node.max(initial=-1)) + 1 if nodes is None else nodes
    latency_s = None if latency_s is None else np.array(latency_s, dtype=float)
    return Problem(node, last, mean, np.full(mean.shape, float(variance)), capacity, nodes, latency_s, running)


@st.composite
def problems(draw, streams=12, periods=5):
    """Any problem: some streams new, some nodes empty, some streams greater than a node."""
    count, ahead = draw(st.integers(0, streams)), draw(st.integers(1, periods))
    nodes = draw(st.integers(0, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    scale = draw(st.sampled_from([1.0, 4.0, 9.0, 12.0]))
    mean = rng.uniform(0, scale, (ahead, count)) * (rng.random((ahead, count)) < 0.8)
    node = rng.integers(-1, nodes, count) if nodes else np.full(count, -1)
    return problem(mean, node, nodes=nodes, variance=draw(st.sampled_from([0.0, 0.01])))
