package triton

import (
	"regexp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/harpagon/harpagon/internal/osutil"
	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/triton/modelconfig"
)

// keeps reports whether a model keeps something between the requests of a sequence: a network by its
// states, for it has nothing else to do so, and code in Python by itself.
func (im *importer) keeps(m *model) bool {
	s := m.GetSequenceBatching()
	return s != nil && (im.computed(m) == ByProcess || len(s.State) > 0)
}

// unkept is why a model with sequences cannot be imported, and where that stands; empty where it can.
func (im *importer) unkept(m *model) (at *hcl.Range, why string) {
	s := m.GetSequenceBatching()
	if s != nil && im.computed(m) == ByTriton {
		return m.at("sequence_batching"), "a Triton that goes on serving it wants to know of each request which sequence it belongs to, which modules do not send. To keep its state here, " + instead(m.backend) + "."
	}
	for i, state := range s.GetState() {
		if state.UseGrowableMemory || slices.Contains(state.Dims, -1) {
			return m.within("sequence_batching.state", i, "input_name", ""), "the state of its input " + state.InputName + " grows, so that the memory of a stream has no bound; export it with a fixed shape, or it stays with Triton."
		}
	}
	return nil, ""
}

// sequences reports what becomes of the sequences of a model.
func (im *importer) sequences(m *model) {
	s := m.GetSequenceBatching()
	switch {
	case s == nil:
		return
	case im.computed(m) == ByProcess:
		im.tell(noCounterpart, m.asksForSequence(), "%s: what its code keeps by sequence has to be written as sessions, which go with the frames: a class of harpagon_engine with state = True that keeps it in batch.sessions[row] (python/README.md), as command of this module. Until then the module, which has state = true, does not start.", m.name)
		return
	case len(s.State) == 0:
		im.tell(different, m.at("sequence_batching"), "%s: it has no state, so nothing is kept between its requests, and each is served by itself. Its control inputs are inputs of the pipeline, and clients send them.", m.name)
		return
	}
	for i, c := range s.ControlInput {
		at := m.within("sequence_batching.control_input", i, "name", "")
		switch kindOf(c) {
		case modelconfig.ModelSequenceBatching_Control_CONTROL_SEQUENCE_START, modelconfig.ModelSequenceBatching_Control_CONTROL_SEQUENCE_END:
			im.tell(different, at, "%s: %q is always false: with the first frame of a stream its state is zeros, and after the last it is gone. Export a network without it that begins or ends otherwise.", m.name, c.Name)
		case modelconfig.ModelSequenceBatching_Control_CONTROL_SEQUENCE_CORRID:
			im.tell(different, at, "%s: %q is an input of the pipeline, and clients send it: modules do not get to know whose frame they have.", m.name, c.Name)
		}
	}
	for i, state := range s.State {
		for _, initial := range state.InitialState {
			if file := initial.GetDataFile(); file != "" {
				im.tell(noCounterpart, m.within("sequence_batching.state", i, "initial_state.data_file", file), "%s: the state of %q is zeros at first, and not %s: export the network so that it begins there with zeros.", m.name, state.InputName, file)
			}
		}
	}
}

func kindOf(c *modelconfig.ModelSequenceBatching_ControlInput) modelconfig.ModelSequenceBatching_Control_Kind {
	if len(c.Control) == 0 {
		return -1
	}
	return c.Control[0].Kind
}

// asksForSequence is where code in Python asks of which sequence a request is, or else where its
// configuration declares sequences.
func (m *model) asksForSequence() *hcl.Range {
	ways := []string{`\.correlation_id\(`, `\.flags\(`}
	for _, c := range m.GetSequenceBatching().GetControlInput() {
		ways = append(ways, `["']`+regexp.QuoteMeta(c.Name)+`["']`)
	}
	src, err := osutil.ReadFile(m.path, mostConfig)
	if err != nil {
		return m.at("sequence_batching")
	}
	at := regexp.MustCompile(strings.Join(ways, "|")).FindIndex(src)
	if at == nil {
		return m.at("sequence_batching")
	}
	before := string(src[:at[0]])
	p := hcl.Pos{Line: strings.Count(before, "\n") + 1, Column: at[0] - strings.LastIndexByte(before, '\n')}
	return &hcl.Range{Filename: m.path, Start: p, End: p}
}

