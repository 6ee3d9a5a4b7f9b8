package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/pipelines/quantity"
	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/wire/oip"
)

type inferFlags struct {
	inputs  []string
	size    int
	timeout time.Duration
	asJSON  bool
}

// newInferCommand makes harpagon infer.
func newInferCommand(d *Deps) *cobra.Command {
	var f inferFlags
	c := &cobra.Command{
		Use:   "infer PIPELINE --input NAME=FILE",
		Short: "Send one inference request",
		Long: `Sends one request to a running pipeline and prints the answer, and where its
time went.

An input is read from a picture (PNG or JPEG, for inputs of shape [3, height,
width]), from JSON (the elements, or an object with datatype, shape and data), or
from any other file as raw little-endian elements.`,
		Example: `  harpagon infer traffic --input frame=examples/traffic/scenes/scene-01.png
  harpagon infer traffic --input frame=frame.bin --timeout 200ms --json
  harpagon infer ranking --size 40`,
		Args: cobra.ExactArgs(1),
	}
	at := newGatewayAt(c)
	c.Flags().StringArrayVar(&f.inputs, "input", nil, "`name=file` of an input; may be repeated")
	c.Flags().IntVar(&f.size, "size", 0, "ask a pool with a query of so many made-up `items`, in place of --input")
	c.Flags().DurationVar(&f.timeout, "timeout", 0, "deadline of the request; 0 leaves the pipeline's objective")
	c.Flags().BoolVar(&f.asJSON, "json", false, "print JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		ctx := c.Context()
		if f.timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, f.timeout)
			defer cancel()
		}
		client, err := at.Dial(ctx)
		if err != nil {
			return err
		}
		defer client.Close()
		m, err := client.Metadata(ctx, args[0])
		if err != nil {
			return err
		}
		inputs, err := f.read(m.Inputs)
		if f.size != 0 {
			inputs, err = f.query(m.Inputs)
		}
		if err != nil {
			return err
		}
		result, err := client.Infer(ctx, args[0], inputs)
		if err != nil {
			return err
		}
		if f.asJSON {
			return writeJSON(d.Stdout, inferJSON(result, m.Platform))
		}
		fmt.Fprint(d.Stdout, describeAnswer(result), Emulated(m.Platform))
		return nil
	}
	return c
}

// read makes every input's tensor; all must be named.
func (f *inferFlags) read(ports []pipelines.Port) (sdk.Inputs, error) {
	inputs := sdk.Inputs{}
	var names []string
	for _, p := range ports {
		names = append(names, p.Name)
	}
	for _, text := range f.inputs {
		name, path, ok := strings.Cut(text, "=")
		at := slices.Index(names, name)
		if !ok || at < 0 {
			return nil, fmt.Errorf("--input %s: write NAME=FILE with one of the pipeline's inputs: %s", text, strings.Join(names, ", "))
		}
		t, err := readInput(ports[at], path)
		if err != nil {
			return nil, fmt.Errorf("--input %s: %w", text, err)
		}
		inputs[name] = t
	}
	for _, name := range names {
		if _, ok := inputs[name]; !ok {
			return nil, fmt.Errorf("input %q is missing: add --input %s=FILE", name, name)
		}
	}
	return inputs, nil
}

func describeAnswer(r *sdk.Result) string {
	var b strings.Builder
	for _, name := range r.Names() {
		t, _ := r.Tensor(name)
		fmt.Fprintf(&b, "%s = %s\n", name, shown(t))
	}
	fmt.Fprintf(&b, "\n%.2f ms by generation %d\n", quantity.Millis(r.Elapsed()), r.Generation())
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "stage\titems\tbatch\tqueue ms\twait ms\tcompute ms\ttransfer ms\t\t")
	for _, s := range r.Stages() {
		mark := ""
		if s.Critical {
			mark = "critical"
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%.2f\t%.2f\t%.2f\t%.2f\t%s\t\n", s.Module, s.Items, s.Batch,
			quantity.Millis(s.Queue), quantity.Millis(s.Wait), quantity.Millis(s.Compute), quantity.Millis(s.Transfer), mark)
	}
	_ = w.Flush() // a strings.Builder takes everything
	return b.String()
}

// inferJSON is the answer for programs; tensors as the protocol writes them.
func inferJSON(r *sdk.Result, platform string) any {
	type tensor struct {
		Name     string          `json:"name"`
		Datatype string          `json:"datatype"`
		Shape    []int64         `json:"shape"`
		Data     json.RawMessage `json:"data"`
	}
	type stage struct {
		Module     string  `json:"module"`
		Items      int     `json:"items"`
		Batch      int     `json:"batch"`
		Critical   bool    `json:"critical"`
		QueueMS    float64 `json:"queue_ms"`
		WaitMS     float64 `json:"wait_ms"`
		ComputeMS  float64 `json:"compute_ms"`
		TransferMS float64 `json:"transfer_ms"`
	}
	out := struct {
		Pipeline   string   `json:"pipeline"`
		Generation int      `json:"generation"`
		ElapsedMS  float64  `json:"elapsed_ms"`
		Emulated   bool     `json:"emulated,omitempty"`
		Outputs    []tensor `json:"outputs"`
		Stages     []stage  `json:"stages"`
	}{Pipeline: r.Response().Pipeline, Generation: r.Generation(), ElapsedMS: quantity.Millis(r.Elapsed()), Emulated: platform == oip.PlatformEmulated}
	for _, o := range r.Response().Outputs {
		var data any = o.Data
		if texts, err := o.Strings(); err == nil {
			data = texts
		} else if floats, err := o.Float32s(); err == nil {
			data = floats
		} else if ints, err := o.Int64s(); err == nil {
			data = ints
		}
		raw, err := json.Marshal(data)
		if err != nil {
			raw = []byte("null") // NaN has no JSON
		}
		out.Outputs = append(out.Outputs, tensor{Name: o.Name, Datatype: o.Datatype, Shape: o.Shape, Data: raw})
	}
	for _, s := range r.Stages() {
		out.Stages = append(out.Stages, stage{Module: s.Module, Items: s.Items, Batch: s.Batch, Critical: s.Critical,
			QueueMS: quantity.Millis(s.Queue), WaitMS: quantity.Millis(s.Wait), ComputeMS: quantity.Millis(s.Compute), TransferMS: quantity.Millis(s.Transfer)})
	}
	return out
}

// Emulated is a note that an answer from a platform is made up; empty where networks run.
func Emulated(platform string) string {
	if platform != oip.PlatformEmulated {
		return ""
	}
	return "\nThe answer is emulated: no network has run for some of its modules, or for all\n(harpagon status lists them).\n"
}
