"""An S3 server (rclone) with one bucket, which checks signatures and can be restarted."""

import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.conf import settings

from localstack.redis_server import free_port
from tests.waiting import wait_until

RCLONE = Path(sys.executable).with_name("rclone")
KEY_ID, SECRET = "tests-only", "for-tests-only"
START_SECONDS = 20


class S3Server:
    """A server of one folder, whose only subfolder is the bucket."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.options = options
        self.port = free_port()
        self.keys = f"{KEY_ID},{SECRET}"
        self.process: subprocess.Popen[bytes] | None = None
        (folder / "artifacts").mkdir()

    def start(self) -> None:
        """Start the server and wait until it responds."""
        address = f"127.0.0.1:{self.port}"
        command = [str(RCLONE), "serve", "s3", "--addr", address, "--auth-key", self.keys, "--config", "/dev/null"]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen([*command, *self.options, str(self.folder)], stdout=log, stderr=log)
        wait_until(self.is_ready)

    def is_ready(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False

    def stop(self) -> None:
        """Stop the server and keep its data."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def variables(self) -> dict[str, str]:
        """Return the environment variables that make processes store artifacts in the bucket."""
        return {
            "ARTIFACTS_BUCKET": "artifacts",
            "ARTIFACTS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "ARTIFACTS_ACCESS_KEY_ID": KEY_ID,
            "ARTIFACTS_SECRET_ACCESS_KEY": SECRET,
        }

    def storages(self, **options: str) -> dict[str, Any]:
        """Return the setting `STORAGES` with artifacts in the bucket."""
        defaults = {
            "bucket": "artifacts",
            "endpoint_url": f"http://127.0.0.1:{self.port}",
            "region": "",
            "access_key_id": KEY_ID,
            "secret_access_key": SECRET,
        }
        backend = "simservice.storages.s3.BucketStorage"
        return settings.STORAGES | {"default": {"BACKEND": backend, "OPTIONS": defaults | options}}
