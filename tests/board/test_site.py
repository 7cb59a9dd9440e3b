"""The site in a real browser, headless: what a reader can do, and what a hostile record cannot."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from speedrun.board.site.build import build_site
from speedrun.errors import SpeedrunError
from speedrun.project import Project

REPOSITORY = Path(__file__).parents[2]
OPTIONS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One Chromium for all tests; they fail plainly where none can be found or installed."""
    from playwright.sync_api import sync_playwright

    found = subprocess.run([REPOSITORY / "scripts" / "install_chromium.sh"], capture_output=True, text=True)
    if found.returncode != 0:
        pytest.fail(found.stderr, pytrace=False)
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=found.stdout.splitlines()[-1].strip(), args=OPTIONS)
        yield made
        made.close()


@pytest.fixture(scope="module")
def site(known, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of known records, with the historic board beside them."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(known.project.root, folder / "project")
    project = Project(folder / "project")
    shutil.copytree(REPOSITORY / "results" / "marin", project.results / "marin")
    assert build_site(project, folder / "out") == 27
    return folder / "out"


class Reader:
    """A page with its console watched, in a browser that has no network."""

    def __init__(self, browser: Any, site: Path, **options: Any):
        self.context = browser.new_context(offline=True, viewport={"width": 1280, "height": 900}, **options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(90_000)  # machines may be busy
        self.site = site
        self.problems: list[str] = []
        self.page.on("console", lambda message: self.problems.append(message.text) if message.type == "error" else None)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))

    def open(self, path: str = "index.html") -> Any:
        self.page.goto("about:blank")
        self.page.goto(f"{self.site.as_uri()}/{path}")
        self.page.wait_for_selector("body[data-ready]")
        return self.page

    def names(self) -> list[str]:
        return self.page.locator("#table td.name .main").all_inner_texts()

    def click(self, text: str) -> None:
        self.page.get_by_role("button", name=text, exact=True).click()


@pytest.fixture
def reader(browser: Any, site: Path) -> Iterator[Reader]:
    made = Reader(browser, site)
    yield made
    assert made.problems == []
    made.context.close()


@pytest.mark.slow
def test_the_first_view_shows_the_top_rung_in_order(reader: Reader) -> None:
    page = reader.open()
    assert page.locator("#headline").inner_text() == "faster reaches its loss with 1.30× less compute than adamw"
    assert reader.names() == ["faster", "adamw", "slower"]
    assert page.locator("#rungs [aria-pressed=true]").inner_text() == "micro_3"
    page.wait_for_selector("#chart .point")


@pytest.mark.slow
def test_sorting_by_a_column_both_ways_with_the_keyboard(reader: Reader) -> None:
    page = reader.open()
    button = page.get_by_role("columnheader", name="candidate").get_by_role("button")
    button.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("th[aria-sort=ascending]")
    assert reader.names() == ["adamw", "faster", "slower"]
    page.keyboard.press("Enter")
    page.wait_for_selector("th[aria-sort=descending]")
    assert reader.names() == ["slower", "faster", "adamw"]
    page.get_by_role("columnheader", name="bits per byte").get_by_role("button").click()
    page.wait_for_function("document.querySelector('#table td.name .main').textContent === 'faster'")
    assert reader.names() == ["faster", "adamw", "slower"]


@pytest.mark.slow
def test_filtering(reader: Reader) -> None:
    page = reader.open()
    page.locator("#filter").fill("slow")
    page.wait_for_function("document.querySelectorAll('#table tbody tr').length === 1")
    assert reader.names() == ["slower"]
    assert page.locator("#count").inner_text() == "1 of 3 rows"
    page.locator("#filter").fill("nothing like it")
    page.wait_for_function("document.querySelectorAll('#table tbody tr').length === 0")


@pytest.mark.slow
def test_switching_charts_and_the_axis(reader: Reader) -> None:
    page = reader.open()
    page.wait_for_selector("#chart .point")
    axis = "document.querySelector('#chart').layout.xaxis.title.text"
    assert page.evaluate(axis) == "model FLOPs"
    reader.click("causal")
    page.wait_for_function(f"{axis} === 'causal FLOPs'")
    reader.click("hardware")
    assert page.locator("#chart-caption").inner_text() == "No hardware FLOPs are on record here."
    reader.click("Scaling fits")
    page.wait_for_function("document.querySelector('#chart').layout.yaxis2 !== undefined")
    reader.click("Speedup")
    page.wait_for_function("document.querySelector('#chart').layout.yaxis.title.text.startsWith('speedup')")
    drawn = page.evaluate("document.querySelector('#chart').data.map((t) => [t.name, t.y[2]])")
    assert dict(drawn) == pytest.approx({"faster": 1.3, "slower": 0.8}, rel=0.01)


