"""The page about performance shows the figures of the last whole run."""

from bench.page import CHART, PAGE, RESULTS, put_figures, read_runs, write_figures

AGAIN = "run: python -m bench.page"


def test_the_page_has_the_figures_of_the_last_run():
    page = PAGE.read_text()
    assert page == put_figures(page, write_figures(read_runs())), AGAIN


def test_the_page_has_the_chart_of_the_last_run():
    assert CHART.read_text() == (RESULTS / "bench.svg").read_text(), AGAIN


def make_row(name, mine, theirs, mark):
    medians = {"mainstem": mine, "electric": theirs}
    ratio = mine / theirs if theirs else None
    return {"name": name, "title": f"{name}, 3 million records", "unit": "u", "medians": medians, "ratio": ratio} | {
        "target": ">= 1",
        "mark": mark,
    }


def test_figures_are_written_as_tables():
    growth = [
        make_row(f"growth-{figure}-{size}", 2.0, 4.0 if figure == "append" else None, "MISS" if size == "3m" else "-")
        for figure in ("append", "commit-p99", "catch-up", "start", "rss", "disk", "sse-append", "sse-rss")
        for size in ("0", "1m", "3m", "10m")
    ]
    run = read_runs()[0] | {
        "peers": {"mainstem": {"version": "m"}, "electric": {"version": "e"}},
        "measurements": [make_row("both", 1.0, 2.0, "MISS"), make_row("one", 3.0, None, "pass"), *growth],
    }
    lines = write_figures([run]).splitlines()
    assert "| both, 3 million records | 1 u | 2 | 0.5x | >= 1: missed |" in lines
    assert "| one, 3 million records | 3 u | >= 1: reached |" in lines
    assert "| growth-rss-0, u | 2 | 2 | 2 (missed) | 2 |" in lines


def test_a_scenario_that_was_measured_again_replaces_its_older_figures():
    def make_run(date, value):
        run = read_runs()[0]
        return run | {
            "machine": run["machine"] | {"date": date},
            "peers": {"mainstem": {"version": "m"}, "electric": {"version": "e"}},
            "measurements": [make_row("audit", value, None, "pass")],
        }

    old, new = make_run("2026-11-01 10:00 UTC", 3.0), make_run("2026-11-02 09:00 UTC", 5.0)
    for runs in ([old, new], [new, old]):
        lines = write_figures(runs).splitlines()
        assert [line for line in lines if line.startswith("| audit")] == [
            "| audit, 3 million records | 5 u | >= 1: reached |"
        ]
