"""Faults of the user's input, and what ends a run without being a bug: one clear sentence, no traceback."""


class UserError(Exception):
    """Something the user can mend; the message says what, where, the rule, the value and the remedy."""

    exit_code = 2


class RunError(UserError):
    """What stops a run that was well begun: a full disk, a dead worker. The message says what is kept and how to go
    on."""

    exit_code = 1


class OptionError(UserError):
    """An option of a registered class that breaks a rule. The builder adds the slot's config path.

    Raised inside constructors as ``OptionError("max_bias", -1, "must be positive; the paper uses 8")``.
    """

    def __init__(self, option: str, value: object, rule: str, path: str | None = None) -> None:
        self.option, self.value, self.rule, self.path = option, value, rule, path
        super().__init__(f"{f'{path}.' if path else ''}{option}={value!r} {rule}")

    def at(self, path: str) -> "OptionError":
        """The same fault with the config path of the slot it happened in: ``encoding`` -> ``encoding.max_bias``."""
        return OptionError(self.option, self.value, self.rule, path)
