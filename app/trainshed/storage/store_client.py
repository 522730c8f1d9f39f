"""The client of an object store, and what it says when something goes wrong."""

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

# Pauses are drawn from between the first and so many times the one before: by the client's own
# base of 2 they stay as short as the first one. The time ends patience, never the number of tries.
_BACKOFF: BackoffConfig = {
    "init_backoff": timedelta(seconds=0.1),
    "max_backoff": timedelta(seconds=5),
    "base": 4,
}
_TRIES = 10_000
# A server that is down for a minute or two holds a checkpoint up and loses none. A part is sent
# again as long: beyond five minutes credentials may end meanwhile (obstore, RetryConfig).
_PATIENT: RetryConfig = {
    "backoff": _BACKOFF,
    "max_retries": _TRIES,
    "retry_timeout": timedelta(minutes=4),
}
# Who waits for the answer has something better to do: it asks again later, or says so. A heartbeat
# that meets with nothing is written again before its driver counts as dead.
_SHORT: RetryConfig = {
    "backoff": _BACKOFF,
    "max_retries": _TRIES,
    "retry_timeout": timedelta(seconds=10),
}
_MOST_WORDS = 300
_AZURE = ("abfs", "abfss", "az")
# The names that S3, GCS and Azure have for it; nothing else in their answers tells.
_NO_BUCKET = ("NoSuchBucket", "bucket does not exist", "ContainerNotFound")
# Who has none asks the machine's own server, which only a cloud's machines have.
# (the chart sends Pods that are to have none to a port of their own where nobody is).
_NO_CREDENTIALS = re.compile(
    r"://(127\.0\.0\.1:1/latest|169\.254\.169\.254|metadata(\.google\.internal)?)/"
)
_RENEW = "renew them and start the run again, it goes on from its last checkpoint"
_DENIED = re.compile(
    r"status code: 40[13]|<Code>(ExpiredToken|InvalidToken|TokenRefreshRequired)</Code>"
)
# Of an address on the web, which the client repeats.
_QUERY = re.compile(r"(https?://[^\s?]+)\?\S*")
_NO_SIZE = "Content-Length Header missing"
# All three answer in XML.
_CODE, _MESSAGE = re.compile(r"<Code>(\w+)</Code>"), re.compile(r"<Message>([^<]{1,300})")


class NoBucketError(OSError):
    """A bucket that is not there: the address is a mistake, or somebody has deleted it."""


@functools.lru_cache(maxsize=64)
def client_of(
    root: str, *, is_patient: bool = False, reach: StoreOptions = AS_USUAL
) -> ObjectStore:
    """Return the client of a bucket; credentials and endpoint are mostly the environment's.

    Args:
        root: `s3://bucket`, or the URL of one file on the web, whose key is empty then.
        is_patient: whether a server that is away is waited for.
        reach: what is not as the environment says.
    """
    options: ClientConfig = {
        # Whether a connection is encrypted is said by the endpoint's own address.
        "allow_http": True,
        "connect_timeout": "5s",
        "timeout": "60s" if is_patient else "10s",
    }
    retry = _PATIENT if is_patient else _SHORT
    scheme, _, place = root.partition("://")
    if scheme in WEB_SCHEMES:
        # All of a large file may be one answer.
        options |= {"timeout": "1h", "read_timeout": "30s"}
        whole = f"{root}?{reach.query}" if reach.query else root
        return HTTPStore(whole, client_options=options, retry_config=retry)
    if scheme == "s3":
        config = _config(place, reach)
        return S3Store(place, config=config, client_options=options, retry_config=retry)
    if scheme in _AZURE and "@" in place and "." not in place:
        root = f"{root}.dfs.core.windows.net"  # an account's name alone is its short form
    if reach.is_anonymous:
        return from_url(root, client_options=options, retry_config=retry, skip_signature=True)
    return from_url(root, client_options=options, retry_config=retry)


