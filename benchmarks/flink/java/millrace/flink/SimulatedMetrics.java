package millrace.flink;

import org.apache.flink.autoscaler.JobAutoScalerContext;
import org.apache.flink.autoscaler.ScalingMetricCollector;
import org.apache.flink.autoscaler.metrics.FlinkMetric;
import org.apache.flink.autoscaler.state.AutoScalerStateStore;
import org.apache.flink.autoscaler.topology.JobTopology;
import org.apache.flink.autoscaler.topology.VertexInfo;
import org.apache.flink.runtime.jobgraph.JobVertexID;
import org.apache.flink.runtime.rest.messages.job.JobDetailsInfo;
import org.apache.flink.runtime.rest.messages.job.metrics.AggregatedMetric;
import org.apache.flink.runtime.rest.messages.job.metrics.Metric;

import java.time.Duration;
import java.time.Instant;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Answers what the autoscaler would ask a cluster from what the simulated plant measured. */
final class SimulatedMetrics extends ScalingMetricCollector<String, JobAutoScalerContext<String>> {

    private Collection<Vertex> vertices = List.of();
    private int maxParallelism;
    private Instant runningSince = Instant.EPOCH;

    void report(Collection<Vertex> vertices, int maxParallelism, Instant runningSince) {
        this.vertices = vertices;
        this.maxParallelism = maxParallelism;
        this.runningSince = runningSince;
    }

    @Override
    public JobDetailsInfo getJobDetailsInfo(JobAutoScalerContext<String> context, Duration timeout) {
        return null;
    }

    @Override
    protected Instant getJobRunningTs(JobDetailsInfo none) {
        return runningSince;
    }

    @Override
    protected JobTopology getJobTopology(
            JobAutoScalerContext<String> context,
            AutoScalerStateStore<String, JobAutoScalerContext<String>> stateStore,
            JobDetailsInfo none) {
        return new JobTopology(vertices.stream().map(v -> v.info(maxParallelism)).toArray(VertexInfo[]::new));
    }

    @Override
    protected Map<JobVertexID, Map<String, FlinkMetric>> queryFilteredMetricNames(
            JobAutoScalerContext<String> context, JobTopology topology) {
        return new HashMap<>();
    }

    @Override
    protected Map<JobVertexID, Map<FlinkMetric, AggregatedMetric>> queryAllAggregatedMetrics(
            JobAutoScalerContext<String> context, Map<JobVertexID, Map<String, FlinkMetric>> names) {
        var all = new HashMap<JobVertexID, Map<FlinkMetric, AggregatedMetric>>();
        vertices.forEach(v -> all.put(v.id, v.metrics()));
        return all;
    }

    @Override
    protected Map<FlinkMetric, Metric> queryJmMetrics(JobAutoScalerContext<String> context) {
        return Map.of();
    }

    @Override
    protected Map<FlinkMetric, AggregatedMetric> queryTmMetrics(JobAutoScalerContext<String> context) {
        return Map.of();
    }
}
