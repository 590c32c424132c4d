"""The page and its plots: values stand at their places, lists end at their limits, and the words say what is shown."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from tests.evaluation.test_assess import HALF, MISSED, SERVED, UNSERVED, assessed, outcome, request
from toolcaddie.core.catalog import Catalog, Category
from toolcaddie.core.tool import Tool
from toolcaddie.evaluation.report.page import html_report
from toolcaddie.evaluation.report.svg import Row, Series, Whisker, bars, dots, lines

LEFT, RIGHT, BASE, TOP = 52.0, 544.0, 284.0, 12.0
"""The edges of a plot of lines: 560 wide and 330 high."""


def elements(svg: str, kind: str, of_class: str = "") -> list[ElementTree.Element]:
    root = ElementTree.fromstring(svg)
    return [each for each in root.iter(kind) if of_class in each.get("class", "").split() or not of_class]


def places(svg: str) -> list[tuple[float, float]]:
    return [(float(each.get("cx", "")), float(each.get("cy", ""))) for each in elements(svg, "circle")]


def texts(svg: str, of_class: str) -> list[str]:
    return [each.text or "" for each in elements(svg, "text", of_class)]


def test_a_point_stands_at_its_share_of_the_plot_and_never_outside() -> None:
    points = [(0.0, 0.0), (1.0, 0.25), (4.0, 1.0), (9.0, 7.0), (-3.0, -1.0)]
    svg = lines([Series(name="line", points=points)], x="x", y="y", x_range=(0, 4))
    quarter = LEFT + (RIGHT - LEFT) / 4, BASE - (BASE - TOP) / 4
    assert places(svg) == [(LEFT, BASE), quarter, (RIGHT, TOP), (RIGHT, TOP), (LEFT, BASE)]


def test_a_range_of_one_value_stands_in_the_middle() -> None:
    svg = lines([Series(name="dot", points=[(3, 2)])], x="x", y="y", x_range=(3, 3), y_range=(2, 2))
    assert places(svg) == [((LEFT + RIGHT) / 2, (BASE + TOP) / 2)]


def test_a_band_is_closed_and_a_line_without_marks_has_no_dots() -> None:
    series = Series(name="line", points=[(0, 0.5), (1, 0.5)], band=[(0, 0.25, 0.75), (1, 0.25, 0.75)], marked=False)
    svg = lines([series], x="x", y="y", x_range=(0, 1), diagonal=True)
    (band,) = elements(svg, "path", "band")
    assert band.get("d") == "M52.0 80.0L544.0 80.0L544.0 216.0L52.0 216.0Z"
    (line,) = elements(svg, "path", "line")
    assert line.get("d") == "M52.0 148.0L544.0 148.0"
    (chance,) = elements(svg, "path", "chance")
    assert chance.get("d") == "M52.0 284.0L544.0 12.0"
    assert places(svg) == []


@pytest.mark.parametrize(
    ("most", "ticks"),
    [
        (1.0, ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
        (12.0, ["0", "2.5", "5", "7.5", "10"]),
        (40_000.0, ["0", "10k", "20k", "30k", "40k"]),
    ],
)
def test_ticks_are_about_five_round_numbers(most: float, ticks: list[str]) -> None:
    svg = lines([Series(name="line", points=[(0, 0)])], x="x", y="y", x_range=(0, most))
    assert texts(svg, "middle")[: len(ticks)] == ticks
    assert texts(svg, "end") == ["0", "0.2", "0.4", "0.6", "0.8", "1"]


def test_bars_are_as_high_as_their_share_of_the_highest_round_number() -> None:
    svg = bars([("low", 3, [0.3, 0.0]), ("high", 5, [0.15, 0.25])], [0.0, 1.0, 2.0], x="fit", y="share", height=300.0)
    heights = [float(each.get("height", "")) for each in elements(svg, "rect")]
    assert heights == [242.0, 0.0, 121.0, pytest.approx(201.7)]
    assert [each.get("class") for each in elements(svg, "rect")] == ["bar s3", "bar s3", "bar s5", "bar s5"]
    assert texts(svg, "end")[-1] == "30%"


def test_rows_show_intervals_a_line_at_zero_and_labels_that_fit() -> None:
    whisker = Whisker(value=0.0, low=-0.5, high=0.25)
    svg = dots(
        [Row(label="a very long label of a row", whiskers=[whisker], note="+0.1")],
        x_range=(-1, 1), zero=0.0, left=100.0, label="differences", signed=True,
    )  # fmt: skip
    (zero,) = elements(svg, "line", "zero")
    middle = 100 + (560 - 64 - 100) / 2
    assert (zero.get("x1"), zero.get("x2")) == (f"{middle:.1f}", f"{middle:.1f}")
    (interval,) = elements(svg, "line", "whisker")
    assert (interval.get("x1"), interval.get("x2")) == (f"{middle - 99:.1f}", f"{middle + 49.5:.1f}")
    (label,) = elements(svg, "text", "label")
    assert label.text == "a very long…"
    assert [title.text for title in label] == ["a very long label of a row"]
    assert texts(svg, "middle") == ["-1", "-0.5", "0", "+0.5", "+1"]


# --- the page --------------------------------------------------------------------------------------------------------


def section(page: str, head: str) -> str:
    """The markup of the section under a heading; empty if there is none."""
    return page.partition(f"<h2>{head}</h2>")[2].partition("</section>")[0]


def page_of(*pairs: tuple[object, object], **more: object) -> str:
    return html_report([assessed(*pairs, **more)], title="my report")  # type: ignore[arg-type]


def test_the_axes_of_nothing_fits_say_which_requests_they_count() -> None:
    nothing_fits = section(page_of(SERVED, UNSERVED), "Nothing fits")
    assert texts(re.findall(r"<svg.*</svg>", nothing_fits)[0], "axis-name") == [
        "requests that some tool fits, called nothing",
        "requests that no tool fits, caught",
    ]
    assert section(page_of(SERVED, HALF), "Nothing fits") == ""


def test_the_fits_of_both_kinds_are_counted_in_twenty_bins() -> None:
    sure = request("sure", "a"), outcome("a", fit=1.0)
    fits = section(page_of(sure, HALF, UNSERVED), "Fit of the best tool")
    for colour in ("s3", "s5"):
        assert fits.count(f'class="bar {colour}"') == 20
    assert "some tool fits: 50.0% between 0.95 and 1.00" in fits
    assert "no tool fits: 100.0% between 0.20 and 0.25" in fits
    assert section(page_of(SERVED, HALF), "Fit of the best tool") == ""


def test_the_twenty_categories_with_the_most_requests_are_shown() -> None:
    names = [f"category_{number:02}" for number in range(21)]
    catalog = Catalog.of(
        [Tool(name=f"tool_{name}", category=name) for name in names], [Category(name=n) for n in names]
    )

    def requests(*chosen: str) -> list[tuple[object, object]]:
        return [(request(f"for {name}", f"tool_{name}"), outcome(f"tool_{name}")) for name in chosen]

    twenty = section(page_of(*requests(*names[:20]), catalog=catalog), "By category")
    assert all(name in twenty for name in names[:20])
    assert "with the most requests" not in twenty
    one_more = section(page_of(*requests(*names, *names[1:]), catalog=catalog), "By category")
    assert all(name in one_more for name in names[1:])
    assert names[0] not in one_more
    assert "The 20 with the most requests of 21." in one_more
    assert section(page_of(SERVED), "By category") == "", "one category is no comparison"


def test_the_worst_requests_show_the_places_of_their_tools_and_what_was_said_before() -> None:
    long = (request("please " * 100, "d", earlier=2), outcome("a", "b", sent=("d",)))
    worst = section(page_of(SERVED, HALF, MISSED, long), "Served worst")
    assert worst.count("<tr>") == 4
    assert "one</td>" not in worst
    assert '<code class="tool right">b</code> <span class="place">2, sent</span>' in worst
    assert '<code class="tool right">c</code> <span class="place">not among the first 2, sent</span>' in worst
    assert "not among the first 0</span>" in worst
    assert "no tool was found" in worst
    assert "… 1 earlier" in worst
    assert "user: earlier 1" in worst
    (shortened,) = re.findall(r"(please [^<]*…)", worst)
    assert len(shortened) == 400
    assert "finds every right tool among the first five" in page_of(SERVED)


def test_a_better_fit_is_drawn_against_the_share_of_right_tools() -> None:
    ten = [(request(f"r{number}", "a"), outcome("a" if number > 4 else "b", fit=number / 10)) for number in range(10)]
    calibration = section(page_of(*ten), "Is a better fit more often right")
    svg = re.findall(r"<svg.*</svg>", calibration)[0]
    (low, high) = places(svg)  # five requests a part at least
    assert (low[1], high[1]) == (BASE, TOP)
    assert low[0] < high[0]
