"""Base classes of the sections of a pipeline spec."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Count = Annotated[int, Field(ge=1, le=4096)]

NAME = r"^[a-z][a-z0-9_]{0,62}$"


class Strict(BaseModel):
    """Base of all sections: unknown keys are errors, and values never change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Adapted(Strict):
    """Bounds of an adapted number, and its value at the first start."""

    min: Count = Field(1, description="Minimum")
    max: Count = Field(8, description="Maximum")
    start: Count = Field(1, description="Number at the first start")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.min <= self.start <= self.max:
            raise ValueError(f"min <= start <= max must hold, got {self.min}, {self.start}, {self.max}")
        return self
