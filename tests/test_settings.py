"""Test the settings: defaults, environment and file, error messages, and the worker id."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from euterpe.domain.retry import DeliverySchedule
from euterpe.settings import SettingsError, load, worker_id

CANARY = "canary-in-a-secret"


@pytest.fixture(autouse=True)
def no_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("EUTERPE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def load_errors() -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load()
    return str(caught.value).splitlines()


def test_the_defaults_are_those_of_the_interface() -> None:
    settings = load()
    assert settings.database_url.get_secret_value() == "sqlite:///euterpe.db"
    assert settings.model_dump(exclude={"database_url"}) == {
        "kek_file": None,
        "keks": None,
        "vault_url": None,
        "vault_token_file": None,
        "vault_key": "euterpe",
        "vault_mount": "transit",
        "vault_namespace": None,
        "vault_ca_file": None,
        "key_provider": "local",
        "lease_ttl_ms": 60_000,
        "heartbeat_interval_ms": 15_000,
        "worker_slots": max(1, (os.cpu_count() or 1) // 2),
        "worker_queues": ("default",),
        "worker_credentials": "sealed",
        "work_dir": None,
        "max_source_bytes": 50 * 1024**3,
        "min_free_bytes": 512 * 1024**2,
        "stall_timeout_ms": 120_000,
        "drain_timeout_ms": 15_000,
        "ffmpeg": None,
        "require_sandbox": True,
        "min_transfer_bytes_per_s": 65_536,
        "min_transfer_window_ms": 60_000,
        "fetch_connections": 4,
        "server": None,
        "api_key": None,
        "server_ca": None,
        "client_cert": None,
        "client_key": None,
        "server_insecure": False,
        "profiles": None,
        "bridges": None,
        "storage": {},
        "storage_roots": (),
        "storage_endpoints": (),
        "egress_allow": (),
        "outbox_batch": 10,
        "outbox_concurrency": 5,
        "outbox_poll_ms": 1_000,
        "outbox_max_attempts": 12,
        "outbox_retry_delays": DeliverySchedule().delays_ms,
        "job_max_attempts": 3,
        "refresh_max_attempts": 3,
        "backoff_base_ms": 1_000,
        "backoff_cap_ms": 900_000,
        "backoff_429_base_ms": 30_000,
        "idempotency_ttl_ms": 7 * 24 * 3600 * 1000,
        "max_body_bytes": 262_144,
        "max_unfinished": 10_000,
        "max_unfinished_of_all": 1_000_000,
        "limit_timeout_seconds": 604_800,
        "limit_attempts": 100,
        "limit_priority": 100,
        "log_level": "info",
    }


def test_lists_are_written_with_commas_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EUTERPE_EGRESS_ALLOW", "10.0.0.0/8, hooks.internal:8080,")
    monkeypatch.setenv("EUTERPE_STORAGE_ROOTS", "/srv/media")
    Path("euterpe.toml").write_text('worker_queues = ["urgent", "default"]\n')
    settings = load()
    assert settings.egress_allow == ("10.0.0.0/8", "hooks.internal:8080")
    assert settings.storage_roots == ("/srv/media",)
    assert settings.worker_queues == ("urgent", "default")


def test_the_environment_wins_over_the_file_and_the_file_over_the_defaults(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Path("euterpe.toml").write_text("outbox_batch = 20\nOUTBOX_CONCURRENCY = 7\n")
    monkeypatch.setenv("EUTERPE_OUTBOX_BATCH", "25")
    settings = load()
    assert (settings.outbox_batch, settings.outbox_concurrency, settings.job_max_attempts) == (25, 7, 3)


def test_the_pauses_of_deliveries_are_durations_with_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EUTERPE_OUTBOX_RETRY_DELAYS", "5s, 2m,1h,1d")
    assert load().outbox_retry_delays == (5_000, 120_000, 3_600_000, 86_400_000)
    monkeypatch.delenv("EUTERPE_OUTBOX_RETRY_DELAYS")
    Path("euterpe.toml").write_text('outbox_retry_delays = ["30s", "7d"]\n')
    assert load().outbox_retry_delays == (30_000, 7 * 86_400_000)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (",", "must be 1 to 100 durations separated by commas, like 5s,30s,2m"),
        (",".join(["1s"] * 101), "must be 1 to 100 durations separated by commas, like 5s,30s,2m"),
        ("5", "must be durations separated by commas, each a number and a unit, like 5s or 12h"),
        ("5s;30s", "must be durations separated by commas, each a number and a unit, like 5s or 12h"),
        ("5s,0s", "must be durations of 1s to 7d each"),
        ("8d", "must be durations of 1s to 7d each"),
    ],
)
def test_wrong_pauses_of_deliveries_are_refused_with_a_reason(
    monkeypatch: pytest.MonkeyPatch, text: str, reason: str
) -> None:
    monkeypatch.setenv("EUTERPE_OUTBOX_RETRY_DELAYS", text)
    assert load_errors() == [f"EUTERPE_OUTBOX_RETRY_DELAYS {reason}"]


def test_an_empty_variable_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("euterpe.toml").write_text("outbox_batch = 20\n")
    monkeypatch.setenv("EUTERPE_OUTBOX_BATCH", "")
    assert load().outbox_batch == 20


def test_an_unknown_name_is_an_error_in_the_file_and_none_in_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("EUTERPE_SERVICE_HOST", "10.0.0.1")
    load()
    Path("euterpe.toml").write_text('lease_ttl = 1\nEUTERPE_KEK_FILE = "x"\n[colours]\nbatch = 1\n')
    assert load_errors() == [
        "euterpe.toml: 'lease_ttl' is not a setting; did you mean 'lease_ttl_ms'?",
        "euterpe.toml: 'EUTERPE_KEK_FILE' is not a setting; did you mean 'kek_file'?",
        "euterpe.toml: 'colours' is not a setting",
    ]


def test_every_error_is_reported_at_once_and_where_to_correct_it(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("euterpe.toml").write_text('job_max_attempts = 0\nkek_file = 3\nbackoff_cap_ms = "soon"\n')
    monkeypatch.setenv("EUTERPE_LEASE_TTL_MS", "a minute")
    monkeypatch.setenv("EUTERPE_OUTBOX_BATCH", "26")
    monkeypatch.setenv("EUTERPE_OUTBOX_CONCURRENCY", "2.5")
    monkeypatch.setenv("EUTERPE_IDEMPOTENCY_TTL_MS", "9" * 30)
    assert load_errors() == [
        "euterpe.toml: kek_file must be a path",
        "EUTERPE_LEASE_TTL_MS must be an integer",
        "EUTERPE_OUTBOX_BATCH must be at most 25",
        "EUTERPE_OUTBOX_CONCURRENCY must be an integer",
        "euterpe.toml: job_max_attempts must be at least 1",
        "euterpe.toml: backoff_cap_ms must be an integer",
        "EUTERPE_IDEMPOTENCY_TTL_MS must be at most 31536000000",
    ]


@pytest.mark.parametrize(
    "url",
    ["https://vault.internal:8200", "https://vault.internal/", "http://127.0.0.1:8200", "http://[::1]:1"],
)
def test_a_vault_is_an_origin(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("EUTERPE_VAULT_URL", url)
    monkeypatch.setenv("EUTERPE_VAULT_TOKEN_FILE", "token")
    monkeypatch.setenv("EUTERPE_KEY_PROVIDER", "vault")
    monkeypatch.setenv("EUTERPE_VAULT_MOUNT", "team/transit")
    assert load().vault_url == url.rstrip("/")


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("vault.internal:8200", "must be an origin"),
        (f"https://user:{CANARY}@vault.internal", "must be an origin"),
        ("https://vault.internal/v1/transit", "must be an origin"),
        ("https://vault.internal:port", "must be an origin"),
        ("https://[vault", "must be an origin"),
        ("http://vault.internal:8200", "must be https://, or http:// on 127.0.0.1"),
        ("unix://vault", "must be https://"),
    ],
)
def test_a_vault_over_a_network_needs_tls(monkeypatch: pytest.MonkeyPatch, url: str, says: str) -> None:
    monkeypatch.setenv("EUTERPE_VAULT_URL", url)
    monkeypatch.setenv("EUTERPE_KEY_PROVIDER", "vault")
    (line,) = load_errors()
    assert line.startswith(f"EUTERPE_VAULT_URL {says}")
    assert CANARY not in line


def test_a_vault_needs_its_address_and_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EUTERPE_KEY_PROVIDER", "vault")
    assert load_errors() == ["EUTERPE_KEY_PROVIDER must be local, or vault_url must be set"]
    monkeypatch.setenv("EUTERPE_VAULT_URL", "https://vault.internal:8200")
    assert load_errors() == ["EUTERPE_VAULT_TOKEN_FILE must be set with vault_url"]


@pytest.mark.parametrize("path", ["/transit", "transit/", "a//b", "../sys", "a?b", "ключ"])
def test_a_path_in_vault_has_no_surprises(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setenv("EUTERPE_VAULT_MOUNT", path)
    monkeypatch.setenv("EUTERPE_VAULT_KEY", path)
    assert [line.split()[0] for line in load_errors()] == ["EUTERPE_VAULT_KEY", "EUTERPE_VAULT_MOUNT"]


@pytest.mark.parametrize("namespace", ["/admin", "admin//tv", "../root", "é", "admin\n", "a\nb", "a b"])
def test_a_namespace_of_vault_fits_into_a_header(monkeypatch: pytest.MonkeyPatch, namespace: str) -> None:
    monkeypatch.setenv("EUTERPE_VAULT_NAMESPACE", namespace)
    assert [line.split()[0] for line in load_errors()] == ["EUTERPE_VAULT_NAMESPACE"]


@pytest.mark.parametrize("namespace", ["admin", "admin/tv", "admin/tv/"])
def test_a_namespace_of_vault_may_end_with_a_slash(monkeypatch: pytest.MonkeyPatch, namespace: str) -> None:
    monkeypatch.setenv("EUTERPE_VAULT_NAMESPACE", namespace)
    assert load().vault_namespace == namespace.rstrip("/")


def test_a_value_that_is_not_a_choice_is_refused_with_the_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EUTERPE_LOG_LEVEL", "loud")
    assert load_errors() == ["EUTERPE_LOG_LEVEL must be one of 'debug', 'info', 'warning' or 'error'"]


@pytest.mark.parametrize(
    "text", ["database_url = ", "= 1", "outbox_batch = 1\noutbox_batch = 2\n", f'keks = "{CANARY}\n']
)
def test_a_file_that_is_no_toml_is_one_line(text: str) -> None:
    Path("euterpe.toml").write_text(text)
    (line,) = load_errors()
    assert line.startswith("euterpe.toml: ")
    assert CANARY not in line


def test_a_file_that_is_no_text_is_one_line() -> None:
    Path("euterpe.toml").write_bytes(b"\xff\xfe")
    assert load_errors() == ["euterpe.toml: must be UTF-8"]


def test_no_secret_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EUTERPE_KEKS", CANARY)
    monkeypatch.setenv("EUTERPE_DATABASE_URL", f"postgresql://u:{CANARY}@h/d")
    assert CANARY not in repr(load())
    assert CANARY not in load().model_dump_json()
    Path("euterpe.toml").write_text(f'keks = ["{CANARY}"]\ndatabase_url = ["{CANARY}"]\n')
    monkeypatch.delenv("EUTERPE_KEKS")
    monkeypatch.delenv("EUTERPE_DATABASE_URL")
    assert len(load_errors()) == 2
    assert CANARY not in "".join(load_errors())


def test_a_shorter_lease_is_kept_alive_by_a_shorter_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EUTERPE_LEASE_TTL_MS", "2000")
    assert load().heartbeat_interval_ms == 500
    monkeypatch.setenv("EUTERPE_LEASE_TTL_MS", "3600000")
    assert load().heartbeat_interval_ms == 15_000


def test_a_heartbeat_that_cannot_keep_a_lease_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EUTERPE_HEARTBEAT_INTERVAL_MS", "30001")
    (line,) = load_errors()
    assert line.startswith("EUTERPE_HEARTBEAT_INTERVAL_MS must be at most half of lease_ttl_ms")


def test_a_cap_below_the_first_delay_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EUTERPE_BACKOFF_BASE_MS", "900001")
    assert load_errors() == ["EUTERPE_BACKOFF_CAP_MS must be at least backoff_base_ms"]


def test_a_worker_is_its_pod_else_its_host() -> None:
    assert worker_id({"POD_NAME": "pod-7", "HOSTNAME": "host-1"}) == "pod-7"
    assert worker_id({"HOSTNAME": "host-1"}) == "host-1"
    assert worker_id({"POD_NAME": "", "HOSTNAME": "host-1"}) == "host-1"


_BOOT = """
import os
from euterpe.settings import worker_id
before = worker_id({})
assert worker_id({}) == before
print(before, flush=True)
if os.fork() == 0:
    print(worker_id({}), flush=True)
