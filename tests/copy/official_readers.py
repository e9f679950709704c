"""LangGraph's own serializers, to compare what they read on both sides of a conversion."""

import dataclasses
import json
import math
from typing import Any

from langgraph.checkpoint.redis import RedisSaver
from langgraph.checkpoint.redis.jsonplus_redis import JsonPlusRedisSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from pydantic import BaseModel

from ckpt_backends.model import TypedBytes

TYPED = JsonPlusSerializer()
REDIS = JsonPlusRedisSerializer()


def _saver() -> Any:
    saver: Any = RedisSaver.__new__(RedisSaver)
    saver.serde = REDIS
    return saver


_SAVER = _saver()


def typed(value: Any) -> TypedBytes:
    """A value as the savers of SQL databases store it."""
    return TypedBytes(*TYPED.dumps_typed(value))


def read_typed(value: TypedBytes) -> Any:
    """What the savers of SQL databases read."""
    return TYPED.loads_typed((value.type, value.data))


def redis_write(value: Any) -> TypedBytes:
    """A write as RedisSaver stores it, with ckpt's name for its JSON."""
    tag, data = REDIS.dumps_typed(value)
    return TypedBytes("redis-json" if tag == "json" else tag, data)


def read_redis_write(value: TypedBytes) -> Any:
    """What RedisSaver reads from a write."""
    tag = "json" if value.type == "redis-json" else value.type
    return REDIS.loads_typed((tag, value.data))


def redis_value(value: Any) -> TypedBytes:
    """A channel's value as RedisSaver stores it in a document."""
    body = _SAVER._dump_checkpoint({"channel_values": {"value": value}})
    text = json.dumps(body["channel_values"]["value"], ensure_ascii=False)
    return TypedBytes("redis-json", text.encode())


def read_redis_value(value: TypedBytes) -> Any:
    """What RedisSaver reads from a document."""
    assert value.type == "redis-json"
    return _SAVER._deserialize_channel_values({"value": json.loads(value.data)})["value"]


def same(one: Any, two: Any) -> bool:
    """Whether two values are equal and of the same types, at each level."""
    if type(one) is not type(two):
        return False
    if isinstance(one, float):
        return one == two and math.copysign(1, one) == math.copysign(1, two)
    if isinstance(one, list | tuple):
        return len(one) == len(two) and all(map(same, one, two))
    if isinstance(one, dict):
        return list(one) == list(two) and all(same(one[key], two[key]) for key in one)
    if isinstance(one, BaseModel):
        return same(dict(one), dict(two)) and same(one.model_extra, two.model_extra)
    if dataclasses.is_dataclass(one):
        names = [field.name for field in dataclasses.fields(one)]
        return all(same(getattr(one, name), getattr(two, name)) for name in names)
    return bool(one == two)
