#!/usr/bin/env python3
"""An agent of kind http, in Python: a small server that answers each run with an event stream."""
import http.server
import json
import sys


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        run = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        words = run["input"].split()
        for number, word in enumerate(words, 1):
            self.say("token", text=word[::-1] + " ")
            self.say("progress", progress=number / len(words))
        # Without a Content-Length or chunks, only this is the end for the gateway.
        self.say("final_answer", output=" ".join(word[::-1] for word in words))

    def say(self, event, **data):
        line = json.dumps({"event": event, "data": data})
        self.wfile.write(f"data: {line}\n\n".encode())
        self.wfile.flush()  # a broken pipe here means: the task was cancelled

    def log_message(self, *_):
        pass


with http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler) as server:
    print(f"listening on {server.server_address[1]}", flush=True)
    server.serve_forever()
