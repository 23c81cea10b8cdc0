"""python3 -m mhasweep_analysis.plot FILE [--figure NAME] [-o OUT]: draws a figure of a result file.

Exit status: 0 drawn, 1 the picture could not be written, 2 wrong usage or nothing to draw.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from mhasweep_analysis import figures
from mhasweep_analysis.reader import ResultError, open as open_results

FORMATS = (".png", ".pdf", ".svg")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python3 -m mhasweep_analysis.plot", description="Draws a figure of a result file of mhasweep.",
        epilog="A file that a sweep is still writing is drawn as far as it is done.")
    parser.add_argument("file", metavar="FILE", type=Path, help="result file")
    parser.add_argument("--figure", metavar="NAME", choices=figures.FIGURES,
                        help=f"{', '.join(figures.FIGURES)}; default: by the file's experiment, results and axes")
    parser.add_argument("-o", "--output", metavar="OUT", type=Path,
                        help="picture (.png, .pdf or .svg); default: FILE with .png")
    options = parser.parse_args(arguments)
    output = options.output or options.file.with_suffix(".png")
    if output.suffix.lower() not in FORMATS:
        parser.error(f"{output}: a picture's name ends in {', '.join(FORMATS)}")

    try:
        results = open_results(options.file, curves=False)
        name = figures.choose(results, options.figure)
        if figures.FIGURES[name].wide:
            results = open_results(options.file)
        figure = figures.draw(results, name)
    except ResultError as error:
        text = str(error)
        prefix = "" if text.startswith(f"{options.file}:") else f"{options.file}: "
        print(f"mhasweep plot: {prefix}{text}", file=sys.stderr)
        return 2

    # Beside its place first, so that an interrupted run leaves no half picture.
    unfinished = output.with_name(f".{os.getpid()}.{output.name}")
    try:
        figures.save(figure, str(unfinished))
        os.replace(unfinished, output)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        print(f"mhasweep plot: {output}: cannot be written ({error.strerror})", file=sys.stderr)
        return 1
    print(output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
