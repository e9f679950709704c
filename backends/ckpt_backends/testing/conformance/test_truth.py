"""Every checkpoint reads as LangGraph's own library reads it."""

from ckpt_backends.registry import open_store
from ckpt_backends.testing.conformance.comparison import Known, check_thread
from ckpt_backends.testing.filling import FilledStore

VALUES_ONLY = False


def test_every_thread_reads_as_the_library_reads_it(filled: FilledStore) -> None:
    known = Known(
        lost_deltas=not filled.harness.has_history,
        sparse_objects=filled.harness.omits_defaults,
        pickled=filled.harness.stores_pickles,
    )
    with open_store(filled.harness.url) as store:
        unknown = [
            check_thread(store, thread_id, truth, known)
            for thread_id, truth in filled.threads.items()
        ]
    assert not set().union(*unknown), "what runs next must follow from the stored rows"
