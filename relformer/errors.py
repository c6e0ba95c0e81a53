"""Faults that end in one clear message and no traceback: of the user's input, exit code 2, and of a run, 1."""


class UserError(Exception):
    """Something the user can mend; the message says what, where, the rule, the value and the remedy."""


class RunError(Exception):
    """What ends a run that began well and can't go on: one message, exit code 1, no traceback.

    Ranks that stop with another, which says why, raise it without a text.
    """


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
