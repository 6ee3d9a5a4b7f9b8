package oip

import (
	"cmp"
	"encoding/json"
	"strconv"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/wire"
)

// What model metadata gives as the platform: PlatformEmulated where no network runs and
// answers are made up.
const (
	Platform         = "harpagon_pipeline"
	PlatformEmulated = "harpagon_emulated"
)

// PlatformOf is the platform where answers of some modules are made up.
func PlatformOf(emulated []string) string {
	if len(emulated) > 0 {
		return PlatformEmulated
	}
	return Platform
}

type metadataJSON struct {
	Name       string             `json:"name"`
	Versions   []string           `json:"versions"`
	Platform   string             `json:"platform"`
	Inputs     []portJSON         `json:"inputs"`
	Outputs    []portJSON         `json:"outputs"`
	Parameters metadataParameters `json:"parameters"`
}

type metadataParameters struct {
	Ready  bool   `json:"ready"`
	Reason string `json:"reason,omitempty"`
	SLO    int64  `json:"slo_ns,omitempty"`

	Memory int64 `json:"memory_bytes,omitempty"` // that the model takes on its device

	Rate      float64 `json:"rate,omitempty"`       // requests per second that the plan is for
	FrameRate float64 `json:"frame_rate,omitempty"` // of one stream
	Jitter    int64   `json:"jitter_ns,omitempty"`  // of its frames
	Spread    bool    `json:"spread,omitempty"`     // streams are to be spread evenly over a period

	Kinds []wire.Kind `json:"stream_kinds,omitempty"` // where there are several

	Overlay *pipelines.Overlay `json:"overlay,omitempty"` // what is drawn on frames

	Applications []applicationJSON `json:"applications,omitempty"`
	Members      []applicationJSON `json:"members,omitempty"` // of a cluster
}

type applicationJSON struct {
	Name string  `json:"name"`
	SLO  int64   `json:"slo_ns"`
	Rate float64 `json:"rate"`
}

type portJSON struct {
	Name     string  `json:"name"`
	Datatype string  `json:"datatype"`
	Shape    []int64 `json:"shape"`
	Typical  []int64 `json:"typical,omitempty"` // ours: of a typical request, where the shape varies
	Loop     string  `json:"loop,omitempty"`    // ours: of an input that keeps state, the output that goes back to it
}

// EncodeMetadata writes what is told of a pipeline.
func EncodeMetadata(m *wire.Metadata) ([]byte, error) {
	j := metadataJSON{
		Name: m.Pipeline, Versions: []string{strconv.Itoa(m.Generation)}, Platform: cmp.Or(m.Platform, Platform),
		Inputs: portsToJSON(m.Inputs), Outputs: portsToJSON(m.Outputs),
		Parameters: metadataParameters{Ready: m.Ready, Reason: m.Reason, SLO: int64(m.SLO), Rate: m.Rate, FrameRate: m.FrameRate, Jitter: int64(m.Jitter), Spread: m.Spread, Kinds: m.Kinds, Memory: m.Memory},
	}
	if !m.Overlay.IsZero() {
		j.Parameters.Overlay = &m.Overlay
	}
	j.Parameters.Applications, j.Parameters.Members = applicationsToJSON(m.Applications), applicationsToJSON(m.Members)
	return json.Marshal(j)
}

// DecodeMetadata reads what EncodeMetadata wrote.
func DecodeMetadata(body []byte) (*wire.Metadata, error) {
	var j metadataJSON
	if err := json.Unmarshal(body, &j); err != nil {
		return nil, invalid("the metadata is not valid JSON of the protocol: %v", err)
	}
	m := &wire.Metadata{
		Pipeline: j.Name, Platform: j.Platform, Ready: j.Parameters.Ready, Reason: j.Parameters.Reason, SLO: time.Duration(j.Parameters.SLO), Rate: j.Parameters.Rate, FrameRate: j.Parameters.FrameRate, Jitter: time.Duration(j.Parameters.Jitter), Spread: j.Parameters.Spread, Kinds: j.Parameters.Kinds, Memory: j.Parameters.Memory,
		Inputs: portsFromJSON(j.Inputs), Outputs: portsFromJSON(j.Outputs),
	}
	if j.Parameters.Overlay != nil {
		m.Overlay = *j.Parameters.Overlay
	}
	m.Applications, m.Members = applicationsFromJSON(j.Parameters.Applications), applicationsFromJSON(j.Parameters.Members)
	if len(j.Versions) > 0 {
		m.Generation, _ = strconv.Atoi(j.Versions[len(j.Versions)-1])
	}
	return m, nil
}

