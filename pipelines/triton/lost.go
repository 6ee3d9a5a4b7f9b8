package triton

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/harpagon/harpagon/pipelines/files"
)

// What findings are about.
const (
	noCounterpart = "No counterpart" // what is left out, and what to do instead
	different     = "Different"      // what is there in another form
	leftOut       = "Left out"       // a model or ensemble that is not imported
	assumed       = "Assumed"        // what the repository does not say
)

// counterpart states what becomes of a field of a configuration.
type counterpart struct {
	path    string // of the field and, behind a colon, the value that is meant; any other than false and 0 without it
	summary string
	detail  string
}

// counterparts are the fields that become something else, or nothing. Those that are imported as
// they are have no row.
func counterparts() []counterpart {
	return []counterpart{
		{"version_policy", different, "One version of a service serves. The newest that the policy names is imported; a new one is tried on a share of requests first by update { canary = 0.1 }, and taken back by harpagon rollback."},
		{"dynamic_batching.max_queue_delay_microseconds", different, "How long requests wait for a batch is planned from the objective (slo); there is nothing to tune."},
		{"dynamic_batching.preserve_ordering", noCounterpart, "Answers come when they are done; clients match them by the request's id."},
		{"dynamic_batching.priority_levels", noCounterpart, "Requests have no priorities; give those of another urgency a pipeline with an slo of its own."},
		{"dynamic_batching.default_priority_level", noCounterpart, "Requests have no priorities; give those of another urgency a pipeline with an slo of its own."},
		{"dynamic_batching.default_queue_policy", different, "Requests that cannot be answered within the objective are refused at once; clients shorten theirs by the parameter timeout."},
		{"dynamic_batching.priority_queue_policy", noCounterpart, "Requests have no priorities; give those of another urgency a pipeline with an slo of its own."},
		{"sequence_batching.direct", different, "Frames of a stream run on any device: what a model keeps goes with them."},
		{"sequence_batching.oldest", different, "Frames of a stream run on any device: what a model keeps goes with them."},
		{"sequence_batching.max_sequence_idle_microseconds", different, "The place of a stream is free after ten seconds without a frame, or ten of its periods where that is longer."},
		{"sequence_batching.iterative_sequence", noCounterpart, "A request runs once through the pipeline; a loop is the client's."},
		{"instance_group.kind:KIND_GPU", different, "The declaration has cores only. Declare your GPU as hardware, named as harpagon engines lists it, and name it in the module: hardware = [...]."},
		{"instance_group.count", different, "How many engines run, on which devices, is planned from rate and slo; count in a hardware block is how many devices there are."},
		{"instance_group.gpus", different, "Which devices a module runs on is planned; hardware in a module names kinds. Declare a hardware block for yours: harpagon engines lists them."},
		{"instance_group.rate_limiter", different, "What runs at a time on a device is planned, by what was measured; no resources are counted."},
		{"instance_group.secondary_devices", noCounterpart, "There are no NVDLA cores."},
		{"instance_group.profile", noCounterpart, "Optimization profiles of TensorRT are made for the batch sizes of the plan (engine onnxruntime-tensorrt)."},
		{"instance_group.passive", noCounterpart, "What should not serve is not declared."},
		{"instance_group.host_policy", noCounterpart, "Executors are bound to their cores by their own system: start the worker under numactl or taskset."},
		{"optimization.graph", noCounterpart, "The engine's own graph optimizations are on."},
		{"optimization.priority", noCounterpart, "Batches start in the order in which they are due."},
		{"optimization.cuda", noCounterpart, "CUDA graphs are for programs of engine process; see docs/how-to/pytorch.md."},
		{"optimization.execution_accelerators", different, "The provider is the engine: engine = \"onnxruntime-tensorrt\" or \"onnxruntime-cuda\" in the module, on a machine that has it."},
		{"optimization.input_pinned_memory", noCounterpart, "How tensors reach a device is the engine's own affair."},
		{"optimization.output_pinned_memory", noCounterpart, "How tensors reach a device is the engine's own affair."},
		{"optimization.gather_kernel_buffer_threshold", noCounterpart, "How tensors reach a device is the engine's own affair."},
		{"optimization.eager_batching", noCounterpart, "How batches are formed is planned."},
		{"response_cache.enable", noCounterpart, "Every request is computed. A cache belongs before the gateway."},
		{"model_warmup", different, "Every batch size of a plan is run before a module counts as ready, on data of its own. The shapes of these inputs are taken as typical ones."},
		{"parameters", noCounterpart, "Parameters of a backend go no further than to models in Python (as model_config, beside their code)."},
		{"cc_model_filenames", noCounterpart, "One file is served on every device; give devices that need another a module with hardware = [...] of its own."},
		{"metric_tags", noCounterpart, "Metrics are labelled by pipeline and module; add others where Prometheus scrapes."},
		{"model_metrics", noCounterpart, "Histograms have one set of bounds: docs/reference/metrics.md."},
		{"model_repository_agents", noCounterpart, "Files are taken as they lie; models by address are checked by their digest: model = \"https://...#sha256:...\"."},
		{"batch_input", noCounterpart, "A network gets its inputs, and nothing about the batch: export it with a batch dimension, or serve it by a program (command)."},
		{"batch_output", noCounterpart, "A network gets its inputs, and nothing about the batch: export it with a batch dimension, or serve it by a program (command)."},
		{"input.allow_ragged_batch", noCounterpart, "Requests of different shapes run in different batches."},
		{"input.is_shape_tensor", noCounterpart, "Shape tensors are not supported: export the network with dynamic axes."},
		{"input.is_non_linear_format_io", noCounterpart, "Tensors lie in row-major order."},
		{"output.is_shape_tensor", noCounterpart, "Shape tensors are not supported: export the network with dynamic axes."},
		{"output.is_non_linear_format_io", noCounterpart, "Tensors lie in row-major order."},
		{"output.label_filename", different, "Gateways classify without labels (score:index). To answer with names, add a module with function = \"top_k\" and labels."},
		{"runtime", noCounterpart, "The engine is the program's own."},
		{"ensemble_scheduling.max_inflight_requests", different, "Requests that cannot be answered within the objective are refused at once, whatever is in flight."},
	}
}

// lost finds what of a configuration has no counterpart, where it stands first.
func (c *config) lost() (diags hcl.Diagnostics) {
	for _, row := range counterparts() {
		path, value, _ := strings.Cut(row.path, ":")
		if p := c.find(path, value); p != nil && p.value != "false" && p.value != "0" {
			diags = append(diags, files.Warning(row.summary, fmt.Sprintf("%s: %s", path, row.detail), &p.at))
		}
	}
	return diags
}
