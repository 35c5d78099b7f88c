"""A model's input, and what counts as its answer: cases from public reports, on a server that is strict.

The server refuses, as the templates of many models do, what does not take turns; each test scripts what it says.
"""

import json
import threading
import time

import pytest

import model_server as m
from gateway import Gateway, wait_until
from holdfast import ids, names, new_id, text_of
from model_server import DONE, answer, call, finish, reply, text


@pytest.fixture(scope="module")
def gateway(server):
    def model(name, **options):
        return {"name": name, "base_url": server.url + "/v1", "model": "qwen3", **options}

    def agent(name, **options):
        return {"name": name, "kind": "react", "grace_s": 1, "model": "plain", "tools": ["calculator", "clock"],
                **options}

    config = {"models": [model("plain", retries=0), model("patient", retries=2),
                         model("untagged", retries=0, think_tag=""), model("seed", retries=0, think_tag="seed:think"),
                         model("narrow", retries=0, context_bytes=900)],
              "agents": [agent("plain", system="Be brief.", default=True), agent("bare"),
                         agent("patient", model="patient"), agent("untagged", model="untagged"),
                         agent("seed", model="seed"), agent("narrow", model="narrow", system="Be brief."),
                         agent("slow", idle_timeout_s=3)]}
    with Gateway(config) as running:
        yield running


@pytest.fixture
def ask(client, server):
    """ask(script, …): the ended task, its events, the requests that its model has got."""

    def run(script, message="hello", **fields):
        server.script = script
        server.requests.clear()
        task, events = client.finish(message, **fields)
        return task, events, list(server.requests)

    return run


def messages_of(request):
    return request.json["messages"]


def faults(messages):
    """The refusals of a strict template."""
    roles = [message["role"] for message in messages]
    found = [] if roles.count("system") == (roles[0] == "system") else ["a system message that is not the first"]
    turns = [message for message in messages if message["role"] != "system"]
    if turns[0]["role"] != "user":
        found.append("the user does not come first")
    open_calls = []
    for before, message in zip([{"role": "system"}] + turns, turns):
        role = message["role"]
        if role == "tool":
            if message["tool_call_id"] not in open_calls:
                found.append("a result without its call")
            else:
                open_calls.remove(message["tool_call_id"])
            continue
        if open_calls:
            found.append("a call without its result")
        if role == before["role"] and role in ("user", "assistant"):
            found.append(f"{role} twice in a row")
        if not message.get("content") and not message.get("tool_calls"):
            found.append("a message without a word")
        open_calls = [asked["id"] for asked in message.get("tool_calls", ())]
    return found


def strict(*script):
    """Each request takes the next of script, when its messages are as they must be."""
    replies = list(script)

    def serve(request):
        wrong = faults(messages_of(request))
        if wrong:
            return reply(json.dumps({"error": {"message": "; ".join(wrong)}}).encode(), status=400)
        return replies.pop(0) if len(replies) > 1 else replies[0]

    return serve


def refusal():
    return reply(b'{"error": {"message": "not today"}}', status=400)


# ------------------------------------------------------------------ turns


@pytest.mark.parametrize("agent", ["plain", "bare"])
def test_g02_failed_turn_does_not_spoil_the_conversation(ask, agent):
    conversation = new_id()
    task, _, _ = ask(strict(refusal()), "one", conversation=conversation, agent=agent)
    assert task["status"] == "failed"
    task, _, _ = ask(strict(refusal()), "two", conversation=conversation, agent=agent)
    assert task["error"]["message"].endswith("not today")  # the same refusal, not a template's
    for word in ("three", "four"):
        task, _, [request] = ask(strict(answer("Aye.")), word, conversation=conversation, agent=agent)
        assert task["output"] == "Aye.", task
    asked = [said["content"] for said in messages_of(request) if said["role"] == "user"]
    assert asked == ["one", "two", "three", "four"]  # apart, and whole


