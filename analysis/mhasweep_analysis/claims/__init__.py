"""What theory says of the numbers in a result file, and whether they bear it out.

    import mhasweep_analysis as mhas
    results = mhas.open("sweep.h5")
    for claim, verdict in mhas.claims.judge(results):
        print(claim.name, verdict.outcome.value, verdict.measured, verdict.theory)

A claim is one sentence with its source, what it needs (an experiment, results, axes that vary), and a function that
measures it on the rows that are done. `judge` selects these rows, sees to it that what is needed is there, and lets the
function measure every combination of the sweep's other axes by itself. A file that lacks something gets the outcome
"not in this file" with what is missing; nothing is ever judged by rows that are not done.

To add the claims of another body of theory:

1. Write claims/<body>.py with `CLAIMS`, a tuple of Claim. features.py is an example; parts.py explains every field
   and has what claims share: `only` and `both` select rows; `exactly`, `at_least`, `at_most` and `rise` decide;
   `fitted` and the module fits measure slopes and exponents with their intervals.
2. Add it to BODIES below.
3. Name them in the table of analysis/README.md, and test them on rows written by hand, for which every outcome is known
   (`rows` in analysis/tests/test_claims.py).

A function gets only finished rows, so it neither looks at `status` nor at missing results. It returns a Verdict by one
of its makers: `Verdict.of(is_true, ...)` for what can be right or wrong, `Verdict.measuring(...)` for what has no value
in theory, `Verdict.absent(why)` if it turns out that these rows cannot tell. How it decided it says in `note`. The mark
of a source tells how far it can be trusted; what this project derived is never called the paper's.
"""

from __future__ import annotations

from collections.abc import Iterable

import xarray as xr

from mhasweep_analysis.claims import assumptions, capacity, features, icl, optimization, selection, training
from mhasweep_analysis.claims.parts import Claim, Mark, Outcome, Part, Source, Verdict

__all__ = ["BODIES", "CLAIMS", "Claim", "Mark", "Outcome", "Part", "Source", "Verdict", "judge", "of_experiment"]

BODIES = (features, capacity, training, assumptions, optimization, icl, selection)
CLAIMS: dict[str, Claim] = {claim.name: claim for body in BODIES for claim in body.CLAIMS}


def of_experiment(experiment: str) -> list[Claim]:
    """The claims that speak of this experiment, in the order of their registry."""
    return [claim for claim in CLAIMS.values() if experiment in claim.experiments]


def judge(dataset: xr.Dataset, names: Iterable[str] | None = None) -> list[tuple[Claim, Verdict]]:
    """Every claim of the file's experiment (or those named) with its verdict.

    Raises KeyError for a name that is no claim's.
    """
    chosen = of_experiment(dataset.attrs["experiment"]) if names is None else [CLAIMS[name] for name in names]
    return [(claim, claim.judge(dataset)) for claim in chosen]
