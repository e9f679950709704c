"""Which variants of tests wait for `-m slow`, so that `.ci/run` stays within 15 minutes.

Each names what stays in the run: another engine or release shows the same fault there, or a test of
the conformance suite does. What is left out runs before a release.
"""

from __future__ import annotations

import pytest

_SUITE = "backends/ckpt_backends/testing/conformance"
STAYS: dict[str, tuple[str, ...]] = {
    f"{_SUITE}/test_counts.py::test_plan_and_report_equal_what_the_engine_counts": (
        *("sqlite", "postgres", "redis"),
    ),
    f"{_SUITE}/test_filters.py::test_a_filter_chooses_the_threads_for_which_it_holds": (
        *("sqlite", "postgres (", "mysql (", "redis (", "mongodb (", "redis-plain"),
        *("kaflow", "three-table ("),
    ),
    f"{_SUITE}/test_matrix.py::test_each_command_does_what_its_cell_says": (
        *("sqlite", "postgres (", "mysql (", "redis (", "redis-plain", "mongodb ("),
        *("langgraph-dev", "three-table", "valkey"),
    ),
    f"{_SUITE}/test_promises.py::test_checkpoints_and_writes_of_many_threads_are_those_of_each": (
        *("sqlite", "postgres", "mysql", "redis", "mongodb", "kaflow", "langgraph-dev"),
        *("three-table", "valkey"),
    ),
    f"{_SUITE}/test_removal.py::test_delete_takes_a_thread_and_no_neighbour": (
        *("sqlite", "postgres", "mysql", "redis", "mongodb", "kaflow", "langgraph-dev"),
        "valkey",
    ),
    f"{_SUITE}/test_removal.py::test_two_purges_at_once_share_the_work": (
        *("sqlite", "postgres", "redis"),
    ),
    f"{_SUITE}/test_time_travel.py::test_a_change_below_the_head_is_undone_and_made_again": (
        *("postgres", "redis", "mysql"),
    ),
    f"{_SUITE}/test_time_travel.py::test_an_undone_change_leaves_every_row_as_it_was": (
        *("postgres-subgraph", "redis-", "mysql-command", "mongodb-command", "valkey"),
        *("langgraph-dev-command", "dynamodb"),
    ),
    "tests/engines/only/test_dynamodb.py::test_a_hostile_item_is_shown_as_what_it_is": ("ref_loc",),
    "tests/engines/test_lookalikes.py::test_what_speaks_mysqls_protocol_is_read_alike": ("vitess",),
    "tests/engines/test_lookalikes.py::test_what_speaks_postgresqls_protocol_is_read_alike": (
        "cockroachdb",
    ),
    "tests/engines/only/test_mysql.py::test_stores_of_each_release": ("4",),
    "tests/engines/only/test_redis_cluster.py::test_a_thread_goes_wholly_and_no_other": ("redis]",),
    "tests/engines/only/test_redis_cluster.py::test_every_server_leads_to_the_whole_cluster": (
        "redis]",
    ),
    "tests/engines/only/test_plainredis.py::test_broken_keys_break_nothing": (r"\x00", "{}"),
    "tests/commands/test_completions.py::test_a_server_that_does_not_answer_is_not_waited_for": (
        "True",
    ),
    "tests/commands/test_completions.py::test_bash_completes_with_other_settings": (
        *("COMP_WORDBREAKS=${COMP_WORDBREAKS//:}", "set -u"),
    ),
    "tests/conformance/test_plugin.py::test_a_harness_of_four_parts_passes": (),
    "tests/conformance/test_replay_of_eras.py::test_every_transition_of_an_era_is_explained": (
        *("lg-0.2.14-json", "lg-1.2.22", "js-1", "deepagents-0.7"),
    ),
    "tests/conformance/test_truth_of_eras.py::"
    "test_a_postgres_store_of_an_older_era_reads_as_its_library_read_it": ("lg-0.2.14-json",),
    "tests/conformance/test_truth_of_eras.py::"
    "test_a_postgres_store_of_javascript_reads_as_its_library_read_it": ("js-1.7.3",),
    "tests/conformance/test_truth_of_eras.py::"
    "test_a_redis_store_of_an_older_era_reads_as_its_library_read_it": ("lg-0.4.10",),
    "tests/conformance/test_truth_of_eras.py::"
    "test_a_store_of_an_older_era_reads_as_its_library_read_it": (
        *("lg-0.2.14-json", "lg-0.6.11", "js-1", "agents/deepagents-0.7"),
    ),
    "tests/doctor/test_clean.py::test_a_sqlite_store_of_an_era": (*("lg-0.2.14-json", "js-1.7.3"),),
    "tests/doctor/test_clean.py::test_a_store_while_an_agent_writes": ("Sqlite",),
    "tests/doctor/test_planted.py::test_a_planted_fault_is_found": (
        *("sqlite", "postgres-", "redis-value"),
    ),
    "tests/doctor/test_types.py::test_nothing_is_dangerous_in_stores_of_any_era": ("lg-1",),
    "tests/erase/test_erase_engines.py::test_nothing_of_the_person_is_left": (
        *("postgres", "redis"),
    ),
    "tests/erase/test_value_eras.py::test_stores_of_earlier_releases": (
        *("lg-0.2.14", "lg-1.2.22]"),
    ),
    "tests/commands/test_errors.py::test_errors_are_those_of_the_threads_with_this_status": (
        *("lg-0.2.14-json", "lg-1.2.22", "js-1"),
    ),
    "tests/commands/test_metrics.py::test_the_numbers_are_those_of_the_other_commands": (
        *("Sqlite", "Postgres", "Redis"),
    ),
    "tests/plugin_package/test_installed.py::"
    "test_a_terminal_shows_packages_and_problems_at_any_width": ("80",),
    "tests/rekey/test_copy.py::test_a_copy_has_another_key": ("Postgres",),
    "tests/rekey/test_copy.py::test_a_copy_is_decrypted_and_its_copy_encrypted": (
        *("Sqlite", "Postgres"),
    ),
    "tests/rekey/test_travel.py::test_a_rolled_back_thread_goes_on_as_after_time_travel": (
        *("Sqlite", "Postgres"),
    ),
    "tests/rekey/test_travel.py::test_an_edited_fork_is_encrypted": ("Sqlite", "Postgres"),
    "tests/repair/test_clean_conversations.py::test_clean_conversations_have_no_finding": (
        "lg-1.2.22]",
    ),
    "tests/repair/test_messages.py::test_a_killed_agent_goes_on": ("sqlite", "postgres"),
    "tests/repair/test_messages.py::test_results_without_a_call_are_removed": (
        *("sqlite", "postgres", "redis"),
    ),
    "tests/replay/test_found.py::test_a_write_taken_out_of_a_step_of_format_1_is_found": (
        *("subgraph", "async"),
    ),
    "tests/commands/test_report.py::test_states_are_those_of_show": ("lg-1",),
}
"""By test, how the ids of the variants begin that stay; none if the whole test waits."""


def waits_for_release(item: pytest.Item) -> bool:
    """Return whether a variant of a test runs with `-m slow` only."""
    name = item.nodeid.partition("[")[0]
    stays = STAYS.get(name)
    if stays is None:
        return False
    callspec = getattr(item, "callspec", None)
    return callspec is None or not f"{callspec.id}]".startswith(stays)
