from __future__ import annotations

from tests.optimizers.conttune.conftest import _one_thread as _one_thread
