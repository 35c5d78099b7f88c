"""MCP servers that nobody here wrote, from the registry, behind a react agent over a scripted model."""

import json
import os
import shutil
import subprocess

import pytest

from gateway import SUPPORT, Gateway, processes_with, wait_until, free_port
from holdfast import ids
from model_server import DONE, ModelServer, answer, call, finish, reply

NODE = os.environ.get("HOLDFAST_NODE") or shutil.which("node")
PACKAGES = SUPPORT.parent / "mcp"
MODULES = PACKAGES / "node_modules" / "@modelcontextprotocol"
EVERYTHING = MODULES / "server-everything" / "dist" / "index.js"

pytestmark = pytest.mark.skipif(not EVERYTHING.exists(), reason="tests/mcp is not installed")
