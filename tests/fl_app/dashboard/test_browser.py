# SPDX-License-Identifier: GPL-3.0-or-later
"""The live page in a real browser, Chromium without a screen: it follows runs, compares them, and fits a phone."""

import json
import shutil

import pytest

from tests.support.polling import until

POINTS = """
const plot = document.querySelector(`[data-chart="${arguments[0]}"] .plot`);
return plot && plot.data && plot.data.length ? Array.from(plot.data[0].x) : [];
"""


@pytest.fixture
def runs_root(page_server):
    return page_server.root


@pytest.fixture(scope="session")
def chromium():
    """One browser for all tests of a process."""
    selenium = pytest.importorskip("selenium.webdriver", reason="needs selenium: pip install 'gr-oac[dev]'")
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if browser is None or driver is None:
        pytest.skip("needs a browser: apt-get install chromium chromium-driver")
    options = selenium.ChromeOptions()
    options.binary_location = browser
    for word in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "window-size=1300,900"):
        options.add_argument(f"--{word}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    started = selenium.Chrome(options=options, service=selenium.ChromeService(driver))
    yield started
    started.quit()


class Page:
    """One window of the browser, on the page of some runs."""

    def __init__(self, browser, url):
        browser.switch_to.new_window("window")
        self._browser, self._window = browser, browser.current_window_handle
        self._browser.get(url)

    def run(self, script, *arguments):
        self._browser.switch_to.window(self._window)
        return self._browser.execute_script(script, *arguments)

    def points(self, chart):
        """Return the x values of the first curve that the chart really shows."""
        return self.run(POINTS, chart)

    def has_points(self, chart, expected):
        until(lambda: self.points(chart) == expected, f"{expected} in the chart {chart}", hint=self.text)

    def says(self, words):
        until(lambda: words in self.text(), f"{words!r} on the page", hint=self.text)

    def text(self):
        return self.run("return document.body.innerText")

    def command(self, name, **arguments):
        self._browser.switch_to.window(self._window)
        self._browser.execute_cdp_cmd(name, arguments)

    def close(self):
        self._browser.switch_to.window(self._window)
        self._browser.close()
        self._browser.switch_to.window(self._browser.window_handles[0])


@pytest.fixture
def open_page(chromium, page_server):
    """Open the page: open_page("#run=a"). Errors of its scripts and requests to elsewhere fail the test."""
    opened = []
    chromium.get_log("browser"), chromium.get_log("performance")

    def open_(fragment):
        opened.append(Page(chromium, page_server.url + fragment))
        return opened[-1]

    yield open_
    for page in opened:
        page.close()
    messages = [json.loads(entry["message"])["message"] for entry in chromium.get_log("performance")]
    asked = [one["params"]["request"]["url"] for one in messages if one["method"] == "Network.requestWillBeSent"]
    assert asked
    assert [url for url in asked if not url.startswith((page_server.url, "data:", "blob:", "about:"))] == []
    assert [entry for entry in chromium.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_a_run_is_shown_while_it_goes_on_and_two_pages_see_the_same(open_page, write_run):
    run = write_run("going")
    run.play(3)
    one, other = open_page("#run=going"), open_page("#run=going")
    for page in (one, other):
        page.has_points("loss", [1, 2, 3])
        page.says("running")
    run.play(2)
    one.has_points("loss", [1, 2, 3, 4, 5])
    other.has_points("accuracy", [1, 3, 5])
    assert one.points("aou") == [1, 2, 3, 4, 5]
    one.says("5 / 50")
    run.kill()  # with half a line at the end of its figures
    other.has_points("loss", [1, 2, 3, 4, 5])
    run.resume(4)
    run.play(4)
    for page in (one, other):
        page.has_points("loss", [1, 2, 3, 4, 5, 6, 7, 8])
    run.finish()
    one.says("finished")


def test_a_finished_run_opens_with_every_panel(open_page, write_run):
    run = write_run("whole", clients=3)
    run.play(6)
    run.kill()  # a torn last line stays in the folder
    run.finish()
    page = open_page("#run=whole")
    page.has_points("loss", [1, 2, 3, 4, 5, 6])
    charts = page.run("return [...document.querySelectorAll('[data-chart]')].map((one) => one.dataset.chart)")
    assert charts == [
        "accuracy", "loss", "aou", "ages", "layers", "votes", "air", "snr", "spectrum", "energies", "received",
        "offset", "power", "cfo",
    ]  # fmt: skip
    for chart in charts:  # a chart is drawn when it comes into sight
        page.run('document.querySelector(`[data-chart="${arguments[0]}"]`).scrollIntoView()', chart)
        until(lambda chart=chart: page.points(chart), f"the chart {chart}", hint=page.text)
    assert page.points("offset") == [1, 2, 3, 4, 5, 6]
    text = page.text()
    for words in ("finished", "tracking", "offset (samples)", "Log", "round 6", "Settings"):
        assert words in text
    assert page.run("return document.querySelector('.settings').textContent").count("min_clients") == 1


def test_runs_that_are_ticked_are_compared(open_page, write_run):
    for name, rounds in (("left", 4), ("right", 7)):
        run = write_run(name)
        run.play(rounds)
        run.finish()
    page = open_page("#run=left")
    page.has_points("loss", [1, 2, 3, 4])
    for name in ("left", "right"):
        page.run('document.querySelector(`[aria-label="Compare ${arguments[0]}"]`).click()', name)
    page.run("document.getElementById('compare').click()")
    page.has_points("compare-loss", [1, 2, 3, 4])
    names = "return document.querySelector('[data-chart=compare-loss] .plot').data.map((one) => one.name)"
    until(lambda: page.run(names) == ["left", "right"], "the curves of both runs", hint=lambda: str(page.run(names)))
    colours = page.run("return document.querySelector('[data-chart=compare-loss] .plot').data.map((c) => c.line.color)")
    assert len(set(colours)) == 2
    page.says("Runs side by side")


def test_the_page_fits_a_phone_and_follows_the_system_to_dark(open_page, write_run):
    write_run("small").play(2)
    page = open_page("#run=small")
    page.command("Emulation.setDeviceMetricsOverride", width=390, height=800, deviceScaleFactor=1, mobile=True)
    page.has_points("loss", [1, 2])
    until(lambda: page.run("return document.documentElement.scrollWidth") <= 390, "a page as wide as the screen")
    light = page.run("return getComputedStyle(document.body).backgroundColor")
    page.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    until(lambda: page.run("return getComputedStyle(document.body).backgroundColor") != light, "a dark page")
    line = "return document.querySelector('[data-chart=loss] .plot').data[0].line.color"
    until(lambda: page.run(line) == "#56b4e9", "curves in the colours of a dark page")
    assert not page.run("return document.getElementById('runs').offsetParent")  # behind the button
    page.run("document.getElementById('menu').click()")
    page.says("Compare")
