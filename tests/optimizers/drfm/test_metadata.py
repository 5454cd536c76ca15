import pytest

from millrace.model.errors import MillraceError
from millrace.optimizers.drfm.metadata import Metadata, read_streams


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"minimum": 5.0, "maximum": 4.0}, "maximum"),
        ({"minimum": 5.0, "maximum": 9.0, "average": 4.0}, "average"),
        ({"maximum": 9.0, "average": 10.0}, "average"),
        ({"maximum": -1.0}, "maximum"),
        ({"maximum": float("nan")}, "maximum"),
        ({"maximum": float("inf")}, "maximum"),
        ({"maximum": "fast"}, "maximum"),
        ({"high_duration": 3.0, "low_duration": 4.0, "period": 8.0}, "period"),
        ({"high_duration": 8.0, "period": 8.0}, "period"),
        ({"high_duration": 0.0}, "high_duration"),
        ({"transition": "leap"}, "transition"),
        ({"transition": "jump", "slope_duration": 2.0}, "slope_duration"),
        ({"high_duration": 3.0, "low_duration": 9.0, "slope_duration": 4.0}, "slope_duration"),
        ({"minimum": 0.0, "maximum": 8.0, "slope": 2.0, "slope_duration": 3.0}, "slope_duration"),
        ({"lifetime": 0}, "lifetime"),
        ({"peak": 4.0}, "peak"),
    ],
)
def test_streams_when_metadata_are_wrong_then_names_stream_and_key(given, key):
    with pytest.raises(MillraceError) as caught:
        read_streams({"cars": given})

    assert caught.value.key == f"admission.streams.cars.{key}"


@pytest.mark.parametrize(
    "given",
    [
        {"high_duration": 3.0, "low_duration": 5.0},
        {"high_duration": 3.0, "period": 8.0},
        {"low_duration": 5.0, "period": 8.0},
    ],
)
def test_metadata_with_two_durations_computes_the_third(given):
    metadata = Metadata(**given)

    assert (metadata.high_duration, metadata.low_duration, metadata.period) == (3.0, 5.0, 8.0)


def test_metadata_with_a_slope_computes_the_duration():
    metadata = Metadata(minimum=2.0, maximum=10.0, slope=4.0)

    assert (metadata.slope_duration, metadata.transition) == (2.0, "trend")


def test_streams_when_nothing_is_given_then_is_empty():
    assert read_streams({}) == {}
    assert read_streams({"cars": {}}) == {"cars": Metadata()}
