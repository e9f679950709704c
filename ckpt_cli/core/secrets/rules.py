"""The forms of credentials that `ckpt secrets` knows itself, each with the source of its form.

`library_rules` adds those of detect-secrets. A rule is only tried on texts that contain one of its
anchors, so most texts cost a few substring searches.
"""

from __future__ import annotations

import json
from binascii import a2b_base64
from collections.abc import Callable
from dataclasses import dataclass

from ckpt_cli.core.secrets.placeholders import is_example, is_guessable, is_placeholder


@dataclass(frozen=True, slots=True)
class SecretRule:
    """One form of a credential."""

    kind: str
    pattern: str
    """The secret is the longest group, or the whole match if there is none."""
    anchors: tuple[str, ...]
    """A text without any of these has no match."""
    source: str
    ignore_case: bool = False
    accepts: Callable[[str], bool] = lambda text: not is_example(text)
    """Whether a match is a secret: not an example from documentation, and well-formed."""
    shortest_group: int = 1
    """A shorter group, such as that of a prefix, is not the secret."""


_GITLEAKS = "https://github.com/gitleaks/gitleaks/blob/master/config/gitleaks.toml"
_GITHUB = ("ghp_", "gho_", "ghu_", "ghs_", "ghr_")
_NAMES = (
    r"pass(?:word|wd|phrase)|secret(?:[_-]?(?:access)?[_-]?key)?|api[_-]?key"
    r"|(?:access|auth|refresh|bearer|session)[_-]?token|client[_-]?secret|private[_-]?key"
)
_NAME_ANCHORS = ("pass", "secret", "key", "token")


def is_token(text: str) -> bool:
    """Return whether a text has letters and digits, as random ones do."""
    return (
        not is_example(text)
        and any(one.isdigit() for one in text)
        and any(one.isalpha() for one in text)
    )


def _is_assigned(text: str) -> bool:
    """Leave out calls such as `get_key()`."""
    return not is_placeholder(text) and not is_guessable(text) and "(" not in text


def _is_aws_secret(text: str) -> bool:
    """Tell a secret key from a SHA-1 in hex, and from a path."""
    kinds = (str.islower, str.isupper, str.isdigit)
    return not is_example(text) and all(any(map(kind, text)) for kind in kinds)


def _is_jwt(text: str) -> bool:
    """Return whether the first part is the header of a token."""
    first = text.partition(".")[0]
    try:
        header = json.loads(a2b_base64(first.replace("-", "+").replace("_", "/") + "==="))
    except (ValueError, RecursionError):
        return False
    return isinstance(header, dict) and ("alg" in header or "enc" in header)


def _is_user_and_password(text: str) -> bool:
    """Return whether a text is `USER:PASSWORD` in Base64."""
    try:
        user, colon, password = a2b_base64(text, strict_mode=True).decode().partition(":")
    except ValueError:
        return False
    return bool(colon) and user.isprintable() and not is_placeholder(password)


def _is_url_password(text: str) -> bool:
    return not is_placeholder(text)