else:
    os.wait()
"""


def test_a_worker_without_either_is_new_with_every_process_start() -> None:
    """Contract §2: without POD_NAME and HOSTNAME, each process and each fork has a new UUID as worker id."""
    runs = [
        subprocess.run(
            [sys.executable, "-c", _BOOT], capture_output=True, text=True, check=True
        ).stdout.split()
        for _ in range(2)
    ]
    assert len({*runs[0], *runs[1]}) == 4


@pytest.mark.parametrize("queues", [",", "A B", "live,ünlaut"])
def test_queues_that_nothing_can_be_in_are_refused(monkeypatch: pytest.MonkeyPatch, queues: str) -> None:
    monkeypatch.setenv("EUTERPE_WORKER_QUEUES", queues)
    with pytest.raises(SettingsError, match="EUTERPE_WORKER_QUEUES"):
        load()


def test_a_worker_has_a_name_that_the_store_takes() -> None:
    assert worker_id({"POD_NAME": "p" * 300}) == "p" * 255
    assert worker_id({"POD_NAME": "pod-\udcff"}) == "pod-?"


def test_a_body_that_libsql_could_not_give_back_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EUTERPE_MAX_BODY_BYTES", str(1024 * 1024))
    assert load().max_body_bytes == 1024 * 1024
    monkeypatch.setenv("EUTERPE_DATABASE_URL", "libsql://127.0.0.1:8080")
    with pytest.raises(SettingsError, match="on libSQL"):
        load()


@pytest.mark.parametrize("name", ["CLIENT_CERT", "CLIENT_KEY"])
def test_a_client_certificate_needs_its_key(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(f"EUTERPE_{name}", "client.pem")
    assert load_errors() == ["EUTERPE_CLIENT_KEY must be set with client_cert, and only then"]
    monkeypatch.setenv("EUTERPE_CLIENT_CERT", "client.pem")
    monkeypatch.setenv("EUTERPE_CLIENT_KEY", "client.key")
    assert load().client_key == Path("client.key")


def test_the_key_of_a_remote_worker_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EUTERPE_API_KEY", CANARY)
    assert CANARY not in repr(load())
