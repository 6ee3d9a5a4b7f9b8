package cli

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
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
	frames  string
	overlay string
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
place of it, and starts over at its end. With --source URL, such as
rtsp://camera/1, all streams send the latest frame. Without it frames are random, or
those of --input.

Each stream begins at a random phase; with phases = "chosen" in the stream block, at
its place in the period. It then moves to the phase that the gateway chooses, so that
frames of different streams come one after the other; with --keep-phases it does not.
With --together all streams send at one instant: the worst case that a plan counts on.`,
		Example: `  harpagon feed crossing --streams 40 --duration 1m
  harpagon feed crossing --source street.mp4
  harpagon feed tracks --source street.mp4 --overlay pictures
  harpagon feed crossing --source rtsp://10.0.0.9/main --streams 4
  harpagon feed crossing --kind fast
  harpagon feed crossing --streams 52 --json`,
		Args: cobra.ExactArgs(1),
	}
	at := newGatewayAt(c)
	flags := c.Flags()
	flags.IntVar(&f.options.Streams, "streams", 0, "how many streams to open; 0 is as many as are planned for")
	flags.Float64Var(&f.options.Rate, "rate", 0, "frames per second of each; 0 is what is planned for")
	flags.DurationVar(&f.options.Duration, "duration", 20*time.Second, "how long each stream sends")
	flags.Uint64Var(&f.options.Seed, "seed", 1, "seed of phases and random frames")
	flags.BoolVar(&f.options.Together, "together", false, "all streams send at one instant")
	flags.BoolVar(&f.options.Fixed, "keep-phases", false, "streams keep the phases that they begin with")
	flags.StringVar(&f.options.Kind, "kind", "", "`name` of the stream block that streams are of, where a pipeline has several")
	flags.StringVar(&f.source, "source", "", "`file` or URL of a video, for ffmpeg to decode")
	flags.StringArrayVar(&f.inputs, "input", nil, "`name=path` of an input, as for load; random elements otherwise")
	flags.StringVar(&f.overlay, "overlay", "", "draw what was found on frames, as the pipeline's overlay block declares, one frame a second of each stream, into a `folder`")
	flags.StringVar(&f.frames, "frames", "", "write a line for each frame to a `file`, as CSV: its stream and number, the number that its answer carries, when it was due, sent and answered, in seconds, and what became of it")
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
	of, err := kindOf(m.Streams(), pipeline, f.options.Kind)
	if err != nil {
		return err
	}
	o := &f.options
	o.Planned, o.Jitter = of.FrameRate, of.Jitter
	if o.Pipeline, o.SLO = pipeline, m.SLO; o.Rate == 0 {
		o.Rate = of.FrameRate
	}
	o.Spread, o.Fixed = of.Spread, o.Fixed || o.Together
	if o.Streams == 0 {
		o.Streams = of.Streams
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
	lines, err := writeFrames(f.frames)
	if err != nil {
		return fmt.Errorf("--frames: %w", err)
	}
	pictures, err := drawOverlays(f.overlay, pipeline, m.Overlay, o.Rate)
	if err != nil {
		return fmt.Errorf("--overlay: %w", err)
	}
	o.Progress, o.Ended = loadProgress(d), lines.add
	tag := fmt.Sprintf("%08x", rand.Uint32()) // two feeds are not the same cameras
	report, err := load.Feed(ctx, *o, func(stream int, name string) load.FrameStream {
		return &fedStream{
			Stream: client.Stream(ctx, pipeline, tag+"/"+name, sdk.OfKind(o.Kind)), name: name, pictures: pictures, frame: func(n int) sdk.Inputs { return next(stream, n) },
		}
	})
	if failed := lines.Close(); err == nil && failed != nil {
		err = fmt.Errorf("--frames: %w", failed)
	}
	drawn, undrawn := pictures.Close()
	if err != nil {
		return err
	}
	fmt.Fprint(d.Stderr, drawn)
	if undrawn != nil {
		undrawn = fmt.Errorf("--overlay: %w", undrawn)
	}
	if f.asJSON {
		encoder := json.NewEncoder(d.Stdout)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(map[string]any{"feeds": []*load.FeedReport{report}})
	} else {
		_, err = fmt.Fprint(d.Stdout, report.Describe())
	}
	if err == nil {
		err = errors.Join(fault(), undrawn)
	}
	if err == nil && report.Worst < f.below {
		err = fmt.Errorf("of the worst stream %.4f were in time, below the %v of --fail-below", report.Worst, f.below)
	}
	return err
}

// kindOf is the kind of streams to send.
func kindOf(kinds []sdk.StreamKind, pipeline, name string) (of sdk.StreamKind, err error) {
	var names []string
	for _, of := range kinds {
		if of.Name == name || of.Name == "" { // the only one, of whose name the gateway knows
			return of, nil
		}
		names = append(names, of.Name)
	}
	switch {
	case len(kinds) == 0:
		err = fmt.Errorf("%s has no streams: declare a stream block, or use harpagon load", pipeline)
	case name == "":
		err = fmt.Errorf("%s has streams of several kinds: say which with --kind, %s", pipeline, pipelines.Quoted(names))
	default:
		err = fmt.Errorf("%s has no streams of kind %q; there is %s", pipeline, name, pipelines.Quoted(names))
	}
	return of, err
}

// fedStream sends frames by their numbers.
type fedStream struct {
	*sdk.Stream
	name     string
	frame    func(n int) sdk.Inputs
	pictures *overlays
	kept     sync.Map // by its number, a frame under way that is to be drawn
}

// Send implements load.FrameStream.
func (s *fedStream) Send(n int, last bool) error {
	id, inputs := sdk.WithID(strconv.Itoa(n)), s.frame(n)
	if s.pictures.wants(n) {
		s.kept.Store(n, inputs)
	}
	if last {
		return s.SendLast(inputs, id)
	}
	return s.Stream.Send(inputs, id)
}

// Receive implements load.FrameStream.
func (s *fedStream) Receive() (n int, err error) {
	r, err := s.Stream.Receive()
	if err != nil {
		return 0, err
	}
	if n, err = strconv.Atoi(r.ID()); err != nil {
		return -1, nil // it is of no frame
	}
	if inputs, ok := s.kept.LoadAndDelete(n); ok {
		s.pictures.add(s.name, n, inputs.(sdk.Inputs), r.Response())
	}
	return n, nil
}

// pictured is the input that takes frames of a video: its height, width, and whether colours come
// before them.
func pictured(inputs []pipelines.Port) (p pipelines.Port, height, width int, planes bool, err error) {
	for _, in := range inputs {
		if height, width, planes, ok := in.FrameShape(); ok && height > 0 && width > 0 {
			return in, height, width, planes, nil
		}
	}
	return p, 0, 0, false, fmt.Errorf("no input takes frames: one of shape [3, height, width] or [height, width, 3], of FP32 or UINT8, or of one of BYTES for JPEG")
}

// frameLines writes frames to a file as they end. The zero value writes none.
type frameLines struct {
	file *os.File
	csv  *csv.Writer
}

// writeFrames makes the file, where there is a name.
func writeFrames(name string) (*frameLines, error) {
	if name == "" {
		return &frameLines{}, nil
	}
	file, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	l := &frameLines{file: file, csv: csv.NewWriter(file)}
	return l, l.csv.Write([]string{"stream", "frame", "answer_of", "due_s", "sent_s", "answered_s", "end"})
}

func (l *frameLines) add(stream string, f load.FrameFed) {
	if l.csv == nil {
		return
	}
	seconds := func(at time.Duration) string { return strconv.FormatFloat(at.Seconds(), 'f', 6, 64) }
	line := []string{stream, strconv.Itoa(f.Number), "", seconds(f.Due), "", "", string(f.End)}
	if f.Answer >= 0 {
		line[2] = strconv.Itoa(f.Answer)
	}
	if f.End != load.Unsent {
		line[4], line[5] = seconds(f.Sent), seconds(f.Answered)
	}
	_ = l.csv.Write(line) // Close reports what is wrong
}

// Close reports whether all lines are on file.
func (l *frameLines) Close() error {
	if l.csv == nil {
		return nil
	}
	l.csv.Flush()
	return errors.Join(l.csv.Error(), l.file.Close())
}
