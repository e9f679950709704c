"""Declares memories of Bedrock AgentCore with the events of `AgentCoreMemorySaver`."""

from ckpt_backends.declaration import NAME, SAVER, Backend
from ckpt_backends.transfer.form import Form, Place

BACKEND = Backend(
    title="Bedrock AgentCore Memory",
    layouts={"agentcore": SAVER},
    schemes=("agentcore",),
    driver="boto3",
    extra="agentcore",
    params={
        **dict.fromkeys(("region", "profile"), NAME),
        "actor": r"[\w./:-]*",
        "endpoint": r"https?://[\w.-]*(:\d*)?/?|https?://\[[\da-fA-F:]*\](:\d*)?/?",
    },
    impossible_faults={"branches-share-value": "versions are unique"},
    forms={
        "agentcore": (
            Form(
                values=Place.APART,
                body_types=("msgpack",),
                metadata_type="msgpack",
                marks_absent=True,
                encrypts_metadata=True,
                keeps_write_order=True,
                receives=False,
            ),
        )
    },
    records="ckpt_backends.aws.agentcore.records:records_of",
    edits="ckpt_backends.aws.agentcore.records:edited_row",
    checkpoints="ckpt_backends.aws.agentcore.store:open_store",
    changes="ckpt_backends.aws.agentcore.write:open_writable",
)
