"""Credentials of every kind, made at run time: as constants they would alarm scanners of hosts."""

import base64
import json
import string
from random import Random

LETTERS = string.ascii_letters + string.digits
HEX = "0123456789abcdef"


def credentials(seed: int = 0) -> dict[str, str]:
    """Return one credential for each kind that its own form tells."""
    random = Random(seed)

    def some(number: int, letters: str = LETTERS) -> str:
        return "".join(random.choices(letters, k=number - 2)) + random.choice("gkmz") + "7"

    def hexes(number: int) -> str:
        return "".join(random.choices(HEX, k=number - 2)) + "a7"

    def encoded(fields: dict[str, object]) -> str:
        return base64.urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip("=")

    upper = string.ascii_uppercase + "234567"
    lines = "\n".join(some(64) for _ in range(12))
    return {
        "anthropic-key": "sk-" + f"ant-api03-{some(93)}AA",
        "openai-key": "sk-" + f"proj-{some(74)}T3Blbk" + f"FJ{some(74)}",
        "openrouter-key": "sk-" + f"or-v1-{hexes(64)}",
        "google-api-key": "AI" + f"za{some(35)}",
        "google-oauth-secret": "GOC" + f"SPX-{some(28)}",
        "huggingface-token": "hf" + f"_{some(34)}",
        "langsmith-key": "lsv2" + f"_pt_{hexes(32)}_{hexes(10)}",
        "groq-key": "gs" + f"k_{some(52)}",
        "xai-key": "xa" + f"i-{some(80)}",
        "perplexity-key": "pp" + f"lx-{some(48)}",
        "tavily-key": "tv" + f"ly-dev-{some(32)}",
        "replicate-token": "r" + f"8_{some(37)}",
        "nvidia-key": "nv" + f"api-{some(64)}",
        "databricks-token": "da" + f"pi{hexes(32)}",
        "github-token": "github" + f"_pat_{some(22)}_{some(59)}",
        "gitlab-token": "gl" + f"pat-{some(20)}",
        "aws-access-key": "AK" + "IA" + some(16, upper)[:-2] + "X7",
        "stripe-key": "sk" + f"_live_{some(99)}",
        "slack-token": "xo" + f"xb-{random.randrange(10**11, 10**12)}-{10**12 - 7}-{some(24)}",
        "slack-webhook": "https://hooks.slack"
        + f".com/services/T0{hexes(8)}/B0{hexes(8)}/{some(24)}",
        "telegram-token": f"{random.randrange(10**9, 10**10)}" + f":AA{some(33)}",
        "npm-token": "np" + f"m_{some(36)}",
        "pypi-token": "py" + f"pi-AgEIcHlwaS5vcmc{some(120)}",
        "sendgrid-key": "S" + f"G.{some(22)}.{some(43)}",
        "twilio-key": "S" + f"K{hexes(32)}",
        "mailchimp-key": f"{hexes(32)}" + "-us21",
        "discord-token": "MT" + f"{some(24)}.{some(6)}.{some(27)}",
        "square-token": "sq0" + f"csp-{some(43)}",
        "digitalocean-token": "dop" + f"_v1_{hexes(64)}",
        "shopify-token": "shp" + f"at_{hexes(32)}",
        "azure-storage-key": "Account" + f"Key={some(86)}==",
        "jwt": f"{encoded({'alg': 'HS256', 'typ': 'JWT'})}.{encoded({'sub': some(12)})}.{some(43)}",
        "private-key": "-----BEGIN RSA PRIV"
        + f"ATE KEY-----\n{lines}\n-----END RSA PRIVATE KEY-----",
        "artifactory-token": "AK" + f"C{some(70)}",
    }


def inside(kind: str, text: str) -> str:
    """Return the part of a credential that must never be printed, and that nothing else has."""
    return text.splitlines()[1] if kind == "private-key" else text[-16:]
