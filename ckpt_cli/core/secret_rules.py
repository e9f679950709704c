"""The forms of credentials: those of a library, and our own."""

from __future__ import annotations

import json
import re
from binascii import a2b_base64
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module

from ckpt_backends.errors import MissingDependency
from ckpt_backends.installing import install_command

_LISTED = """
    admin asdf bool boolean changeit changeme classified confidential credentials default
    demo disabled dummy empty enabled encrypted enter example fake false foobar hidden insert
    invalid key masked missing mypassword mysecret mytoken none null number obfuscated optional pass
    passphrase password passwd placeholder private pwd redacted removed replace required sample
    secret str string test testing text todo token true undefined unknown unset unused user username
    value yourapikey yourpassword yoursecret yourtoken
"""
_WORDS = frozenset(_LISTED.split())
_MARKS = ("${", "{{", "}}", "<", ">", "***", "...", "…", "%(", "$(", "[erased]", "••", "xxxx")
_BEGINNINGS = (
    *("your-", "your_", "my-", "my_", "env:", "env.", "os.", "process.", "vault:", "arn:", "$"),
    *("secret://", "file:", "http://", "https://", "sm://", "op://", "ref:", "key:"),
)
_NAME = re.compile(
    r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|[a-z]+(?:[_.-][a-z]+){1,2}|[a-z]+(?:[A-Z][a-z]+){1,3}"
)
"""The name of a variable, of a setting or of an attribute."""
_UUID = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE)
_EXAMPLE = re.compile(r"example|placeholder|changeme|your[-_]?(?:api|key|token)", re.IGNORECASE)
_ASKED = re.compile(r"placeholder|changeme|your[-_]?(?:api|key|token)", re.IGNORECASE)
_MASK = frozenset("x*._-")
"""What stands for the characters of a credential in a manual."""
_FEWEST = 5
"""Different characters in a real password; fewer are a filler such as `xxxx`."""
_END = 16
_SHORTEST_WORD = 12


def is_example(text: str) -> bool:
    """Return whether a text in the form of a credential only shows that form: `sk-xxxx...`.

    A text that could be real counts as real, such as the keys in a vendor's documentation: a false
    finding can be ignored, a missing one cannot.
    """
    return set(text[-_END:].lower()) <= _MASK or _ASKED.search(text) is not None


def is_placeholder(text: str) -> bool:
    """Return whether a text stands for a credential: a mask, a variable, a name or a URL."""
    folded = text.lower()
    bare = re.sub(r"[\W_]+", "", folded)
    return (
        not bare
        or bare in _WORDS
        or folded.startswith(_BEGINNINGS)
        or any(mark in folded for mark in _MARKS)
        or any(one.isspace() for one in text)
        or len(set(folded)) < _FEWEST
        or _EXAMPLE.search(text) is not None
        or _NAME.fullmatch(text) is not None
        or _UUID.fullmatch(text) is not None
    )


def is_guessable(text: str) -> bool:
    """Return whether a text is too plain to be told from a word: short and in small letters."""
    return len(text) < _SHORTEST_WORD and text.isalpha() and (text.islower() or text.istitle())


@dataclass(frozen=True, slots=True)
class SecretRule:
    """One form of a credential."""

    kind: str
    pattern: str
    """The secret is the longest group, or the whole match if there is none."""
    anchors: tuple[str, ...]
    """A text without any of these has no match."""
    ignore_case: bool = False
    accepts: Callable[[str], bool] = lambda text: not is_example(text)
    """Whether a match is a secret: not an example from documentation, and well-formed."""
    shortest_group: int = 1
    """A shorter group, such as that of a prefix, is not the secret."""


