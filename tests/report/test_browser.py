"""The pages in a real browser: no error, no request, the slider changes the picture, headings sort, runs are chosen."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from relformer.report.pages import report
from tests.report.runs import make_run

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium here: apt-get install chromium"),
]
LISTEN = """<script>
window.faults = [];
addEventListener("error", (event) => faults.push(String(event.message)));
addEventListener("securitypolicyviolation", (event) => faults.push(event.violatedDirective + " " + event.blockedURI));
</script>"""
TELL = """<script>
addEventListener("load", () => {
  const told = (() => { %s })();
  const fetched = performance.getEntriesByType("resource").map((each) => each.name.slice(0, 30));
  const place = document.createElement("pre");
  place.id = "told";
  place.textContent = JSON.stringify({told, faults, fetched});
  document.body.append(place);
});
</script>"""


def ask(page: Path, script: str) -> Any:
    """What a script in the page returns; fails on an error, a request or a word on the console."""
    driven = page.with_name("driven.html")
    text = page.read_text().replace("<head>", "<head>" + LISTEN, 1)
    driven.write_text(text.replace("</body>", TELL % script + "</body>"))
    network = page.with_name("network.json")
    command = [
        str(CHROMIUM),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-component-update",
        "--no-first-run",
        "--enable-logging=stderr",
        f"--user-data-dir={page.parent / 'profile'}",
        f"--log-net-log={network}",
        "--virtual-time-budget=2000",
        "--dump-dom",
        driven.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "CONSOLE" not in done.stderr, [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    found = re.search(r'<pre id="told">(.*?)</pre>', done.stdout, re.S)
    assert found, done.stdout[-500:]
    answer = json.loads(found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    assert answer["faults"] == []
    assert [name for name in answer["fetched"] if not name.startswith("data:")] == []
    assert requested(network, driven) == set()
    return answer["told"]


def requested(network: Path, page: Path) -> set[str]:
    """What the page asked of anybody but itself; the browser's own errands name another origin."""
    asked = set()
    for event in json.loads(network.read_text())["events"]:
        parameters = event.get("params", {})
        if "url" in parameters and "file://" in str(parameters.get("initiator", "")):
            asked.add(parameters["url"])
    return {url for url in asked if not url.startswith(("data:", page.as_uri()))}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for number, (encoding, exact) in enumerate((("t5", 0.5), ("alibi", 1.0), ("rope", 0.75))):
        make_run(folder / f"{number}_{encoding}", encoding, exact=exact)
    report(folder)
    return folder


def test_a_page_sees_a_request_that_it_must_not_make(pages: Path, tmp_path: Path) -> None:
    """The watch is not blind: an image from elsewhere is refused by the page's own policy, and seen."""
    page = tmp_path / "report.html"
    text = (pages / "0_t5" / "report.html").read_text()
    page.write_text(text.replace("<main>", '<main><img src="http://127.0.0.1:9/x.png">'))
    with pytest.raises(AssertionError):
        ask(page, "return 0;")


def test_the_slider_changes_the_picture(pages: Path) -> None:
    before, after, label = ask(
        pages / "0_t5" / "report.html",
        """
        const images = [...document.querySelectorAll("[data-step] img")];
        const seen = () => images.filter((each) => each.checkVisibility()).map((each) => each.src);
        const input = document.querySelector("input[data-steps]"), before = seen();
        input.value = 0;
        input.dispatchEvent(new Event("input", {bubbles: true}));
        return [before, seen(), document.querySelector("output").textContent];
        """,
    )
    assert len(before) == len(after) == 4 and before != after
    assert label == "step 0"


def test_headings_sort(pages: Path) -> None:
    orders = ask(
        pages / "report.html",
        """
        const all = (selector) => [...document.querySelectorAll(selector)];
        const names = () => all("#runs tbody td:first-child a").map((each) => each.textContent);
        const orders = [names()];
        for (const text of ["test_iid, exact match", "test_iid, exact match", "run"]) {
          all("#runs th button").find((each) => each.textContent === text).click();
          orders.push(names());
        }
        return orders;
        """,
    )
    assert orders == [
        ["t5", "alibi", "rope"],
        ["t5", "rope", "alibi"],
        ["alibi", "rope", "t5"],
        ["alibi", "rope", "t5"],
    ]


def test_two_runs_side_by_side_and_one_slider(pages: Path) -> None:
    names, steps = ask(
        pages / "report.html",
        """
        const select = document.querySelector("select[data-place=left]");
        select.value = 2;
        select.dispatchEvent(new Event("change"));
        const names = ["left", "right"].map((id) => document.querySelector(`#${id} code`).textContent.split("/").pop());
        const input = document.querySelector("#left input[data-steps]");
        input.value = 0;
        input.dispatchEvent(new Event("input", {bubbles: true}));
        return [names, ["left", "right"].map((id) => document.querySelector(`#${id} output`).textContent)];
        """,
    )
    assert names == ["2_rope", "1_alibi"]
    assert steps == ["step 0", "step 0"]
