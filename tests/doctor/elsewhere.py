"""The tests that plant what needs a story of its own, by code and layouts: module and name.

The rows of `tests.kit.planting.faults` and of `engine_faults` are planted on each of their layouts.
Here, layouts with the same reading share a test.
"""

from collections.abc import Mapping

from tests.doctor.engine_faults import MYSQL, POSTGRES

DOCUMENTS = ("mongodb", "mongodb-js", "kaflow")
TENANTS = ("three-table", "three-table-latest", "kagent", "supabase")
SEARCHED = ("redis", "redis-shallow")
JS = ("redis-js", "redis-js-shallow")
REDIS = (*SEARCHED, *JS, "redis-hash", "redis-plain", "valkey", "valkey-agentcore")
ELSEWHERE: Mapping[tuple[str, tuple[str, ...]], str] = {
    ("rows-hidden", POSTGRES): "test_hidden_rows.test_a_policy_on_one_table",
    ("rows-hidden", MYSQL): "test_hidden_rows.test_a_view_on_mysql",
    ("rows-hidden", TENANTS): "test_hidden_rows.test_a_policy_on_the_tables_of_an_application",
    ("rows-hidden", DOCUMENTS): "test_hidden_rows.test_a_view_of_documents",
    ("value-replaced", ("postgres",)): "test_lost_values.test_a_conversation_replaced_on_postgres",
    ("value-replaced", ("sqlite",)): "test_lost_values.test_a_checkpoint_replaced_in_a_file",
    ("value-replaced", ("mongodb-js",)): "test_lost_values.test_a_checkpoint_replaced_on_mongodb",
    ("keys-evicted", REDIS): "test_redis.test_keys_that_expire_or_are_evicted",
    ("branches-share-value", ("postgres",)): "test_clean.test_a_postgres_database_of_javascript",
    ("branches-share-value", ("redis-plain",)): "test_planted.test_branches_that_share_values",
    ("index-missing", SEARCHED): "test_redis.test_a_search_index_that_is_gone",
    ("ttl-partial", REDIS): "test_redis.test_keys_that_expire_or_are_evicted",
    ("ttl-partial", ("mongodb",)): "test_mongodb.test_documents_that_expire_beside_others",
    ("ttl-partial", ("mongodb-js",)): "test_mongodb.test_documents_of_langgraph_js_that_expire",
    ("ttl-partial", ("dynamodb",)): "test_dynamodb.test_items_that_stay",
    ("index-stale", ("redis",)): "test_redis.test_keys_that_contradict_documents",
    ("index-stale", ("redis-shallow",)): "test_redis.test_a_write_that_a_shallow_saver_lists_not",
    ("index-stale", JS): "test_redis.test_writes_that_langgraph_js_does_not_read",
    ("index-stale", ("valkey", "valkey-agentcore")): (
        "test_redis.test_lists_that_contradict_checkpoints"
    ),
    ("index-stale", ("redis-plain",)): "test_redis.test_a_timeline_that_names_lost_checkpoints",
    ("space-free", DOCUMENTS): "test_mongodb.test_unused_space_counts_only_if_it_is_much",
}
MENDED = {
    *(("dynamodb", "ttl-partial"), ("redis", "index-stale"), ("redis-shallow", "index-stale")),
    *(("valkey", "index-stale"), ("redis-plain", "index-stale")),
    ("valkey-agentcore", "index-stale"),
    *((layout, "ttl-partial") for layout in REDIS),
}
"""The layouts and codes of which these tests run the statement of the finding, and ask again."""