def test_g02_turn_that_is_cancelled_before_its_first_word(client, server, ask):
    conversation, never = new_id(), threading.Event()
    server.script, server.requests[:] = strict([m.head(), never]), []
    task = client.chat("one", conversation=conversation)
    server.wait_requests(1)
    client.call("cancel", **ids(task))
    assert client.wait_terminal(task)["data"]["status"] == "cancelled"
    task, _, _ = ask(strict(answer("Aye.")), "two", conversation=conversation)
    assert task["output"] == "Aye.", task


def test_g02_partial_answer_of_a_failed_turn_stays(ask):
    conversation = new_id()
    ask(strict(reply(text("I was"))), "one", conversation=conversation)
    task, _, [request] = ask(strict(answer("Aye.")), "two", conversation=conversation)
    assert task["output"] == "Aye.", task
    assert [said["content"] for said in messages_of(request)] == ["Be brief.", "one", "I was", "two"]


def test_g02_chats_side_by_side(client, server, ask):
    """Each answer comes after its own question, whichever of them ended first."""
    conversation, first, second = new_id(), threading.Event(), threading.Event()
    gates = {"one": first, "two": second}

    def serve(request):
        word = messages_of(request)[-1]["content"]
        return [m.head(), gates[word], text(f"to {word}"), finish(), DONE, m.CLOSE]

    server.script, server.requests[:] = serve, []
    tasks = {}
    for n, word in enumerate(gates):
        tasks[word] = client.chat(word, conversation=conversation)
        server.wait_requests(n + 1)
    assert not faults(messages_of(server.requests[1]))  # "one" has no answer yet
    for word in ("two", "one"):
        gates[word].set()
        client.wait_terminal(tasks[word])
    task, _, [request] = ask(strict(answer("Aye.")), "three", conversation=conversation)
    assert task["output"] == "Aye.", task
    assert [said["content"] for said in messages_of(request)] == ["Be brief.", "one", "to one", "two", "to two", "three"]


def test_g02_g26_trimming_leaves_whole_turns(client, server, ask):
    """The oldest go in whole turns, so that neither an answer nor a result of a tool comes first."""
    conversation = new_id()
    for n in range(6):
        script = [answer(f"{n}" * 100)] if n % 3 else [refusal()]
        ask(strict(*script), f"question {n} " + "x" * 60, conversation=conversation, agent="narrow")
    calls = [reply(call(0, f"c{n}", "calculator", json.dumps({"expression": "1+" * 40 + "1"})), finish("tool_calls"), DONE)
             for n in range(4)]
    task, events, requests = ask(strict(*calls, answer("Aye.")), "now", conversation=conversation, agent="narrow")
    assert task["output"] == "Aye.", task
    assert all(len(json.dumps(messages_of(request), separators=(",", ":"))) <= 900 for request in requests)
    assert any(e["event"] == "custom" and e["data"]["event_type"] == "history_shortened" for e in events)


def test_g02_message_before_the_first_word(client, server):
    """A message of the inbox after an answer without a call is the next question."""
    seen = threading.Event()
    server.script, server.requests[:] = strict([m.head(), text("One."), seen, finish(), DONE, m.CLOSE], answer("Two.")), []
    task = client.chat("first")
    client.event(task, "token")
    client.call("send", **ids(task), content="second")
    seen.set()
    client.event(task, "message")
    client.wait_terminal(task)
    assert client.task(task)["output"] == "Two."


def test_g26_notices_leave_one_system_message(client, server, ask):
    conversation = new_id()
    ask(strict(answer("Hello.")), "hello", conversation=conversation)
    job, _, _ = ask(strict(answer("All built.")), "build", conversation=conversation, background=True,
                    notify_on_complete=True, name="build")

    def notice():
        return [t for t in client.call("tasks", conversation_id=conversation)["tasks"]
                if t["type"] == "notice" and t["status"] == "completed"]

    wait_until(notice, "the notice turn")
    for word in ("and?", "and then?"):
        task, _, [request] = ask(strict(answer("Aye.")), word, conversation=conversation)
        assert task["output"] == "Aye.", task
    news = [said for said in messages_of(request) if job["task_id"] in (said["content"] or "")]
    assert [said["role"] for said in news] == ["user"] and "All built." in news[0]["content"]
    stored = client.call("history", conversation_id=conversation)["messages"]
    assert [said["role"] for said in stored].count("system") == 1  # for clients it stays what it is


