package cli

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/harpagon/harpagon/pipelines"
	"github.com/harpagon/harpagon/sdk"
	"github.com/harpagon/harpagon/wire"
	"github.com/harpagon/harpagon/wire/overlay"
)

const (
	mostPictures    = 2000 // that one feed writes
	picturesWaiting = 32   // to be drawn; what comes beyond is left out, so that drawing never blocks frames
	pictureSide     = 1280 // pixels, at most
)

// overlays draws frames with what was found on them into a folder, in the background.
type overlays struct {
	folder string
	of     pipelines.Overlay
	every  int // of so many frames of a stream one is drawn
	jobs   chan picture
	done   sync.WaitGroup

	mu             sync.Mutex
	taken, leftOut int

	drawn int // the rest once done
	err   error
}

// picture is one to be drawn.
type picture struct {
	name   string // of the file
	inputs sdk.Inputs
	answer *wire.InferResponse
}

// drawOverlays begins to draw one frame a second of each stream; nil without a folder.
func drawOverlays(folder string, pipeline string, of pipelines.Overlay, rate float64) (*overlays, error) {
	if folder == "" {
		return nil, nil
	}
	if of.IsZero() {
		return nil, fmt.Errorf("%s has no overlay block, which declares what is drawn on its frames", pipeline)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	o := &overlays{folder: folder, of: of, every: max(1, int(math.Round(rate))), jobs: make(chan picture, picturesWaiting)}
	o.done.Go(func() {
		for p := range o.jobs {
			if err := o.draw(p); err != nil && o.err == nil {
				o.err = fmt.Errorf("%s: %w", p.name, err)
			} else if err == nil {
				o.drawn++
			}
		}
	})
	return o, nil
}

// wants reports whether frame n of a stream is drawn.
func (o *overlays) wants(n int) bool { return o != nil && n%o.every == 0 }

// add takes a frame to draw.
func (o *overlays) add(stream string, n int, inputs sdk.Inputs, answer *wire.InferResponse) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.taken >= mostPictures {
		o.leftOut++
		return
	}
	select {
	case o.jobs <- picture{filepath.Join(stream, fmt.Sprintf("%06d.jpg", n)), inputs, answer}:
		o.taken++
	default:
		o.leftOut++
	}
}

func (o *overlays) draw(p picture) error {
	var inputs []wire.NamedTensor
	for name, t := range p.inputs {
		inputs = append(inputs, wire.NamedTensor{Name: name, Tensor: t})
	}
	file, err := overlay.Of(o.of, time.Time{}, inputs, p.answer.Outputs).JPEG(o.of, pictureSide)
	if err != nil {
		return err
	}
	name := filepath.Join(o.folder, p.name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, file, 0o644)
}

// Close waits for the pictures, and describes them; the error is why one could not be drawn.
func (o *overlays) Close() (string, error) {
	if o == nil {
		return "", nil
	}
	close(o.jobs)
	o.done.Wait()
	line := fmt.Sprintf("%d pictures in %s, of one frame a second of each stream", o.drawn, o.folder)
	if o.leftOut > 0 {
		line += fmt.Sprintf("; %d left out, since more came than could be drawn, or than %d", o.leftOut, mostPictures)
	}
	return line + "\n", o.err
}
