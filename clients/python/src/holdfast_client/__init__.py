"""Conversations and tasks of a Holdfast gateway, in asyncio.

    async with connect("ws://127.0.0.1:8080/v1/ws") as client:
        task = await client.conversation("c-1").ask("count to 5 slowly")
        async for event in task.events():
            print(event.name, event.data)

The client reconnects after every loss, resumes followed tasks without a gap, and starts each message once.
"""

from .client import Client, connect
from .conversation import Conversation
from .errors import HoldfastError, TaskFailed
from .list import ConversationList
from .outbox import Outgoing
from .sentences import SENTENCES, detail_of, may_retry, sentence_of
from .sharing import take_over
from .task import Event, Result, Task
from .transcript import Other, Part, Question, Text, Tool, Transcript
from .verify import Proof, verify
from .watch import Watch, Watched

__all__ = [
    "Client",
    "Conversation",
    "ConversationList",
    "Event",
    "HoldfastError",
    "Other",
    "Outgoing",
    "Part",
    "Proof",
    "Question",
    "Result",
    "SENTENCES",
    "Task",
    "TaskFailed",
    "Text",
    "Tool",
    "Transcript",
    "Watch",
    "Watched",
    "connect",
    "detail_of",
    "may_retry",
    "sentence_of",
    "take_over",
    "verify",
]
