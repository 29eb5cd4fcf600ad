# SPDX-License-Identifier: GPL-3.0-or-later
"""Which driver opens which radio: the scheme of a uri, as in ``ip:192.168.2.1``, names the driver.

    with open_radio("ip:192.168.2.1", RadioConfig(2.5e6, 2.45e9, 2.45e9)) as radio:
        ...

A new radio is one module with a subclass of ``Radio``, and one ``Driver`` here or one call of ``register``. A driver's
module is imported when a radio of it is needed, so that its packages need not be installed otherwise.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

from oac_blocks.radio import ad9361
from oac_blocks.radio.base import Radio, RadioConfig, RadioInfo
from oac_blocks.radio.limits import RadioLimits


@dataclass(frozen=True)
class Driver:
    """A kind of radio.

    Parameters
    ----------
    name : str
        Name of the driver.
    schemes : tuple of str
        Schemes of the uris that it opens, without the colon.
    limits : RadioLimits
        What its radios can be set to.
    radio : type or str
        Subclass of ``Radio``, or its place as ``"package.module:Class"``, imported when it is first needed.
    example : str
        A uri, for error messages.
    needs : str
        The packages that its module needs, for the error message if they are missing.
    """

    name: str
    schemes: tuple[str, ...]
    limits: RadioLimits
    radio: type[Radio] | str
    example: str
    needs: str = ""

    def load(self) -> type[Radio]:
        """Return the driver's class. Raise ValueError if its packages are missing."""
        if not isinstance(self.radio, str):
            return self.radio
        module, _, name = self.radio.partition(":")
        try:
            found: type[Radio] = getattr(importlib.import_module(module), name)
        except (ImportError, OSError, AttributeError, TypeError) as error:
            raise ValueError(f"radios of the driver {self.name} need {self.needs}: {error}") from None
        return found


_drivers: dict[str, Driver] = {}


def register(driver: Driver) -> None:
    """Add a driver. Raise ValueError if one of its schemes is taken."""
    taken = sorted(set(driver.schemes) & _drivers.keys())
    if taken:
        raise ValueError(f"schemes must be new, got {taken[0]!r}, which the driver {_drivers[taken[0]].name} has")
    _drivers.update(dict.fromkeys(driver.schemes, driver))


def unregister(driver: Driver) -> None:
    """Remove a driver that was added with ``register``."""
    for scheme in driver.schemes:
        del _drivers[scheme]


def driver_for(uri: str) -> Driver:
    """Return the driver that opens radios with this uri. Raise ValueError if there is none."""
    scheme, colon, _ = uri.partition(":") if isinstance(uri, str) else ("", "", "")
    if not colon or scheme not in _drivers:
        known = ", ".join(f"{one}:" for one in _drivers)
        examples = " or ".join(dict.fromkeys(driver.example for driver in _drivers.values()))
        raise ValueError(f"uri must begin with one of {known} as in {examples}, got {uri!r}")
    return _drivers[scheme]


def check_config(uri: str, config: RadioConfig) -> None:
    """Raise ValueError if a radio with this uri cannot be set to ``config``. No device is touched."""
    config.check(driver_for(uri).limits)


def open_radio(
    uri: str, config: RadioConfig | None = None, *, timeout_seconds: float = 30.0, found: Any = None
) -> Radio:
    """Open the radio at ``uri`` and set it up.

    Parameters
    ----------
    uri : str
        Place of the radio; its scheme names the driver.
    config : RadioConfig, optional
        Settings; checked against the driver's limits before the device is touched.
    timeout_seconds : float
        Longest time that the device may take for one request.
    found : object, optional
        ``Radio.found`` of an earlier opening: the state to leave the radio in. Default: the state that it is in now.

    Returns
    -------
    Radio
        The radio, with ``config`` as it was read back. It is a context manager.

    Raises
    ------
    ValueError
        If no driver has the uri's scheme, its packages are missing, or ``config`` is outside its limits.
    RadioError
        If the radio is not there or does not take the settings.
    """
    driver, config = driver_for(uri), RadioConfig() if config is None else config
    config.check(driver.limits)
    make: Any = driver.load()
    radio: Radio = make(uri, config, timeout_seconds=timeout_seconds, found=found)
    return radio


def probe(uri: str) -> RadioInfo:
    """Return what the radio at ``uri`` says of itself, without setting anything.

    Raise RadioError if there is none.
    """
    return driver_for(uri).load().probe(uri)


def scan() -> dict[str, str]:
    """Return the uris of the radios that the drivers find by themselves, and a description of each."""
    found: dict[str, str] = {}
    for driver in dict.fromkeys(_drivers.values()):
        found |= driver.load().scan()
    return found


register(
    Driver(
        name="pluto",
        schemes=("ip", "usb", "serial", "local"),
        limits=ad9361.LIMITS,
        radio="oac_blocks.radio.pluto:PlutoRadio",
        example="ip:192.168.2.1 or usb:1.2.5",
        needs="libiio, pyadi-iio and pylibiio 0.25 (gr-oac[pluto])",
    )
)