RULES: tuple[SecretRule, ...] = (
    SecretRule(
        "private-key",
        r"-{4,5} ?BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)? ?-{4,5}"
        r"(?:(?:(?!----)[\s\S]){0,8000}-{4,5} ?END [A-Z0-9 ]{1,60}-{4,5}"
        r"|[\w+/=:,.\s\\]{64,8000})",
        ("PRIVATE KEY",),
        "RFC 7468, RFC 4716, RFC 9580",
        accepts=lambda text: len(set(text)) > 20,
    ),
    SecretRule(
        "private-key",
        r"PuTTY-User-Key-File-\d:[\s\S]{0,8000}?Private-MAC: [0-9a-f]{40,64}",
        ("PuTTY-User-Key-File-",),
        "https://tartarus.org/~simon/putty-snapshots/htmldoc/AppendixC.html",
    ),
    SecretRule(
        "anthropic-key",
        r"\bsk-ant-[a-z]{2,12}\d\d-[\w-]{20,200}",
        ("sk-ant-",),
        _GITLEAKS,
    ),
    SecretRule(
        "openrouter-key",
        r"\bsk-or-v1-[0-9a-f]{64}\b",
        ("sk-or-v1-",),
        "https://openrouter.ai/docs/api-reference/authentication",
    ),
    SecretRule(
        "langfuse-key",
        r"\bsk-lf-[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b",
        ("sk-lf-",),
        "https://langfuse.com/faq/all/where-are-langfuse-api-keys",
    ),
    SecretRule(
        "openai-key",
        r"\bsk-(?:(?:proj|svcacct|admin)-[\w-]{40,250}|[\w-]{20,}T3BlbkFJ[\w-]{20,})",
        ("sk-proj-", "sk-svcacct-", "sk-admin-", "T3BlbkFJ"),
        _GITLEAKS,
    ),
    SecretRule(
        "google-api-key",
        r"\bAIza[\w-]{35}(?![\w-])",
        ("AIza",),
        "https://cloud.google.com/docs/authentication/api-keys",
    ),
    SecretRule(
        "google-oauth-secret",
        r"\bGOCSPX-[\w-]{28}(?![\w-])",
        ("GOCSPX-",),
        "https://developers.google.com/identity/protocols/oauth2",
    ),
    SecretRule("huggingface-token", r"\bhf_[A-Za-z0-9]{34,40}\b", ("hf_",), _GITLEAKS),
    SecretRule(
        "langsmith-key",
        r"\b(?:lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}|ls__[0-9a-f]{32})\b",
        ("lsv2_", "ls__"),
        "https://docs.smith.langchain.com/administration/how_to_guides",
    ),
    SecretRule(
        "groq-key",
        r"\bgsk_[A-Za-z0-9]{40,64}\b",
        ("gsk_",),
        "https://github.com/trufflesecurity/trufflehog/blob/main/pkg/detectors/groq",
    ),
    SecretRule(
        "xai-key",
        r"\bxai-[A-Za-z0-9]{70,90}\b",
        ("xai-",),
        "https://github.com/trufflesecurity/trufflehog/blob/main/pkg/detectors/xai",
    ),
    SecretRule("perplexity-key", r"\bpplx-[A-Za-z0-9]{48}\b", ("pplx-",), _GITLEAKS),
    SecretRule(
        "tavily-key",
        r"\btvly-(?:[a-z]{3,5}-)?[A-Za-z0-9]{28,40}\b",
        ("tvly-",),
        "https://docs.tavily.com/documentation/api-reference/introduction",
        accepts=is_token,
    ),
    SecretRule(
        "replicate-token",
        r"\br8_[A-Za-z0-9]{37}\b",
        ("r8_",),
        "https://github.com/trufflesecurity/trufflehog/blob/main/pkg/detectors/replicate",
    ),
    SecretRule(
        "nvidia-key",
        r"\bnvapi-[\w-]{60,72}(?![\w-])",
        ("nvapi-",),
        "https://github.com/trufflesecurity/trufflehog/blob/main/pkg/detectors/nvapi",
    ),
    SecretRule("databricks-token", r"\bdapi[0-9a-f]{32}(?:-\d)?\b", ("dapi",), _GITLEAKS),
    SecretRule("github-token", r"\bgithub_pat_\w{36,255}", ("github_pat_",), _GITLEAKS),
    SecretRule("github-token", r"\bgh[pousr]_[A-Za-z0-9]{36,251}", _GITHUB, _GITLEAKS),
    SecretRule(
        "stripe-key",
        r"\b(?:[sr]k_(?:live|test)|whsec)_[A-Za-z0-9+/]{16,247}={0,2}",
        ("k_live_", "k_test_", "whsec_"),
        "https://docs.stripe.com/keys",
    ),
    SecretRule(
        "slack-token",
        r"\b(?:xapp-\d-|xoxe\.?xox[bp]-\d-|xoxe-\d-|xox[abposrcd]-\d)[\w-]{20,250}",
        ("xapp-", "xox"),
        "https://api.slack.com/concepts/token-types",
    ),
    SecretRule("npm-token", r"\bnpm_[A-Za-z0-9]{36}\b", ("npm_",), _GITLEAKS),
    SecretRule(
        "npm-token",
        r":_authToken=\s{0,3}[\"']?([\w-]{36,200})",
        (":_authToken=",),
        "https://docs.npmjs.com/cli/configuring-npm/npmrc",
    ),
    SecretRule(
        "telegram-token",
        r"(?<!\d)\d{8,10}:A[\w-]{34}(?![\w-])",
        (":A",),
        "https://core.telegram.org/bots/api#authorizing-your-bot",
    ),
    SecretRule("digitalocean-token", r"\bdo[opr]_v1_[0-9a-f]{64}\b", ("_v1_",), _GITLEAKS),
    SecretRule("shopify-token", r"\bshp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}\b", ("shp",), _GITLEAKS),
    SecretRule("artifactory-token", r"\bAKC[A-Za-z0-9]{57,80}\b", ("AKC",), _GITLEAKS),
    SecretRule("linear-key", r"\blin_api_[A-Za-z0-9]{40}\b", ("lin_api_",), _GITLEAKS),
    SecretRule("notion-token", r"\bntn_\d{11}[A-Za-z0-9]{35}\b", ("ntn_",), _GITLEAKS),
    SecretRule("atlassian-token", r"\bATATT3[\w=-]{180,220}", ("ATATT3",), _GITLEAKS),
    SecretRule(
        "azure-sas",
        r"[?&]sig=([A-Za-z0-9%+/]{40,90}(?:%3D|=))",
        ("sig=",),
        "https://learn.microsoft.com/azure/storage/common/storage-sas-overview",
    ),
    SecretRule(
        "aws-secret-key",
        r"\b(?:A3T[A-Z0-9]|ABIA|ACCA|AKIA|ASIA)[A-Z0-9]{16}\b[\s\S]{1,100}?"
        r"(?<![A-Za-z0-9/+=])([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])",
        ("A3T", "ABIA", "ACCA", "AKIA", "ASIA"),
        "https://docs.aws.amazon.com/IAM/latest/UserGuide/id_credentials_access-keys.html",
        accepts=_is_aws_secret,
    ),
    SecretRule(
        "jwt",
        r"\beyJ[\w-]{8,4000}={0,2}(?:\.[\w-]{0,8000}={0,2}){2,4}",
        ("eyJ",),
        "RFC 7519, RFC 7516",
        accepts=_is_jwt,
    ),
    SecretRule(
        "url-password",
        r"\b[a-z][a-z0-9+.-]{1,30}://[^\s/?#:@\"'<>\[\]{}|\\]{0,200}:([^\s/?#@\"'<>|\\]{3,200})@[\w\[.-]",
        ("://",),
        "RFC 3986, section 3.2.1",
        ignore_case=True,
        accepts=_is_url_password,
    ),
    SecretRule(
        "authorization-header",
        r"\bbearer\s{1,3}([\w.~+/=-]{20,4000})",
        ("bearer",),
        "RFC 6750",
        ignore_case=True,
        accepts=is_token,
    ),
    SecretRule(
        "authorization-header",
        r"\bbasic\s{1,3}([A-Za-z0-9+/]{8,4000}={0,2})",
        ("basic",),
        "RFC 7617",
        ignore_case=True,
        accepts=_is_user_and_password,
    ),
    SecretRule(
        "assigned-secret",
        rf"\"[\w.-]{{0,40}}(?:{_NAMES})\\?\"\s{{0,3}}:\s{{0,3}}\\?\"([^\"\\\s]{{8,500}})\\?\"",
        _NAME_ANCHORS,
        "JSON in a text, with a name as in core/secrets/key_names.py",
        ignore_case=True,
        accepts=_is_assigned,
    ),
    SecretRule(
        "assigned-secret",
        r"(?m)^\s{0,20}(?:export\s{1,3})?[A-Z][A-Z0-9_]{0,60}"
        r"(?:PASSWORD|PASSWD|SECRET|SECRET_KEY|API_KEY|APIKEY|ACCESS_KEY|TOKEN|PRIVATE_KEY)"
        r"[ ]{0,3}=[ ]{0,3}[\"']?([^\s\"'#]{8,500})",
        ("PASS", "SECRET", "KEY", "TOKEN"),
        "a line of a .env file, https://12factor.net/config",
        accepts=_is_assigned,
    ),
)
"""Where two matches overlap, the earlier rule wins."""
