"""The page in a browser: sorting, filters, print, accessibility and escaping."""

from __future__ import annotations

import shutil

import pytest

from relation_tf.report import compare, make_report

pytestmark = pytest.mark.slow

sync_api = pytest.importorskip("playwright.sync_api")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
if CHROMIUM is None:
    pytest.skip("no Chromium: the page is not looked at in a browser", allow_module_level=True)

LEVEL = {"attention": 0.7, "relation": 0.8}
HOSTILE = '<img src=x onerror="window.hit=1"><script>window.hit=1</script>"\'`{{7*7}}'


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def opened(browser):
    """Open a page and check that it makes no requests and has no errors."""
    contexts = []

    def open_page(path, **options):
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.complaints = []
        page.on("console", lambda message: page.complaints.append(message.text))
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on("request", lambda request: page.complaints.append(request.url)
                if request.url != path.as_uri() else None)  # fmt: skip
        page.goto(path.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def page_file(suite_of, fabricate_in, tmp_path_factory):
    parent = tmp_path_factory.mktemp("page")

    def score(config, *_):
        return LEVEL[config.method.partition("-")[0]] + config.seed / 100 + config.units / 1e4

    methods = [
        {"name": "relation", "mechanism": "relation", "units": [8, 16]},
        {"name": "attention", "mechanism": "attention", "units": [8, 16]},
    ]
    suite = suite_of(tasks=["CoLA", "MRPC", "RTE"], method=methods)
    return make_report(fabricate_in(parent)(suite, score)).write(parent / "report")


def unfold(page):
    page.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")


def column(page, number):
    return page.locator(f"table.scores tbody tr td:nth-child({number + 1}) .mean").all_inner_texts()


def test_clicks_sort_a_table_in_both_directions(opened, page_file):
    page = opened(page_file)
    unfold(page)
    head = page.locator("table.scores").first.locator("thead th").nth(1)
    head.locator("button").click()
    values = [float(text.rstrip("abcd")) for text in column(page, 1)]
    assert values == sorted(values)
    assert head.get_attribute("aria-sort") == "ascending"
    head.locator("button").press("Enter")
    assert [float(text.rstrip("abcd")) for text in column(page, 1)] == values[::-1]
    assert head.get_attribute("aria-sort") == "descending"


@pytest.mark.parametrize("width", [1280, 390])
def test_content_fits_the_page(opened, page_file, width):
    page = opened(page_file, viewport={"width": width, "height": 800})
    unfold(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_button_copies_the_paragraph_for_a_paper(opened, page_file):
    page = opened(page_file, permissions=["clipboard-read", "clipboard-write"])
    page.click("button.copy")
    page.wait_for_function("document.querySelector('.copy').textContent === 'Copied'")
    assert page.evaluate("navigator.clipboard.readText()") == page.inner_text("#paper p")
    assert page.complaints == []


def test_links_open_their_section(opened, page_file):
    page = opened(page_file)
    table = page.locator("table.scores")
    page.locator("#scores > summary").click()
    table.wait_for(state="hidden")
    page.locator("nav").get_by_role("link", name="Scores", exact=True).click()  # the same again
    table.wait_for(state="visible")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_is_accessible(opened, page_file, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page = opened(page_file, color_scheme=scheme)
    unfold(page)
    found = axe.run(page)
    assert found.violations_count == 0, found.generate_report()


def test_names_are_escaped(opened, tmp_path):
    rows = [
        f'"{name}","{method}",{seed},{level + seed / 100}\n'
        for name in ("task", HOSTILE.replace('"', '""'))
        for method, level in (("mine", 0.5), (HOSTILE.replace('"', '""'), 0.8))
        for seed in range(5)
    ]
    table = tmp_path / "scores.csv"
    table.write_text("task,method,seed,score\n" + "".join(rows), encoding="utf-8")
    file = compare(table, title=HOSTILE, question=HOSTILE).write(tmp_path / "out")
    page = opened(file)
    unfold(page)
    assert page.evaluate("window.hit") is None
    assert page.complaints == []
    assert page.locator("h1").inner_text() == HOSTILE
    assert HOSTILE in page.locator("table.scores tbody").inner_text()
