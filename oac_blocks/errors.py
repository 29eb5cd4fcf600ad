# SPDX-License-Identifier: GPL-3.0-or-later
"""The base of all errors that gr-oac raises on its own account."""


class OacError(Exception):
    """Something that the user can do something about; the message says what, in a sentence.

    Commands show the message alone, without a traceback. Wrong arguments of a function are plain ``ValueError``.

    Examples
    --------
    >>> try:
    ...     oac.load_settings("quickstrat")
    ... except oac.OacError as error:
    ...     print(type(error).__name__, "did you mean 'quickstart'?" in str(error))
    ConfigError True
    """
