"""What can go wrong, in the words of the core."""

from __future__ import annotations


class Error(ValueError):
    """One sentence about what is wrong, and a hint what to do about it.

    >>> import laau
    >>> try:
    ...     laau.Task("wirless")
    ... except laau.Error as error:
    ...     print(error, "|", error.hint)
    unknown problem `wirless` | did you mean `wireless`?
    """

    hint: str

    def __init__(self, sentence: str, hint: str = "") -> None:
        super().__init__(sentence)
        self.hint = hint
        if hint and hasattr(self, "add_note"):  # from Python 3.11 on it is printed below the error
            self.add_note(f"hint: {hint}")

    def __reduce__(self) -> tuple[type[Error], tuple[str, str]]:
        return type(self), (str(self), self.hint)


class Overspend(Error):
    """A payment that a budget does not cover; nothing was paid."""
