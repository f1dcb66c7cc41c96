"""Objects in a bucket, streamed in both directions."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, cast

from boto3.exceptions import Boto3Error
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from django.core.files import File
from storages.backends.s3 import S3Storage

CONNECT_SECONDS = 5
READ_SECONDS = 30
# A connection that the server closed meanwhile is made again; what lasts longer is the caller's to wait for.
TRIES = 2
# As a GET tells it, and a HEAD, whose answer has no body. A missing bucket is another matter.
MISSING = ("NoSuchKey", "404")
PART_BYTES = 8 << 20


class BucketStorage(S3Storage):
    """A bucket of an S3-compatible service. Without keys, boto3's own ways to find some are taken.

    One object's parts are sent one after another, so that an upload holds one or two of them in memory.
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
            # Without a type the object would be marked as encoded, and be unpacked by whoever passes it on.
            object_parameters={"ContentType": "application/gzip"},
            client_config=client_config(by_path=bool(endpoint_url)),
            transfer_config=TransferConfig(
                multipart_threshold=PART_BYTES, multipart_chunksize=PART_BYTES, use_threads=False
            ),
            **(keys if access_key_id else {}),
        )

    def _open(self, name: str, mode: str = "rb") -> "File[bytes]":
        """Open an object to be read once, from its beginning; a copy would fill the memory or the disk."""
        if mode != "rb":
            raise ValueError(f"an object is read as it is, not with mode {mode!r}")
        answer = self.get_object(name)
        opened = File(cast(IO[bytes], answer["Body"]), name)
        opened.size = answer["ContentLength"]
        return opened

    def open_range(self, name: str, start: int, stop: int | None) -> IO[bytes]:
        """Open an object to be read once, from byte `start` up to `stop`."""
        asked = {"Range": f"bytes={start}-{'' if stop is None else stop - 1}"} if start or stop else {}
        return cast(IO[bytes], self.get_object(name, **asked)["Body"])

    def get_object(self, name: str, **asked: str) -> dict[str, Any]:
        """Return the bucket's response to a GET, with its body unread."""
        with storage_errors(name):
            answer: dict[str, Any] = self.connection.meta.client.get_object(
                Bucket=self.bucket_name, Key=name, **asked
            )
        return answer

    def _save(self, name: str, content: "File[bytes]") -> str:
        with storage_errors(name):
            return str(super()._save(name, content))

    def delete(self, name: str) -> None:
        """Remove an object, if it is there."""
        with storage_errors(name):
            super().delete(name)

    def delete_many(self, names: Sequence[str]) -> None:
        """Remove objects, those that are there, with one request. Raises OSError when one of them stays."""
        unwanted = {"Objects": [{"Key": name} for name in names], "Quiet": True}
        with storage_errors(names[0]):
            answer = self.connection.meta.client.delete_objects(Bucket=self.bucket_name, Delete=unwanted)
        if failed := answer.get("Errors"):
            raise OSError(f"{failed[0].get('Key')}: {failed[0].get('Code')}; objects that stay: {len(failed)}")

    def exists(self, name: str) -> bool:
        """Tell whether there is an object of that name."""
        with storage_errors(name):
            return bool(super().exists(name))

    def listdir(self, name: str) -> tuple[list[str], list[str]]:
        """Return the folders and the files below a folder."""
        with storage_errors(name):
            folders, files = super().listdir(name)
        return folders, files


def client_config(*, by_path: bool) -> Config:
    """Return how the service is spoken to.

    Few services but Amazon's have a host name for each bucket, or take checksums that need not be sent.
    """
    return Config(
        s3={"addressing_style": "path" if by_path else "auto"},
        connect_timeout=CONNECT_SECONDS,
        read_timeout=READ_SECONDS,
        retries={"mode": "standard", "total_max_attempts": TRIES},
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )


@contextmanager
def storage_errors(name: str) -> Iterator[None]:
    """Raise boto's errors as OSError, and as FileNotFoundError where there is no such object."""
    try:
        yield
    except ClientError as error:
        if error.response["Error"]["Code"] in MISSING:
            raise FileNotFoundError(f"{name}: {error}") from error
        raise OSError(f"{name}: {error}") from error
    except (BotoCoreError, Boto3Error) as error:
        raise OSError(f"{name}: {error}") from error