_GITLEAKS = "https://github.com/gitleaks/gitleaks/blob/master/config/gitleaks.toml"
_TRUFFLEHOG = "https://github.com/trufflesecurity/trufflehog/blob/main/pkg/detectors"
_SOURCES = {
    "private-key": (
        "RFC 7468, RFC 4716, RFC 9580",
        "https://tartarus.org/~simon/putty-snapshots/htmldoc/AppendixC.html",
    ),
    "openrouter-key": ("https://openrouter.ai/docs/api-reference/authentication",),
    "langfuse-key": ("https://langfuse.com/faq/all/where-are-langfuse-api-keys",),
    "google-api-key": ("https://cloud.google.com/docs/authentication/api-keys",),
    "google-oauth-secret": ("https://developers.google.com/identity/protocols/oauth2",),
    "langsmith-key": ("https://docs.smith.langchain.com/administration/how_to_guides",),
    "groq-key": (f"{_TRUFFLEHOG}/groq",),
    "xai-key": (f"{_TRUFFLEHOG}/xai",),
    "tavily-key": ("https://docs.tavily.com/documentation/api-reference/introduction",),
    "replicate-token": (f"{_TRUFFLEHOG}/replicate",),
    "nvidia-key": (f"{_TRUFFLEHOG}/nvapi",),
    "stripe-key": ("https://docs.stripe.com/keys",),
    "slack-token": ("https://api.slack.com/concepts/token-types",),
    "npm-token": (_GITLEAKS, "https://docs.npmjs.com/cli/configuring-npm/npmrc"),
    "telegram-token": ("https://core.telegram.org/bots/api#authorizing-your-bot",),
    "azure-sas": ("https://learn.microsoft.com/azure/storage/common/storage-sas-overview",),
    "aws-secret-key": (
        "https://docs.aws.amazon.com/IAM/latest/UserGuide/id_credentials_access-keys.html",
    ),
    "jwt": ("RFC 7519, RFC 7516",),
    "url-password": ("RFC 3986, section 3.2.1",),
    "authorization-header": ("RFC 6750", "RFC 7617"),
    "assigned-secret": (
        "JSON in a text, with a name as in core/secrets/key_names.py",
        "a line of a .env file, https://12factor.net/config",
    ),
}
"""Who describes the forms of each kind in `RULES`; of all others, it is Gitleaks."""
_GITHUB = ("ghp_", "gho_", "ghu_", "ghs_", "ghr_")
_AWS = ("A3T", "ABIA", "ACCA", "AKIA", "ASIA")
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