// kept takes what Triton makes, controls and states, out of what a network takes and gives, or, where
// it keeps no state, adds it.
func (b *build) kept(n *network) {
	s := n.GetSequenceBatching()
	n.state = b.keeps(n.model)
	without := func(all []pipelines.Port, name string) []pipelines.Port {
		return slices.DeleteFunc(slices.Clone(all), func(p pipelines.Port) bool { return p.Name == name })
	}
	for _, c := range s.GetControlInput() {
		n.inputs = without(n.inputs, c.Name)
		if p := controlPort(c); !n.state && len(c.Control) > 0 {
			n.inputs, n.controls = append(n.inputs, p), append(n.controls, c.Name)
		} else if b.computed(n.model) == ByFile {
			n.control(c, p)
		}
	}
	for _, state := range s.GetState() {
		n.inputs, n.outputs = without(n.inputs, state.InputName), without(n.outputs, state.OutputName)
		if n.loops == nil {
			n.loops = map[string]string{}
		}
		n.loops[state.InputName] = state.OutputName
	}
}

// controlPort is the tensor of a control input.
func controlPort(c *modelconfig.ModelSequenceBatching_ControlInput) pipelines.Port {
	p := pipelines.Port{Name: c.Name, Datatype: "INT32", Shape: []int64{1}}
	if len(c.Control) > 0 {
		switch control := c.Control[0]; {
		case control.DataType != modelconfig.DataType_TYPE_INVALID:
			p.Datatype = datatype(control.DataType)
		case len(control.Fp32FalseTrue) > 0:
			p.Datatype = "FP32"
		case len(control.BoolFalseTrue) > 0:
			p.Datatype = "BOOL"
		}
	}
	return p
}

// control makes of a control input a constant of a network that keeps state: all rows of a batch are
// frames here, and none is the first, for whose state the gateway has zeros. Others are inputs.
func (n *network) control(c *modelconfig.ModelSequenceBatching_ControlInput, p pipelines.Port) {
	ready := false
	switch kindOf(c) {
	case modelconfig.ModelSequenceBatching_Control_CONTROL_SEQUENCE_READY:
		ready = true
	case modelconfig.ModelSequenceBatching_Control_CONTROL_SEQUENCE_CORRID:
		n.inputs, n.controls = append(n.inputs, p), append(n.controls, p.Name)
		return
	}
	value := any(0.0)
	switch {
	case p.Datatype == "BOOL":
		value = ready
	case ready:
		value = 1.0
	}
	n.constants = append(n.constants, pipelines.Binding{Name: c.Name, Value: value})
}

// places are how many sequences a model has at a time: one a row of the batch of each instance, or as
// many candidates as it says.
func (m *model) places() int {
	instances := 0
	for _, g := range m.InstanceGroup {
		instances = min(instances+max(int(g.Count), 1)*max(len(g.Gpus), 1), pipelines.MaxStreams)
	}
	each := int(m.MaxBatchSize)
	if oldest := m.GetSequenceBatching().GetOldest(); oldest != nil {
		each = int(oldest.MaxCandidateSequences)
	}
	return min(max(instances, 1)*max(each, 1), pipelines.MaxStreams)
}

// stream gives the pipeline streams where a module keeps state.
func (b *build) stream() {
	var fewest *model
	for _, s := range b.served {
		if m := b.repository.model(s.Model); b.keeps(m) && (fewest == nil || m.places() < fewest.places()) {
			fewest = m
		}
	}
	if fewest == nil {
		return
	}
	n := fewest.places()
	b.p.Arrivals = pipelines.ArrivalsEven
	b.p.Stream = pipelines.Stream{Rate: b.Rate / float64(n), Count: n}
	b.tell(assumed, fewest.at("sequence_batching"), "%s: sequences are streams. As many as the configuration has places for, %d, share the rate evenly: set rate and count in the stream block.", b.p.Name, n)
}