def options_of(root: str, reach: StoreOptions = AS_USUAL) -> dict[str, str]:
    """Return what other clients made of the same library are told, to go the way of this one.

    Args:
        root: `s3://bucket`, and what follows. Credentials they take from the environment as well.
        reach: what is not as the environment says.
    """
    scheme, _, place = root.partition("://")
    found = {"allow_http": "true", "connect_timeout": "5s", "timeout": "60s"}
    if scheme != "s3":
        return {**found, "skip_signature": "true"} if reach.is_anonymous else found
    for name, value in _config(place.partition("/")[0], reach).items():
        said = str(value).lower() if isinstance(value, bool) else str(value)
        found[f"aws_{name.removeprefix('aws_')}"] = said
    return found


def _config(bucket: str, reach: StoreOptions) -> S3Config:
    """Return what the client of S3 is told beside the environment."""
    config: S3Config = {}
    if reach.endpoint:
        # The environment's more special name of it would count before this one.
        endpoint = reach.endpoint.rstrip("/")
        config |= {"endpoint": endpoint, "aws_endpoint_url_s3": endpoint}
        config["virtual_hosted_style_request"] = False
    elif hosted := _virtual_hosted(bucket):
        config["endpoint"] = hosted
    if reach.region:
        config["region"] = reach.region
    if reach.is_anonymous:
        config["skip_signature"] = True
    if reach.pays:
        config["request_payer"] = True
    return config


def _virtual_hosted(bucket: str) -> str | None:
    """Return the endpoint with the bucket in its host; None where the client finds it by itself."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL")
    asked = os.environ.get("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "").lower() in ("1", "true")
    if not (asked and endpoint):
        return None
    scheme, _, host = endpoint.partition("://")
    return endpoint if host.startswith(f"{bucket}.") else f"{scheme}://{bucket}.{host}"


@contextlib.contextmanager
def told(root: str, what: str) -> Iterator[None]:
    """Let what the client raises be an OSError that says where.

    root: `s3://bucket`. what: the address of what is asked for.
    """
    try:
        with _without_queries(root):
            yield
    except AlreadyExistsError as error:
        raise FileExistsError(errno.EEXIST, "there already", what) from error
    except ValueError as error:  # a name that no object can have
        raise OSError(errno.EINVAL, str(error), what) from error
    except InvalidPathError as error:
        # In the way of each listing: the client reads no name that it would not write, and asking
        # again is of no use.
        which = "an empty part (//), a part that is . or .., or a control character"
        said = f"delete or rename an object here whose name has {which}: {error}"
        raise OSError(errno.EINVAL, _words(said), what) from error
    except (FileNotFoundError, BaseError) as error:
        raise _as_os_error(error, root, what) from error


@contextlib.contextmanager
def _without_queries(root: str) -> Iterator[None]:
    """Take from what the client raises of the web what follows a question mark: it may be a key."""
    try:
        yield
    except (FileNotFoundError, BaseError) as error:
        if root.partition("://")[0] not in WEB_SCHEMES:
            raise
        raise type(error)(_QUERY.sub(r"\1", str(error))) from None


def _as_os_error(error: FileNotFoundError | BaseError, root: str, what: str) -> OSError:
    # What a listing meets has no type of its own in the client, so its words count.
    text = str(error)
    if isinstance(error, NotSupportedError) or _NO_SIZE in text:
        return OSError(errno.EOPNOTSUPP, _words(text), what)
    if any(name in text for name in _NO_BUCKET):
        said = f"{root}: there is no such bucket; make it, or mend the address"
        return NoBucketError(errno.EREMOTEIO, said)
    # One of a list that was to be deleted.
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
        said = f"the credentials do not allow it, or have ended: {_words(text)}; {_RENEW}"
        return PermissionError(errno.EACCES, said, what)
    return OSError(errno.EREMOTEIO, _words(text), what)


def _words(text: str) -> str:
    """Return what a server or its client says, without the request and the dump of data."""
    code, message = _CODE.search(text), _MESSAGE.search(text)
    if code:
        return f"{code[1]}: {message[1]}" if message else code[1]
    return " ".join(text.partition("Debug source")[0].split())[:_MOST_WORDS]
