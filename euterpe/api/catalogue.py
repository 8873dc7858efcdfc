"""GET /transcode/profiles: the ready-made outputs, with all their settings."""

from starlette.requests import Request
from starlette.responses import Response

from euterpe.api.answers import json_answer
from euterpe.api.service import Service
from euterpe.domain.profiles import PROFILES
from euterpe.domain.scopes import Scope

_DOCUMENT = {
    "profiles": [
        {
            "name": profile.name,
            "description": profile.description,
            "outputs": [output.model_dump(mode="json") for output in profile.outputs],
        }
        for profile in PROFILES.values()
    ]
}


class Catalogue:
    def __init__(self, service: Service) -> None:
        self._door = service.door

    async def get(self, request: Request) -> Response:
        await self._door.admit(request, Scope.READ)
        return json_answer(_DOCUMENT)
