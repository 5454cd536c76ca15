"""MP-2PF: two-phase forwarding of tuple blocks along a chain of join workers, as a state machine without I/O.

R enters at the first worker and flows right; S enters at the last and flows left. Tuples meet where they cross.
Each event changes the state and returns messages and pairs. The caller decides which event comes next.

Reference:
    .. [ESJ-C] ESJ, "Saving Communication Cost": MP-2PF, reducing serialization, eliminating stream duplication.
"""
