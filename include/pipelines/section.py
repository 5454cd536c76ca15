"""What all sections of a pipeline spec have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

NAME = r"^[a-z][a-z0-9_]{0,62}$"


class Strict(BaseModel):
    """Base of all sections: unknown keys are errors, values never change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