RULES: tuple[SecretRule, ...] = (
    SecretRule(
        "private-key",
        r"-{4,5} ?BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)? ?-{4,5}"
        r"(?:(?:(?!----)[\s\S]){0,8000}-{4,5} ?END [A-Z0-9 ]{1,60}-{4,5}"
        r"|[\w+/=:,.\s\\]{64,8000})",
        ("PRIVATE KEY",),
        accepts=lambda text: len(set(text)) > 20,
    ),
    SecretRule(
        "private-key",
        r"PuTTY-User-Key-File-\d:[\s\S]{0,8000}?Private-MAC: [0-9a-f]{40,64}",
        ("PuTTY-User-Key-File-",),
    ),
    SecretRule("anthropic-key", r"\bsk-ant-[a-z]{2,12}\d\d-[\w-]{20,200}", ("sk-ant-",)),
    SecretRule("openrouter-key", r"\bsk-or-v1-[0-9a-f]{64}\b", ("sk-or-v1-",)),
    SecretRule(
        "langfuse-key", r"\bsk-lf-[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", ("sk-lf-",)
    ),
    SecretRule(
        "openai-key",
        r"\bsk-(?:(?:proj|svcacct|admin)-[\w-]{40,250}|[\w-]{20,}T3BlbkFJ[\w-]{20,})",
        ("sk-proj-", "sk-svcacct-", "sk-admin-", "T3BlbkFJ"),
    ),
    SecretRule("google-api-key", r"\bAIza[\w-]{35}(?![\w-])", ("AIza",)),
    SecretRule("google-oauth-secret", r"\bGOCSPX-[\w-]{28}(?![\w-])", ("GOCSPX-",)),
    SecretRule("huggingface-token", r"\bhf_[A-Za-z0-9]{34,40}\b", ("hf_",)),
    SecretRule(
        "langsmith-key",
        r"\b(?:lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}|ls__[0-9a-f]{32})\b",
        ("lsv2_", "ls__"),
    ),
    SecretRule("groq-key", r"\bgsk_[A-Za-z0-9]{40,64}\b", ("gsk_",)),
    SecretRule("xai-key", r"\bxai-[A-Za-z0-9]{70,90}\b", ("xai-",)),
    SecretRule("perplexity-key", r"\bpplx-[A-Za-z0-9]{48}\b", ("pplx-",)),
    SecretRule(
        "tavily-key", r"\btvly-(?:[a-z]{3,5}-)?[A-Za-z0-9]{28,40}\b", ("tvly-",), accepts=is_token
    ),
    SecretRule("replicate-token", r"\br8_[A-Za-z0-9]{37}\b", ("r8_",)),
    SecretRule("nvidia-key", r"\bnvapi-[\w-]{60,72}(?![\w-])", ("nvapi-",)),
    SecretRule("databricks-token", r"\bdapi[0-9a-f]{32}(?:-\d)?\b", ("dapi",)),
    SecretRule("github-token", r"\bgithub_pat_\w{36,255}", ("github_pat_",)),
    SecretRule("github-token", r"\bgh[pousr]_[A-Za-z0-9]{36,251}", _GITHUB),
    SecretRule(
        "stripe-key",
        r"\b(?:[sr]k_(?:live|test)|whsec)_[A-Za-z0-9+/]{16,247}={0,2}",
        ("k_live_", "k_test_", "whsec_"),
    ),
    SecretRule(
        "slack-token",
        r"\b(?:xapp-\d-|xoxe\.?xox[bp]-\d-|xoxe-\d-|xox[abposrcd]-\d)[\w-]{20,250}",
        ("xapp-", "xox"),
    ),
    SecretRule("npm-token", r"\bnpm_[A-Za-z0-9]{36}\b", ("npm_",)),
    SecretRule("npm-token", r":_authToken=\s{0,3}[\"']?([\w-]{36,200})", (":_authToken=",)),
    SecretRule("telegram-token", r"(?<!\d)\d{8,10}:A[\w-]{34}(?![\w-])", (":A",)),
    SecretRule("digitalocean-token", r"\bdo[opr]_v1_[0-9a-f]{64}\b", ("_v1_",)),
    SecretRule("shopify-token", r"\bshp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}\b", ("shp",)),
    SecretRule("artifactory-token", r"\bAKC[A-Za-z0-9]{57,80}\b", ("AKC",)),
    SecretRule("linear-key", r"\blin_api_[A-Za-z0-9]{40}\b", ("lin_api_",)),
    SecretRule("notion-token", r"\bntn_\d{11}[A-Za-z0-9]{35}\b", ("ntn_",)),
    SecretRule("atlassian-token", r"\bATATT3[\w=-]{180,220}", ("ATATT3",)),
    SecretRule("azure-sas", r"[?&]sig=([A-Za-z0-9%+/]{40,90}(?:%3D|=))", ("sig=",)),
    SecretRule(
        "aws-secret-key",
        r"\b(?:A3T[A-Z0-9]|ABIA|ACCA|AKIA|ASIA)[A-Z0-9]{16}\b[\s\S]{1,100}?"
        r"(?<![A-Za-z0-9/+=])([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])",
        _AWS,
        accepts=_is_aws_secret,
    ),
    SecretRule(
        "jwt", r"\beyJ[\w-]{8,4000}={0,2}(?:\.[\w-]{0,8000}={0,2}){2,4}", ("eyJ",), accepts=_is_jwt
    ),
    SecretRule(
        "url-password",
        r"\b[a-z][a-z0-9+.-]{1,30}://[^\s/?#:@\"'<>\[\]{}|\\]{0,200}:([^\s/?#@\"'<>|\\]{3,200})@[\w\[.-]",
        ("://",),
        ignore_case=True,
        accepts=lambda text: not is_placeholder(text),
    ),
    SecretRule(
        "authorization-header",
        r"\bbearer\s{1,3}([\w.~+/=-]{20,4000})",
        ("bearer",),
        ignore_case=True,
        accepts=is_token,
    ),
    SecretRule(
        "authorization-header",
        r"\bbasic\s{1,3}([A-Za-z0-9+/]{8,4000}={0,2})",
        ("basic",),
        ignore_case=True,
        accepts=_is_user_and_password,
    ),
    SecretRule(
        "assigned-secret",
        rf"\"[\w.-]{{0,40}}(?:{_NAMES})\\?\"\s{{0,3}}:\s{{0,3}}\\?\"([^\"\\\s]{{8,500}})\\?\"",
        _NAME_ANCHORS,
        ignore_case=True,
        accepts=_is_assigned,
    ),
    SecretRule(
        "assigned-secret",
        r"(?m)^\s{0,20}(?:export\s{1,3})?[A-Z][A-Z0-9_]{0,60}"
        r"(?:PASSWORD|PASSWD|SECRET|SECRET_KEY|API_KEY|APIKEY|ACCESS_KEY|TOKEN|PRIVATE_KEY)"
        r"[ ]{0,3}=[ ]{0,3}[\"']?([^\s\"'#]{8,500})",
        ("PASS", "SECRET", "KEY", "TOKEN"),
        accepts=_is_assigned,
    ),
)
"""Where two matches overlap, the earlier rule wins."""


