"""The forms of credentials that detect-secrets knows. It takes 100 ms to import."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module

from ckpt_backends.errors import MissingDependency
from ckpt_backends.installing import install_command
from ckpt_cli.core.secrets.rules import SecretRule, is_token

SOURCE = "https://github.com/Yelp/detect-secrets"


@dataclass(frozen=True, slots=True)
class Detector:
    """A detector of the library."""

    module: str
    name: str
    kinds: tuple[str, ...]
    """The kind that each of its patterns finds; the last one is that of all others."""
    anchors: tuple[str, ...]


DETECTORS = (
    Detector(
        "aws",
        "AWSKeyDetector",
        ("aws-access-key", "aws-secret-key"),
        ("A3T", "ABIA", "ACCA", "AKIA", "ASIA", "aws"),
    ),
    Detector(
        "azure_storage_key",
        "AzureStorageKeyDetector",
        ("azure-storage-key",),
        ("AccountKey=",),
    ),
    Detector(
        "cloudant",
        "CloudantDetector",
        ("cloudant-key",),
        ("cloudant", "clou_", "clou-", "cl_", "cl-"),
    ),
    # A token begins with the digits of the bot's id in Base64.
    Detector(
        "discord",
        "DiscordBotTokenDetector",
        ("discord-token",),
        ("MD", "MT", "Mj", "Mz", "ND", "NT", "Nj", "Nz", "OD", "OT"),
    ),
    Detector(
        "github_token",
        "GitHubTokenDetector",
        ("github-token",),
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
    ),
    Detector("gitlab_token", "GitLabTokenDetector", ("gitlab-token",), ("gl", "GR1348941")),
    Detector("ibm_cloud_iam", "IbmCloudIamDetector", ("ibm-cloud-key",), ("ibm", "iam", "cloud")),
    Detector("ibm_cos_hmac", "IbmCosHmacDetector", ("ibm-cloud-key",), ("secret",)),
    Detector("mailchimp", "MailchimpDetector", ("mailchimp-key",), ("-us",)),
    Detector("openai", "OpenAIDetector", ("openai-key",), ("T3BlbkFJ",)),
    Detector("pypi_token", "PypiTokenDetector", ("pypi-token",), ("pypi-",)),
    Detector("sendgrid", "SendGridDetector", ("sendgrid-key",), ("SG.",)),
    Detector("slack", "SlackDetector", ("slack-token", "slack-webhook"), ("xox", "slack.com")),
    Detector("softlayer", "SoftlayerDetector", ("softlayer-key",), ("softlayer", "sl_", "sl-")),
    Detector("square_oauth", "SquareOAuthDetector", ("square-token",), ("sq0csp-",)),
    Detector("stripe", "StripeDetector", ("stripe-key",), ("k_live_",)),
    Detector("telegram_token", "TelegramBotTokenDetector", ("telegram-token",), (":A",)),
    Detector("twilio", "TwilioKeyDetector", ("twilio-key",), ("AC", "SK")),
)

LEFT_OUT = {
    "ArtifactoryDetector": "any id that begins with AP would be found; `artifactory-token`",
    "BasicAuthDetector": "`url-password` also finds passwords with other characters",
    "Base64HighEntropyString": "ids and hashes in a state would be found",
    "HexHighEntropyString": "ids and hashes in a state would be found",
    "IPPublicDetector": "an address is no credential",
    "JwtTokenDetector": "`jwt` includes the signature",
    "KeywordDetector": "it reads source code; core/secrets/key_names.py reads fields",
    "NpmDetector": "it takes minutes on some texts; `npm-token` finds the same",
    "PrivateKeyDetector": "`private-key` includes the key",
}
"""The detectors that are not used, and why."""

_END_OF_TOKEN = r"[\w-]{0,250}"  # noqa: S105
"""Some patterns match the beginning of longer tokens, which must be erased as a whole."""


def library_rules() -> Iterator[SecretRule]:
    """Yield the rules of the library. Raises `MissingDependency` if it is not installed."""
    for detector in DETECTORS:
        grouped: dict[tuple[str, bool], list[str]] = {}
        for number, pattern in enumerate(_patterns(detector)):
            kind = detector.kinds[min(number, len(detector.kinds) - 1)]
            flags = "(?x:" if pattern.flags & re.VERBOSE else "(?:"
            ignores_case = bool(pattern.flags & re.IGNORECASE)
            grouped.setdefault((kind, ignores_case), []).append(f"{flags}{pattern.pattern})")
        for (kind, ignores_case), patterns in grouped.items():
            yield SecretRule(
                kind,
                f"(?:{'|'.join(patterns)}){_END_OF_TOKEN}",
                detector.anchors,
                SOURCE,
                ignore_case=ignores_case,
                accepts=is_token,
                shortest_group=16,
            )


def _patterns(detector: Detector) -> list[re.Pattern[str]]:
    try:
        module = import_module(f"detect_secrets.plugins.{detector.module}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "detect_secrets":
            raise
        raise MissingDependency(
            "finding secrets requires detect-secrets",
            hint=install_command("langgraph-ckpt[secrets]"),
        ) from None
    return list(getattr(module, detector.name).denylist)
