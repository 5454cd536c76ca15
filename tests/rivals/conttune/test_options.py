from __future__ import annotations

import math

import pytest

from millrace.model.errors import MillraceError
from millrace_rivals.conttune.options import STRONG, ContTuneOptions

LITERAL = ContTuneOptions()


def test_preset_when_not_named_then_is_the_paper_as_written() -> None:
    assert ContTuneOptions.read({}) == LITERAL
    assert not any(getattr(LITERAL, name) for name in STRONG)
    assert (LITERAL.big, LITERAL.small, LITERAL.surrogate, LITERAL.headroom) == (True, "cbo", "rbf", 0.0)
    assert (LITERAL.top_k, LITERAL.alpha, LITERAL.acquisition) == (5, 3.0, "safe")


def test_preset_when_strong_then_has_the_options_of_the_published_figures() -> None:
    strong = ContTuneOptions.read({"preset": "strong"})
    assert all(getattr(strong, name) for name in STRONG)
    assert strong.model_dump(exclude={"preset", *STRONG}) == LITERAL.model_dump(exclude={"preset", *STRONG})


def test_switches_are_all_distinguished_by_the_presets() -> None:
    switches = {name for name in ContTuneOptions.model_fields if isinstance(getattr(LITERAL, name), bool)}
    assert switches == {*STRONG, "big"}


def test_option_set_next_to_a_preset_overrides_it() -> None:
    options = ContTuneOptions.read({"preset": "strong", "alpha": 0, "unstick": False})
    assert (options.alpha, options.unstick, options.stop_rule) == (0, False, True)


def test_big_when_lambda_is_known_then_is_not_needed() -> None:
    assert LITERAL.uses_big
    assert not ContTuneOptions(preset="strong").uses_big
    assert not ContTuneOptions.read({"big": False}).uses_big


def test_alpha_when_infinite_then_is_allowed() -> None:
    assert ContTuneOptions.read({"alpha": math.inf}).alpha == math.inf


def test_thresholds_when_out_of_order_then_are_refused() -> None:
    with pytest.raises(MillraceError, match=r"below core_max_thr \(0\.7\)") as caught:
        ContTuneOptions(core_min_thr=0.9)
    assert caught.value.key == "tuner.options.core_min_thr"
