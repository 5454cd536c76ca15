package millrace.flink;

import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Drives Flink's autoscaler for another process: one JSON object a line on stdin, one answer a line on stdout, until
 * stdin ends.
 *
 * <p>{@code {"op": "open", "session", "options", "downtime_ms", "window_looks"}} begins a job, {@code {"op": "look",
 * "session", "time_ms", "period_ms", "min_parallelism", "max_parallelism", "vertices"}} shows it a period and is
 * answered {@code {"parallelism": {...}, "events": [...]}}. An answer {@code {"error": ...}} says what went wrong.
 */
public final class Harness {

    /** Jobs whose sessions are kept; whoever drives many runs never says which is over. */
    private static final int SESSIONS = 256;

    private final ObjectMapper json = new ObjectMapper();
    private final Map<String, Session> sessions =
            new LinkedHashMap<>(16, 0.75f, true) {
                @Override
                protected boolean removeEldestEntry(Map.Entry<String, Session> eldest) {
                    return size() > SESSIONS;
                }
            };

    private Harness() {}

    public static void main(String[] args) throws IOException {
        OutputStream answers = new FileOutputStream(FileDescriptor.out);
        // whatever a library prints must not end up between the answers
        System.setOut(new PrintStream(new FileOutputStream(FileDescriptor.err), true));
        var harness = new Harness();
        var questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            answers.write((harness.answer(line) + "\n").getBytes(StandardCharsets.UTF_8));
            answers.flush();
        }
    }

    private String answer(String line) throws IOException {
        ObjectNode answer = json.createObjectNode();
        try {
            var question = json.readTree(line);
            fill(answer, question, question.path("session").asText());
        } catch (Exception | LinkageError e) {
            e.printStackTrace();
            answer.removeAll();
            answer.put("error", String.valueOf(e.getMessage()));
        }
        return json.writeValueAsString(answer);
    }

    private void fill(ObjectNode answer, JsonNode question, String name) throws Exception {
        switch (question.path("op").asText()) {
            case "open" -> sessions.put(name, new Session(name, question));
            case "look" -> {
                var session = sessions.get(name);
                if (session == null) {
                    throw new IllegalArgumentException("no session " + name + " in this process, or not any more");
                }
                var came = session.look(question);
                came.parallelism().forEach(answer.putObject("parallelism")::put);
                came.events().forEach(answer.putArray("events")::add);
            }
            default -> throw new IllegalArgumentException("no such op: " + question.path("op"));
        }
    }
}
