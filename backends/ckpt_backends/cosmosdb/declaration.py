"""Declares containers of Azure Cosmos DB with the items of `CosmosDBSaver`."""

from ckpt_backends.declaration import SAVER, WORD, Backend
from ckpt_backends.model import Capability
from ckpt_backends.transfer.form import Form

BACKEND = Backend(
    title="Azure Cosmos DB",
    layouts={"cosmosdb": (SAVER & ~Capability.TASK_PATH) | Capability.INLINE_VALUES},
    schemes=("cosmosdb",),
    driver="azure.cosmos",
    extra="cosmosdb",
    params={"credential": WORD, "tls": WORD},
    forms={
        "cosmosdb": (
            Form(
                body_types=("msgpack",),
                metadata_type="msgpack",
                encrypts_metadata=True,
                has_task_paths=False,
                counts_with_integers=True,
                keeps_write_order=True,
                # First it is that of their numbers, so that writes of parallel tasks mix.
                receives=False,
            ),
        )
    },
    records="ckpt_backends.objects.records:records_of",
    edits="ckpt_backends.sql.records:edited_row",
    checkpoints="ckpt_backends.cosmosdb.store:open_store",
    changes="ckpt_backends.cosmosdb.write:open_writable",
)
