"""The tests that plant what is particular to one engine: by code and layout, module and name.

Faults of SQL engines are in `engine_faults`.
"""

from __future__ import annotations

from collections.abc import Mapping

_KEYS = "test_health_redis.test_keys_that_contradict_documents_are_named_and_mended"
_SEARCH = "test_health_redis.test_a_search_index_that_is_gone_is_named"
_SHALLOW_REDIS = "test_health_redis.test_a_write_that_a_shallow_saver_does_not_list_is_named"
_INDEX = "test_health_mongodb.test_a_missing_index_is_named_with_the_statement_that_creates_it"
_JAVASCRIPT_INDEX = (
    "test_health_mongodb.test_an_index_of_langgraph_js_is_missing_only_beside_another"
)
_ITEMS = "test_health_dynamodb.test_items_that_stay_in_spite_of_a_time_to_live_are_named"
_JAVASCRIPT_TIMES = "test_health_mongodb.test_documents_of_langgraph_js_that_expire_beside_others"
_FREE = "test_health_mongodb.test_unused_space_counts_only_if_it_is_much"
_POLICY = "test_hidden_rows.test_a_policy_on_one_table"
_VIEW = "test_hidden_rows.test_a_view_on_mysql"
_TENANTS = "test_hidden_rows.test_a_policy_on_the_tables_of_an_application"
_DOCUMENTS = "test_hidden_rows.test_a_view_of_documents"
_LARGE = "test_health_mongodb.test_a_document_near_the_limit_is_named"

_HIDDEN = "test_health_redis.test_writes_that_langgraph_js_does_not_read_are_named"
_EVICTED = "test_health_redis.test_a_server_that_evicts_is_named_if_it_may_evict_these_keys"

ELSEWHERE: Mapping[str, Mapping[str, str]] = {
    "delta-unanchored": {
        "kagent": "test_health_kagent.test_a_delta_channel_without_its_first_values_is_named"
    },
    "state-by-library": {
        "kagent": "test_health_kagent.test_a_list_that_releases_read_differently_is_named"
    },
    "rows-hidden": {
        **dict.fromkeys(("postgres", "postgres-shallow"), _POLICY),
        **dict.fromkeys(("mysql", "mysql-shallow"), _VIEW),
        **dict.fromkeys(("three-table", "three-table-latest", "kagent"), _TENANTS),
        **dict.fromkeys(("mongodb", "mongodb-js", "kaflow"), _DOCUMENTS),
    },
    "value-replaced": {
        "postgres": "test_lost_values.test_a_conversation_that_langgraph_js_replaced_on_postgres",
        "sqlite": "test_lost_values.test_a_checkpoint_that_langgraph_js_replaced_in_a_file",
        "mongodb-js": "test_lost_values.test_a_checkpoint_that_langgraph_js_replaced_on_mongodb",
    },
    "keys-evicted": dict.fromkeys(
        (
            *("redis", "redis-shallow", "redis-hash", "redis-plain"),
            *("redis-js", "redis-js-shallow", "valkey"),
        ),
        _EVICTED,
    ),
    "branches-share-value": {
        "postgres": "test_clean.test_a_postgres_database_of_javascript",
        "redis-plain": "test_planted.test_branches_that_share_values_are_found",
    },
    "index-missing": {
        **{"mongodb": _INDEX, "mongodb-js": _JAVASCRIPT_INDEX},
        "kaflow": "test_health_mongodb.test_an_index_of_kaflow_is_missing",
        **dict.fromkeys(("redis", "redis-shallow"), _SEARCH),
    },
    "ttl-partial": {
        "mongodb": "test_health_mongodb.test_documents_that_expire_beside_others_are_named",
        "mongodb-js": _JAVASCRIPT_TIMES,
        "dynamodb": _ITEMS,
    },
    "index-stale": {
        **{"redis": _KEYS, "redis-shallow": _SHALLOW_REDIS},
        **dict.fromkeys(("redis-js", "redis-js-shallow"), _HIDDEN),
        "valkey": "test_health_redis.test_a_list_of_valkey_is_mended",
        "redis-plain": "test_health_redis.test_a_timeline_that_names_lost_checkpoints",
    },
    "space-free": dict.fromkeys(("mongodb", "mongodb-js", "kaflow"), _FREE),
    "document-near-limit": dict.fromkeys(("mongodb", "mongodb-js", "kaflow"), _LARGE),
}
"""Layouts with the same reading share a test. The rows of `faults.py` are planted on each."""
MENDED_ELSEWHERE = frozenset(
    {
        *((layout, "index-missing") for layout in ("mongodb", "mongodb-js", "kaflow")),
        *(
            (layout, "index-stale")
            for layout in ("redis", "redis-shallow", "valkey", "redis-plain")
        ),
        ("dynamodb", "ttl-partial"),
    }
)
"""The layouts and codes of which these tests run the statement of the finding, and ask again."""
