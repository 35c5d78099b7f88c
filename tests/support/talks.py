"""holdfast chat in a test: for one gateway, with a state directory of its own."""

import os
import pathlib

from holdfast import Client, program
from terminal import Command, Screen


HINT = "Ask something; /help lists the commands."


class Chat:
    """holdfast chat for one gateway, with a state directory of its own."""

    def __init__(self, gateway, folder):
        self.gateway = gateway
        self.environ = {**os.environ, "XDG_STATE_HOME": str(folder), "TERM": "xterm"}
        for name in ("HOLDFAST_TOKEN", "NO_COLOR"):
            self.environ.pop(name, None)

    @property
    def url(self):
        return f"ws://{self.gateway.host}:{self.gateway.port}"

    def start(self, *arguments, **options):
        return Command("chat", self.url, *arguments, environ=self.environ, **options)

    def talk(self, *arguments, **options):
        """On a terminal whose screen is looked at, from its first prompt."""
        talk = Screen("chat", self.url, *arguments, environ=self.environ, **options)
        talk.until_lines(HINT, ">")
        return talk

    def run(self, *arguments, **options):
        return self.start(*arguments, **options).end()

    def ask(self, *steps, **options):
        return self.run(program(*steps), **options)

    def token_file(self):
        return next(pathlib.Path(self.environ["XDG_STATE_HOME"], "holdfast").glob("*.token"))

    def client(self):
        """The same guest over the tests' own client."""
        return Client(self.gateway, token=self.token_file().read_text())
