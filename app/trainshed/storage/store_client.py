"""The client of an object store, and its error messages."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import re
from datetime import timedelta
from typing import TYPE_CHECKING

from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    InvalidPathError,
    NotSupportedError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from obstore.store import HTTPStore, S3Store, from_url

from trainshed.storage.store_options import AS_USUAL, StoreOptions
from trainshed_api.names import WEB_SCHEMES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from obstore.store import BackoffConfig, ClientConfig, ObjectStore, RetryConfig, S3Config

# Each pause is random between the first and this multiple of the previous one: with the client's
# default of 2 they stay as short as the first. Retries end by time, not by number.
_BACKOFF: BackoffConfig = {
    "init_backoff": timedelta(seconds=0.1),
    "max_backoff": timedelta(seconds=5),
    "base": 4,
}
_TRIES = 10_000
# A server that is down for a minute or two delays a checkpoint but loses none. One part is retried
# as long: after five minutes credentials may have expired (obstore, RetryConfig).
_PATIENT: RetryConfig = {
    "backoff": _BACKOFF,
    "max_retries": _TRIES,
    "retry_timeout": timedelta(minutes=4),
}
# Callers with a short timeout retry later or report the error. A lost heartbeat is written again
# before its driver counts as dead.
_SHORT: RetryConfig = {
    "backoff": _BACKOFF,
    "max_retries": _TRIES,
    "retry_timeout": timedelta(seconds=10),
}
_MOST_WORDS = 300
_AZURE = ("abfs", "abfss", "az")
# The error names of S3, GCS and Azure; nothing else in their answers identifies it.
_NO_BUCKET = ("NoSuchBucket", "bucket does not exist", "ContainerNotFound")
# Without credentials the client asks the metadata server, which only cloud machines have (the
# chart redirects Pods without credentials to a port where nothing listens).
_NO_CREDENTIALS = re.compile(
    r"://(127\.0\.0\.1:1/latest|169\.254\.169\.254|metadata(\.google\.internal)?)/"
)
_RENEW = "renew them and start the run again; it resumes from its last checkpoint"
_DENIED = re.compile(
    r"status code: 40[13]|<Code>(ExpiredToken|InvalidToken|TokenRefreshRequired)</Code>"
)
# How S3 answers a request whose time differs from its clock by more than 15 minutes.
_SKEWED = "RequestTimeTooSkewed"
# The query string of a web address, which the client repeats.
_QUERY = re.compile(r"(https?://[^\s?]+)\?\S*")
_NO_SIZE = "Content-Length Header missing"
# All three answer in XML.
_CODE, _MESSAGE = re.compile(r"<Code>(\w+)</Code>"), re.compile(r"<Message>([^<]{1,300})")


class NoBucketError(OSError):
    """A bucket that does not exist: the address is wrong, or the bucket was deleted."""


@functools.lru_cache(maxsize=64)
def client_of(
    root: str, *, is_patient: bool = False, store_options: StoreOptions = AS_USUAL
) -> ObjectStore:
    """Return the client of a bucket; credentials and endpoint mostly come from the environment.

    Args:
        root: `s3://bucket`, or the URL of one file on the web with an empty key.
        is_patient: whether to wait for a server that is unavailable.
        store_options: options that differ from the environment.
    """
    options: ClientConfig = {
        # The scheme of the endpoint decides whether a connection is encrypted.
        "allow_http": True,
        "connect_timeout": "5s",
        "timeout": "60s" if is_patient else "10s",
    }
    retry = _PATIENT if is_patient else _SHORT
    scheme, _, place = root.partition("://")
    if scheme in WEB_SCHEMES:
        # The response may be a whole large file.
        options |= {"timeout": "1h", "read_timeout": "30s"}
        whole = f"{root}?{store_options.query}" if store_options.query else root
        return HTTPStore(whole, client_options=options, retry_config=retry)
    if scheme == "s3":
        config = _config(place, store_options)
        return S3Store(place, config=config, client_options=options, retry_config=retry)
    if scheme in _AZURE and "@" in place and "." not in place:
        root = f"{root}.dfs.core.windows.net"  # an account's name alone is its short form
    if store_options.is_anonymous:
        return from_url(root, client_options=options, retry_config=retry, skip_signature=True)
    return from_url(root, client_options=options, retry_config=retry)


def options_of(root: str, store_options: StoreOptions = AS_USUAL) -> dict[str, str]:
    """Return the options of other clients of the same library, to connect like this one.

    Args:
        root: `s3://bucket/...`. They read credentials from the environment as well.
        store_options: options that differ from the environment.
    """
    scheme, _, place = root.partition("://")
    found = {"allow_http": "true", "connect_timeout": "5s", "timeout": "60s"}
    if scheme != "s3":
        return {**found, "skip_signature": "true"} if store_options.is_anonymous else found
    for name, value in _config(place.partition("/")[0], store_options).items():
        said = str(value).lower() if isinstance(value, bool) else str(value)
        found[f"aws_{name.removeprefix('aws_')}"] = said
    return found


def _config(bucket: str, store_options: StoreOptions) -> S3Config:
    """Return the options of the S3 client beyond the environment."""
    config: S3Config = {}
    if store_options.endpoint:
        # The environment's more specific variable would take precedence.
        endpoint = store_options.endpoint.rstrip("/")
        config |= {"endpoint": endpoint, "aws_endpoint_url_s3": endpoint}
        config["virtual_hosted_style_request"] = False
    elif hosted := _virtual_hosted(bucket):
        config["endpoint"] = hosted
    if store_options.region:
        config["region"] = store_options.region
    if store_options.is_anonymous:
        config["skip_signature"] = True
    if store_options.pays:
        config["request_payer"] = True
    return config


def _virtual_hosted(bucket: str) -> str | None:
    """Return the endpoint with the bucket in its host; None if the client finds it."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL")
    asked = os.environ.get("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "").lower() in ("1", "true")
    if not (asked and endpoint):
        return None
    scheme, _, host = endpoint.partition("://")
    return endpoint if host.startswith(f"{bucket}.") else f"{scheme}://{bucket}.{host}"


@contextlib.contextmanager
def told(root: str, what: str) -> Iterator[None]:
    """Convert the client's exceptions to OSError with the location.

    root: `s3://bucket`. what: the address that was requested.
    """
    try:
        with _without_queries(root):
            yield
    except AlreadyExistsError as error:
        raise FileExistsError(errno.EEXIST, "there already", what) from error
    except ValueError as error:  # an invalid object name
        raise OSError(errno.EINVAL, str(error), what) from error
    except InvalidPathError as error:
        # Such a name breaks every listing: the client reads no name that it would not write, and
        # a retry does not help.
        which = "an empty part (//), a part that is . or .., or a control character"
        said = f"delete or rename an object here whose name has {which}: {error}"
        raise OSError(errno.EINVAL, _words(said), what) from error
    except (FileNotFoundError, BaseError) as error:
        raise _as_os_error(error, root, what) from error


@contextlib.contextmanager
def _without_queries(root: str) -> Iterator[None]:
    """Remove the query string from the client's errors about a web address: it may be a key."""
    try:
        yield
    except (FileNotFoundError, BaseError) as error:
        if root.partition("://")[0] not in WEB_SCHEMES:
            raise
        raise type(error)(_QUERY.sub(r"\1", str(error))) from None


def _as_os_error(error: FileNotFoundError | BaseError, root: str, what: str) -> OSError:
    # The client has no exception type for errors of listings, so the text decides.
    text = str(error)
    if isinstance(error, NotSupportedError) or _NO_SIZE in text:
        return OSError(errno.EOPNOTSUPP, _words(text), what)
    if any(name in text for name in _NO_BUCKET):
        said = f"{root}: no such bucket. Create it, or correct the address"
        return NoBucketError(errno.EREMOTEIO, said)
    # One object of a bulk delete.
    if isinstance(error, FileNotFoundError) or "(code: NoSuchKey)" in text:
        return FileNotFoundError(errno.ENOENT, "nothing there", what)
    if _NO_CREDENTIALS.search(text):
        said = (
            "there are no credentials here: the environment has none (such as AWS_ACCESS_KEY_ID "
            "and AWS_SECRET_ACCESS_KEY), and no machine or ServiceAccount gives any: "
            f"{_words(text)}"
        )
        return PermissionError(errno.EACCES, said, what)
    denied = isinstance(error, PermissionDeniedError | UnauthenticatedError)
    if denied or _DENIED.search(text):
        said = f"access was denied, or the credentials have expired: {_words(text)}; {_RENEW}"
        if _SKEWED in text:
            said = f"the clock here differs too much from the store's: {_words(text)}; set it"
        return PermissionError(errno.EACCES, said, what)
    return OSError(errno.EREMOTEIO, _words(text), what)


def _words(text: str) -> str:
    """Return the message of a server or its client, without the request and the data dump."""
    code, message = _CODE.search(text), _MESSAGE.search(text)
    if code:
        return f"{code[1]}: {message[1]}" if message else code[1]
    return " ".join(text.partition("Debug source")[0].split())[:_MOST_WORDS]
