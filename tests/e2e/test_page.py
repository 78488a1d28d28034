# SPDX-License-Identifier: Apache-2.0
"""The page at / in headless Chromium: a real conversation. The screenshot is kept as an artefact."""
import pathlib
import re
import shutil

import pytest
from playwright.sync_api import sync_playwright

import conftest

GOLDEN = pathlib.Path(__file__).parent.parent / "data/golden"


@pytest.fixture(scope="module")
def page(server):
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("there is no chromium on this system")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1100, "height": 800})
        page.problems = []
        page.on("pageerror", lambda error: page.problems.append(str(error)))
        page.on("console", lambda message: page.problems.append(message.text) if message.type == "error" else None)
        page.on("request", lambda request: page.problems.append(request.url)
                if not request.url.startswith((server.url, "data:")) else None)
        page.goto(server.url)
        yield page
        browser.close()


def say(page, text, turns):
    page.fill("#input", text)
    page.press("#input", "Enter")
    # The policy of the page forbids evaluated scripts, which other ways of waiting use.
    page.locator(f"body[data-idle='{turns}']").wait_for(state="attached", timeout=60_000)


def test_a_conversation(page):
    page.fill("#temperature", "0")
    say(page, "What is the capital of China?", 2)
    assert "Beijing" in page.locator(".assistant .text").first.inner_text()
    thinking = page.locator("details.thinking").first
    assert thinking.get_attribute("open") is None, "thinking folds when the answer begins"
    thinking.locator("summary").click()
    assert thinking.locator("div").inner_text()
    assert "tokens/s" in page.locator("#speed").inner_text()
    assert " in (" in page.locator("#usage").inner_text()

    page.select_option("#effort", "none")
    say(page, "And of France?", 4)
    assert page.locator(".assistant").nth(1).locator("details.thinking").count() == 0
    page.screenshot(path=pathlib.Path(conftest.ARTEFACTS) / "page.png")
    assert page.problems == []


def test_pictures_and_sound_are_attached(page):
    page.click("#fresh")
    page.fill("#temperature", "0")
    page.select_option("#effort", "high")
    with page.expect_file_chooser() as chooser:
        page.click("#attach")
    chooser.value.set_files([GOLDEN / "images/08.png", GOLDEN / "images/09.png"])
    chips = page.locator("#attached button")
    chips.nth(1).wait_for()
    assert [chip.split()[0] for chip in chips.all_inner_texts()] == ["08.png", "09.png"]
    chips.nth(1).click()  # taken back
    assert chips.count() == 1
    say(page, "What do you see?", 2)
    assert "on a red background" in page.locator(".assistant .text").first.inner_text()
    assert page.locator(".user img").count() == 1 and chips.count() == 0

    page.set_input_files("#files", GOLDEN / "sounds/45.wav")
    chips.first.wait_for()
    say(page, "Describe the sound.", 4)
    assert page.locator(".user audio").count() == 1
    assert page.locator(".assistant .text").nth(1).inner_text()
    cached = re.search(r"\((\d+) cached\)", page.locator("#usage").inner_text())
    assert int(cached.group(1)) > 80, "the picture of the first turn is not computed again"
    page.screenshot(path=pathlib.Path(conftest.ARTEFACTS) / "page_media.png")
    assert page.problems == []


def test_a_broken_picture_is_an_error_on_the_page(page, tmp_path):
    broken = tmp_path / "broken.png"
    broken.write_bytes((GOLDEN / "images/08.png").read_bytes()[:200])
    page.click("#fresh")
    page.set_input_files("#files", broken)
    page.locator("#attached button").first.wait_for()
    say(page, "What is this?", 2)
    assert "cut short" in page.locator(".error").inner_text()
    page.problems.clear()  # the browser reports the 400


def test_an_error_is_shown(page):
    page.fill("#temperature", "-1")
    page.click("#fresh")
    say(page, "Hi", 2)
    assert "temperature" in page.locator(".error").inner_text()
    page.fill("#temperature", "0")
