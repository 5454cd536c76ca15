"""One end of a link: which messages it accepts, and when."""

from millrace.joins.mp2pf.link import LinkEnd


def pair():
    return LinkEnd(), LinkEnd()


def block(end, *rows):
    return end.say("TUPLE_BLK", 0, 0.0, rows)


def taken(end, message):
    end.heed(message)
    end.taken = message.number


def test_block_when_an_earlier_one_is_missing_then_is_not_next():
    left, right = pair()
    first, second = block(left), block(left)

    assert right.is_next(first)
    assert not right.is_next(second)
    taken(right, first)
    assert right.is_next(second)


def test_acknowledgement_when_it_overtook_a_block_then_is_ignored_for_now():
    left, right = pair()
    taken(left, block(right))
    mine = block(left)
    acknowledgement = left.say("ACK", 0, 0.0)

    assert not right.is_next(acknowledgement)
    taken(right, mine)
    assert right.is_next(acknowledgement)


def test_copy_survives_a_block_sent_before_it_was_taken():
    left, right = pair()
    crossing = block(left)
    taken(left, block(right))

    taken(right, crossing)
    assert right.copies
    # sent after: its tuples met the copy's at the left end
    taken(right, block(left))
    assert not right.copies


def test_known_size_when_blocks_are_in_flight_then_counts_each_once():
    left, right = pair()
    first, second = block(left, "a", "b"), block(left, "c")
    assert left.known_size() == 3

    taken(right, first)
    left.heed(right.say("ACK", 2, 0.0))
    assert left.known_size() == 3

    taken(right, second)
    left.heed(right.say("ACK", 1, 0.0))
    assert left.known_size() == 1


def test_size_when_an_old_message_comes_late_then_keeps_the_newer_one():
    left, right = pair()
    old, new = right.say("SIZE_CHG", 5, 0.0), right.say("SIZE_CHG", 2, 0.0)

    left.heed(new)
    left.heed(old)

    assert left.known_size() == 2


def test_size_change_when_not_confirmed_then_is_still_pending():
    left, right = pair()
    change = right.say("SIZE_CHG", 2, 0.0)
    assert right.owed

    left.heed(change)
    right.heed(left.say("ACK", 0, 0.0))

    assert not right.owed


def test_second_acknowledgement_of_the_same_blocks_is_not_relied_on():
    left, right = pair()
    taken(right, block(left))
    right.say("ACK", 4, 0.0)
    right.say("ACK", 1, 0.0)

    assert right.reported_size == 4
    right.say("SIZE_CHG", 1, 0.0)
    assert right.reported_size == 1


def test_copy_of_an_end_when_it_changes_then_the_original_does_not():
    left, _ = pair()
    block(left, "a")

    other = left.copy()
    block(other, "b")

    assert (left.sent, len(left.copies)) == (1, 1)
    assert (other.sent, len(other.copies)) == (2, 2)
