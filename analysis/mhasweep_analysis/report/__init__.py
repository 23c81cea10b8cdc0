"""python3 -m mhasweep_analysis.report FILE [-o OUT.html]: one page that tells all of a result file.

The page stands by itself: figures are drawn into it, and it asks nothing of the network. It shows what was asked, the
figures, what theory claims of them with the verdicts, failed points with their reasons, what it cost and how the ranks
were used, where the numbers come from, and the sweep file.

Exit status: 0 written, 1 the page could not be written, 2 wrong usage or no result file.
"""

from __future__ import annotations

import argparse
import datetime
import os
import sys
from pathlib import Path

import jinja2
import xarray as xr

from mhasweep_analysis.reader import ResultError, open as open_results
from mhasweep_analysis.report import pictures, sections, words

WIDE_MOST = 1 << 30  # bytes of a file up to which its curves and spectra are read


def build(dataset: xr.Dataset, left_out: bool = False) -> str:
    """The page of a dataset as HTML; `left_out` says that the file has curves and the dataset has not."""
    here = Path(__file__).parent
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(here), autoescape=True, trim_blocks=True,
                                     lstrip_blocks=True, undefined=jinja2.StrictUndefined)
    environment.filters.update(typeset=words.typeset, thousands=words.thousands, seconds=words.seconds)
    return environment.get_template("page.html").render(
        style=(here / "style.css").read_text(encoding="utf-8"),
        name=Path(dataset.attrs["path"]).name,
        title=words.sentence(str(dataset.attrs.get("title", "")) or "a sweep"),
        made=datetime.datetime.now(datetime.timezone.utc),
        left_out=left_out,
        state=sections.state(dataset),
        asked=sections.asked(dataset),
        figures=pictures.of_file(dataset),
        claims=sections.judged(dataset),
        marks=sections.MARKS,
        failures=sections.failures(dataset),
        cost=sections.cost(dataset),
        timeline=pictures.of_time(dataset),
        provenance=sections.provenance(dataset),
        spec=str(dataset.attrs.get("spec", "")),
        overrides=str(dataset.attrs.get("spec_overrides", "")),
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="mhasweep-report", description="Makes one self-contained page (HTML) of a result file of mhasweep.",
        epilog="A file that a sweep is still writing is reported as far as it is done.")
    parser.add_argument("file", metavar="FILE", type=Path, help="result file")
    parser.add_argument("-o", "--output", metavar="OUT", type=Path, help="the page; default: FILE with .html")
    options = parser.parse_args(arguments)
    output = options.output or options.file.with_suffix(".html")
    if output.suffix.lower() not in (".html", ".htm"):
        parser.error(f"{output}: a page's name ends in .html")

    try:
        is_small = not options.file.is_file() or options.file.stat().st_size <= WIDE_MOST
        page = build(open_results(options.file, curves=is_small), left_out=not is_small)
    except ResultError as error:
        text = str(error)
        prefix = "" if text.startswith(f"{options.file}:") else f"{options.file}: "
        print(f"mhasweep report: {prefix}{text}", file=sys.stderr)
        return 2

    # Beside its place first, so that an interrupted run leaves no half page.
    unfinished = output.with_name(f".{os.getpid()}.{output.name}")
    try:
        unfinished.write_text(page, encoding="utf-8")
        os.replace(unfinished, output)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        print(f"mhasweep report: {output}: cannot be written ({error.strerror})", file=sys.stderr)
        return 1
    print(output)
    return 0
