"""The demo: run a profile with `simctl`, which prints its progress and its result."""

import os
import sys

import requests

from localstack.console import print_output
from localstack.stack import CHECKOUT, HOST, Stack, local_http

PROFILE = "minisim/profiles/frost_mage_gear.simc"
# The beginning of the built-in simulator's version
BUILT_IN = "minisim "


def show(stack: Stack) -> bool:
    """Run the demo job, then print the addresses of the service. Return False if the job did not complete.

    Its profile is made for the built-in simulator. If another build is newer, no job is submitted.
    """
    api = f"{stack.url}/v1/{os.environ.get('API_RESOURCE') or 'sim'}"
    try:
        response = local_http().get(
            f"{api}/builds", headers={"Authorization": f"Bearer {stack.api_key}"}, timeout=30
        )
        response.raise_for_status()
    except requests.RequestException as error:
        print_output(f"The demo failed: {error}")
        return False
    newest = next((each["simcVersion"] for each in response.json()["builds"] if each["channel"] == "latest"), "")
    if newest and not newest.startswith(BUILT_IN):
        print_output(
            f"The newest build is SimulationCraft {newest}. No demo job was submitted, because the demo's profile "
            "works only with the built-in simulator."
        )
        is_completed = True
    else:
        command = [sys.executable, "-m", "simservice_client.cli", "run", "--html", PROFILE]
        access = {"SIMSERVICE_URL": api, "SIMSERVICE_API_KEY": stack.api_key, "NO_PROXY": HOST}
        is_completed = stack.supervisor.run(command, folder=CHECKOUT, environment=os.environ | access) == 0
    print_output(
        f"\nDashboard  {stack.url}/dashboard/\n"
        f"Admin      {stack.url}/admin/\n"
        f"Login      {stack.user} / {stack.password}\n"
        f"API key    {stack.api_key}\n"
        f"Try        curl -H 'Authorization: Bearer {stack.api_key}' {api}/jobs\n"
        f"simctl     .venv/bin/simctl login --url {stack.url}\n"
        f"           .venv/bin/simctl run {PROFILE}\n"
    )
    return is_completed
