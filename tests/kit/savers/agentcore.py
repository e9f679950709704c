"""What the tests add to the savers of AgentCore: an actor, and the reason of an error."""

from typing import Any

from langgraph_checkpoint_aws.checkpoint.agentcore.constants import EventDecodingError
from langgraph_checkpoint_aws.checkpoint.agentcore.helpers import EventSerializer


class TellingSerializer(EventSerializer):  # type: ignore[misc]
    """The official one, which says why a value cannot be read."""

    def deserialize_value(self, serialized: Any) -> Any:
        try:
            return super().deserialize_value(serialized)
        except EventDecodingError as error:
            raise error.__cause__ or error from None


def with_actor(config: Any, actor: str) -> Any:
    """A config with an actor, unless it has one."""
    return {**config, "configurable": {"actor_id": actor, **config["configurable"]}}
