// deflate.go -- gorilla's and nhooyr's WebSocket clients, as Debian has them, with what each can do of
// permessage-deflate: a hello, a chat, its events to the end.  For integration/test_other_clients.py.
//
//	deflate URL MESSAGE      prints a line of JSON for each
package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	gorilla "github.com/gorilla/websocket"
	nhooyr "nhooyr.io/websocket"
)

type wire interface {
	write(text []byte) error
	read() ([]byte, error)
}

type ofGorilla struct{ c *gorilla.Conn }

func (w ofGorilla) write(text []byte) error { return w.c.WriteMessage(gorilla.TextMessage, text) }
func (w ofGorilla) read() ([]byte, error) {
	_, text, err := w.c.ReadMessage()
	return text, err
}

type ofNhooyr struct {
	c   *nhooyr.Conn
	ctx context.Context
}

func (w ofNhooyr) write(text []byte) error { return w.c.Write(w.ctx, nhooyr.MessageText, text) }
func (w ofNhooyr) read() ([]byte, error) {
	_, text, err := w.c.Read(w.ctx)
	return text, err
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Numbers are without a gap, and the text is that of all tokens.
func talk(library string, extensions string, w wire, message string) {
	chat, err := json.Marshal(map[string]string{"type": "chat", "id": "2", "conversation_id": library, "message": message})
	must(err)
	must(w.write([]byte(`{"type":"hello","id":"1"}`)))
	must(w.write(chat))
	seq, text, messages := 0, sha256.New(), 0
	for ended := false; !ended; {
		got, err := w.read()
		must(err)
		messages++
		for _, line := range strings.Split(string(got), "\n") {
			var event struct {
				Type, Event string
				Seq         int
				Data        struct{ Text string }
			}
			must(json.Unmarshal([]byte(line), &event))
			if event.Type != "event" {
				continue
			}
			if event.Seq != seq+1 {
				must(fmt.Errorf("event %d follows %d", event.Seq, seq))
			}
			seq = event.Seq
			text.Write([]byte(event.Data.Text))
			ended = event.Event == "task.completed"
		}
	}
	said, err := json.Marshal(map[string]any{"library": library, "extensions": extensions, "events": seq,
		"messages": messages, "text": fmt.Sprintf("%x", text.Sum(nil))})
	must(err)
	fmt.Println(string(said))
}

func main() {
	url, message := os.Args[1], os.Args[2]
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	modes := map[string]nhooyr.CompressionMode{"nhooyr": nhooyr.CompressionContextTakeover,
		"nhooyr-alone": nhooyr.CompressionNoContextTakeover, "nhooyr-plain": nhooyr.CompressionDisabled}
	for name, mode := range modes {
		c, answer, err := nhooyr.Dial(ctx, url, &nhooyr.DialOptions{Subprotocols: []string{"holdfast.v1"},
			CompressionMode: mode, CompressionThreshold: 1})
		must(err)
		c.SetReadLimit(1 << 22)
		talk(name, answer.Header.Get("Sec-Websocket-Extensions"), ofNhooyr{c, ctx}, message)
		must(c.Close(nhooyr.StatusNormalClosure, ""))
	}
	for name, compresses := range map[string]bool{"gorilla": true, "gorilla-plain": false} {
		dialer := gorilla.Dialer{EnableCompression: compresses, Subprotocols: []string{"holdfast.v1"}}
		c, answer, err := dialer.Dial(url, nil)
		must(err)
		talk(name, answer.Header.Get("Sec-Websocket-Extensions"), ofGorilla{c}, message)
		must(c.Close())
	}
}