def test_context_takes_turns_and_instructs_after_the_agent(ask):
    """PROTOCOL.md 8: its system messages join the agent's own, wherever they stand."""
    context = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"},
               {"role": "developer", "content": "Speak French."}]
    _, _, [request] = ask(strict(answer("Oui.")), "three", context=context)
    assert [(said["role"], said["content"]) for said in messages_of(request)] == [
        ("system", "Be brief.\n\nSpeak French."), ("user", "one"), ("assistant", "two"), ("user", "three")]
    _, _, [request] = ask(strict(answer("Oui.")), "three", context=context[2:], agent="bare")
    assert messages_of(request)[0] == {"role": "system", "content": "Speak French."}


def test_g26_silent_notice_before_a_question(client, server, ask):
    """The end of a background task that was cancelled is told in front of the next chat, and answered by nobody."""
    conversation, never = new_id(), threading.Event()
    ask(strict(answer("Hello.")), "hello", conversation=conversation)
    server.script, server.requests[:] = strict([m.head(), never]), []
    job = client.chat("build", conversation=conversation, background=True, notify_on_complete=True)
    server.wait_requests(1)
    client.call("cancel", **ids(job))
    client.wait_terminal(job)
    for word in ("and?", "and then?"):
        task, _, [request] = ask(strict(answer("Aye.")), word, conversation=conversation)
        assert task["output"] == "Aye.", task
    assert any(job["task_id"] in said["content"] for said in messages_of(request))


# ------------------------------------------------------------------ what goes back with a call


def after_a_call(ask, *pieces, calls=1):
    """The assistant's message of the request that follows a turn of these pieces."""
    script = strict(reply(*pieces, finish("tool_calls"), DONE), answer("ok"))
    task, _, requests = ask(script)
    assert task["output"] == "ok", task
    [said] = [said for said in messages_of(requests[1]) if said.get("tool_calls")]
    assert len(said["tool_calls"]) == calls
    return said


CLOCK = call(0, "a", "clock", "{}")


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "reasoning_text"])
def test_g15_thoughts_go_back_with_their_call(ask, name):
    said = after_a_call(ask, m.delta(**{name: "I want "}), m.delta(**{name: "the time 🌊"}), text("Wait."), CLOCK)
    assert said[name] == "I want the time 🌊" and said["content"] == "Wait."
    assert not [other for other in said if other.startswith("reasoning") and other != name]


def test_g15_thoughts_in_details_go_back_joined(ask):
    """As OpenRouter writes them: a text comes in pieces and goes back as one, what is hidden as it came."""
    def details(*parts):
        return m.delta(reasoning_details=list(parts))

    hidden = {"type": "reasoning.encrypted", "data": "c2VjcmV0", "id": "r1", "format": "x-v1", "index": 1}
    said = after_a_call(ask, details({"type": "reasoning.text", "text": "I want ", "index": 0, "format": "x-v1"}),
                        details({"type": "reasoning.text", "text": "the time", "index": 0, "format": "x-v1"}),
                        details({"type": "reasoning.text", "text": "", "index": 0, "signature": "sig"}), details(hidden), CLOCK)
    whole = {"type": "reasoning.text", "text": "I want the time", "index": 0, "format": "x-v1", "signature": "sig"}
    assert said["reasoning_details"] == [whole, hidden]


def test_g15_thoughts_in_details_alone_are_told(ask):
    task, events, _ = ask(strict(reply(
        m.delta(reasoning_details=[{"type": "reasoning.summary", "summary": "Hm.", "index": 0}]), text("42"), finish(), DONE)))
    assert text_of(events, "thinking") == "Hm." and task["output"] == "42"


def test_g15_thoughts_of_a_server_that_does_not_stream(ask):
    whole = {"choices": [{"finish_reason": "tool_calls", "message": {
        "role": "assistant", "content": None, "reasoning_content": "Hm.",
        "tool_calls": [{"id": "a", "type": "function", "function": {"name": "clock", "arguments": "{}"}}]}}]}
    _, _, requests = ask(strict(reply(json.dumps(whole).encode(), content_type="application/json"), answer("ok")))
    assert messages_of(requests[1])[2]["reasoning_content"] == "Hm."


