"""Numbers and formulas as words of a page."""

from __future__ import annotations

import html
import math
import re

import markupsafe


def thousands(value: int) -> str:
    return f"{value:,}"


def number(value: float) -> str:
    """With four significant digits; whole numbers whole."""
    if value != value:
        return "none"
    if float(value).is_integer() and abs(value) < 1e9:
        return f"{int(value):,}".replace("-", "\N{MINUS SIGN}")
    return f"{value:.4g}".replace("-", "\N{MINUS SIGN}")


def measured(value: float, interval: tuple[float, float] | None) -> str:
    """A value with its interval, as many digits as that leaves meaning to: 6.952 [6.839, 7.066]."""
    if interval is None:
        return number(value)
    width = interval[1] - interval[0]
    if width <= 1e-9 * max(abs(value), 1e-300):
        return number(round(value, 9))
    digits = min(9, max(0, 1 - math.floor(math.log10(width / 2))))
    told = [f"{it:,.{digits}f}".replace("-", "\N{MINUS SIGN}") for it in (value, *interval)]
    return f"{told[0]} [{told[1]}, {told[2]}]"


def seconds(value: float) -> str:
    """A span of time as a person says it."""
    if value != value:
        return "unknown"
    for least, unit, factor in ((172800, "days", 86400), (7200, "h", 3600), (120, "min", 60), (1, "s", 1)):
        if value >= least:
            return f"{value / factor:.3g} {unit}"
    return f"{1000 * value:.3g} ms" if value >= 1e-3 else f"{1e6 * value:.3g} \N{MICRO SIGN}s"


def sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def count(number_of: int, one: str, many: str | None = None) -> str:
    return f"{number_of:,} {one if number_of == 1 else many or one + 's'}"


GREEK = {name: it for name, it in zip(
    "gamma zeta eta theta kappa lambda mu sigma tau".split(), "\u03b3\u03b6\u03b7\u03b8\u03ba\u03bb\u03bc\u03c3\u03c4")}
SIGNS = {"&gt;=": "\N{GREATER-THAN OR EQUAL TO}", "&lt;=": "\N{LESS-THAN OR EQUAL TO}", " - ": " \N{MINUS SIGN} ",
         "\\|": "\N{DOUBLE VERTICAL LINE}", "||": "\N{DOUBLE VERTICAL LINE}", "sqrt(": "\N{SQUARE ROOT}("}


def typeset(text: object) -> markupsafe.Markup:
    """Plain words with the letters of formulas set as such. Everything is escaped first, so words stay words."""
    safe = html.escape(str(text), quote=True).replace("\\$", "&#36;")
    safe = re.sub(r"\$([^$]+)\$", r"\1", safe)
    parts = re.split(r"`([^`]+)`", safe)  # every other one stood in backquotes
    parts[::2] = map(_letters, parts[::2])
    parts[1::2] = [f"<code>{it}</code>" for it in parts[1::2]]
    return markupsafe.Markup("".join(parts))


def _letters(safe: str) -> str:
    for plain, sign in SIGNS.items():
        safe = safe.replace(plain, sign)
    safe = re.sub(r"\^(?:\{([^{}]+)\}|(-?\w+(?:/\d+)?))",
                  lambda it: f"<sup>{(it[1] or it[2]).replace('-', chr(0x2212))}</sup>", safe)
    safe = re.sub(r"\b(d)_([hv])\b", r"<var>\1<sub>\2</sub></var>", safe)
    safe = re.sub(rf"\\?\b({'|'.join(GREEK)})(?:_(min|max|lin|star|[0WkKj]))?(?![\w:])",
                  lambda it: f"<var>{GREEK[it[1]]}{'<sub>' + it[2] + '</sub>' if it[2] else ''}</var>", safe)
    return re.sub(r"(?<![\w&/;.>-])([HTnd])(?![\w;']|<(?!sup>)|\.\w|-(?!subset))", r"<var>\1</var>", safe)
