"""A gateway by script, whose one task asks "Which?" and ends with the answer. The first answer does not arrive."""

import json

from lost_history import IDS, LostHistory

ASKS = [("task.created", {}), ("input_required", {"input_id": "q", "kind": "question", "prompt": "Which?"})]


class AskingGateway(LostHistory):
    """first: what comes of the first answer, an error's code or None: the connection breaks. answers: all that came;
    answered: the questions that they are for."""

    def __init__(self, first):
        super().__init__()
        self.epochs = [(6, ASKS), (6, ASKS)]
        self.first, self.answers, self.answered = first, [], []

    async def on_resume(self, wire, line, epoch, events):
        self.asked.append((line["after"], line.get("epoch")))
        task = {**IDS, "status": "running", "agent": "a", "head": len(events)}
        await wire.send(json.dumps({"type": "resumed", "id": line["id"], "task": task, "after": line["after"],
                                    "head": len(events), "epoch": epoch}))
        await wire.send(json.dumps({"type": "caught_up", "seq": len(events), "task_id": IDS["task_id"]}))

    async def on_respond(self, wire, line, _, events):
        self.answers.append(line["answer"])
        self.answered.append(line["input_id"])
        if len(self.answers) == 2:
            said = {"input_id": line["input_id"], "answer": line["answer"]}
            done = {"status": "completed", "output": line["answer"]}
            await wire.send(json.dumps({"type": "ok", "id": line["id"]}))
            await self.tell(wire, [*events, ("input_received", said), ("task.completed", done)])
        elif self.first:
            await wire.send(json.dumps({"type": "error", "id": line["id"], "code": self.first, "message": "not now",
                                        "retry_after_ms": 100}))
        else:
            await wire.close()
