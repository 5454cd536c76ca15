package millrace.flink;

import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.autoscaler.JobAutoScalerContext;
import org.apache.flink.autoscaler.JobAutoScalerImpl;
import org.apache.flink.autoscaler.ScalingExecutor;
import org.apache.flink.autoscaler.ScalingMetricEvaluator;
import org.apache.flink.autoscaler.SimulatedClock;
import org.apache.flink.autoscaler.config.AutoScalerOptions;
import org.apache.flink.autoscaler.realizer.ScalingRealizer;
import org.apache.flink.autoscaler.state.InMemoryAutoScalerStateStore;
import org.apache.flink.autoscaler.tuning.ConfigChanges;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.metrics.groups.UnregisteredMetricsGroup;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;

import java.time.Duration;
import java.time.Instant;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/** One job under its own autoscaler, from its first look to its last. */
final class Session {

    /** What a look came to. */
    record Answer(Map<String, Integer> parallelism, List<String> events) {}

    private final String job;
    private final Configuration options;
    private final Duration downtime;
    private final int windowLooks;

    private final SimulatedClock clock = new SimulatedClock();
    private final SimulatedMetrics metrics = new SimulatedMetrics();
    private final Events events = new Events();
    private final JobAutoScalerImpl<String, JobAutoScalerContext<String>> autoScaler;

    private final Map<String, Vertex> vertices = new LinkedHashMap<>();
    private Map<String, Integer> ran = Map.of();
    private Instant lastLook;
    private Instant runningSince;
    private Map<String, String> realized = Map.of();

    /**
     * @param job its name, unique to this process
     * @param opened the options of Flink under {@code options}, the plant's {@code downtime_ms}, {@code window_looks}
     */
    Session(String job, JsonNode opened) throws ReflectiveOperationException {
        this.job = job;
        Map<String, String> given = new LinkedHashMap<>();
        opened.path("options").fields().forEachRemaining(e -> given.put(e.getKey(), e.getValue().asText()));
        options = Configuration.fromMap(given);
        options.set(AutoScalerOptions.AUTOSCALER_ENABLED, true);
        downtime = Duration.ofMillis(opened.path("downtime_ms").asLong());
        windowLooks = opened.path("window_looks").asInt();

        var store = new InMemoryAutoScalerStateStore<String, JobAutoScalerContext<String>>();
        var executor = new ScalingExecutor<>(events, store);
        autoScaler =
                new JobAutoScalerImpl<>(
                        metrics, new ScalingMetricEvaluator(), executor, events, new Realizer(), store);
        clock.drive(autoScaler, metrics, executor);
    }

    /** Shows the autoscaler a period and returns the parallelism that it wants, of the vertices that it may size. */
    Answer look(JsonNode look) throws Exception {
        var now = Instant.ofEpochMilli(look.path("time_ms").asLong());
        var period = Duration.ofMillis(look.path("period_ms").asLong());
        observe(look.path("vertices"), now, period);
        metrics.report(vertices.values(), look.path("max_parallelism").asInt(), runningSince);
        clock.set(now);
        realized = Map.of();
        autoScaler.scale(context(look, period));
        return new Answer(wanted(), events.take());
    }

    private void observe(JsonNode measured, Instant now, Duration period) {
        if (lastLook != null && !now.isAfter(lastLook)) {
            throw new IllegalArgumentException("a look at " + now + " came after one at " + lastLook);
        }
        var running = new LinkedHashMap<String, Integer>();
        // what is not sized never restarts the job, however its p was measured; a vertex that comes or goes does
        measured.forEach(
                v -> running.put(
                        v.path("id").asText(),
                        v.path("sized").asBoolean() ? v.path("parallelism").asInt() : 0));
        vertices.keySet().retainAll(running.keySet());
        if (lastLook == null) {
            runningSince = now.minus(period);
        } else if (!running.equals(ran)) {
            runningSince = lastLook.plus(downtime);
            vertices.values().forEach(Vertex::restart);
        }
        measured.forEach(
                v -> vertices.computeIfAbsent(v.path("id").asText(), Vertex::new).observe(v, period.toMillis() / 1000.));
        ran = running;
        lastLook = now;
    }

    /** A fresh copy of the configuration, because the autoscaler writes into it. */
    private JobAutoScalerContext<String> context(JsonNode look, Duration period) {
        var conf = new Configuration(options);
        conf.set(AutoScalerOptions.METRICS_WINDOW, period.multipliedBy(windowLooks));
        conf.set(AutoScalerOptions.VERTEX_MIN_PARALLELISM, look.path("min_parallelism").asInt());
        conf.set(AutoScalerOptions.VERTEX_MAX_PARALLELISM, look.path("max_parallelism").asInt());
        conf.set(
                AutoScalerOptions.VERTEX_EXCLUDE_IDS,
                vertices.values().stream()
                        .filter(v -> !v.isSized())
                        .map(v -> v.id.toHexString())
                        .collect(Collectors.toList()));
        return new JobAutoScalerContext<>(
                job, new JobID(0, 0), JobStatus.RUNNING, conf, new UnregisteredMetricsGroup(), null);
    }

    private Map<String, Integer> wanted() {
        var wanted = new LinkedHashMap<String, Integer>();
        for (var vertex : vertices.values()) {
            var parallelism = realized.get(vertex.id.toHexString());
            if (parallelism != null && vertex.isSized()) {
                wanted.put(vertex.name, Integer.valueOf(parallelism));
            }
        }
        return wanted;
    }

    /** Keeps what a cluster would be told; the autoscaler repeats its last word at every look. */
    private final class Realizer implements ScalingRealizer<String, JobAutoScalerContext<String>> {
        @Override
        public void realizeParallelismOverrides(
                JobAutoScalerContext<String> context, Map<String, String> parallelismOverrides) {
            realized = parallelismOverrides;
        }

        @Override
        public void realizeConfigOverrides(JobAutoScalerContext<String> context, ConfigChanges changes) {
            throw new UnsupportedOperationException("memory is not tuned here");
        }
    }
}