def test_g15_each_turn_takes_its_own_thoughts_and_no_other_task_does(ask):
    conversation = new_id()
    _, _, requests = ask(strict(
        reply(m.delta(reasoning_content="One."), call(0, "a", "clock", "{}"), finish("tool_calls"), DONE),
        reply(call(0, "b", "clock", "{}"), finish("tool_calls"), DONE),
        reply(m.delta(reasoning_content="Three."), text("Done."), finish(), DONE)), conversation=conversation)
    said = [said.get("reasoning_content") for said in messages_of(requests[2]) if said["role"] == "assistant"]
    assert said == ["One.", None]
    _, _, [request] = ask(strict(answer("ok")), "again", conversation=conversation)
    assert not [said for said in messages_of(request) if "reasoning_content" in said]


SIGNED = {"google": {"thought_signature": "c2ln/+=="}}


def gemini(**members):
    return m.delta(tool_calls=[members])


@pytest.mark.parametrize("pieces", [
    [gemini(id="a", type="function", function={"name": "clock", "arguments": "{}"}, extra_content=SIGNED)],
    [CLOCK, gemini(index=0, extra_content=SIGNED)],
    [CLOCK, gemini(extra_content=SIGNED)],
    [CLOCK, gemini(id="a", extra_content=SIGNED, function={"arguments": ""})],
    [gemini(extra_content=SIGNED), gemini(id="a", function={"name": "clock", "arguments": "{}"})],
    [CLOCK, gemini(index=0, extra_content={"google": {}}), gemini(index=0, extra_content=SIGNED), gemini(index=0, extra_content=None)],
], ids=["with-the-call", "by-index", "nameless", "by-id", "before-the-call", "said-again"])
def test_g16_unknown_members_go_back_with_their_call(ask, pieces):
    [made] = after_a_call(ask, *pieces)["tool_calls"]
    assert made == {"id": "a", "type": "function", "function": {"name": "clock", "arguments": "{}"},
                    "extra_content": SIGNED}


def test_g16_each_call_has_its_own(ask):
    first = {"id": "a", "index": 0, "function": {"name": "clock", "arguments": "{}", "why": [1, 2.50]}, "extra_content": SIGNED}
    second = {"id": "b", "index": 0, "function": {"name": "clock", "arguments": "{}"}, "big": 12345678901234567890}
    said = after_a_call(ask, m.delta(tool_calls=[first]), m.delta(tool_calls=[second]),
                        gemini(id="a", late=True), calls=2)
    one, two = said["tool_calls"]
    assert one["extra_content"] == SIGNED and one["function"]["why"] == [1, 2.5] and one["late"] is True
    assert two["big"] == 12345678901234567890 and "extra_content" not in two and "late" not in two


def test_g16_what_hangs_on_the_message_goes_back(ask):
    said = after_a_call(ask, CLOCK, m.delta(content="", extra_content=SIGNED))
    assert said["extra_content"] == SIGNED


# ------------------------------------------------------------------ calls in a row


ONE, TWO = '{"expression":"1+1"}', '{"expression":"2+2"}'


def nameless(arguments, **members):
    return m.delta(tool_calls=[{"function": {"arguments": arguments}, **members}])


@pytest.mark.parametrize("pieces", [
    [call(0, "a", "calculator", ONE + TWO)],
    [call(0, "a", "calculator", ONE + "\n" + TWO[:7]), call(0, arguments=TWO[7:])],
    [call(0, "a", "calculator", ONE), call(0, arguments=TWO)],
    [call(0, "a", "calculator", ONE), nameless(TWO)],
    [call(0, "a", "calculator", ONE), nameless(TWO, index=0, id="")],
    [call(0, "a", "calculator", ONE), call(0, "b", "", TWO)],
    [call(0, "a", "calculator", ONE[:9]), call(0, arguments=ONE[9:]), call(0, arguments=TWO)],
    [call(0, "a", "calculator", ONE), call(0, "b", "calculator", TWO)],
    [call(0, "", "calculator", ONE), call(0, "", "calculator", TWO)],
], ids=["one-text", "one-text-in-pieces", "pieces", "pieces-without-index", "empty-id", "ids-without-names",
        "first-in-pieces", "names", "names-and-empty-ids"])
