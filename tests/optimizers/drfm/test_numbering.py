import numpy as np

from optimizers.drfm.numbering import matched


def test_matched_when_a_node_suits_two_bins_then_goes_to_the_one_that_shares_more():
    assert matched(np.array([0, 0, 0, 1]), np.array([0, 0, 1, 0]), 2).tolist() == [0, 0, 0, 1]


def test_matched_when_there_are_more_bins_than_nodes_then_the_others_are_numbered_behind():
    assert matched(np.array([0, 1, 2]), np.array([1, -1, -1]), 2).tolist() == [1, 0, 2]
    assert matched(np.array([0, 1, 2]), np.array([0, 0, 0]), 1).tolist() == [0, 1, 2]
