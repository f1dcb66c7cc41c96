"""Storage of files in a bucket. Uploads and downloads are streamed."""

import io
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, Any, cast

from boto3.exceptions import Boto3Error
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, ConnectTimeoutError, ReadTimeoutError
from botocore.parsers import ResponseParserError
from botocore.response import StreamingBody
from django.core.files import File
from storages.backends.s3 import S3Storage

from simservice.outages import Outage
from simservice.storages import limits

CONNECT_SECONDS = 5
# For each response: in workers, and in `web`
READ_SECONDS, FAST_READ_SECONDS = 30, 3
# The retry is for connections that the server closed while they were idle.
MAX_ATTEMPTS = 2
# Error codes of a GET and of a HEAD. A missing bucket has another code.
MISSING = ("NoSuchKey", "404")
PART_BYTES = 8 << 20

outage = Outage(
    "the bucket",
    consequence="downloads get 503 until it responds",
    recovery="downloads continue",
    probe_seconds=MAX_ATTEMPTS * FAST_READ_SECONDS,
)


class ObjectBody(io.RawIOBase):
    """The content of an object, read once. Raises OSError if the bucket sends less than it announced."""

    def __init__(self, body: StreamingBody, name: str) -> None:
        self._body, self._name = body, name

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with _storage_errors(self._name):
            data = self._body.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._body.close()
        super().close()


class BucketStorage(S3Storage):
    """A bucket of an S3-compatible service. Without keys, boto3 searches for credentials itself.

    The parts of an upload are sent one after another, so at most two of them are in memory.
    """

    def __init__(
        self,
        *,
        bucket: str,
        endpoint_url: str = "",
        region: str = "",
        access_key_id: str = "",
        secret_access_key: str = "",
    ) -> None:
        keys = {"access_key": access_key_id, "secret_key": secret_access_key, "security_token": None}
        super().__init__(
            bucket_name=bucket,
            endpoint_url=endpoint_url or None,
            region_name=region or None,
            file_overwrite=True,
            # Without a type, Content-Encoding would be set, and proxies could decompress the object.
            object_parameters={"ContentType": "application/gzip"},
            client_config=_client_config(by_path=bool(endpoint_url)),
            transfer_config=TransferConfig(
                multipart_threshold=PART_BYTES, multipart_chunksize=PART_BYTES, use_threads=False
            ),
            **(keys if access_key_id else {}),
        )

    def _open(self, name: str, mode: str = "rb") -> "File[bytes]":
        if mode != "rb":
            raise ValueError(f"an object can only be opened with mode 'rb', not {mode!r}")
        response = self._get_object(name)
        file = File(cast(IO[bytes], ObjectBody(response["Body"], name)), name)
        file.size = response["ContentLength"]
        return file

    def open_range(self, name: str, start: int, stop: int | None) -> IO[bytes]:
        """Open an object for reading once, from byte `start` up to `stop`."""
        options = {"Range": f"bytes={start}-{'' if stop is None else stop - 1}"} if start or stop else {}
        return cast(IO[bytes], ObjectBody(self._get_object(name, **options)["Body"], name))

    def _get_object(self, name: str, **options: str) -> dict[str, Any]:
        """Return the bucket's response to a GET request, before its body is read."""
        if limits.fails_fast and not outage.may_try():
            raise OSError(f"{name}: the bucket does not respond")
        with _storage_errors(name):
            try:
                response: dict[str, Any] = self.connection.meta.client.get_object(
                    Bucket=self.bucket_name, Key=name, **options
                )
            except (ConnectTimeoutError, ReadTimeoutError) as error:
                if limits.fails_fast:
                    outage.record_failure(error)
                raise
        outage.record_success()
        return response

    def _save(self, name: str, content: "File[bytes]") -> str:
        with _storage_errors(name):
            return str(super()._save(name, content))

    def save_many(self, files: Mapping[str, IO[bytes]]) -> None:
        """Upload files one after another."""
        for name, content in files.items():
            self.save(name, File(content))

    def delete(self, name: str) -> None:
        """Remove an object, if it exists."""
        with _storage_errors(name):
            super().delete(name)

    def delete_many(self, names: Sequence[str]) -> None:
        """Remove objects with one request; missing ones are ignored. Raises OSError if one is not removed."""
        objects = {"Objects": [{"Key": name} for name in names], "Quiet": True}
        with _storage_errors(names[0]):
            response = self.connection.meta.client.delete_objects(Bucket=self.bucket_name, Delete=objects)
        if failed := response.get("Errors"):
            raise OSError(
                f"{failed[0].get('Key')}: {failed[0].get('Code')}; {len(failed)} objects were not removed"
            )

    def exists(self, name: str) -> bool:
        """Return whether an object exists."""
        with _storage_errors(name):
            return bool(super().exists(name))

    def listdir(self, name: str) -> tuple[list[str], list[str]]:
        """Return the folders and files in a folder. Raises OSError if the bucket responds with another list."""
        path = f"{name.rstrip('/')}/" if name else ""
        folders: list[str] = []
        files: list[str] = []
        with _storage_errors(name):
            pages = self.connection.meta.client.get_paginator("list_objects")
            for page in pages.paginate(Bucket=self.bucket_name, Delimiter="/", Prefix=path):
                # An empty response must not look like an empty folder: retention would forget its files.
                if "IsTruncated" not in page or (page.get("Prefix") or "") != path:
                    raise OSError(f"{name}: the bucket's response is not the list of this folder")
                folders += [posixpath.relpath(each["Prefix"], path) for each in page.get("CommonPrefixes", ())]
                keys = (each["Key"] for each in page.get("Contents", ()))
                files += [posixpath.relpath(key, path) for key in keys if key != path]
        return folders, files


def _client_config(*, by_path: bool) -> Config:
    """Return the configuration of the connection.

    Most services other than Amazon S3 have no host name for each bucket and reject optional checksums.
    """
    read_seconds = FAST_READ_SECONDS if limits.fails_fast else READ_SECONDS
    return Config(
        s3={"addressing_style": "path" if by_path else "auto"},
        connect_timeout=min(CONNECT_SECONDS, read_seconds),
        read_timeout=read_seconds,
        retries={"mode": "standard", "total_max_attempts": MAX_ATTEMPTS},
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )


@contextmanager
def _storage_errors(name: str) -> Iterator[None]:
    """Raise boto3's errors as OSError: FileNotFoundError if the object is missing."""
    try:
        yield
    except ClientError as error:
        if error.response["Error"]["Code"] in MISSING:
            raise FileNotFoundError(f"{name}: {error}") from error
        raise OSError(f"{name}: {error}") from error
    # The parser raises ValueError for a number, a time or a text that a damaged response contains.
    except (BotoCoreError, Boto3Error, ResponseParserError, ValueError) as error:
        raise OSError(f"{name}: {error}") from error
