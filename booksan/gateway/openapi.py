"""The OpenAPI document."""

from typing import Any

from booksan.gateway.config import GatewayConfig


def document(config: GatewayConfig) -> dict[str, Any]:
    return {}
