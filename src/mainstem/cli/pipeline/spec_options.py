"""Makes the options of a command from the options of its job."""

import functools
from collections.abc import Callable
from typing import Any

import click

from mainstem.cli.times import TIME
from mainstem.pipeline.jobs.specs.options import JobOption, JobSpec, ValueKind, list_options, split_names


def spec_options(spec: type[JobSpec]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the options of a job to a command, which receives them as `spec`."""
    options = list_options(spec)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any, **given: Any) -> Any:
            values = {option.name: _read(option, given.pop(_parameter(option))) for option in options}
            return function(*args, spec=spec(**values), **given)

        decorated: Callable[..., Any] = wrapped
        for option in reversed(options):
            decorated = _make_parameter(option)(decorated)
        return decorated

    return decorate


def _parameter(option: JobOption) -> str:
    """Return the name of the parameter. It has a prefix: other parameters of a command have names of their own."""
    return option.name if option.declared.argument else f"option_{option.name}"


def _read(option: JobOption, value: Any) -> Any:
    return split_names(value) if option.kind is ValueKind.NAMES else value


def _make_parameter(option: JobOption) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    if option.declared.argument:
        return click.argument(option.name)
    flag = f"--{option.name.replace('_', '-')}"
    default = ",".join(option.default) if option.kind is ValueKind.NAMES else option.default
    shown: dict[str, Any] = {"help": option.declared.help, "show_default": default not in (None, False, "", ())}
    if option.kind is ValueKind.SWITCH:
        if default:
            flag = f"{flag}/--no-{option.name.replace('_', '-')}"
        return click.option(flag, _parameter(option), is_flag=True, default=default, **shown)
    multiple = option.kind is ValueKind.LIST
    given: dict[str, Any] = {} if option.required else {"default": default}
    return click.option(
        flag,
        _parameter(option),
        type=_find_type(option),
        metavar=option.declared.metavar,
        multiple=multiple,
        required=option.required,
        **given,
        **shown,
    )


def _find_type(option: JobOption) -> click.ParamType[Any]:
    least, most = option.declared.least, option.declared.most
    if option.choices:
        return click.Choice(option.choices)
    if option.kind is ValueKind.TIME:
        return TIME
    if option.kind is ValueKind.NUMBER:
        return click.IntRange(None if least is None else int(least), None if most is None else int(most))
    if option.kind is ValueKind.SHARE:
        return click.FloatRange(least, most)
    return click.STRING
