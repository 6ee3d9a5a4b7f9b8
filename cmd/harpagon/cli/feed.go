package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/spf13/cobra"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/sdk/load"
)

type feedFlags struct {
	options load.FeedOptions
	source  string
	inputs  []string
	below   float64
	asJSON  bool
}

// newFeedCommand makes harpagon feed.
func newFeedCommand(d *Deps) *cobra.Command {
	var f feedFlags
	c := &cobra.Command{
		Use:   "feed NAME",
		Short: "Send the frames of many streams to a running pipeline",
		Long: `Opens streams, as so many cameras would, sends the frames of each at its own pace,
and reports for each how many were answered in time. A stream that the pipeline has
no room for is refused when it opens, and the others go on.

With --source FILE frames are those of a video, which ffmpeg (a program on this
machine) decodes to the shape of the pipeline's input; each stream begins at another
place of it, and begins anew at its end. With --source URL, such as
rtsp://camera/1, all streams send the latest frame. Without it frames are random, or
what --input says.

Each stream begins at a phase that is drawn, or, where the stream block says
phases = "chosen", at its place in the period, and then sends when the gateway says, so
that the frames of streams come one after the other. With --keep-phases it does not
follow that. With --together all send at one instant, which is the worst that a plan
counts on.`,
		Example: `  harpagon feed crossing --streams 40 --duration 1m
  harpagon feed crossing --source street.mp4
  harpagon feed crossing --source rtsp://10.0.0.9/main --streams 4
  harpagon feed crossing --streams 52 --json`,
		Args: cobra.ExactArgs(1),
	}
	at := newGatewayAt(c)
	flags := c.Flags()
	flags.IntVar(&f.options.Streams, "streams", 0, "how many streams to open; 0 is as many as are planned for")
	flags.Float64Var(&f.options.Rate, "rate", 0, "frames per second of each; 0 is what is planned for")
	flags.DurationVar(&f.options.Duration, "duration", 20*time.Second, "how long each stream sends")
	flags.Uint64Var(&f.options.Seed, "seed", 1, "of phases and of random frames")
	flags.BoolVar(&f.options.Together, "together", false, "all streams send at one instant")
	flags.BoolVar(&f.options.Fixed, "keep-phases", false, "streams keep the phases that they begin with")
	flags.StringVar(&f.source, "source", "", "`file` or URL of a video, for ffmpeg to decode")
	flags.StringArrayVar(&f.inputs, "input", nil, "`name=path` of an input, as for load; random elements otherwise")
	flags.Float64Var(&f.below, "fail-below", 0, "exit with an error where the worst stream's attainment is below this share, such as 0.99")
	flags.BoolVar(&f.asJSON, "json", false, "print JSON")
	c.RunE = func(c *cobra.Command, args []string) error {
		client, err := at.Dial(c.Context())
		if err != nil {
			return err
		}
		defer client.Close()
		return f.run(c.Context(), d, client, args[0])
	}
	return c
}

func (f *feedFlags) run(ctx context.Context, d *Deps, client *sdk.Client, pipeline string) error {
	m, err := client.Metadata(ctx, pipeline)
	if err != nil {
		return err
	}
	if m.FrameRate <= 0 {
		return fmt.Errorf("%s has no streams: declare a stream block, or use harpagon load", pipeline)
	}
	o := &f.options
	if o.Pipeline, o.SLO = pipeline, m.SLO; o.Rate == 0 {
		o.Rate = m.FrameRate
	}
	o.Spread, o.Fixed = m.Spread, o.Fixed || o.Together
	if o.Streams == 0 {
		o.Streams = int(math.Round(m.Rate / m.FrameRate))
	}
	l := loadFlags{inputs: f.inputs, options: load.Options{Seed: o.Seed}}
	frames, err := l.requests(m.Inputs)
	if err != nil {
		return err
	}
	next := func(stream, n int) sdk.Inputs { return frames[(stream+n)%len(frames)] }
	fault := func() error { return nil }
	if f.source != "" {
		v, err := openVideo(ctx, f.source, m.Inputs, o.Rate, nextFrame)
		if err != nil {
			return fmt.Errorf("--source %s: %w", f.source, err)
		}
		defer v.Close()
		next = v.frame
		fault = func() error {
			if err := v.Fault(nextFrame); err != nil {
				return fmt.Errorf("--source %s: %w", f.source, err)
			}
			return nil
		}
	}
	o.Progress = loadProgress(d)
	tag := fmt.Sprintf("%08x", rand.Uint32()) // two feeds are not the same cameras
	report, err := load.Feed(ctx, *o, func(stream int, name string) load.FrameStream {
		return &fedStream{client.Stream(ctx, pipeline, tag+"/"+name), func(n int) sdk.Inputs { return next(stream, n) }}
	})
	if err != nil {
		return err
	}
	if f.asJSON {
		encoder := json.NewEncoder(d.Stdout)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(map[string]any{"feeds": []*load.FeedReport{report}})
	} else {
		_, err = fmt.Fprint(d.Stdout, report.Describe())
	}
	if err == nil {
		err = fault()
	}
	if err == nil && report.Worst < f.below {
		err = fmt.Errorf("of the worst stream %.4f were in time, below the %v of --fail-below", report.Worst, f.below)
	}
	return err
}

// fedStream sends frames by their numbers.
type fedStream struct {
	*sdk.Stream
	frame func(n int) sdk.Inputs
}

// Send implements load.FrameStream.
func (s *fedStream) Send(n int, last bool) error {
	if last {
		return s.SendLast(s.frame(n))
	}
	return s.Stream.Send(s.frame(n))
}

// Receive implements load.FrameStream.
func (s *fedStream) Receive() error {
	_, err := s.Stream.Receive()
	return err
}

// pictured is the input that takes frames of a video: its height, width, and whether colours come
// before them.
func pictured(inputs []pipelines.Port) (p pipelines.Port, height, width int, planes bool, err error) {
	for _, in := range inputs {
		shape := in.Shape
		if len(in.Typical) > 0 {
			shape = in.Typical
		}
		if len(shape) != 3 || in.Datatype != "FP32" && in.Datatype != "UINT8" {
			continue
		}
		switch {
		case shape[0] == 3 && shape[1] > 0 && shape[2] > 0:
			return in, int(shape[1]), int(shape[2]), true, nil
		case shape[2] == 3 && shape[0] > 0 && shape[1] > 0:
			return in, int(shape[0]), int(shape[1]), false, nil
		}
	}
	return p, 0, 0, false, fmt.Errorf("no input takes frames: one of shape [3, height, width] or [height, width, 3], of FP32 or UINT8, or of one of BYTES for JPEG")
}
