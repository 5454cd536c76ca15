package millrace.flink;

import org.apache.flink.autoscaler.metrics.FlinkMetric;
import org.apache.flink.autoscaler.topology.IOMetrics;
import org.apache.flink.autoscaler.topology.ShipStrategy;
import org.apache.flink.autoscaler.topology.VertexInfo;
import org.apache.flink.runtime.jobgraph.JobVertexID;
import org.apache.flink.runtime.rest.messages.job.metrics.AggregatedMetric;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.UUID;

/** One operator of the job as a Flink cluster would report it: counters since the job runs, and gauges of now. */
final class Vertex {

    /**
     * Flink counts whole records and rounds target rates to whole records a second. Counting in thousandths of a row
     * keeps that out of the decisions on jobs of few rows; nothing else in it depends on the unit.
     */
    private static final double RECORDS_PER_ROW = 1000.;

    final String name;
    final JobVertexID id;
    private double recordsIn;
    private double recordsOut;
    private double busyMs;
    private JsonNode now;

    Vertex(String name) {
        this.name = name;
        this.id = idOf(name);
    }

    static JobVertexID idOf(String name) {
        var uuid = UUID.nameUUIDFromBytes(name.getBytes(StandardCharsets.UTF_8));
        var bytes = ByteBuffer.allocate(16);
        bytes.putLong(uuid.getMostSignificantBits()).putLong(uuid.getLeastSignificantBits());
        return new JobVertexID(bytes.array());
    }

    /** Starts the counters anew, as a restart does. */
    void restart() {
        recordsIn = recordsOut = busyMs = 0;
    }

    /** Adds what a period measured. */
    void observe(JsonNode measured, double periodS) {
        now = measured;
        recordsIn += records(measured, "rows_in_per_s") * periodS;
        recordsOut += records(measured, "rows_out_per_s") * periodS;
        busyMs += measured.path("busy_ratio").asDouble(0) * parallelism() * periodS * 1000;
    }

    int parallelism() {
        return now.path("parallelism").asInt();
    }

    boolean isSized() {
        return now.path("sized").asBoolean();
    }

    /** Where it stands in the job; a plain rebalance, because the simulated operators have no key groups to align to. */
    VertexInfo info(int maxParallelism) {
        Map<JobVertexID, ShipStrategy> inputs = new HashMap<>();
        now.path("inputs").forEach(input -> inputs.put(idOf(input.asText()), ShipStrategy.REBALANCE));
        return new VertexInfo(
                id,
                inputs,
                parallelism(),
                Math.max(maxParallelism, parallelism()),
                new IOMetrics((long) recordsIn, (long) recordsOut, busyMs));
    }

    /** Its metrics; all tasks of a vertex are alike, so that any aggregate of them is the same. */
    Map<FlinkMetric, AggregatedMetric> metrics() {
        var metrics = new HashMap<FlinkMetric, AggregatedMetric>();
        // not measured is NaN: Flink then leaves the vertex alone
        put(metrics, FlinkMetric.BUSY_TIME_PER_SEC, 1000 * now.path("busy_ratio").asDouble(Double.NaN));
        if (now.path("inputs").isEmpty()) {
            put(metrics, FlinkMetric.BACKPRESSURE_TIME_PER_SEC, 1000 * now.path("backpressured_ratio").asDouble(0));
            put(metrics, FlinkMetric.SOURCE_TASK_NUM_RECORDS_IN_PER_SEC, records(now, "rows_in_per_s"));
            put(metrics, FlinkMetric.SOURCE_TASK_NUM_RECORDS_IN, recordsIn);
            put(metrics, FlinkMetric.PENDING_RECORDS, records(now, "backlog_rows"));
        }
        return metrics;
    }

    private static double records(JsonNode measured, String field) {
        return measured.path(field).asDouble(0) * RECORDS_PER_ROW;
    }

    private static void put(Map<FlinkMetric, AggregatedMetric> metrics, FlinkMetric metric, double value) {
        metrics.put(metric, new AggregatedMetric(metric.name(), value, value, value, value, 0.));
    }
}