// configJSON is the configuration of a model: those fields of the protocol's extension that clients
// look at. Requests have no batch dimension, as batches are made by the server.
type configJSON struct {
	Name     string           `json:"name"`
	Platform string           `json:"platform"`
	Backend  string           `json:"backend"`
	Policy   versionJSON      `json:"version_policy"`
	MaxBatch int              `json:"max_batch_size"`
	Inputs   []configPortJSON `json:"input"`
	Outputs  []configPortJSON `json:"output"`
	Groups   []string         `json:"instance_group"`
	File     string           `json:"default_model_filename"`
}

type versionJSON struct {
	Latest struct {
		Versions int `json:"num_versions"`
	} `json:"latest"`
}

type configPortJSON struct {
	Name     string  `json:"name"`
	Datatype string  `json:"data_type"`
	Dims     []int64 `json:"dims"`
}

// Backend is what configurations give as the backend.
const Backend = "harpagon"

// EncodeConfig writes the configuration of a pipeline as a model.
func EncodeConfig(m *wire.Metadata) ([]byte, error) {
	c := configJSON{Name: m.Pipeline, Platform: cmp.Or(m.Platform, Platform), Backend: Backend, Inputs: configPorts(m.Inputs), Outputs: configPorts(m.Outputs), Groups: []string{}}
	c.Policy.Latest.Versions = 1
	return json.Marshal(c)
}

func configPorts(ports []pipelines.Port) []configPortJSON {
	out := make([]configPortJSON, len(ports))
	for i, p := range ports {
		out[i] = configPortJSON{Name: p.Name, Datatype: ConfigDatatype(p.Datatype), Dims: append([]int64{}, p.Shape...)}
	}
	return out
}

// ConfigDatatype is a datatype as configurations call it.
func ConfigDatatype(datatype string) string {
	switch datatype {
	case "":
		return "TYPE_INVALID"
	case wire.Bytes:
		return "TYPE_STRING"
	}
	return "TYPE_" + datatype
}

// Unmanaged is why a model is not loaded or unloaded, what is asked for.
func Unmanaged(what, model string) *wire.Error {
	way := "harpagon apply PATH, with its declaration"
	if what == "unload" {
		way = "harpagon down " + model
	}
	return invalid("gateways %s no models: what is served is planned for devices; use %s", what, way)
}

func applicationsToJSON(all []pipelines.Application) (out []applicationJSON) {
	for _, a := range all {
		out = append(out, applicationJSON{Name: a.Name, SLO: int64(a.SLO), Rate: a.Rate})
	}
	return out
}

func applicationsFromJSON(all []applicationJSON) (out []pipelines.Application) {
	for _, a := range all {
		out = append(out, pipelines.Application{Name: a.Name, SLO: time.Duration(a.SLO), Rate: a.Rate})
	}
	return out
}

func portsToJSON(ports []pipelines.Port) []portJSON {
	out := make([]portJSON, len(ports))
	for i, p := range ports {
		out[i] = portJSON{Name: p.Name, Datatype: p.Datatype, Shape: p.Shape, Typical: p.Typical, Loop: p.Loop}
		if p.Shape == nil {
			out[i].Shape = []int64{}
		}
	}
	return out
}

func portsFromJSON(ports []portJSON) []pipelines.Port {
	out := make([]pipelines.Port, len(ports))
	for i, p := range ports {
		out[i] = pipelines.Port{Name: p.Name, Datatype: p.Datatype, Shape: p.Shape, Typical: p.Typical, Loop: p.Loop}
	}
	return out
}

type listJSON struct {
	Models []string `json:"models"`
}

// EncodeList writes the names of the pipelines that are served.
func EncodeList(names []string) ([]byte, error) {
	return json.Marshal(listJSON{Models: append([]string{}, names...)})
}

// decodeList reads what EncodeList wrote.
func decodeList(body []byte) ([]string, error) {
	var j listJSON
	if err := json.Unmarshal(body, &j); err != nil {
		return nil, invalid("the list of models is not valid JSON: %v", err)
	}
	return j.Models, nil
}
