// Plain.java -- the WebSocket client of Java's own library, which knows no compression: a hello, a chat, its events to
// the end.  For integration/test_other_clients.py.
//
//     java Plain.java URL HELLO-LINES...      prints each message that comes, with its lines

import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.WebSocket;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.TimeUnit;

public class Plain implements WebSocket.Listener {
    private final StringBuilder text = new StringBuilder();
    private final CompletableFuture<Void> ended = new CompletableFuture<>();

    @Override
    public CompletionStage<?> onText(WebSocket socket, CharSequence data, boolean last) {
        text.append(data);
        if (last) {
            System.out.println(text);
            if (text.indexOf("\"event\":\"task.completed\"") >= 0)
                ended.complete(null);
            text.setLength(0);
        }
        socket.request(1);
        return null;
    }

    @Override
    public void onError(WebSocket socket, Throwable error) {
        ended.completeExceptionally(error);
    }

    public static void main(String[] args) throws Exception {
        System.setOut(new java.io.PrintStream(System.out, true, "UTF-8"));
        Plain listener = new Plain();
        WebSocket socket = HttpClient.newHttpClient().newWebSocketBuilder().subprotocols("holdfast.v1")
                .buildAsync(URI.create(args[0]), listener).get(60, TimeUnit.SECONDS);
        for (int i = 1; i < args.length; i++)
            socket.sendText(args[i], true).get(60, TimeUnit.SECONDS);
        listener.ended.get(60, TimeUnit.SECONDS);
        socket.sendClose(WebSocket.NORMAL_CLOSURE, "").get(60, TimeUnit.SECONDS);
    }
}