def test_g17_whole_objects_in_a_row_are_calls_of_their_own(ask, pieces):
    task, events, requests = ask(strict(reply(*pieces, finish("tool_calls"), DONE), answer("ok")))
    results = [e["data"] for e in events if e["event"] == "tool_result"]
    assert [(r["output"], r["is_error"]) for r in results] == [("2", False), ("4", False)], results
    assert len({r["call_id"] for r in results}) == 2 and task["output"] == "ok"


@pytest.mark.parametrize("pieces", [
    [call(0, "a", "calculator", ONE), call(0, arguments=ONE)],
    [call(0, "a", "calculator", ONE + ONE)],
    [call(0, "a", "calculator", ONE[:9]), call(0, arguments=ONE[:14]), call(0, arguments=ONE)],
    [call(0, "a", "calculator", '{"expression":"1+1","note":"}{"}')],
], ids=["again", "again-in-one-text", "growing", "brackets-in-a-text"])
def test_g17_one_call_stays_one(ask, pieces):
    _, events, _ = ask(strict(reply(*pieces, finish("tool_calls"), DONE), answer("ok")))
    assert len([e for e in events if e["event"] == "tool_call"]) == 1


def test_g17_what_cannot_be_told_apart_is_made_with_nothing_by_nobody(ask):
    broken = call(0, "a", "calculator", ONE + '{"expression":')
    _, events, requests = ask(strict(reply(broken, finish("tool_calls"), DONE), answer("ok")))
    [result] = [e["data"] for e in events if e["event"] == "tool_result"]
    assert result["is_error"] and "not JSON" in result["output"]


# ------------------------------------------------------------------ empty answers


EMPTY = {"nothing": [], "role": [m.delta(role="assistant", content="")], "blank": [text("\n"), text("\n \n")],
         "parts": [m.delta(content=[])], "empty-call": [m.delta(tool_calls=[{"index": 0, "function": {}}])],
         "empty-thought": [text("<think>\n"), text("\n</think>\n\n")]}


@pytest.mark.parametrize("kind", EMPTY)
def test_g19_empty_answer_is_a_failure(ask, kind):
    task, events, requests = ask([reply(*EMPTY[kind], finish(), DONE)])
    assert (task["status"], task["error"]["code"]) == ("failed", "agent_error"), task
    assert "ended" in task["error"]["message"] and "without an answer" in task["error"]["message"]
    assert not task.get("output") and text_of(events) == "" and len(requests) == 1


@pytest.mark.parametrize("kind", ["nothing", "role", "blank"])
def test_g19_empty_answer_is_asked_for_again(ask, kind):
    empty = reply(*EMPTY[kind], finish(), m.usage(5, 1), DONE)
    task, _, requests = ask([empty, empty, reply(text("At last."), finish(), m.usage(5, 2), DONE)], agent="patient")
    assert task["output"] == "At last." and len(requests) == 3
    assert requests[0].json == requests[2].json
    assert task["result"]["usage"] == {"prompt_tokens": 15, "completion_tokens": 4, "total_tokens": 19}
    task, _, requests = ask([empty], agent="patient")
    assert task["status"] == "failed" and len(requests) == 3


def test_g19_empty_answer_on_a_connection_that_stays_open(ask):
    never = threading.Event()
    task, _, requests = ask([[m.head(), finish(), DONE, text("late"), never], [m.head(), finish(), never], answer("At last.")],
                            agent="patient")
    assert task["output"] == "At last." and len(requests) == 3


def test_g19_empty_answer_of_a_server_that_does_not_stream(ask):
    whole = {"choices": [{"message": {"role": "assistant", "content": ""}, "finish_reason": "stop"}]}
    task, _, requests = ask([reply(json.dumps(whole).encode(), content_type="application/json"), answer("At last.")],
                            agent="patient")
    assert task["output"] == "At last." and len(requests) == 2


