"""Declares DynamoDB tables with the items of `DynamoDBSaver`."""

from ckpt_backends.declaration import NAME, SAVER, Backend
from ckpt_backends.model import Capability
from ckpt_backends.transfer.form import Form, Language

_ADDRESS = r"https?://[\w.-]*(:\d*)?/?|https?://\[[\da-fA-F:]*\](:\d*)?/?"
"""An endpoint without a user or a password."""

BACKEND = Backend(
    title="DynamoDB",
    layouts={"dynamodb": SAVER | Capability.INLINE_VALUES},
    schemes=("dynamodb",),
    driver="boto3",
    extra="dynamodb",
    params={
        **dict.fromkeys(("region", "bucket", "profile"), NAME),
        **dict.fromkeys(("endpoint", "s3_endpoint"), _ADDRESS),
        "key_prefix": r"[\w.,+/-]*",
    },
    engine_faults=("ttl-partial",),
    mended_faults=("ttl-partial",),
    forms={
        "dynamodb": (
            Form(
                body_types=("msgpack",),
                metadata_type="msgpack",
                encrypts_metadata=True,
                encrypts_together=True,
                counts_with_integers=True,
                expires=True,
            ),
        )
    },
    records="ckpt_backends.aws.dynamodb.records:records_of",
    edits="ckpt_backends.aws.dynamodb.records:edited_row",
    creates={Language.PYTHON: "dynamodb"},
    create="ckpt_backends.aws.dynamodb.write:create_table",
    checkpoints="ckpt_backends.aws.dynamodb.store:open_store",
    changes="ckpt_backends.aws.dynamodb.write:open_writable",
)
