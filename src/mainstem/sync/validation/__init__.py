"""Domain validation: the requirements of an operator for events, beyond being JSON objects."""

from mainstem.sync.validation.validators import FieldError, Validator, model_validator

__all__ = ["FieldError", "Validator", "model_validator"]
