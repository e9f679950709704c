"""All subjects, in the order of the table."""

from __future__ import annotations

from tests.bench.subjects import (
    copy,
    doctor,
    filters,
    grep,
    growth,
    history,
    listing,
    purge,
    screen,
    show,
    sql,
    start_up,
    workers,
)

SUBJECTS = (
    start_up.SUBJECT,
    listing.SUBJECT,
    filters.SUBJECT,
    grep.SUBJECT,
    history.REPLAY,
    history.HISTORY,
    show.SHOW,
    show.TREE,
    purge.SUBJECT,
    copy.SUBJECT,
    doctor.SUBJECT,
    sql.SUBJECT,
    workers.SUBJECT,
    growth.SUBJECT,
    screen.FOLLOWING,
    screen.SCREEN,
    screen.REPORT,
    screen.COMPLETIONS,
)