def test_g19_thoughts_alone_are_no_answer(ask):
    task, events, requests = ask([reply(m.delta(reasoning_content="Hm."), finish(), DONE)], agent="patient")
    assert task["status"] == "failed" and "without an answer" in task["error"]["message"]
    assert text_of(events, "thinking") == "Hm." and len(requests) == 1  # it was handed out: nothing is doubled


def test_g19_empty_turn_after_a_call_is_an_end(ask):
    for last in ([], [text("\n\n")]):
        task, _, requests = ask([reply(text("Look."), CLOCK, finish("tool_calls"), DONE), reply(*last, finish(), DONE)])
        assert (task["status"], task["output"], len(requests)) == ("completed", "Look.", 2)


def test_g19_failed_empty_turn_leaves_a_conversation_that_goes_on(ask):
    conversation = new_id()
    ask(strict(reply(finish(), DONE)), "one", conversation=conversation)
    task, _, _ = ask(strict(answer("Aye.")), "two", conversation=conversation)
    assert task["output"] == "Aye.", task


def test_g19_refusal_is_an_answer(ask):
    for pieces in ([m.delta(content="", refusal="I will not.")], [m.delta(content=[], refusal="I will not.")],
                   [m.delta(content=[{"type": "refusal", "refusal": "I will not."}])]):
        task, _, _ = ask([reply(*pieces, finish(), DONE)])
        assert (task["status"], task["output"]) == ("completed", "I will not.")


def test_g19_white_space_before_an_answer_stays(ask):
    task, events, _ = ask([reply(text("\n"), text("  "), text("42"), finish(), DONE)])
    assert task["output"] == text_of(events) == "\n  42"


# ------------------------------------------------------------------ thoughts between tags


@pytest.mark.parametrize("step", [1, 3, 7, 100])
def test_g21_tags_become_thinking(ask, step):
    conversation, whole = new_id(), "<think>\nSix times seven… </think>\n\nIt is **42** 🌊."
    pieces = [text(whole[at:at + step]) for at in range(0, len(whole), step)]
    task, events, _ = ask(strict(reply(*pieces, finish(), DONE)), conversation=conversation)
    assert task["output"] == text_of(events) == "It is **42** 🌊."
    assert text_of(events, "thinking") == "\nSix times seven… "
    _, _, [request] = ask(strict(answer("ok")), "again", conversation=conversation)
    assert messages_of(request)[2] == {"role": "assistant", "content": "It is **42** 🌊."}


def test_g21_tags_in_a_turn_that_calls(ask):
    said = after_a_call(ask, text("<think>The time.</th"), text("ink>Wait."), CLOCK)
    assert said["content"] == "Wait."


def test_g21_closing_tag_alone(ask):
    """Many templates put the opening one into the prompt: what was streamed cannot be taken back, the answer can."""
    conversation = new_id()
    task, events, _ = ask(strict(reply(text("Hm. "), text("So.</thi"), text("nk>\n\n42"), finish(), DONE)),
                          conversation=conversation)
    assert task["output"] == "42" and [e["data"]["output"] for e in events if e["event"] == "final_answer"] == ["42"]
    _, _, [request] = ask(strict(answer("ok")), "again", conversation=conversation)
    assert messages_of(request)[2]["content"] == "42"


def test_g21_tag_that_the_answer_speaks_of_stays(ask):
    for whole in ("Write `<think>` first.", "```\n<think>\nx\n</think>\n```", "a < b, <thinking>"):
        task, events, _ = ask([reply(text(whole), finish(), DONE)])
        assert task["output"] == whole and "thinking" not in names(events)
    task, _, _ = ask([reply(text("Use <think> for it."), finish(), DONE)])
    assert task["output"] == "Use <think> for it."  # never closed: it was none


def test_g21_model_says_which_tag(ask):
    whole = "<think>hm</think><seed:think>so</seed:think>42"
    task, _, _ = ask([reply(text(whole), finish(), DONE)], agent="untagged")
    assert task["output"] == whole
    task, events, _ = ask([reply(text("<seed:think>so</seed:think>42 <think>"), finish(), DONE)], agent="seed")
    assert task["output"] == "42 <think>" and text_of(events, "thinking") == "so"