@pytest.mark.slow
def test_a_deep_link_restores_the_whole_state(reader: Reader) -> None:
    page = reader.open("index.html#board=public&rung=520m&sort=bits+per+byte&dir=down&q=kaiyue&chart=fits")
    assert page.locator("#rungs [aria-pressed=true]").inner_text() == "520m"
    assert page.locator("#filter").input_value() == "kaiyue"
    assert page.locator("th[aria-sort=descending]").inner_text() == "bits per byte"
    assert page.get_by_role("button", name="Scaling fits").get_attribute("aria-pressed") == "true"
    scores = [float(text) for text in page.locator("#table td[data-label='bits per byte'] .main").all_inner_texts()]
    assert len(scores) == 2 and scores == sorted(scores, reverse=True)


@pytest.mark.slow
def test_what_is_clicked_stands_in_the_address(reader: Reader) -> None:
    page = reader.open()
    reader.click("micro_1")
    reader.click("Scaling fits")
    page.locator("#filter").fill("fast")
    address = page.evaluate("location.href")
    again = reader.open(address.partition(reader.site.as_uri() + "/")[2])
    assert again.locator("#rungs [aria-pressed=true]").inner_text() == "micro_1"
    assert reader.names() == ["faster"]


@pytest.mark.slow
def test_opening_a_run_and_its_difference_from_another(reader: Reader) -> None:
    page = reader.open()
    page.locator("#table td.name a", has_text="faster").click()
    page.wait_for_selector("body[data-ready=run]")
    assert page.locator("h1").inner_text() == "faster"
    assert "Nats per token" in page.locator("#curve-caption").inner_text()
    page.wait_for_selector("#chart .trace")
    assert page.locator("dt", has_text="recipe fingerprint").count() == 1
    page.locator("#versus").fill("adamw/micro_2/42")
    page.wait_for_selector("#config tr.differs")
    fields = page.locator("#config tbody td:first-child").all_inner_texts()
    # The two rungs differ in shape and steps, and not in the batch.
    assert {"model.hidden_dim", "model.num_layers", "recipe.steps"} <= set(fields)
    assert "recipe.batch_size" not in fields
    reader.open(page.evaluate("location.href").partition(reader.site.as_uri() + "/")[2])
    assert page.locator("#versus").input_value() == "adamw/micro_2/42"
    assert page.locator("#diff-count").inner_text() == f"{len(fields)} fields differ"


@pytest.mark.slow
def test_a_long_table_loads_its_first_rows_and_the_rest_when_asked(browser: Any, writer: Any, tmp_path: Path) -> None:
    writer.ladder({"adamw": 1.0})
    for at in range(150):
        writer.arm(f"method_{at:03d}", "micro_1", 0.7 + 0.001 * at, seeds=1)
    build_site(writer.project, tmp_path / "out")
    reader = Reader(browser, tmp_path / "out")
    page = reader.open("index.html#rung=micro_1")
    rest = "document.querySelectorAll('script[src*=rest]').length"
    assert len(reader.names()) == 100 and page.evaluate(rest) == 0
    assert page.locator("#count").inner_text() == "151 rows"
    page.get_by_role("button", name="Show more").click()
    page.wait_for_function("document.querySelectorAll('#table tbody tr').length === 151")
    assert reader.names()[:2] == ["adamw", "method_149"] and reader.names()[-1] == "method_000"
    assert page.evaluate(rest) == 1 and not page.get_by_role("button", name="Show more").is_visible()
    page = reader.open("index.html#rung=micro_1&sort=bits+per+byte&dir=down")
    assert reader.names()[0] == "method_000"  # it stands in the rest
    page = reader.open("index.html#rung=micro_1&q=method_001")
    assert reader.names() == ["method_001"] and page.locator("#count").inner_text() == "1 of 151 rows"
    assert reader.problems == []
    reader.context.close()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_needs_no_sideways_scrolling(browser: Any, site: Path, scheme: str) -> None:
    reader = Reader(browser, site, color_scheme=scheme)
    reader.page.set_viewport_size({"width": 360, "height": 760})
    for path in ("index.html", "index.html#board=public", "runs/faster/micro_3-42.html"):
        page = reader.open(path)
        page.wait_for_selector("#chart .main-svg")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        assert page.evaluate("document.documentElement.dataset.theme") == scheme
    assert reader.problems == []
    reader.context.close()


