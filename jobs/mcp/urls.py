"""The URL pattern of the MCP server."""

from django.urls import path

from jobs.mcp.view import McpView

urlpatterns = [path("mcp", McpView.as_view(), name="mcp")]