_KINDS: tuple[tuple[str, tuple[str, ...], int], ...] = (
    ("password", ("password", "passwd", "passphrase"), 6),
    ("api-key", ("apikey", "accesskey", "subscriptionkey"), 12),
    ("secret-key", ("clientsecret", "secretkey", "secretaccesskey", "privatekey", "appsecret"), 8),
    (
        "access-token",
        ("accesstoken", "refreshtoken", "authtoken", "bearertoken", "sessiontoken", "idtoken"),
        12,
    ),
)
"""For each kind, how names of fields end, and the shortest text that counts. Names are compared in
lower case, without `_` and `-`."""
_EXACT = {"pwd": ("password", 6), "secret": ("secret-key", 12)}
_TOKENS = ("token", "apitoken", "bottoken", "accountkey", "authorization")
_LONGEST_NAME = 100
KINDS_BY_NAME = tuple(kind for kind, *_ in _KINDS)


def kind_by_name(name: str, text: str) -> str | None:
    """Return the kind of credential that a field of this name holds; None if it holds none.

    Placeholders, UUIDs, numbers, names of variables and texts with blanks are none.
    """
    kind, shortest = _kind(name)
    if kind is None or len(text) < shortest or text.isdigit():
        return None
    if is_placeholder(text) or is_guessable(text):
        return None
    if kind != "password" and not (re.search(r"\d", text) and re.search(r"[A-Za-z]", text)):
        return None
    return kind


def _kind(name: str) -> tuple[str | None, int]:
    if len(name) > _LONGEST_NAME:
        return None, 0
    bare = re.sub(r"[\W_]+", "", name.lower())
    if bare in _EXACT:
        return _EXACT[bare]
    if bare in _TOKENS:
        return "access-token", 20
    for kind, endings, shortest in _KINDS:
        if bare.endswith(endings):
            return kind, shortest
    return None, 0


_LIBRARY = "https://github.com/Yelp/detect-secrets"


@dataclass(frozen=True, slots=True)
class Detector:
    """A detector of the library."""

    module: str
    name: str
    kinds: tuple[str, ...]
    """The kind that each of its patterns finds; the last one is that of all others."""
    anchors: tuple[str, ...]


DETECTORS = (
    Detector("aws", "AWSKeyDetector", ("aws-access-key", "aws-secret-key"), (*_AWS, "aws")),
    Detector(
        "azure_storage_key", "AzureStorageKeyDetector", ("azure-storage-key",), ("AccountKey=",)
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
    Detector("github_token", "GitHubTokenDetector", ("github-token",), _GITHUB),
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
    "KeywordDetector": "it reads source code; `kind_by_name` reads fields",
    "NpmDetector": "it takes minutes on some texts; `npm-token` finds the same",
    "PrivateKeyDetector": "`private-key` includes the key",
}
"""The detectors that are not used, and why."""


def known_kinds() -> Mapping[str, list[str]]:
    """Return the kinds in order, each with its sources. Loads no library."""
    found: dict[str, list[str]] = {kind: ["the name of a field"] for kind in KINDS_BY_NAME}
    for kind in dict.fromkeys(one.kind for one in RULES):
        found.setdefault(kind, []).extend(_SOURCES.get(kind, (_GITLEAKS,)))
    for kind in dict.fromkeys(kind for one in DETECTORS for kind in one.kinds):
        found.setdefault(kind, []).append(_LIBRARY)
    return {kind: found[kind] for kind in sorted(found)}


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
                ignore_case=ignores_case,
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
