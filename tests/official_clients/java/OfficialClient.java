// What an application does with the official Java client, against the server at MAINSTEM_URL. Prints the results as JSON.

import com.durablestreams.ChunkIterator;
import com.durablestreams.DurableStream;
import com.durablestreams.IdempotentProducer;
import com.durablestreams.exception.DurableStreamException;
import com.durablestreams.exception.StaleEpochException;
import com.durablestreams.exception.StreamClosedException;
import com.durablestreams.exception.StreamNotFoundException;
import com.durablestreams.model.LiveMode;
import com.durablestreams.model.ReadOptions;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

public final class OfficialClient {
    private static final String ROOT = System.getenv("MAINSTEM_URL") + "/v1/stream/java/";
    private static final DurableStream CLIENT = DurableStream.create();
    private static final Map<String, String> SEEN = new LinkedHashMap<>();

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String create(String name, String contentType) {
        CLIENT.create(ROOT + name, contentType);
        return ROOT + name;
    }

    /** The items of a JSON stream, one by one. They contain no commas or brackets. */
    private static final class Items {
        private final ChunkIterator chunks;
        private final ArrayDeque<String> waiting = new ArrayDeque<>();

        Items(ChunkIterator chunks) {
            this.chunks = chunks;
        }

        /** Returns the next item, or null at the end. */
        String next() {
            while (waiting.isEmpty()) {
                if (!chunks.hasNext()) {
                    return null;
                }
                String array = chunks.next().getDataAsString();
                if (array.length() > 2) {
                    waiting.addAll(List.of(array.substring(1, array.length() - 1).split(",")));
                }
            }
            return waiting.poll();
        }
    }

    private static void note(String name, List<String> items) {
        SEEN.put(name, items.stream().collect(Collectors.joining(",", "[", "]")));
    }

    private static void appendAndRead() {
        String plain = create("plain", "text/plain");
        CLIENT.append(plain, bytes("grüße "));
        CLIENT.append(plain, bytes("zwei"));
        StringBuilder text = new StringBuilder();
        try (ChunkIterator chunks = CLIENT.read(plain)) {
            for (var chunk : chunks) {
                text.append(chunk.getDataAsString());
            }
        }
        SEEN.put("text", '"' + text.toString() + '"');
        boolean missing = false;
        try {
            CLIENT.head(ROOT + "missing");
        } catch (StreamNotFoundException expected) {
            missing = true;
        }
        SEEN.put("missing", String.valueOf(missing));
    }

    private static void produce(String url, long epoch, int from, int until) {
        var config = IdempotentProducer.Config.builder().epoch(epoch).contentType("application/json").build();
        try (IdempotentProducer producer = CLIENT.producer(url, "producer", config)) {
            for (int number = from; number < until; number++) {
                producer.append(String.valueOf(number));
            }
            producer.flush();
        }
    }

    private static void produceWithBatches() {
        String produced = create("produced", "application/json");
        produce(produced, 0, 0, 200);
        produce(produced, 1, 200, 201);
        boolean fenced = false;
        try {
            produce(produced, 0, -1, 0);
        } catch (StaleEpochException expected) {
            fenced = true;
        }
        SEEN.put("fenced", String.valueOf(fenced));
        List<String> numbers = new ArrayList<>();
        try (ChunkIterator chunks = CLIENT.read(produced)) {
            Items items = new Items(chunks);
            for (String item = items.next(); item != null; item = items.next()) {
                numbers.add(item);
            }
        }
        note("produced", numbers);
    }

    private static void follow(LiveMode live) {
        String name = live.getWireValue();
        String url = create(name, "application/json");
        CLIENT.append(url, bytes("\"before\""));
        List<String> found = new ArrayList<>();
        try (ChunkIterator chunks = CLIENT.read(url, ReadOptions.fromBeginning().live(live))) {
            Items items = new Items(chunks);
            found.add(items.next());
            CLIENT.append(url, bytes("\"during\""));
            found.add(items.next());
            CLIENT.append(url, bytes("\"after\""));
            found.add(items.next());
        }
        // Not earlier: over SSE this client may drop received data when its connection ends, or wait another minute.
        CLIENT.close(url);
        note(name, found);
        boolean refused = false;
        try {
            CLIENT.append(url, bytes("\"late\""));
        } catch (StreamClosedException expected) {
            refused = true;
        }
        SEEN.put("refused-" + name, String.valueOf(refused));
    }

    public static void main(String[] arguments) {
        try {
            appendAndRead();
            produceWithBatches();
            follow(LiveMode.SSE);
            follow(LiveMode.LONG_POLL);
        } catch (DurableStreamException failure) {
            failure.printStackTrace();
            System.exit(1);
        }
        String members = SEEN.entrySet().stream()
                .map(entry -> '"' + entry.getKey() + "\":" + entry.getValue())
                .collect(Collectors.joining(",", "{", "}"));
        System.out.write(bytes(members), 0, bytes(members).length);
        System.out.flush();
        System.exit(0); // the threads of the HTTP client would keep the process alive
    }
}
