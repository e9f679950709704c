"""Which variants of tests wait for `-m slow`, so that `.ci/run` stays within 15 minutes.

Each names what stays in the run: another engine or release shows the same fault there, or a test of
the conformance suite does. What is left out runs before a release.
"""

from __future__ import annotations

import pytest

_SUITE = "backends/ckpt_backends/testing/conformance"
_ENGINES = ("postgres", "redis")
STAYS: dict[str, tuple[str, ...]] = {
    f"{_SUITE}/test_counts.py::test_plan_and_report_equal_what_the_engine_counts": (
        *("sqlite", "postgres", "mysql", "redis", "mongodb"),
    ),
    f"{_SUITE}/test_filters.py::test_a_filter_chooses_the_threads_for_which_it_holds": (
        *("sqlite", "postgres", "mysql", "redis", "mongodb", "kaflow", "langgraph-dev"),
        *("three-table", "valkey"),
    ),
    f"{_SUITE}/test_matrix.py::test_each_command_does_what_its_cell_says": (
        *("sqlite", "postgres", "mysql (", "redis (", "redis-plain", "redis-js (", "mongodb"),
        *("kaflow", "langgraph-dev", "three-table", "valkey"),
    ),
    f"{_SUITE}/test_promises.py::test_checkpoints_and_writes_of_many_threads_are_those_of_each": (
        *("sqlite", "postgres", "mysql", "redis", "mongodb", "kaflow", "langgraph-dev"),
        *("three-table", "valkey"),
    ),
    f"{_SUITE}/test_removal.py::test_delete_takes_a_thread_and_no_neighbour": (
        *("sqlite", "postgres", "mysql", "redis", "mongodb", "kaflow", "langgraph-dev"),
        *("three-table", "valkey"),
    ),
    f"{_SUITE}/test_removal.py::test_two_purges_at_once_share_the_work": ("sqlite", *_ENGINES),
    f"{_SUITE}/test_time_travel.py::test_a_change_below_the_head_is_undone_and_made_again": (
        *("postgres", "redis", "mysql"),
    ),
    f"{_SUITE}/test_time_travel.py::test_an_undone_change_leaves_every_row_as_it_was": (
        *("postgres-subgraph", "redis-", "mysql-command", "mongodb-command", "valkey"),
        *("langgraph-dev-command", "dynamodb"),
    ),
    "tests/backends/test_dynamodb.py::test_a_hostile_item_is_shown_as_what_it_is": (
        *("compression", "ref_key0", "ref_loc", "type0"),
    ),
    "tests/backends/test_lookalikes.py::test_what_speaks_mysqls_protocol_is_read_alike": (
        *("tidb-6.1", "vitess"),
    ),
    "tests/backends/test_mysql.py::test_stores_of_each_release": ("4", "21"),
    "tests/backends/test_redis_cluster.py::test_a_thread_goes_wholly_and_no_other": (
        *("redis]", "redis-plain"),
    ),
    "tests/backends/test_redis_cluster.py::test_every_server_leads_to_the_whole_cluster": (
        *("redis]", "valkey"),
    ),
    "tests/backends/test_redis_removal.py::test_an_agent_at_work_loses_no_checkpoint": ("redis]",),
    "tests/cli/test_completions_typed.py::test_bash_completes_with_other_settings": (
        *("COMP_WORDBREAKS=${COMP_WORDBREAKS//:}", "set -u"),
    ),
    "tests/conformance/test_plugin.py::test_a_harness_of_four_parts_passes": (),
    "tests/conformance/test_truth_of_eras.py::"
    "test_a_postgres_store_of_an_older_era_reads_as_its_library_read_it": (
        *("lg-0.2.14-json", "lg-0.6.11-shallow", "lg-1.0.10"),
    ),
    "tests/conformance/test_truth_of_eras.py::"
    "test_a_postgres_store_of_javascript_reads_as_its_library_read_it": ("js-1.7.3",),
    "tests/copy/test_dynamodb.py::test_killed_runs_are_completed_by_the_next_one": (),
    "tests/copy/test_hostile_threads.py::test_other_layouts_take_what_they_can_hold": (
        *("langgraph-dev", "postgres"),
    ),
    "tests/copy/test_import.py::test_a_fresh_store_of_another_layout_holds_the_same_threads": (
        *("sqlite", "redis"),
    ),
    "tests/copy/test_killed_copies.py::test_a_killed_copy_to_an_engine_is_finished": ("redis",),
    "tests/copy/test_mongodb.py::test_threads_of_old_releases": (),
    "tests/copy/test_pairs.py::test_a_copied_thread_is_the_same": (
        *("sqlite to sqlite", "postgres to", "redis to", "redis-plain to", "kaflow to"),
    ),
    "tests/copy/test_redis.py::test_parts_of_older_releases_are_what_the_store_tells": (
        *("lg-0.4.10", "lg-1.0.10"),
    ),
    "tests/doctor/test_clean.py::test_a_sqlite_store_of_an_era": (
        *("lg-0.2.14-json", "lg-0.2.70", "lg-1.2.22", "js-1.7.3"),
    ),
    "tests/doctor/test_clean.py::test_a_store_while_an_agent_writes": ("Sqlite", "Postgres"),
    "tests/doctor/test_planted.py::test_a_planted_fault_is_found": (
        *("sqlite", "postgres-", "mysql-", "redis-", "mongodb-", "kaflow"),
    ),
    "tests/erase/test_erase_engines.py::test_nothing_of_the_person_is_left": _ENGINES,
    "tests/erase/test_value_eras.py::test_encrypted_values_are_encrypted_again": (
        *("sqlite", "postgres", "valkey"),
    ),
    "tests/erase/test_value_eras.py::test_stores_of_earlier_releases": (
        *("js-1", "lg-0.2.14", "lg-0.6.11", "lg-1.2.22]"),
    ),
    "tests/erase/test_value_layouts.py::test_a_secret_is_in_no_row_and_the_graph_goes_on": (
        *("postgres]", "mysql]", "mongodb", "redis", "kaflow", "langgraph-dev", "valkey"),
        *("three-table]", "three-table-latest"),
    ),
    "tests/executor/test_cluster.py::test_a_command_answers_the_same_wherever_it_runs": (
        *("replay", "doctor", "grep"),
    ),
    "tests/incidents/test_metrics.py::test_the_numbers_are_those_of_the_other_commands": (
        *("Sqlite", "Postgres", "Redis"),
    ),
    "tests/many/test_killed.py::test_some_kills": ("last-good",),
    "tests/many/test_layouts.py::test_many_are_put_back_and_taken_back": (*_ENGINES, "mysql"),
    "tests/operations/test_killed.py::test_some_kills": (
        *("purge", "rollback", "ops-undo", "import", "undo-purge"),
    ),
    "tests/operations/test_recorded_layouts.py::test_the_rows_of_before_come_back": (
        *(*_ENGINES, "mysql"),
    ),
    "tests/rekey/test_copy.py::test_a_copy_has_another_key": ("Sqlite", "Postgres", "Dev"),
    "tests/rekey/test_copy.py::test_a_copy_is_decrypted_and_its_copy_encrypted": (
        *("Sqlite", "Postgres", "Dev"),
    ),
    "tests/rekey/test_layouts.py::test_the_library_reads_what_was_rekeyed": (
        *("sqlite", "postgres", "valkey"),
    ),
    "tests/repair/test_clean_conversations.py::test_clean_conversations_have_no_finding": (
        *("lg-1.2.22]", "js-1.7.3", "lg-0.2.14", "lg-0.6.11"),
    ),
    "tests/repair/test_engines.py::test_a_missing_value_of_the_head_is_restored": (
        *("sqlite", "postgres", "mysql", "mongodb", "redis", "plain_redis", "valkey"),
    ),
    "tests/repair/test_messages.py::test_a_killed_agent_goes_on": ("sqlite", *_ENGINES),
    "tests/repair/test_messages.py::test_results_without_a_call_are_removed": (
        *("sqlite", *_ENGINES),
    ),
    "tests/report/test_page.py::test_states_are_those_of_show": ("lg-1", "lg-0.2.14"),
    "tests/retention/test_eras.py::test_what_stays_reads_as_before": ("lg-0.2.14",),
    "tests/retention/test_pruning.py::test_each_kind_of_thread_on_redis": (
        *("redis", "plain_redis-fanout-send", "plain_redis-interrupt-nested"),
        *("plain_redis_saver-linear", "plain_redis_saver-interrupt-nested"),
    ),
    "tests/security/test_commands_on_hostile_data.py::test_half_of_the_rows_are_shown_or_named": (
        "show -o json",
    ),
    "tests/security/test_hostile_archives.py::test_a_bomb_is_refused_with_bounded_memory": (
        *("deep lists", "many cells", "many tables", "one long"),
    ),
    "tests/security/test_hostile_redis.py::test_an_answer_that_drips": (
        *(r"$900\r\n", "$-CLIENT", r"*9\r\n-SCAN"),
    ),
    "tests/security/test_printed_commands.py::"
    "test_what_is_pasted_undoes_the_rollback_of_that_very_thread": ("bash", "fish"),
    "tests/travel/test_edits.py::test_a_thread_of_its_own_can_be_edited": ("postgres", "sqlite"),
    "tests/travel/test_edits.py::test_an_edited_copy_can_be_taken_back": ("postgres", "sqlite"),
    "tests/travel/test_eras.py::test_a_checkpoint_of_some_threads": (
        *("lg-0.2.14]", "lg-0.6.11", "lg-1.2.22"),
    ),
    "tests/travel/test_javascript.py::test_mongodb_stores_of_javascript": (),
    "tests/travel/test_javascript.py::test_postgres_stores_of_javascript": ("js-1.7.3",),
    "tests/travel/test_pickled.py::test_every_checkpoint_is_gone_back_to_and_resumed": ("sqlite",),
    "tests/travel/test_rollback.py::test_every_checkpoint_of_a_sqlite_thread": (
        *("linear", "chat", "fanout", "interrupt", "update", "subgraph"),
    ),
    "tests/travel/test_together.py::test_two_at_once_are_one_after_the_other": (
        *("sqlite-rollback", "sqlite-delete", "sqlite-import", "sqlite-edit", "sqlite-prune"),
        *("sqlite-purge, rollback", "postgres-rollback", "postgres-import", "mongodb-rollback"),
        *("redis-rollback", "plain_redis-rollback"),
    ),
    "tests/tui/test_contrast.py::test_all_text_is_readable_in_every_theme": (),
    "tests/tui/test_hostile.py::test_a_value_of_50_mb_is_shown_by_its_beginning": (),
    "tests/tui/test_long_stepping.py::test_a_search_for_changes_is_stopped_by_escape": (),
    "tests/tui/test_long_stepping.py::"
    "test_steps_lead_back_and_forward_inside_folds_from_any_pane": (),
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
