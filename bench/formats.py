"""Numbers as the reports show them."""

from __future__ import annotations


def format_number(value: float) -> str:
    """Format a number with about three significant digits, more than noise allows, and spaces between thousands."""
    if abs(value) >= 100:
        return f"{value:,.0f}".replace(",", " ")
    if abs(value) >= 10:
        return f"{value:.1f}".removesuffix(".0")
    digits = 2 if abs(value) >= 0.1 else 4
    return f"{value:.{digits}f}".rstrip("0").rstrip(".")
