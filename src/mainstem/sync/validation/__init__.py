"""Domain validation of events: what an operator requires of an event beyond being an object."""

from mainstem.sync.validation.validators import FieldError, Validator, model_validator

__all__ = ["FieldError", "Validator", "model_validator"]
