"""Public generators make clients from the OpenAPI document. These clients compile, and can submit a job."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from euterpe.api.backpressure import ApiLimits
from euterpe.api.openapi import openapi_document
from tests.api.serving import Requester, Served
from tests.node import NODE_MODULES, node_env, run_node

GENERATOR = Path(sys.prefix) / "openapi_client" / "bin"

TYPESCRIPT = """
import createClient from "openapi-fetch";
import type { components, paths } from "./schema";

const [baseUrl, key] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl, headers: { authorization: `Bearer ${key}` } });
const hls: components["schemas"]["HlsOutput"] = {
  name: "hls", type: "hls", video: { codec: "h264", ladder: [720, 480] },
};
const spec: components["schemas"]["JobSpec"] = {
  source: { url: "file:///media/in.mp4" },
  output: { url: "file:///media/out/" },
  outputs: [hls, { name: "poster", type: "image", at: ["50%"] }],
  metadata: { title: "Interview" },
};

async function main() {
  const { data, error } = await client.POST("/transcode", { body: spec });
  if (error) throw new Error(JSON.stringify(error));
  if (!("job_id" in data)) throw new Error("the answer to a dry run");
  const found = await client.GET("/transcode/status", { params: { query: { job_id: [data.job_id] } } });
  const job = found.data as components["schemas"]["Job"];
  const errorCode: string | undefined = job.error?.code;
  const url: string | undefined = job.outputs[0]?.url;
  console.log(JSON.stringify({ id: job.job_id, status: job.status, errorCode, url }));
}
main();
"""

PYTHON = """
import sys

from generated import AuthenticatedClient
from generated.api.jobs import get_status, submit_job
from generated.models import ImageOutput, Job, JobSpec, Output, Problem, Source

url, key = sys.argv[1:]
client = AuthenticatedClient(base_url=url, token=key)
spec = JobSpec(
    source=Source(url="file:///media/in.mp4"),
    output=Output(url="file:///media/out/"),
    outputs=[ImageOutput(name="poster", type_="image", at=["50%"])],
)
job = submit_job.sync(client=client, body=spec)
assert isinstance(job, Job), job
found = get_status.sync(client=client, job_id=[str(job.job_id)])
assert isinstance(found, Job), found
spec.outputs[0].at = ["never"]
problem = submit_job.sync(client=client, body=spec)
assert isinstance(problem, Problem) and problem.errors[0].msg, problem
print(found.job_id, found.status.value)
"""


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("openapi") / "openapi.json"
    path.write_text(json.dumps(openapi_document(ApiLimits())))
    return path


def run(command: Sequence[str | Path], cwd: Path) -> str:
    ran = subprocess.run(command, cwd=cwd, env=node_env(), capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"
    return ran.stdout + ran.stderr


def test_redocly_finds_no_error_and_no_warning(document: Path) -> None:
    said = run([NODE_MODULES / ".bin" / "redocly", "lint", document], document.parent)
    assert "Your API description is valid." in said
    assert "warning" not in said.lower().replace("deprecation warning: node", "")


def test_a_typescript_client_compiles_and_submits_a_job(
    served: Served, requester: Requester, document: Path, tmp_path: Path
) -> None:
    (tmp_path / "node_modules").symlink_to(NODE_MODULES)
    run([NODE_MODULES / ".bin" / "openapi-typescript", document, "-o", "schema.d.ts"], tmp_path)
    (tmp_path / "declarations.d.ts").write_text("declare const process: { argv: string[] };")
    (tmp_path / "submit.ts").write_text(TYPESCRIPT)
    options = ["--strict", "--module", "nodenext", "--target", "es2022", "--lib", "es2022,dom,dom.iterable"]
    sources = ["submit.ts", "declarations.d.ts"]
    run([NODE_MODULES / ".bin" / "tsc", *options, "--preserveSymlinks", *sources], tmp_path)
    job = json.loads(run_node(tmp_path / "submit.js", served.url, requester.key, cwd=tmp_path))
    assert job["status"] == "queued"
    assert requester.status(job["id"]).json()["metadata"] == {"title": "Interview"}


def test_a_python_client_compiles_and_submits_a_job(
    served: Served, requester: Requester, document: Path, tmp_path: Path
) -> None:
    options: list[str | Path] = [
        "--path",
        document,
        "--output-path",
        "generated",
        "--meta",
        "none",
        "--fail-on-warning",
    ]
    (tmp_path / "config.yml").write_text("post_hooks: []\n")
    run([GENERATOR / "openapi-python-client", "generate", "--config", "config.yml", *options], tmp_path)
    run([sys.executable, "-W", "error", "-m", "compileall", "-q", "generated"], tmp_path)
    (tmp_path / "submit.py").write_text(PYTHON)
    said = run([GENERATOR / "python", "submit.py", served.url, requester.key], tmp_path).split()
    assert said[1] == "queued"
    assert requester.status(said[0]).status_code == 200