@pytest.mark.slow
def test_a_phone_sorts_by_a_list(browser: Any, site: Path) -> None:
    reader = Reader(browser, site)
    reader.page.set_viewport_size({"width": 390, "height": 844})
    page = reader.open()
    sort = page.get_by_label("Sort")
    assert sort.locator("option:checked").inner_text() == "as ranked"
    sort.select_option("bits per byte ↓")
    page.wait_for_function("document.querySelector('#table td.name .main').textContent === 'slower'")
    assert reader.names() == ["slower", "adamw", "faster"]
    page.get_by_label("Sort").select_option("as ranked")
    page.wait_for_function("document.querySelector('#table td.name .main').textContent === 'faster'")
    heights = "[...document.querySelectorAll('button, select, input, .seeds a')].filter((e) => e.offsetParent)"
    assert page.evaluate(f"{heights}.map((e) => e.getBoundingClientRect().height).filter((h) => h < 24)") == []
    reader.context.close()


@pytest.mark.slow
def test_a_project_without_records_says_how_to_make_one(browser: Any, writer: Any, tmp_path: Path) -> None:
    assert build_site(writer.project, tmp_path / "out") == 0
    reader = Reader(browser, tmp_path / "out")
    page = reader.open()
    assert page.locator("h1").all_inner_texts() == ["No records yet"]
    assert "speedrun run" in page.locator("main").inner_text() and page.locator("table").count() == 0
    assert reader.problems == []
    reader.context.close()


@pytest.mark.slow
def test_everything_that_can_be_used_has_a_name(reader: Reader) -> None:
    for path in ("index.html", "runs/faster/micro_3-42.html"):
        page = reader.open(path)
        unnamed = page.evaluate(
            "[...document.querySelectorAll('button, a, input, [role=img], [role=region]')].filter((e) => "
            "!(e.textContent.trim() || e.ariaLabel || e.title || e.labels?.length || "
            "document.getElementById(e.getAttribute('aria-labelledby'))?.textContent.trim())).map((e) => e.outerHTML)"
        )
        assert unnamed == []
        assert page.locator("h1").count() == 1
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"


@pytest.mark.slow
def test_a_hostile_record_is_shown_as_text(browser: Any, writer: Any, tmp_path: Path) -> None:
    def spoil(value: Any) -> Any:
        if isinstance(value, dict):
            return {f"{key}": spoil(item) for key, item in value.items()}
        if isinstance(value, list):
            return [spoil(item) for item in value]
        return HOSTILE + "x" * 10_000 if isinstance(value, str) else value

    def change(info: dict[str, Any]) -> None:
        kept = {"corpus": "rung"}
        info.update(spoil({key: value for key, value in info.items() if key not in kept}))
        info["model_config"][HOSTILE] = HOSTILE
        info["wandb_run_link"] = "javascript:document.title='owned'//"
        info["author"]["url"] = info["authors"][0]["url"] = "javascript:alert(1)"

    writer.ladder({"adamw": 1.0})
    writer.arm("odd", "micro_1", seeds=1, change=change)
    build_site(writer.project, tmp_path / "out")
    reader = Reader(browser, tmp_path / "out")
    for path in ("index.html#rung=micro_1", "runs/odd/micro_1-42.html"):
        page = reader.open(path)
        page.wait_for_timeout(300)
        assert "owned" not in page.title()
        assert page.locator("img").count() == 0
        assert page.locator("script").count() == page.locator("script[src]").count()
        assert not [link for link in page.locator("a").all() if "javascript" in (link.get_attribute("href") or "")]
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280
        assert "</script>" in page.locator("main").inner_text()
    assert reader.problems == []
    reader.context.close()


def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    loads = re.compile(r"""<(?:script|link|img|iframe)\b[^>]*(?:https?:|["']//)|@import|url\(""")
    for path in [*site.rglob("*.html"), site / "site.css", site / "site.js"]:
        assert not loads.search(path.read_text(encoding="utf-8")), path


def test_a_folder_that_holds_something_else_is_left_alone(known, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(SpeedrunError, match="holds something that is no site"):
        build_site(known.project, tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "years of work"
    os.remove(tmp_path / "thesis.txt")
    build_site(known.project, tmp_path)
    build_site(known.project, tmp_path)  # over an older site
    assert (tmp_path / "index.html").is_file()