def test_g21_tags_of_a_server_that_does_not_stream(ask):
    whole = {"choices": [{"message": {"content": "<think>hm</think>\n\n42"}, "finish_reason": "stop"}]}
    task, events, _ = ask([reply(json.dumps(whole).encode(), content_type="application/json")])
    assert task["output"] == "42" and text_of(events, "thinking") == "hm"


# ------------------------------------------------------------------ the end is the end


def stays_open():
    return threading.Event()


@pytest.mark.parametrize("end", [[finish(), DONE], [finish()], [finish(), m.usage(3, 4)],
                                 [finish(), DONE, text("late"), finish("length"), b"data: {nonsense\n\n"]],
                         ids=["done", "reason", "usage", "after-done"])
def test_end_is_the_end_of_a_model_on_a_connection_that_stays_open(ask, client, server, end):
    began = time.monotonic()
    task, _, [request] = ask([[m.head(Transfer_Encoding="chunked"), *chunked(text("Hello"), *end), stays_open()]])
    assert (task["status"], task["output"]) == ("completed", "Hello")
    assert time.monotonic() - began < 60  # idle_timeout_s of a model is 120
    wait_until(lambda: request.left, "the connection's end")


def chunked(*parts):
    return [b"%x\r\n%s\r\n" % (len(part), part) for part in parts]


def test_end_is_the_end_of_a_model_whose_comments_go_on(ask, server):
    task, _, _ = ask([[m.head(), text("Hello"), finish(), *([b": on\n\n", Pause()] * 600)]])
    assert (task["status"], task["output"]) == ("completed", "Hello")
    wait_until(lambda: server.requests[0].left, "the connection's end")


class Pause(threading.Event):
    """A tenth of a second between two bytes: what is waited for is time itself."""

    def wait(self, timeout=None):
        return super().wait(0.1) or True


def test_usage_within_the_grace_counts(ask):
    seen = threading.Event()
    threading.Timer(0.2, seen.set).start()
    task, _, _ = ask([[m.head(), text("Hello"), finish(), seen, m.usage(3, 4), stays_open()]])
    assert task["result"]["usage"]["total_tokens"] == 7


def test_answer_that_goes_on_after_a_reason_is_whole(ask):
    """There are servers that give each piece a reason: the grace begins anew with each."""
    def piece(word):
        return m.data({"choices": [{"delta": {"content": word}, "finish_reason": "stop"}]})

    steps = [step for n in range(18) for step in (piece(f"{n} "), Pause())]
    task, _, _ = ask([[m.head(), *steps, stays_open()]])
    assert task["output"] == "".join(f"{n} " for n in range(18))


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
def test_whole_reply_on_a_connection_that_stays_open(ask, kind):
    whole = json.dumps({"choices": [{"message": {"content": "All {at} \"once\"."}, "finish_reason": "stop"}]}, indent=1).encode()
    for step in (1, 1000):
        pieces = [whole[at:at + step] for at in range(0, len(whole), step)]
        task, _, _ = ask([[m.head(content_type=kind), *pieces, stays_open()]])
        assert (task["status"], task["output"]) == ("completed", 'All {at} "once".')


# ------------------------------------------------------------------ what holds


def test_g03_deleted_conversation_ends_its_generation(client, clients, server):
    conversation, never = new_id(), threading.Event()
    server.script, server.requests[:] = [[m.head(), text("One "), never]], []
    with clients(token=client.token) as tab:
        tab.call("watch")
        task = client.chat("hello", conversation=conversation)
        client.event(task, "token")
        assert client.call("delete", conversation_id=conversation)
        wait_until(lambda: server.requests[0].left, "the model's connection")
        gone = tab.expect(lambda line: line["type"] == "conversation_changed" and line.get("deleted"))
        assert gone["conversation"]["conversation_id"] == conversation
    client.refused("not_found", "task", **ids(task))
    assert client.call("history", conversation_id=conversation)["messages"] == []
    assert conversation not in [c["conversation_id"] for c in client.call("conversations")["conversations"]]
